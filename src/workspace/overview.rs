//! What is known of conversations without looking at their files, for the operator: a system call each.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, StatxFlags, StatxTimestamp, statx};
use rustix::io::Result;

use super::store::Store;
use super::uses::keys_in;
use super::walk::gone_is_none;
use super::{WorkspaceError, Workspaces};
use crate::conversation::ConversationKey;
use crate::principal::Tenant;

/// What is known of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Its key.
    pub key: ConversationKey,
    /// Whose it is.
    pub tenant: Tenant,
    /// When it was first used, where the file system knows.
    pub created: Option<SystemTime>,
    /// When it was last used, to a minute; `None` before the first use that was noted.
    pub used: Option<SystemTime>,
    /// Bytes of disk when it was last measured, if it was.
    pub bytes: Option<u64>,
}

impl Workspaces {
    /// All conversations that have a directory, in no order.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn overviews(&self) -> std::result::Result<Vec<Overview>, WorkspaceError> {
        let list = |store: &Store| -> Result<Vec<Overview>> {
            let keys = keys_in(store.opener, store.root())?;
            keys.into_iter().map(|key| store.overview(key)).collect()
        };
        self.store
            .work(move |store| list(store).map_err(WorkspaceError::of("list the conversations")))
            .await
    }

    /// The same of one. `None` if it has no directory.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn overview(
        &self,
        key: &ConversationKey,
    ) -> std::result::Result<Option<Overview>, WorkspaceError> {
        let Some(workspace) = self.find(key).await? else {
            return Ok(None);
        };
        let key = workspace.key().clone();
        let look = move |store: &Store| {
            store
                .overview(key)
                .map_err(WorkspaceError::of("see when a conversation was used"))
        };
        self.store.work(look).await.map(Some)
    }

    /// Whose a conversation is.
    ///
    /// # Errors
    /// The server is in trouble.
    pub async fn owner_of(
        &self,
        key: &ConversationKey,
    ) -> std::result::Result<Tenant, WorkspaceError> {
        let key = key.clone();
        self.store
            .work(move |store| Ok(store.tenants.of(&key)))
            .await
    }
}

impl Store {
    fn overview(&self, key: ConversationKey) -> Result<Overview> {
        let (created, used) = self.use_times(&key)?;
        Ok(Overview {
            tenant: self.tenants.of(&key),
            bytes: self.uses.book().size(&key),
            created,
            used,
            key,
        })
    }

    /// When a conversation was first used, as the file system knows when its note was made, and when last.
    fn use_times(&self, key: &ConversationKey) -> Result<(Option<SystemTime>, Option<SystemTime>)> {
        let wanted = StatxFlags::BTIME | StatxFlags::MTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = gone_is_none(statx(self.notes(), key.as_str(), flags, wanted))?;
        let Some(found) = found else {
            return Ok((None, None));
        };
        let used = time(found.stx_mtime);
        let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        // A note from a backup was made later than it was used.
        let created = time(found.stx_btime).filter(|created| is_known && Some(*created) <= used);
        Ok((created, used))
    }
}

fn time(stamp: StatxTimestamp) -> Option<SystemTime> {
    let since = Duration::new(stamp.tv_sec.try_into().ok()?, stamp.tv_nsec);
    UNIX_EPOCH.checked_add(since)
}
