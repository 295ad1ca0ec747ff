//! Directories that `mcp-code-runner` made on the same root, under the first 16 digits of a conversation's key.
//!
//! A directory keeps its short name until a caller names the conversation: only the id shows the rest of the key. Then
//! it gets the whole key as its name, and `SANDBOX_ROOT/.older/<16 digits>` leads there, so that old links go on
//! working. No other conversation can be found by a part of its key.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, fchmod, mkdirat, readlinkat, symlinkat, unlinkat};
use rustix::io::{Errno, Result};

use super::beneath::Opener;
use super::error::WorkspaceError;
use super::moves::Moves;
use crate::conversation::ConversationKey;

/// The directory's name.
const OLDER: &str = ".older";

/// The directory of links from keys of that server to ours.
#[derive(Debug)]
pub(super) struct OlderDirectories(OwnedFd);

impl OlderDirectories {
    pub(super) fn open(
        opener: Opener,
        root: BorrowedFd<'_>,
    ) -> std::result::Result<Self, WorkspaceError> {
        let open = || {
            match mkdirat(root, OLDER, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            let dir = opener.folder(root, [OLDER.as_bytes()])?;
            fchmod(&dir, Mode::RWXU)?;
            Ok(Self(dir))
        };
        open().map_err(WorkspaceError::of("open the directory of older keys"))
    }

    /// Renames the directory that the conversation has there. False when it has none, or there is one of ours.
    pub(super) fn adopt(
        &self,
        moves: &Moves,
        root: BorrowedFd<'_>,
        key: &ConversationKey,
    ) -> Result<bool> {
        let Some(older) = key.older() else {
            return Ok(false);
        };
        let (from, to) = (older.as_str(), key.as_str());
        match moves.move_folder((root, from), (root, to)) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::EXIST) => return Ok(false),
            Err(error) => return Err(error),
        }
        match symlinkat(to, self.0.as_fd(), from) {
            Ok(()) | Err(Errno::EXIST) => {}
            // The files are there; only old links are lost.
            Err(error) => tracing::warn!(
                conversation.key = key.short(),
                %error,
                "links that another server made for a conversation do not work any more"
            ),
        }
        tracing::info!(
            conversation.key = key.short(),
            "adopted the files that another server kept for a conversation"
        );
        Ok(true)
    }

    /// The key under which the files are now.
    pub(super) fn current(&self, key: &ConversationKey) -> ConversationKey {
        if key.older().is_some() {
            return key.clone();
        }
        let target = readlinkat(self.0.as_fd(), key.as_str(), Vec::new());
        let target = target.ok().and_then(|target| target.into_string().ok());
        let found = target.and_then(|target| target.parse().ok());
        found.unwrap_or_else(|| key.clone())
    }

    /// The conversation is deleted.
    pub(super) fn forget(&self, key: &ConversationKey) {
        if let Some(older) = key.older()
            && self.current(&older) == *key
        {
            // Left behind, it leads nowhere.
            let _ = unlinkat(self.0.as_fd(), older.as_str(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::tests::workspaces;
    use super::*;

    #[rstest]
    #[tokio::test]
    async fn a_directory_of_the_other_server_is_found_by_both_keys(
        #[values(false, true)] in_steps: bool,
    ) {
        let root = tempfile::tempdir().unwrap();
        let workspaces = workspaces(root.path(), in_steps);
        let key: ConversationKey = "0123456789abcdef".repeat(4).parse().unwrap();
        let older = key.older().unwrap();
        let dir = root.path().join(older.as_str());
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("a.csv"), "x").unwrap();
        // Before anybody has named the conversation, and after.
        let before = workspaces.find(&older).await.unwrap().unwrap();
        assert_eq!(before.key(), &older);
        assert!(workspaces.find(&key).await.unwrap().is_some());
        assert!(root.path().join(key.as_str()).join("a.csv").exists());
        assert!(!dir.exists());
        let after = workspaces.find(&older).await.unwrap().unwrap();
        assert_eq!(after.key(), &key);
        // A slot does not take its place, and nothing is found by a part of another key.
        let slot = workspaces.new_slot().await.unwrap();
        let slot = workspaces.adopt(slot, &key).await.unwrap();
        assert!(slot.is_err());
        let other: ConversationKey = "fedcba9876543210".repeat(4).parse().unwrap();
        workspaces.create(&other).await.unwrap();
        let part = other.older().unwrap();
        assert!(workspaces.find(&part).await.unwrap().is_none());
        // Its end is that of its links.
        assert!(workspaces.remove(&key).await.unwrap());
        assert!(workspaces.find(&older).await.unwrap().is_none());
        let left = std::fs::read_dir(root.path().join(OLDER)).unwrap();
        assert_eq!(left.count(), 0);
        workspaces.wait_for_background_work().await;
    }

    #[rstest]
    #[tokio::test]
    async fn a_slot_does_not_hide_a_directory_of_the_other_server(
        #[values(false, true)] in_steps: bool,
    ) {
        let root = tempfile::tempdir().unwrap();
        let workspaces = workspaces(root.path(), in_steps);
        let key: ConversationKey = "0123456789abcdef".repeat(4).parse().unwrap();
        std::fs::create_dir(root.path().join(&key.as_str()[..16])).unwrap();
        let slot = workspaces.new_slot().await.unwrap();
        assert!(workspaces.adopt(slot, &key).await.unwrap().is_err());
    }
}
