//! What the team takes of the machine, and what is left of it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::time::sleep;

use super::stats;

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks at the machine while something goes on.
pub(crate) struct Watch {
    root: PathBuf,
    /// By which its containers are known.
    id: String,
    /// MiB that were available in the beginning, and the fewest since.
    before: u64,
    least: Cell<u64>,
    most_containers: Cell<usize>,
}

impl Watch {
    /// Of the server with this directory.
    pub(crate) fn begin(root: &Path) -> Self {
        let before = stats::available();
        let id = std::fs::read_to_string(root.join(".root-id")).unwrap();
        Self {
            root: root.to_owned(),
            id: id.trim().to_owned(),
            before,
            least: Cell::new(before),
            most_containers: Cell::new(0),
        }
    }

    /// The result of what goes on.
    pub(crate) async fn beside<T>(&self, goes_on: impl Future<Output = T>) -> T {
        let look = async {
            loop {
                self.least.set(self.least.get().min(stats::available()));
                let most = self.most_containers.get().max(self.containers().await);
                self.most_containers.set(most);
                sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            result = goes_on => result,
            () = look => unreachable!("it looks for ever"),
        }
    }

    pub(crate) fn report(&self) -> String {
        format!(
            "at most {} MiB more than in the beginning, and {} containers",
            self.before.saturating_sub(self.least.get()),
            self.most_containers.get()
        )
    }

    /// How many conversations have a directory.
    pub(crate) fn conversations(&self) -> usize {
        let names = std::fs::read_dir(&self.root).unwrap();
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).count()
    }

    /// How many containers the server has, or has left.
    pub(crate) async fn containers(&self) -> usize {
        let filter = format!("label=sandbox.root={}", self.id);
        let list = move || {
            Command::new("docker")
                .args(["ps", "--all", "--quiet", "--filter", &filter])
                .output()
        };
        let list = tokio::task::spawn_blocking(list).await.unwrap().unwrap();
        list.stdout.split(|&byte| byte == b'\n').count() - 1
    }
}
