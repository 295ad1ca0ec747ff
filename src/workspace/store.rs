//! What all workspaces share: the open root, the rules, and the threads that do the blocking work.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, fchmod, flock, fstatvfs, mkdirat, openat};
use rustix::io::Errno;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::beneath::Opener;
use super::book::Measurement;
use super::download_permits::DownloadPermits;
use super::emptied::Emptied;
use super::error::WorkspaceError;
use super::last_seen::LastSeen;
use super::moves::Moves;
use super::older::OlderDirectories;
use super::owners::{Directories, Own, Owners, Users};
use super::removal::{self, Progress, Staging};
use super::tenants::TenantNotes;
use super::turns::ChangeTurns;
use super::uses::Uses;
use super::{Usage, WorkspaceLimits, usage};
use crate::access::Access;
use crate::conversation::ConversationKey;
use crate::executor::spec::PRIVATE;
use crate::principal::Tenant;

/// Mode of a workspace.
pub(super) const WORKSPACE_MODE: u32 = 0o700;
/// Short operations at a time. More would only queue for the disk, and each takes a thread.
const OPERATIONS: usize = 16;
/// Changes to files at a time, each of another conversation. They measure its tree, which can take seconds.
const UPLOADS: usize = 16;
/// Files that are being received at a time, each with an open file of up to `MAX_UPLOAD_BYTES`.
const RECEIVING: usize = 16;
/// A conversation may be deleted over and over while it is being opened.
const TRIES: usize = 16;
/// First pause before the deletion of something that is being refilled is tried again. Each pause is twice as long as
/// the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Every pause is shorter than this: all together take under a minute, which is more than the engine takes to kill a
/// program.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How many times the limit on entries is deleted of one tree before something must be refilling it. A program can have
/// made more than the limit before it was stopped.
const REFILLS: u64 = 100;
/// Inodes that must stay free, where the file system counts them.
const FREE_INODES: u64 = 1_024;

/// The shared state behind [`Workspaces`](super::Workspaces).
#[derive(Debug)]
pub(super) struct Store {
    root: OwnedFd,
    /// The private directory. As long as it is open, it carries a lock that tells other servers that we are alive.
    pub(super) private: OwnedFd,
    pub(super) opener: Opener,
    emptied: Emptied,
    pub(super) moves: Moves,
    pub(super) users: Users,
    pub(super) limits: WorkspaceLimits,
    /// What tenants may have less of.
    pub(super) access: OnceLock<Access>,
    operations: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    turns: ChangeTurns,
    /// Bytes of free space that uploads are about to take.
    claimed: Mutex<u64>,
    /// One at a time, since nobody waits for them.
    deletions: Arc<Semaphore>,
    pub(super) downloads: Arc<DownloadPermits>,
    pub(super) receiving: Arc<Semaphore>,
    pub(super) uses: Uses,
    pub(super) last_seen: LastSeen,
    pub(super) older: OlderDirectories,
    pub(super) tenants: TenantNotes,
    pub(super) tasks: TaskTracker,
}

/// Creates `SANDBOX_ROOT` if it is missing: the engine passes through, other users of the host cannot list keys.
///
/// # Errors
/// The operating system failed.
pub fn make_root(root: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o711).create(root)
}

/// What is left of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes.
    pub bytes: u64,
    /// How many files and folders can still be made, where the file system counts them.
    pub inodes: Option<u64>,
}

/// Free space that is set aside for an upload until it is written. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct SpaceClaim<'a> {
    store: &'a Store,
    bytes: u64,
}

impl Drop for SpaceClaim<'_> {
    fn drop(&mut self) {
        *self.store.claimed.lock() -= self.bytes;
    }
}

