//! Whom the files of conversations belong to: one user for all, or for each a user of its own (`SANDBOX_UIDS`).
//!
//! The kernel counts much by user: inotify instances, bytes in POSIX message queues, pages of pipes, open files on
//! their way through sockets, pending signals. Programs of one user take these from one another, whatever separates
//! them otherwise.

mod book;
mod own;
mod proof;

use std::os::fd::BorrowedFd;

use rustix::fs::{Gid, Uid, fchown, fstat};
use rustix::process::{getegid, geteuid};
use thiserror::Error;

pub(super) use self::own::Own;
pub(super) use self::proof::prove;
use super::beneath::Opener;
use super::error::WorkspaceError;
use crate::config::UidRange;

/// Where directories of conversations are: with their names, and those that are being made or deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directories<'a> {
    pub(super) opener: Opener,
    pub(super) root: BorrowedFd<'a>,
    pub(super) private: BorrowedFd<'a>,
}

/// The owner of files: the user that programs run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    /// 1000:1000 if the server is root and so can give files away, else the server's own user and group.
    pub fn for_this_process() -> Self {
        let (uid, gid) = (geteuid(), getegid());
        if uid.is_root() {
            Self::alone(1000)
        } else {
            Self {
                uid: uid.as_raw(),
                gid: gid.as_raw(),
            }
        }
    }

    /// A user whose group has the same number.
    pub(super) const fn alone(uid: u32) -> Self {
        Self { uid, gid: uid }
    }

    /// Gives what is open to this owner.
    pub(super) fn take(self, opened: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        fchown(opened, Some(uid), Some(gid))
    }
}

/// Who owns the files of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// One user owns all.
    One(Owner),
    /// Each conversation has one of these for itself.
    Own(UidRange),
}

impl From<Owner> for Owners {
    fn from(owner: Owner) -> Self {
        Self::One(owner)
    }
}

impl Owners {
    /// Those of this process with a setting.
    ///
    /// # Errors
    /// Only root can give files away.
    pub fn for_this_process(uids: Option<UidRange>) -> Result<Self, UidsError> {
        let server = Owner::for_this_process();
        match uids {
            None => Ok(Self::One(server)),
            Some(uids) if geteuid().is_root() => Ok(Self::Own(uids)),
            Some(uids) => Err(UidsError::NotRoot {
                uids,
                user: server.uid,
            }),
        }
    }
}

/// Why conversations cannot have users of their own here.
#[derive(Debug, Error)]
pub enum UidsError {
    /// The server is not root.
    #[error(
        "SANDBOX_UIDS={uids} is not valid: the server is user {user}, and only root can give files to other users. \
         Leave SANDBOX_UIDS out, or run the server as root"
    )]
    NotRoot {
        /// The setting.
        uids: UidRange,
        /// Who the server is.
        user: u32,
    },
    /// The kernel or the file system refused.
    #[error(
        "SANDBOX_UIDS={uids} is not valid: the server cannot {operation} below SANDBOX_ROOT. It needs the \
         capabilities CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER, a user namespace that has these ids, and a file \
         system that keeps owners, as those of networks and of Docker Desktop may not. Leave SANDBOX_UIDS out where one of them is missing"
    )]
    Refused {
        /// The setting.
        uids: UidRange,
        /// What was tried.
        operation: &'static str,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

/// [`Owners`] at work.
#[derive(Debug)]
pub(super) enum Users {
    One(Owner),
    Own(Own),
}

impl Users {
    /// Whom a conversation's directory belongs to that is in use. No program can change that.
    pub(super) fn of(&self, dir: BorrowedFd<'_>) -> Result<Owner, WorkspaceError> {
        match self {
            Self::One(owner) => Ok(*owner),
            Self::Own(_) => {
                let stat = fstat(dir)
                    .map_err(WorkspaceError::of("examine the conversation's directory"))?;
                Ok(Owner::alone(stat.st_uid))
            }
        }
    }

    /// Gives the directory `name` to the owner that it is to have, without what is in it. Returns that owner, and
    /// whether everything in it is its own already.
    pub(super) fn settle(
        &self,
        places: Directories<'_>,
        dir: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(Owner, bool), WorkspaceError> {
        let own = match self {
            Self::Own(own) => return own.settle(places, dir, name),
            Self::One(owner) => *owner,
        };
        let stat = fstat(dir).map_err(WorkspaceError::of("examine a folder"))?;
        if (stat.st_uid, stat.st_gid) == (own.uid, own.gid) {
            return Ok((own, true));
        }
        // Who is not root owns all that it can reach.
        let is_whole = !geteuid().is_root();
        let first = if is_whole { own } else { own.unfinished() };
        first
            .take(dir)
            .map_err(WorkspaceError::of("set the owner of a folder"))?;
        Ok((own, is_whole))
    }

    /// The books on who has which user, for changes of names. Nobody is given a user while they are held.
    pub(super) fn books(&self) -> Option<own::Books<'_>> {
        match self {
            Self::One(_) => None,
            Self::Own(own) => Some(own.books()),
        }
    }
}

impl Owner {
    /// Marks a directory whose contents still have to be given to this owner. Programs of the owner never have the
    /// group, so nothing else looks like this.
    const fn unfinished(self) -> Self {
        Self {
            uid: self.uid,
            gid: 0,
        }
    }
}
