//! Directories that were deleted but for themselves. One that a container has as `/data` is looked at once more while
//! the container is taken down, which never ends on some file systems if it is gone by then
//! (kubernetes/kubernetes#139535).

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Result;
use tokio::time::Instant;

use super::attributes::Attributes;
use super::walk::gone_is_none;

/// How long they stay, which is many times as long as an engine takes for a container.
const STAY: Duration = Duration::from_secs(30);

/// Those in the private directory, the oldest first. A start removes what the server before it has left.
#[derive(Debug, Default)]
pub(super) struct Emptied(Mutex<VecDeque<(Instant, String)>>);

impl Emptied {
    /// Removes the directory `name`: at once, or with a later one on a file system that others serve.
    ///
    /// # Errors
    /// It is not empty, or the operating system failed.
    pub(super) fn remove(
        &self,
        attributes: Attributes,
        private: BorrowedFd<'_>,
        name: &str,
    ) -> Result<()> {
        if attributes == Attributes::Known {
            return unlinkat(private, name, AtFlags::REMOVEDIR);
        }
        let now = Instant::now();
        let due = self.keep(name, now);
        for name in due {
            gone_is_none(unlinkat(private, name, AtFlags::REMOVEDIR))?;
        }
        Ok(())
    }

    /// Keeps one more. Returns those that have stayed for long enough.
    fn keep(&self, name: &str, now: Instant) -> Vec<String> {
        let mut kept = self.0.lock();
        kept.push_back((now, name.to_owned()));
        let is_due = |(since, _): &(Instant, String)| now.duration_since(*since) >= STAY;
        let due = kept.iter().take_while(|one| is_due(one)).count();
        kept.drain(..due).map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use tempfile::TempDir;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_directory_stays_for_a_while_where_others_serve_the_file_system() {
        let root = TempDir::new().unwrap();
        let dir = std::fs::File::open(root.path()).unwrap();
        let emptied = Emptied::default();
        let there = || {
            let names = root.path().read_dir().unwrap();
            let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let remove = |attributes, name: &str| {
            std::fs::create_dir(root.path().join(name)).unwrap();
            emptied.remove(attributes, dir.as_fd(), name).unwrap();
        };
        remove(Attributes::Known, "a");
        assert_eq!(there(), Vec::<&str>::new());
        remove(Attributes::Asked, "b");
        tokio::time::advance(STAY / 2).await;
        remove(Attributes::Asked, "c");
        assert_eq!(there(), ["b", "c"]);
        tokio::time::advance(STAY / 2).await;
        remove(Attributes::Asked, "d");
        assert_eq!(there(), ["c", "d"]);
    }
}
