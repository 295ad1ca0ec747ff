//! Moves what has a name to one that nothing has, or exchanges two names, on every file system.
//!
//! `renameat2` does either in one step. NFS, Ceph, 9p and many file systems in user space answer EINVAL to its flags,
//! SMB to the exchange. There each move takes several steps, chosen for who could come in between:
//!
//! | move | steps | in between |
//! |---|---|---|
//! | [`move_file`](Moves::move_file) | link to the new name, unlink the old | the file has both names |
//! | [`move_folder`](Moves::move_folder) | make an empty directory, replace it | the new name is an empty directory |
//! | [`move_unguarded`](Moves::move_unguarded) | look, rename | something may come, and be replaced |
//! | [`exchange`](Moves::exchange) | move aside, rename, move back | one of the names is missing |
//!
//! Every call asks the file system anew. It costs one system call, and one root may be on several of them.

use std::os::fd::BorrowedFd;

use parking_lot::{RwLock, RwLockReadGuard};
use rustix::fs::{
    AtFlags, FileType, Mode, RenameFlags, Stat, linkat, mkdirat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use super::random_name;

/// A name in an open directory.
pub(crate) type At<'a, N = &'a str> = (BorrowedFd<'a>, N);

/// Moves names on one root.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Held alone from when an empty directory reserves a name until the right one has taken its place.
    reserving: RwLock<()>,
    /// Behaves as where the file system does not know the flags, for tests.
    pub(super) is_plain: bool,
}

impl Moves {
    /// Moves a file to a name that nothing has.
    ///
    /// Of many who move to the same name at once one succeeds, and nothing is ever replaced. A program that can write
    /// to the old name may put something else there in between: that stays, except in the moment between the last look
    /// and the removal, in which it goes as if it had come before the move. A crash leaves both names.
    ///
    /// # Errors
    /// `EXIST` if the name is taken. `ISDIR` may come for a directory, and else one is moved too.
    pub(crate) fn move_file<N: Arg + Copy>(&self, from: At<'_, N>, to: At<'_, N>) -> Result<()> {
        if let Some(done) = self.at_once(from, to, RenameFlags::NOREPLACE) {
            return done;
        }
        let file = look(from)?;
        if FileType::from_raw_mode(file.st_mode) == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        linkat(from.0, from.1, to.0, to.1, AtFlags::empty())
            .map_err(|error| why_not_linked(error, from, &file))?;
        // A program may have put something else there before it was linked.
        let linked = look(to).unwrap_or(file);
        match unlink_if(from, &linked) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => {
                let _ = unlink_if(to, &linked);
                Err(error)
            }
        }
    }

    /// Moves a directory to a name that nothing has, where only servers can write to both.
    ///
    /// A directory that somebody else made is never replaced: making the empty one fails then. Who opens by
    /// [`settled`](Self::settled) does not get the empty one. Another server may: it then has a directory that was
    /// deleted, as it may in any case when the conversation is, and makes do the same way. What it wrote there by then
    /// stays, and the move fails. A crash leaves the empty directory, which is a workspace like any other.
    ///
    /// # Errors
    /// `EXIST` if the name is taken.
    pub(super) fn move_folder(&self, from: At<'_>, to: At<'_>) -> Result<()> {
        if let Some(done) = self.at_once(from, to, RenameFlags::NOREPLACE) {
            return done;
        }
        // Mostly there is no directory of another server's, and nothing has to be made.
        look(from)?;
        let _alone = self.reserving.write();
        mkdirat(to.0, to.1, Mode::RWXU)?;
        renameat(from.0, from.1, to.0, to.1).map_err(|error| {
            // Fails if something was written there.
            let _ = unlinkat(to.0, to.1, AtFlags::REMOVEDIR);
            taken(error)
        })
    }

    /// Keeps names from being reserved: every directory that is opened meanwhile is the right one.
    pub(super) fn settled(&self) -> RwLockReadGuard<'_, ()> {
        self.reserving.read()
    }

    /// Moves anything to a name that nothing has, where it does no harm to replace what comes there at that moment.
    ///
    /// What can be replaced is an empty directory by a directory, and a file or link by one.
    ///
    /// # Errors
    /// `EXIST` if the name is taken.
    pub(super) fn move_unguarded(&self, from: At<'_>, to: At<'_>) -> Result<()> {
        if let Some(done) = self.at_once(from, to, RenameFlags::NOREPLACE) {
            return done;
        }
        match look(to) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(from.0, from.1, to.0, to.1).map_err(taken),
            Err(error) => Err(error),
        }
    }

    /// Puts `new` in the place of whatever is at `old`, and that where `new` was. The directory of `new` is private, or
    /// deleted afterwards: what is moved aside is there, under a random name.
    ///
    /// If a step fails, those before it are taken back. Only if a program has put something at `old` meanwhile does
    /// what was there stay aside.
    ///
    /// # Errors
    /// `NOENT` if there is nothing at `old`, and `EXIST` if something came there in between.
    pub(super) fn exchange(&self, new: At<'_>, old: At<'_>) -> Result<()> {
        if let Some(done) = self.at_once(new, old, RenameFlags::EXCHANGE) {
            return done;
        }
        let name = random_name();
        let aside = (new.0, name.as_str());
        let rename = |from: At<'_>, to: At<'_>| renameat(from.0, from.1, to.0, to.1);
        rename(old, aside)?;
        if let Err(error) = rename(new, old) {
            let _ = self.move_unguarded(aside, old);
            return Err(taken(error));
        }
        rename(aside, new).inspect_err(|_| {
            let _ = rename(old, new);
            let _ = self.move_unguarded(aside, old);
        })
    }

    /// Renames in one step. `None` where the file system cannot do that.
    fn at_once<N: Arg>(
        &self,
        from: At<'_, N>,
        to: At<'_, N>,
        how: RenameFlags,
    ) -> Option<Result<()>> {
        if self.is_plain {
            return None;
        }
        match renameat_with(from.0, from.1, to.0, to.1, how) {
            // Also when a directory would go into itself: a rename without flags fails just so.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => None,
            done => Some(done),
        }
    }
}

fn look<N: Arg>(at: At<'_, N>) -> Result<Stat> {
    statat(at.0, at.1, AtFlags::SYMLINK_NOFOLLOW)
}

/// Why what was a file a moment ago cannot be linked: `PERM` comes for a directory, which a program may have put there.
fn why_not_linked<N: Arg + Copy>(error: Errno, from: At<'_, N>, file: &Stat) -> Errno {
    if error != Errno::PERM {
        return error;
    }
    match look(from) {
        Err(gone) => gone,
        Ok(now) if FileType::from_raw_mode(now.st_mode) == FileType::Directory => Errno::ISDIR,
        Ok(now) if now.st_ino != file.st_ino => Errno::NOENT,
        Ok(_) => error,
    }
}

/// Removes a name if it is still that file's.
fn unlink_if<N: Arg + Copy>(at: At<'_, N>, file: &Stat) -> Result<()> {
    let there = look(at)?;
    if (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino) {
        unlinkat(at.0, at.1, AtFlags::empty())
    } else {
        Ok(())
    }
}

/// What a rename without flags answers when something is in the way that it does not replace.
fn taken(error: Errno) -> Errno {
    match error {
        Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR => Errno::EXIST,
        error => error,
    }
}
