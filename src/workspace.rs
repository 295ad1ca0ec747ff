//! The only code that touches conversations' files under `SANDBOX_ROOT`; what the server keeps there for itself
//! (`.bin`, `.servers` and the like) belongs to `app/instance.rs`.
//!
//! ```text
//! SANDBOX_ROOT/       0711: the container engine passes through, other users of the host cannot list keys
//! ├── .tmp/           0700: uploads in the making, slots, directories for installs, and trees being deleted; no
//! │                         conversation's program ever sees it
//! ├── .packages/      0700: downloads of packages that are kept for other conversations
//! ├── .used/          0700: a file for each conversation: its time is that of the last use, its content the packages
//! │                         that were asked for
//! ├── .tenants/       0700: a file with the tenant's name for each conversation of one that is not the default
//! ├── .older/         0700: for each conversation that came from `mcp-code-runner`, a link from its key there
//! ├── .uids/          0700: locks on the users that servers give to conversations, with `SANDBOX_UIDS`
//! └── <key>/          0700: the workspace of a conversation, mounted at /data
//! ```
//!
//! Programs own their workspaces and can put anything there, even while we look. Hence the rules for all modules below:
//! everything goes through directory handles ([`beneath`]), only regular files are opened, all walks are bounded, and
//! owners and modes are set on open handles, never by name.

mod attributes;
mod beneath;
mod book;
mod census;
mod demand;
mod download_permits;
mod downloads;
mod emptied;
mod entries;
mod error;
mod folders;
mod handle;
mod handover;
mod last_seen;
mod listing;
mod moves;
mod older;
mod open;
mod overview;
mod owners;
mod packages;
pub mod path;
mod removal;
mod rename;
mod retention;
mod scratch;
mod settle;
mod slot;
mod spool;
mod store;
mod tenants;
mod turns;
mod upload;
mod usage;
mod uses;
mod walk;

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{StatVfsMountFlags, fstatvfs};

use self::attributes::Attributes;
pub use self::census::Census;
pub use self::demand::Demand;
pub(crate) use self::download_permits::DownloadSlot;
pub use self::downloads::Kept;
pub use self::error::WorkspaceError;
pub use self::folders::{Entry, EntryKind};
pub use self::handle::{DirectoryId, Workspace};
pub use self::listing::{FileEntry, Listing, MAX_FILES, Survey};
pub(crate) use self::moves::Moves;
pub use self::open::OpenFile;
pub use self::overview::Overview;
use self::owners::Users;
pub use self::owners::{Owner, Owners, UidsError};
pub use self::path::PACKAGES;
pub use self::retention::{Deleted, InUse};
pub use self::scratch::Scratch;
pub use self::slot::Slot;
pub use self::spool::Spool;
use self::store::Store;
pub use self::store::{FreeSpace, make_root};
pub use self::upload::{Existing, Placed};
pub use self::usage::Usage;
pub(crate) use self::uses::NOTE_EVERY;
use crate::access::Access;
use crate::conversation::ConversationKey;
use crate::principal::Tenant;

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceLimits {
    /// Bytes of disk that one conversation may take; that of a tenant may be allowed less.
    pub quota_bytes: u64,
    /// Bytes that must stay free on the file system, whoever asks.
    pub free_space_floor: u64,
    /// Files, folders and other entries that one conversation may have. 100,000 is a good number.
    pub max_entries: u64,
    /// Bytes of disk that all conversations together may take.
    pub storage_bytes: Option<u64>,
}

/// The workspaces of all conversations. Clones share one state.
#[derive(Clone, Debug)]
pub struct Workspaces {
    store: Arc<Store>,
}

impl Workspaces {
    /// Opens `root`, creates it and its private directory if they are missing, and deletes what a crash left there.
    ///
    /// An existing root keeps its mode. The leftovers of another server that is still running on the same root are
    /// not touched. Blocks, for seconds after a crash in the middle of a large deletion.
    ///
    /// # Errors
    /// The root cannot be made, opened or written to.
    pub fn open(
        root: &Path,
        owners: impl Into<Owners>,
        limits: WorkspaceLimits,
    ) -> Result<Self, WorkspaceError> {
        Ok(Self {
            store: Arc::new(Store::open(root, owners.into(), limits)?),
        })
    }

    /// Tries whether conversations can have users of their own, if they are to have them.
    ///
    /// # Errors
    /// What is missing.
    pub fn prove_owners(&self) -> Result<(), UidsError> {
        owners::prove(&self.store.users, self.store.directories())
    }