impl Store {
    pub(super) fn open(
        root: &Path,
        owners: Owners,
        limits: WorkspaceLimits,
    ) -> Result<Self, WorkspaceError> {
        make_root(root).map_err(WorkspaceError::of("make the directory SANDBOX_ROOT"))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())
            .map_err(WorkspaceError::of("open the directory SANDBOX_ROOT"))?;
        let opener = Opener::for_root(root.as_fd());
        let private = open_private(opener, root.as_fd(), most_deleted(&limits))?;
        let uses = Uses::open(opener, root.as_fd())?;
        let older = OlderDirectories::open(opener, root.as_fd())?;
        let tenants = TenantNotes::open(opener, root.as_fd())?;
        let users = match owners {
            Owners::One(owner) => Users::One(owner),
            Owners::Own(uids) => Own::open(uids, opener, root.as_fd())
                .map(Users::Own)
                .map_err(WorkspaceError::of("open the directory of user ids"))?,
        };
        Ok(Self {
            root,
            private,
            opener,
            emptied: Emptied::default(),
            moves: Moves::default(),
            users,
            limits,
            access: OnceLock::new(),
            operations: Arc::new(Semaphore::new(OPERATIONS)),
            uploads: Arc::new(Semaphore::new(UPLOADS)),
            turns: ChangeTurns::default(),
            claimed: Mutex::default(),
            deletions: Arc::new(Semaphore::new(1)),
            downloads: Arc::default(),
            receiving: Arc::new(Semaphore::new(RECEIVING)),
            uses,
            last_seen: LastSeen::default(),
            older,
            tenants,
            tasks: TaskTracker::new(),
        })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Where directories are, for those who look at whom they belong to.
    pub(super) fn directories(&self) -> Directories<'_> {
        Directories {
            opener: self.opener,
            root: self.root(),
            private: self.private.as_fd(),
        }
    }

    /// The directory of notes, one for each conversation.
    pub(super) fn notes(&self) -> BorrowedFd<'_> {
        self.uses.notes.as_fd()
    }

    /// Runs `work` on a thread that may block.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        self.work_in_turn(&self.operations, work).await
    }

    /// Runs `work` like [`work`](Self::work), but one at a time for each conversation.
    pub(super) async fn upload<T: Send + 'static>(
        self: &Arc<Self>,
        key: &ConversationKey,
        work: impl FnOnce(&Self) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let (turn, key) = (self.turns.take(key).await, key.clone());
        let work = move |store: &Self| {
            // Held to the end of the work, even when nobody waits for it any more.
            let _turn = turn;
            store.changing(&key, work)
        };
        self.work_in_turn(&self.uploads, work).await
    }

    async fn work_in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        turns: &Arc<Semaphore>,
        work: impl FnOnce(&Self) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let turn = Arc::clone(turns)
            .acquire_owned()
            .await
            .expect("these semaphores are never closed");
        let store = Arc::clone(self);
        let under_way = self.tasks.token();
        let task = tokio::task::spawn_blocking(move || {
            // Held to the end of the work, even when nobody waits for it any more.
            let _turn = turn;
            // The result may be a guard that nobody takes any more and that has work to do when dropped: that work is
            // tracked before the token of this task is given up.
            (work(&store), under_way)
        });
        let (result, _) = outcome(task).await?;
        result
    }

    /// Bytes that a conversation of a tenant may take.
    pub(super) fn quota_of(&self, tenant: &Tenant) -> u64 {
        let own = self.access.get();
        let own = own.and_then(|access| access.limits(tenant).quota);
        let most = self.limits.quota_bytes;
        own.map_or(most, |own| own.min(most))
    }

    /// Bytes that a conversation may take.
    pub(super) fn quota(&self, key: &ConversationKey) -> u64 {
        self.quota_of(&self.tenants.of(key))
    }

    pub(super) fn create(&self, key: &ConversationKey) -> Result<OwnedFd, WorkspaceError> {
        for _ in 0..TRIES {
            if let Some(dir) = self.find(key)? {
                self.settle(dir.as_fd(), key.as_str())?;
                return Ok(dir);
            }
            // Before there is a directory, so that none is there without it.
            self.tenants.note(key);
            match mkdirat(
                &self.root,
                key.as_str(),
                Mode::from_raw_mode(WORKSPACE_MODE),
            ) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => {
                    return Err(WorkspaceError::of("make the conversation's directory")(
                        error,
                    ));
                }
            }
        }
        Err(WorkspaceError::of("open the conversation's directory")(
            Errno::AGAIN,
        ))
    }

    pub(super) fn find(&self, key: &ConversationKey) -> Result<Option<OwnedFd>, WorkspaceError> {
        match self.open_workspace(key) {
            Err(Errno::NOENT) => Ok(None),
            dir => dir
                .inspect(|_| self.tenants.note(key))
                .map(Some)
                .map_err(WorkspaceError::of("open the conversation's directory")),
        }
    }

    fn open_workspace(&self, key: &ConversationKey) -> rustix::io::Result<OwnedFd> {
        let open = || {
            let name = key.as_str().as_bytes();
            let _settled = self.moves.settled();
            self.opener.folder(self.root.as_fd(), [name])
        };
        match open() {
            Err(Errno::NOENT) if self.older.adopt(&self.moves, self.root.as_fd(), key)? => open(),
            opened => opened,
        }
    }

    /// Makes an empty directory, out of sight, that is for root until it is given away.
    pub(super) fn make_private(&self, name: &str) -> Result<OwnedFd, WorkspaceError> {
        mkdirat(&self.private, name, Mode::from_raw_mode(WORKSPACE_MODE))
            .map_err(WorkspaceError::of("make a directory for programs"))?;
        self.opener
            .folder(self.private.as_fd(), [name.as_bytes()])
            .map_err(WorkspaceError::of("open a directory for programs"))
    }

    /// Refuses if `bytes` more would leave too little free space, else returns how much is free now.
    pub(super) fn check_space(&self, bytes: u64) -> Result<FreeSpace, WorkspaceError> {
        let system = fstatvfs(&self.root).map_err(WorkspaceError::of("ask for free space"))?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        // File systems that do not count blocks or inodes say that they have none at all.
        let is_short =
            system.f_blocks > 0 && free < self.limits.free_space_floor.saturating_add(bytes);
        let inodes = (system.f_files > 0).then_some(system.f_favail);
        if is_short || inodes.is_some_and(|inodes| inodes < FREE_INODES) {
            Err(WorkspaceError::DiskFull)
        } else {
            Ok(FreeSpace {
                bytes: free,
                inodes,
            })
        }
    }

    /// Sets `bytes` of free space aside for an upload. Refuses if that would leave too little.
    pub(super) fn claim_space(&self, bytes: u64) -> Result<SpaceClaim<'_>, WorkspaceError> {
        let mut claimed = self.claimed.lock();
        let all = claimed.saturating_add(bytes);
        self.check_space(all)?;
        *claimed = all;
        Ok(SpaceClaim { store: self, bytes })
    }

    /// How much a conversation takes: as of a moment ago, if finding out takes long and `fresh` is false.
    pub(super) fn usage(
        &self,
        key: &ConversationKey,
        dir: BorrowedFd<'_>,
        fresh: bool,
    ) -> Result<Usage, WorkspaceError> {
        let started = Instant::now();
        let known = self.uses.book().recent(key, started).filter(|_| !fresh);
        if let Some(usage) = known {
            return Ok(self.with_deleted(key, usage));
        }
        let usage = usage::measure(self.opener, dir, self.limits.max_entries)
            .map_err(WorkspaceError::of("measure the conversation's files"))?;
        let ended = Instant::now();
        let took = ended - started;
        self.uses
            .book()
            .keep(key, Measurement { usage, ended, took });
        Ok(self.with_deleted(key, usage))
    }

    /// Adds what has no name.
    pub(super) fn with_deleted(&self, key: &ConversationKey, usage: Usage) -> Usage {
        usage.with_deleted(self.uses.book().deleted(key))
    }

    /// Records how much a conversation takes.
    pub(super) fn measured(&self, key: &ConversationKey, usage: Usage) {
        let mut book = self.uses.book();
        book.measured(key, usage);
        if self
            .limits
            .storage_bytes
            .is_some_and(|limit| book.total() > limit)
        {
            self.uses.over.notify_one();
        }
    }

    /// Takes a conversation's directory out of sight.
    pub(super) fn stage(&self, key: &ConversationKey) -> Result<Option<Staging>, WorkspaceError> {
        let mut books = self.users.books();
        let staging = self
            .take_away(self.root.as_fd(), key.as_str())
            .map_err(WorkspaceError::of("take away the conversation's directory"))?;
        if let (Some(books), Some(staging)) = (&mut books, &staging) {
            books.rename(staging.uid(), key.as_str(), staging.name());
        }
        drop(books);
        self.uses.forget(key);
        self.last_seen.forget(key);
        self.older.forget(key);
        // Somebody else may have begun to use it anew, and has noted whose it is.
        if !self.uses.book().is_held(key) {
            self.tenants.forget(key);
        }
        Ok(staging)
    }

    /// Takes the directory `name` in `dir` out of sight. `None` when there is none.
    pub(super) fn take_away(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
    ) -> rustix::io::Result<Option<Staging>> {
        let max_entries = most_deleted(&self.limits);
        removal::stage(
            self.opener,
            self.private.as_fd(),
            dir,
            name.as_bytes(),
            max_entries,
        )
    }

    fn remove_emptied(&self, name: &str) -> rustix::io::Result<()> {
        let attributes = self.opener.attributes;
        self.emptied.remove(attributes, self.private.as_fd(), name)
    }

    /// Deletes what is out of sight, in parts, between which other deletions have their turn. A program that is being
    /// killed may go on writing to it for a while.
    pub(super) async fn delete(
        self: &Arc<Self>,
        mut staging: Staging,
    ) -> Result<(), WorkspaceError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let delete = move |store: &Self| {
                let progress = staging.delete_part().and_then(|progress| {
                    if progress == Progress::Emptied {
                        store.remove_emptied(staging.name())?;
                    }
                    Ok(progress)
                });
                Ok((staging, progress))
            };
            let progress;
            (staging, progress) = self.work_in_turn(&self.deletions, delete).await?;
            match progress {
                Ok(Progress::Partly) => {}
                Ok(Progress::Emptied) => {
                    if let Some(mut books) = self.users.books() {
                        books.release(staging.uid(), staging.name());
                    }
                    return Ok(());
                }
                Err(Errno::NOTEMPTY) if pause < LONGEST_PAUSE => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => {
                    return Err(WorkspaceError::of("delete the conversation's files")(error));
                }
            }
        }
    }
}

