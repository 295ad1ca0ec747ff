//! A directory that waits to become a conversation's workspace while a warm sandbox already has it as `/data`.
//!
//! It waits in the private directory, where no program sees it by name. A bind mount follows the directory and not its
//! name, so renaming it is enough.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::io::Errno;

use super::store::Store;
use super::{DirectoryId, Owner, WorkspaceError, Workspaces, random_name};
use crate::conversation::ConversationKey;
use crate::executor::spec::Place;

/// An empty directory that belongs to no conversation yet. Dropping it removes it.
#[derive(Debug)]
pub struct Slot {
    store: Arc<Store>,
    name: String,
    /// Whom it belongs to, once it is made.
    owner: Option<Owner>,
    adopted: bool,
}

impl Slot {
    /// Its name, unique among all slots.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whom it belongs to.
    pub fn owner(&self) -> Owner {
        self.owner.expect("only made ones are handed out")
    }

    /// What it is to a container.
    pub fn place(&self) -> Place {
        Place::Slot(self.name.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.adopted {
            // It is empty, so this is one quick system call. If it fails, the next start removes the directory.
            let removed = unlinkat(&self.store.private, &self.name, AtFlags::REMOVEDIR);
            if let (Ok(()), Some(owner)) = (removed, self.owner)
                && let Some(mut books) = self.store.users.books()
            {
                books.release(owner.uid, &self.name);
            }
        }
    }
}

impl Workspaces {
    /// Makes an empty directory that can become a workspace.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn new_slot(&self) -> Result<Slot, WorkspaceError> {
        // The guard exists before the directory, so that a caller who goes away in between leaves nothing.
        let mut slot = Slot {
            store: Arc::clone(&self.store),
            name: random_name(),
            owner: None,
            adopted: false,
        };
        let make = move |store: &Store| {
            let dir = store.make_private(&slot.name)?;
            slot.owner = Some(store.settle(dir.as_fd(), &slot.name)?);
            Ok(slot)
        };
        self.store.work(make).await
    }

    /// Makes a slot the workspace of a new conversation. Returns the slot if the conversation already has a workspace.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn adopt(
        &self,
        mut slot: Slot,
        key: &ConversationKey,
    ) -> Result<Result<DirectoryId, Slot>, WorkspaceError> {
        let (name, key) = (slot.name.clone(), key.clone());
        let renamed = self.store.work(move |store| {
            let (from, to) = (store.private.as_fd(), store.root());
            store
                .older
                .adopt(&store.moves, to, &key)
                .map_err(WorkspaceError::of("adopt the directory of another server"))?;
            // Under its old name: there may soon be another directory under the new one.
            let slot = statat(from, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(WorkspaceError::of("examine a slot"))?;
            store.tenants.note(&key);
            let mut books = store.users.books();
            match store.moves.move_folder((from, &name), (to, key.as_str())) {
                Ok(()) => {
                    if let Some(books) = &mut books {
                        books.rename(slot.st_uid, &name, key.as_str());
                    }
                    Ok(Some(DirectoryId::of(&slot)))
                }
                Err(Errno::EXIST) => Ok(None),
                Err(error) => {
                    Err(WorkspaceError::of("make a slot a conversation's directory")(error))
                }
            }
        });
        let adopted = renamed.await?;
        slot.adopted = adopted.is_some();
        Ok(adopted.ok_or(slot))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::tests::workspaces;
    use super::*;
    use crate::executor::spec::PRIVATE;

    fn at(root: &std::path::Path, slot: &Slot) -> std::path::PathBuf {
        root.join(slot.place().below_root().unwrap())
    }

    #[rstest]
    #[tokio::test]
    async fn a_slot_becomes_the_workspace_of_one_conversation(
        #[values(false, true)] in_steps: bool,
    ) {
        let root = tempfile::tempdir().unwrap();
        let workspaces = workspaces(root.path(), in_steps);
        let key: ConversationKey = "a".repeat(64).parse().unwrap();
        let (first, second) = (
            workspaces.new_slot().await.unwrap(),
            workspaces.new_slot().await.unwrap(),
        );
        let path = at(root.path(), &first);
        std::fs::write(path.join("by-a-program"), "x").unwrap();
        let adopted = workspaces.adopt(first, &key).await.unwrap().ok();
        let found = workspaces.find(&key).await.unwrap().unwrap();
        assert_eq!(adopted, found.directory_id());
        assert!(root.path().join(key.as_str()).join("by-a-program").exists());
        let second = workspaces.adopt(second, &key).await.unwrap().unwrap_err();
        let path = at(root.path(), &second);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[rstest]
    #[tokio::test]
    async fn all_who_open_a_conversation_at_once_get_one_directory(
        #[values(false, true)] in_steps: bool,
    ) {
        let root = tempfile::tempdir().unwrap();
        let workspaces = workspaces(root.path(), in_steps);
        for number in 0..100 {
            let key: ConversationKey = format!("{number:064x}").parse().unwrap();
            let slot = workspaces.new_slot().await.unwrap();
            let adopt = workspaces.adopt(slot, &key);
            let create = futures::future::join_all((0..8).map(|_| workspaces.create(&key)));
            let (adopted, created) = tokio::join!(adopt, create);
            let there = workspaces.find(&key).await.unwrap().unwrap();
            let there = there.directory_id();
            let mut ids = created
                .iter()
                .map(|one| one.as_ref().unwrap().directory_id());
            assert!(ids.all(|id| id == there));
            if let Ok(adopted) = adopted.unwrap() {
                assert_eq!(Some(adopted), there);
            }
        }
        let left = std::fs::read_dir(root.path().join(PRIVATE)).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn a_caller_who_goes_away_leaves_no_slot() {
        let root = tempfile::tempdir().unwrap();
        let workspaces = workspaces(root.path(), false);
        let one_thread = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        one_thread.block_on(async {
            // The only thread that may block is busy until the caller is gone.
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let mut made = Box::pin(workspaces.new_slot());
            assert!(futures::poll!(made.as_mut()).is_pending());
            drop(made);
            go.send(()).unwrap();
            busy.await.unwrap().unwrap();
            workspaces.wait_for_background_work().await;
        });
        let left = std::fs::read_dir(root.path().join(PRIVATE)).unwrap();
        assert_eq!(left.count(), 0);
    }
}
