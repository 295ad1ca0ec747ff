//! How long conversations are kept: those in use stay, and what is not used for too long is taken away.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::io::Result;
use tokio::time::Instant;

use super::store::Store;
use super::uses::{Uses, keys_in};
use super::{WorkspaceError, Workspaces};
use crate::conversation::{Conversation, ConversationKey};
use crate::principal::Tenant;

/// A conversation in use. It is not taken away before this is dropped.
#[derive(Debug)]
pub struct InUse {
    store: Arc<Store>,
    key: ConversationKey,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut book = self.store.uses.book();
        book.release(&self.key);
        if !book.is_held(&self.key) {
            self.store.tenants.forget_unnoted(&self.key);
        }
    }
}

/// Space of a conversation that no name shows, counted as long as this lives.
#[derive(Debug)]
pub struct Deleted {
    store: Arc<Store>,
    key: ConversationKey,
    bytes: u64,
}

impl Deleted {
    pub(super) fn new(store: Arc<Store>, key: ConversationKey, bytes: u64) -> Self {
        store.uses.book().add_deleted(&key, bytes);
        Self { store, key, bytes }
    }

    /// Counts another number from now on.
    pub fn set(&mut self, bytes: u64) {
        if bytes == self.bytes {
            return;
        }
        let mut book = self.store.uses.book();
        book.free_deleted(&self.key, self.bytes);
        book.add_deleted(&self.key, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Deleted {
    fn drop(&mut self) {
        self.store.uses.book().free_deleted(&self.key, self.bytes);
    }
}

/// Ends the taking away of a conversation, successful or not.
struct Leaving<'a>(&'a Uses, &'a ConversationKey);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.book().end_leaving(self.1);
        self.0.changed.notify_waiters();
    }
}

impl Workspaces {
    /// Keeps a conversation, which may be a new one, from being taken away while it is in use, and remembers whose it is.
    pub async fn hold(&self, conversation: &Conversation) -> InUse {
        let (uses, key) = (&self.store.uses, conversation.key());
        loop {
            let changed = uses.changed.notified();
            let held = uses.book().hold(key);
            if held {
                break;
            }
            changed.await;
        }
        let in_use = InUse {
            store: Arc::clone(&self.store),
            key: key.clone(),
        };
        self.store.tenants.remember(key, conversation.tenant());
        in_use
    }

    /// Refuses when all conversations, or all of a tenant, take more than they may and nothing more can go.
    ///
    /// # Errors
    /// [`StorageFull`](WorkspaceError::StorageFull), [`TenantFull`](WorkspaceError::TenantFull)
    pub fn check_storage(&self, tenant: &Tenant) -> std::result::Result<(), WorkspaceError> {
        let full_at = |owner| self.store.uses.book().full_at(owner);
        // What was deleted since the sweep makes room at once.
        if let Some(limit) = full_at(None)
            && self.stored() > limit
        {
            return Err(WorkspaceError::StorageFull { limit });
        }
        match full_at(Some(tenant)) {
            Some(limit) if self.stored_of(tenant) > limit => {
                Err(WorkspaceError::TenantFull { limit })
            }
            _ => Ok(()),
        }
    }

    /// Bytes of all conversations, as far as they were measured.
    pub fn stored(&self) -> u64 {
        self.store.uses.book().total()
    }

    /// Bytes of a tenant's conversations, as far as they were measured.
    pub fn stored_of(&self, tenant: &Tenant) -> u64 {
        let stored = self.stored_by_tenant();
        stored.get(tenant).copied().unwrap_or_default()
    }

    /// Bytes of the conversations of each tenant, as far as they were measured and it is known whose they are.
    pub(crate) fn stored_by_tenant(&self) -> HashMap<Tenant, u64> {
        let book = self.store.uses.book();
        self.store.tenants.sums(book.sizes())
    }

    /// Whose a conversation is, which is read from the disk once.
    pub(crate) fn tenant_of(&self, key: &ConversationKey) -> Tenant {
        self.store.tenants.of(key)
    }

    /// Bytes of one conversation when it was last measured.
    pub(crate) fn size_of(&self, key: &ConversationKey) -> u64 {
        self.store.uses.book().size(key).unwrap_or_default()
    }

    /// Forgets that there is no room for tenants that have no limit any more.
    pub(crate) fn keep_full(&self, is_limited: impl Fn(&Tenant) -> bool) {
        self.store.uses.book().keep_full(is_limited);
    }