/// How many entries of one tree are deleted at most.
fn most_deleted(limits: &WorkspaceLimits) -> u64 {
    limits.max_entries.saturating_mul(REFILLS)
}

/// The result of a task; a panic in it goes on here.
pub(super) async fn outcome<T>(task: JoinHandle<T>) -> Result<T, WorkspaceError> {
    match task.await {
        Ok(outcome) => Ok(outcome),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => Err(WorkspaceError::of("start an operation on files")(
                std::io::Error::other(cancelled),
            )),
        },
    }
}

fn open_private(
    opener: Opener,
    root: BorrowedFd<'_>,
    max_entries: u64,
) -> Result<OwnedFd, WorkspaceError> {
    match mkdirat(root, PRIVATE, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(WorkspaceError::of("write to SANDBOX_ROOT")(error)),
    }
    let private = opener
        .folder(root, [PRIVATE.as_bytes()])
        .map_err(WorkspaceError::of("open the private directory"))?;
    fchmod(&private, Mode::RWXU)
        .map_err(WorkspaceError::of("set the mode of the private directory"))?;
    // Others hold the lock while they run. Where there are no locks, on some network file systems, leftovers stay.
    if flock(&private, FlockOperation::NonBlockingLockExclusive).is_ok()
        && let Err(error) = removal::clear(opener, private.as_fd(), max_entries)
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "files of an earlier server remain"
        );
    }
    // Waits while another server clears; then both hold it.
    if let Err(error) = flock(&private, FlockOperation::LockShared) {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "the private directory cannot be locked"
        );
    }
    Ok(private)
}
