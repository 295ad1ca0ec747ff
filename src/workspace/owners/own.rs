//! Gives each conversation a user of its own, for its life: the owner of its directory, which so is all the memory that
//! there is of it.
//!
//! Several servers may share a root. A server gives out users of *slices* of the range, each of which it holds by a
//! lock on `SANDBOX_ROOT/.uids/<slice>` for as long as it lives. It looks at all directories after it has got one, so
//! no two conversations ever get the same user. Where they have it all the same, because somebody copied a directory,
//! the second to be found gets another at its next use.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fchmod, flock, fstat, mkdirat, openat, statat,
};
use rustix::io::{Errno, Result};
use tokio::time::Instant;

use super::super::beneath::Opener;
use super::super::entries::names;
use super::super::error::WorkspaceError;
use super::book::Book;
use super::{Directories, Owner};
use crate::config::UidRange;
use crate::conversation::ConversationKey;

/// The directory of locks.
const LOCKS: &str = ".uids";
/// When no user is free, all directories are looked at again, but no more often than this: that takes a moment for each
/// ten thousand, and everybody may ask.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The users of conversations.
#[derive(Debug)]
pub(in super::super) struct Own {
    range: UidRange,
    locks: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    book: Book,
    /// Those of our slices. They are held as long as these are open.
    held: Vec<OwnedFd>,
    looked: Option<Instant>,
}

/// The books, while directories change their names.
#[derive(Debug)]
pub(in super::super) struct Books<'a>(MutexGuard<'a, State>);

impl Books<'_> {
    /// The directory of this user has another name now.
    pub(in super::super) fn rename(&mut self, uid: u32, from: &str, to: &str) {
        self.0.book.rename(uid, from, to);
    }

    /// The directory is gone, with everything in it.
    pub(in super::super) fn release(&mut self, uid: u32, name: &str) {
        self.0.book.release(uid, name);
    }
}

impl Own {
    pub(in super::super) fn open(
        range: UidRange,
        opener: Opener,
        root: BorrowedFd<'_>,
    ) -> Result<Self> {
        match mkdirat(root, LOCKS, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let locks = opener.folder(root, [LOCKS.as_bytes()])?;
        fchmod(&locks, Mode::RWXU)?;
        Ok(Self {
            range,
            locks,
            state: Mutex::new(State {
                book: Book::new(range),
                held: Vec::new(),
                looked: None,
            }),
        })
    }

    pub(in super::super) fn range(&self) -> UidRange {
        self.range
    }

    pub(super) fn books(&self) -> Books<'_> {
        Books(self.state.lock())
    }

    /// As for [`Users::settle`](super::Users::settle).
    pub(super) fn settle(
        &self,
        places: Directories<'_>,
        dir: BorrowedFd<'_>,
        name: &str,
    ) -> std::result::Result<(Owner, bool), WorkspaceError> {
        let mut state = self.state.lock();
        // Not before: somebody else may just have given it away.
        let stat = fstat(dir).map_err(WorkspaceError::of("examine a folder"))?;
        let is_its_own = self
            .is_its_own(&mut state, places, stat.st_uid, name)
            .map_err(WorkspaceError::of("see who has which user"))?;
        if is_its_own {
            return Ok((Owner::alone(stat.st_uid), stat.st_gid == stat.st_uid));
        }
        let uid = self
            .take(&mut state, places, name)
            .map_err(WorkspaceError::of("reserve user ids"))?
            .ok_or(WorkspaceError::NoUserLeft { uids: self.range })?;
        let owner = Owner::alone(uid);
        // Before anybody else sees the books: a directory without its user would seem to have lost it.
        if let Err(error) = owner.unfinished().take(dir) {
            state.book.release(uid, name);
            return Err(WorkspaceError::of("set the owner of a folder")(error));
        }
        Ok((owner, false))
    }

    /// Whether the directory `name`, which belongs to `uid`, shares that user with no other.
    fn is_its_own(
        &self,
        state: &mut State,
        places: Directories<'_>,
        uid: u32,
        name: &str,
    ) -> Result<bool> {
        if !self.range.contains(uid) {
            return Ok(false);
        }
        if state.book.holder(uid).is_none() {
            // Another server made it, or it came out of a backup.
            look(state, places)?;
        }
        match state.book.holder(uid) {
            Some(holder) if holder == name => Ok(true),
            Some(holder) if has(places, holder, uid) => Ok(false),
            _ => {
                state.book.hold(uid, name);
                Ok(true)
            }
        }
    }

    /// A user that nobody has. `None` if there is none.
    fn take(&self, state: &mut State, places: Directories<'_>, name: &str) -> Result<Option<u32>> {
        loop {
            if let Some(uid) = state.book.take(name) {
                return Ok(Some(uid));
            }
            if !self.reserve(state, places)? {
                break;
            }
        }
        if state.looked.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
            return Ok(None);
        }
        // Another server may have deleted some, unless it is still doing that.
        state.book.retain(|name, uid| has(places, name, uid));
        look(state, places)?;
        state.looked = Some(Instant::now());
        Ok(state.book.take(name))
    }

    /// Reserves another slice. False when there is none left.
    fn reserve(&self, state: &mut State, places: Directories<'_>) -> Result<bool> {
        for slice in state.book.other_slices() {
            // NFS locks for one alone only what is open for writing (flock(2)).
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            let lock = openat(&self.locks, slice.to_string(), flags, mode)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => continue,
                Err(error) => return Err(error),
            }
            // Another server had it before, perhaps.
            look(state, places)?;
            state.book.add(slice);
            state.held.push(lock);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Looks for directories that have users. Those of conversations count before those that are being made or deleted.
fn look(state: &mut State, places: Directories<'_>) -> Result<()> {
    let is_key = |name: &String| name.parse::<ConversationKey>().is_ok();
    let conversations = names(places.opener, places.root)?
        .into_iter()
        .filter(is_key);
    let private = names(places.opener, places.private)?;
    let found = conversations.map(|name| (places.root, name));
    let found = found.chain(private.into_iter().map(|name| (places.private, name)));
    for (dir, name) in found {
        if let Ok(stat) = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            state.book.found(stat.st_uid, &name);
        }
    }
    Ok(())
}

/// Whether there is such a directory, and it has that user.
fn has(places: Directories<'_>, name: &str, uid: u32) -> bool {
    [places.root, places.private].iter().any(|dir| {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_uid == uid)
    })
}
