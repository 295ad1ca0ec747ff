//! Gives directories that programs have as `/data`, and folders in them, the owner and the mode that they are to have.

use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, fchmod, fstat};

use super::error::WorkspaceError;
use super::handover::hand_over;
use super::owners::{Owner, Users};
use super::store::{Store, WORKSPACE_MODE};

/// How many times the limit on entries is given to another owner. A program can have made somewhat more.
const MOST_GIVEN: u64 = 2;

impl Store {
    /// Gives the directory `name`, with everything in it, the owner that it is to have, and the mode.
    pub(super) fn settle(&self, dir: BorrowedFd<'_>, name: &str) -> Result<Owner, WorkspaceError> {
        let (owner, is_whole) = self.users.settle(self.directories(), dir, name)?;
        set_mode(dir)?;
        if !is_whole {
            let max_entries = self.limits.max_entries.saturating_mul(MOST_GIVEN);
            let given = hand_over(self.opener, dir, owner, max_entries)
                .map_err(WorkspaceError::of("give files to the conversation's user"))?;
            if !given.complete {
                return Err(WorkspaceError::TooManyEntries {
                    limit: self.limits.max_entries,
                });
            }
            if given.left > 0 {
                let (directory, files) = (name.get(..12), given.left);
                tracing::warn!(
                    directory,
                    files,
                    "files of a conversation stay with another user: they are immutable, or have names elsewhere"
                );
            }
            // Last, so that a move that was interrupted goes on at the next use.
            owner
                .take(dir)
                .map_err(WorkspaceError::of("set the owner of a folder"))?;
        }
        Ok(owner)
    }

    /// Lets us into a workspace, or a folder of it, again after its program has locked everybody out.
    pub(super) fn make_accessible(&self, dir: BorrowedFd<'_>) -> Result<(), WorkspaceError> {
        let stat =
            fstat(dir).map_err(WorkspaceError::of("examine the conversation's directory"))?;
        match &self.users {
            _ if stat.st_mode & 0o700 == 0o700 => Ok(()),
            Users::One(owner) => owner.take_over(dir),
            // Programs cannot change it.
            Users::Own(_) => set_mode(dir),
        }
    }
}

impl Owner {
    /// Gives a folder of a workspace this owner, and the mode.
    pub(super) fn take_over(self, folder: BorrowedFd<'_>) -> Result<(), WorkspaceError> {
        let stat = fstat(folder).map_err(WorkspaceError::of("examine a folder"))?;
        if (stat.st_uid, stat.st_gid) != (self.uid, self.gid) {
            self.take(folder)
                .map_err(WorkspaceError::of("set the owner of a folder"))?;
        }
        set_mode(folder)
    }
}

/// Sets the mode of a workspace or of a folder in it.
fn set_mode(folder: BorrowedFd<'_>) -> Result<(), WorkspaceError> {
    let stat = fstat(folder).map_err(WorkspaceError::of("examine a folder"))?;
    if stat.st_mode & 0o7777 == WORKSPACE_MODE {
        return Ok(());
    }
    fchmod(folder, Mode::from_raw_mode(WORKSPACE_MODE))
        .map_err(WorkspaceError::of("set the mode of a folder"))
}