    /// Sets that there is no room beyond `limit` for a tenant, or for all if `owner` is `None`, and nothing more can go.
    /// Returns whether that is new.
    pub(crate) fn set_full(&self, owner: Option<&Tenant>, limit: Option<u64>) -> bool {
        self.store.uses.book().set_full(owner, limit)
    }

    /// Resolves when all conversations together have grown beyond their limit.
    pub(crate) async fn over_limit(&self) {
        self.store.uses.over.notified().await;
    }

    /// All conversations that have a directory. Notes of others are removed.
    pub(crate) async fn keys(&self) -> std::result::Result<Vec<ConversationKey>, WorkspaceError> {
        let list = |store: &Store| -> Result<Vec<ConversationKey>> {
            // Notes first: a directory is always made before its note.
            let noted = keys_in(store.opener, store.uses.notes.as_fd())?;
            let with_tenant = store.tenants.keys()?;
            let there: HashSet<_> = keys_in(store.opener, store.root())?.into_iter().collect();
            for key in noted.iter().filter(|key| !there.contains(key)) {
                store.uses.forget(key);
            }
            // Whose it is is noted before there is a directory.
            let is_gone =
                |key: &&ConversationKey| !there.contains(*key) && !store.uses.book().is_held(key);
            for key in with_tenant.iter().filter(is_gone) {
                store.tenants.forget(key);
            }
            store.uses.book().retain(&there, SystemTime::now());
            Ok(there.into_iter().collect())
        };
        self.store
            .work(move |store| list(store).map_err(WorkspaceError::of("list the conversations")))
            .await
    }

    /// When each of these was last used.
    pub(crate) async fn last_uses(
        &self,
        keys: Vec<ConversationKey>,
    ) -> std::result::Result<Vec<(ConversationKey, SystemTime)>, WorkspaceError> {
        let look = |key: ConversationKey, store: &Store| {
            // It is known from then on, so that a sweep asks the disk here alone.
            store.tenants.of(&key);
            let used = store.uses.last(&key);
            used.map(|used| (key, used))
        };
        self.store
            .work(move |store| {
                let uses: Result<Vec<_>> = keys.into_iter().map(|key| look(key, store)).collect();
                uses.map_err(WorkspaceError::of("see when conversations were used"))
            })
            .await
    }

    /// Whether the size of a conversation is known and cannot have changed since.
    pub(crate) fn is_measured(&self, key: &ConversationKey) -> bool {
        self.store.uses.book().is_measured(key)
    }

    /// Measures conversations for at most `budget`. Returns how many it got to, including those that cannot be read: a
    /// damaged part of the disk must not keep the others forever.
    pub(crate) async fn measure(
        &self,
        keys: Vec<ConversationKey>,
        budget: Duration,
    ) -> std::result::Result<usize, WorkspaceError> {
        self.store
            .work(move |store| {
                let end = Instant::now() + budget;
                let mut done = 0;
                for key in keys {
                    store.uses.book().begin_look(&key);
                    if let Err(error) = store.measure(&key) {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(
                            conversation.key = key.short(),
                            error,
                            "cannot measure a conversation"
                        );
                    }
                    done += 1;
                    if Instant::now() >= end {
                        break;
                    }
                }
                Ok(done)
            })
            .await
    }

    /// Takes away a conversation that was not used since `unused_since`, and waits until its files are deleted;
    /// `retire` is called once that is certain. Returns the bytes that it took when last measured, or `None` if it is
    /// in use.
    ///
    /// # Errors
    /// The operating system failed. If the conversation is out of sight by then, what is left of it is deleted at the
    /// next start.
    pub(crate) async fn expire(
        &self,
        key: &ConversationKey,
        unused_since: SystemTime,
        retire: impl FnOnce() + Send + 'static,
    ) -> std::result::Result<Option<u64>, WorkspaceError> {
        let uses = &self.store.uses;
        if !uses.book().begin_leaving(key) {
            return Ok(None);
        }
        let leaving = Leaving(uses, key);
        let owned = key.clone();
        let staged = self.store.work(move |store| {
            let used = store
                .uses
                .last(&owned)
                .map_err(WorkspaceError::of("see when a conversation was used"))?;
            if used > unused_since {
                return Ok(None);
            }
            retire();
            let bytes = store.uses.book().size(&owned).unwrap_or(0);
            Ok(store.stage(&owned)?.map(|staging| (staging, bytes)))
        });
        let staged = self.store.tasks.track_future(staged).await?;
        drop(leaving);
        let Some((staging, bytes)) = staged else {
            return Ok(None);
        };
        let deleted = self.store.delete(staging);
        self.store.tasks.track_future(deleted).await?;
        Ok(Some(bytes))
    }
}