    /// The same where tenants may have less, as `access` says.
    #[must_use]
    pub fn limited_by(self, access: Access) -> Self {
        // It is set once, before anybody shares it.
        let _ = self.store.access.set(access);
        self
    }

    /// Bytes that one conversation of a tenant may take.
    pub fn quota_of(&self, tenant: &Tenant) -> u64 {
        self.store.quota_of(tenant)
    }

    /// Bytes that a conversation may take.
    pub fn quota_for(&self, key: &ConversationKey) -> u64 {
        self.store.quota(key)
    }

    /// How much may be kept, by whoever may keep most.
    pub fn limits(&self) -> &WorkspaceLimits {
        &self.store.limits
    }

    /// Whether others serve the file system, so that each look at a file takes a request.
    pub fn are_served(&self) -> bool {
        self.store.opener.attributes == Attributes::Asked
    }

    /// The owner of all files, unless each conversation has a user of its own.
    pub fn common_owner(&self) -> Option<Owner> {
        match self.store.users {
            Users::One(owner) => Some(owner),
            Users::Own(_) => None,
        }
    }

    /// Opens the workspace of a conversation, and creates it if it is new.
    ///
    /// The mode is repaired, since a program may have changed it. What belongs to somebody else, as from before a
    /// change of `SANDBOX_UIDS`, is given to the conversation's user with everything in it. Containers are started only
    /// after this.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn create(&self, key: &ConversationKey) -> Result<Workspace, WorkspaceError> {
        let owned = key.clone();
        let dir = self.store.work(move |store| store.create(&owned)).await?;
        Ok(Workspace::new(Arc::clone(&self.store), key.clone(), dir))
    }

    /// Opens the workspace of a conversation. `None` when it has none.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn find(&self, key: &ConversationKey) -> Result<Option<Workspace>, WorkspaceError> {
        let owned = key.clone();
        let find = move |store: &Store| {
            let key = store.older.current(&owned);
            Ok(store.find(&key)?.map(|dir| (key, dir)))
        };
        let found = self.store.work(find).await?;
        Ok(found.map(|(key, dir)| Workspace::new(Arc::clone(&self.store), key, dir)))
    }

    /// Deletes the workspace of a conversation. False when it has none.
    ///
    /// It is out of sight when this returns; its files are deleted in the background, which
    /// [`wait_for_background_work`](Self::wait_for_background_work) waits for. Both happen even if the caller goes away
    /// first. Stop the conversation's sandboxes first: a program that still runs goes on writing to the old directory.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn remove(&self, key: &ConversationKey) -> Result<bool, WorkspaceError> {
        let (store, key) = (Arc::clone(&self.store), key.clone());
        let staging = self.store.tasks.spawn(async move {
            let owned = key.clone();
            let staging = store.work(move |store| store.stage(&owned)).await?;
            let Some(staging) = staging else {
                return Ok(false);
            };
            let tasks = store.tasks.clone();
            tasks.spawn(async move {
                let deleted = store.delete(staging).await;
                if let Err(error) = deleted {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(
                        conversation.key = key.short(),
                        error,
                        "files of a deleted conversation remain"
                    );
                }
            });
            Ok(true)
        });
        store::outcome(staging).await?
    }

    /// Returns the free space of the file system, or refuses if it is less than must stay free. Takes microseconds.
    ///
    /// # Errors
    /// [`DiskFull`](WorkspaceError::DiskFull) if there is too little, or the operating system failed.
    pub fn check_space(&self) -> Result<FreeSpace, WorkspaceError> {
        self.store.check_space(0)
    }

    /// Whether the file system lets files run as their owners: nothing but the system call filter then keeps programs
    /// from leaving such files to other users of the host.
    pub fn honours_set_ids(&self) -> bool {
        let system = fstatvfs(self.store.root());
        system.is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::NOSUID))
    }

    /// Reserves one of the places for downloads. `None` when all are taken, or all that one conversation may have.
    pub(crate) fn reserve_download(&self, key: &ConversationKey) -> Option<DownloadSlot> {
        self.store.downloads.take(key)
    }

    /// Background tasks that outlive the answer: deletions and downloads.
    pub(crate) fn tasks(&self) -> &tokio_util::task::TaskTracker {
        &self.store.tasks
    }

    /// Waits until no deletion or download is left in the background.
    pub async fn wait_for_background_work(&self) {
        self.store.tasks.close();
        self.store.tasks.wait().await;
        self.store.tasks.reopen();
    }
}

/// An unguessable name, for private use.
fn random_name() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

#[cfg(test)]
mod tests;
