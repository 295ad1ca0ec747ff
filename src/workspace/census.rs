//! How many conversations there are and what they take, for the operator. Nobody waits for it.

use std::os::fd::AsFd as _;

use rustix::fs::fstatvfs;
use tracing::debug;

use super::store::Store;
use super::uses::keys_in;
use super::{WorkspaceError, Workspaces, usage};
use crate::conversation::ConversationKey;

/// What all conversations take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Conversations that have a directory.
    pub conversations: u64,
    /// Bytes of disk.
    pub bytes: u64,
}

impl Workspaces {
    /// Measures all conversations one after the other, so that other work on files fits in between.
    ///
    /// # Errors
    /// They cannot be listed. One that cannot be read counts, but without its bytes.
    pub async fn census(&self) -> Result<Census, WorkspaceError> {
        let mut census = Census::default();
        let keys = |store: &Store| {
            keys_in(store.opener, store.root())
                .map_err(WorkspaceError::of("list the conversations"))
        };
        for key in self.store.work(keys).await? {
            let measure = move |store: &Store| store.measure(&key);
            match self.store.work(measure).await {
                Ok(Some(bytes)) => {
                    census.conversations += 1;
                    census.bytes += bytes;
                }
                // Deleted since it was listed.
                Ok(None) => {}
                Err(error) => {
                    census.conversations += 1;
                    debug!(%error, "cannot measure a conversation");
                }
            }
        }
        Ok(census)
    }

    /// Free bytes on the file system of the root. Takes microseconds.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn free_bytes(&self) -> Result<u64, WorkspaceError> {
        let system =
            fstatvfs(self.store.root()).map_err(WorkspaceError::of("ask for free space"))?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }
}

impl Store {
    /// Measures a conversation if it is there. This does not count as a use, or nothing would ever expire.
    pub(super) fn measure(&self, key: &ConversationKey) -> Result<Option<u64>, WorkspaceError> {
        let Some(dir) = self.find(key)? else {
            return Ok(None);
        };
        self.make_accessible(dir.as_fd())?;
        let usage = usage::measure(self.opener, dir.as_fd(), self.limits.max_entries)
            .map_err(WorkspaceError::of("measure the conversation's files"))?;
        let usage = self.with_deleted(key, usage);
        self.measured(key, usage);
        Ok(Some(usage.bytes))
    }
}
