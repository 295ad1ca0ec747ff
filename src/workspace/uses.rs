//! When conversations were last used.
//!
//! The time of the last use is that of a file `SANDBOX_ROOT/.used/<key>`, in a directory that no program sees. The
//! times of the workspace itself would not do: a program owns it and can set its modification time, and its status
//! change time shows neither a run that only reads nor a download. A note costs one system call, at most once a minute
//! for each conversation, on a thread that works on its files anyway; nothing is forced to the disk.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::SystemTime;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fchmod, mkdirat, openat, statat,
    unlinkat, utimensat,
};
use rustix::io::{Errno, Result};
use tokio::sync::Notify;

use super::beneath::Opener;
use super::book::Book;
pub(crate) use super::book::NOTE_EVERY;
use super::entries::names;
use super::walk::gone_is_none;
use super::{WorkspaceError, listing};
use crate::conversation::ConversationKey;

/// The times of what is used at this moment.
pub(super) const NOW: Timestamps = {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
};

/// Name of the directory of notes.
const USED: &str = ".used";

/// The notes, and the books of this process.
#[derive(Debug)]
pub(super) struct Uses {
    pub(super) notes: OwnedFd,
    book: Mutex<Book>,
    /// A conversation was taken away.
    pub(super) changed: Notify,
    /// All conversations together have grown beyond their limit.
    pub(super) over: Notify,
}

impl Uses {
    pub(super) fn open(
        opener: Opener,
        root: BorrowedFd<'_>,
    ) -> std::result::Result<Self, WorkspaceError> {
        match mkdirat(root, USED, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(WorkspaceError::of("write to SANDBOX_ROOT")(error)),
        }
        let notes = opener
            .folder(root, [USED.as_bytes()])
            .map_err(WorkspaceError::of("open the directory of last uses"))?;
        fchmod(&notes, Mode::RWXU).map_err(WorkspaceError::of(
            "set the mode of the directory of last uses",
        ))?;
        Ok(Self {
            notes,
            book: Mutex::default(),
            changed: Notify::new(),
            over: Notify::new(),
        })
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }

    /// Notes that a conversation is used now, unless that was done within the last minute.
    pub(super) fn note(&self, key: &ConversationKey) {
        let due = self.book().is_due(key, SystemTime::now());
        if due {
            self.try_to_note(key);
        }
    }

    /// Notes a use, if it can. A full disk has no room for a new note: then the sweep adds it. If an old one cannot be
    /// renewed, the conversation seems a little older than it is.
    fn try_to_note(&self, key: &ConversationKey) {
        if let Err(error) = self.write_note(key) {
            tracing::debug!(%error, "the use of a conversation was not noted");
        }
    }

    fn write_note(&self, key: &ConversationKey) -> Result<()> {
        match utimensat(&self.notes, key.as_str(), &NOW, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&self.notes, key.as_str(), flags, Mode::RUSR | Mode::WUSR).map(drop)
            }
            result => result,
        }
    }

    /// When a conversation was last used: now, if there is no note yet, as after an update from an older version.
    pub(super) fn last(&self, key: &ConversationKey) -> Result<SystemTime> {
        let stat = gone_is_none(statat(&self.notes, key.as_str(), AtFlags::SYMLINK_NOFOLLOW))?;
        if let Some(stat) = stat {
            return Ok(listing::modified(&stat).unwrap_or(SystemTime::UNIX_EPOCH));
        }
        self.try_to_note(key);
        Ok(SystemTime::now())
    }

    pub(super) fn forget(&self, key: &ConversationKey) {
        self.book().forget(key);
        // If this fails, the sweep removes the note.
        let _ = unlinkat(&self.notes, key.as_str(), AtFlags::empty());
    }
}

/// The conversations that have an entry in a directory.
pub(super) fn keys_in(opener: Opener, dir: BorrowedFd<'_>) -> Result<Vec<ConversationKey>> {
    let names = names(opener, dir)?;
    Ok(names
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .collect())
}
