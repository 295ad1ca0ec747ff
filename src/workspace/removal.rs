//! Deletes a directory tree of any shape, while a program may still be changing it.
//!
//! The tree is moved into the private directory, and its top serves as the queue: the files in a folder of the top are
//! unlinked, the folders in it that are not empty are moved up into the top, and the entries of the top are deleted in
//! turn. So the depth of a tree does not matter, few directories are open at a time, nothing is kept in memory, and no
//! name has more than one part. Nothing is made, for which a full disk would have no room. What a crash leaves behind
//! is found in the private directory at the next start.
//!
//! A program may make entries as fast as they are deleted, for as long as it lives. So a tree is deleted in parts, with
//! other deletions in between, and counts as endlessly refilled once far more was deleted than it can have had.

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, fchmod, fstat, renameat, unlinkat};
use rustix::io::{Errno, Result};

use super::beneath::{Opener, is_miss};
use super::entries::{for_each_entry, names};
use super::random_name;
use super::walk::gone_is_none;

/// Entries deleted in one part of the work, which takes well under a second.
const PART: u64 = 10_000;

/// A tree that was taken out of sight and waits to be deleted.
#[derive(Debug)]
pub(super) struct Staging {
    opener: Opener,
    private: OwnedFd,
    name: String,
    dir: OwnedFd,
    /// Whom it belonged to when it was taken out of sight.
    uid: u32,
    /// How much was deleted or moved up so far.
    done: u64,
    /// The value of `done` at which this part ends.
    until: u64,
    /// More than there can be in a tree that is not being refilled.
    max_entries: u64,
}

/// How far the deletion of a tree has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Something is left, to be deleted in the next part.
    Partly,
    /// Nothing but the top is left.
    Emptied,
}

/// Deletes whatever an earlier process left in the private directory, up to `max_entries` entries of each tree.
///
/// # Errors
/// The last failure; the rest is deleted.
pub(super) fn clear(opener: Opener, private: BorrowedFd<'_>, max_entries: u64) -> Result<()> {
    let mut last = Ok(());
    for name in names(opener, private)? {
        let deleted = match unlinkat(private, &name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                Staging::open(opener, private, name, max_entries).and_then(|mut tree| tree.delete())
            }
            result => gone_is_none(result).map(drop),
        };
        last = deleted.and(last);
    }
    last
}

/// Moves the directory `name` from `dir` into `private`, as a tree of fewer than `max_entries` entries. `None` when
/// there is none.
pub(super) fn stage(
    opener: Opener,
    private: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &[u8],
    max_entries: u64,
) -> Result<Option<Staging>> {
    // Everything that can fail comes before the move: what is out of sight needs somebody to delete it.
    let private_handle = private.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let Some(handle) = gone_is_none(opener.folder(dir, [name]))? else {
        return Ok(None);
    };
    let staged = random_name();
    let moved = gone_is_none(move_folder(opener, dir, name, private, &staged))?;
    Ok(moved.map(|()| {
        // The one opened first may have been moved away and made anew since.
        let dir = opener.folder(private, [staged.as_bytes()]);
        let dir = dir.unwrap_or(handle);
        Staging {
            opener,
            private: private_handle,
            uid: owner(&dir),
            dir,
            name: staged,
            done: 0,
            until: 0,
            max_entries,
        }
    }))
}

impl Staging {
    fn open(
        opener: Opener,
        private: BorrowedFd<'_>,
        name: String,
        max_entries: u64,
    ) -> Result<Self> {
        let dir = opener.folder(private, [name.as_bytes()])?;
        Ok(Self {
            opener,
            private: private.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            uid: owner(&dir),
            dir,
            name,
            done: 0,
            until: 0,
            max_entries,
        })
    }

    /// Its name in the private directory.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whom it belonged to when it was taken out of sight.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Deletes everything in it, and then itself. After a failure it can be tried again.
    ///
    /// # Errors
    /// As for [`delete_part`](Self::delete_part).
    pub(super) fn delete(&mut self) -> Result<()> {
        while self.delete_part()? == Progress::Partly {}
        unlinkat(&self.private, &self.name, AtFlags::REMOVEDIR)
    }

    /// Deletes some of what is in it, or all of it but not itself. After a failure it can be tried again.
    ///
    /// # Errors
    /// The last failure, if nothing that is left can be deleted: a running program refills it, or the kernel refuses.
    /// Also `NOTEMPTY`, if so much was deleted that a program must be refilling it just as fast.
    pub(super) fn delete_part(&mut self) -> Result<Progress> {
        make_writable(self.dir.as_fd());
        self.until = self.done + PART.min(self.max_entries);
        loop {
            let before = self.done;
            // Within a pass, reading goes on after each deletion: starting over would go through all the places that
            // deletions have emptied.
            let dir = self.opener.folder(self.dir.as_fd(), [&b"."[..]])?;
            let emptied = self.for_all(dir.as_fd(), |tree, _, name| tree.delete_entry(name));
            if self.done == before {
                return emptied.map(|()| Progress::Emptied);
            }
            if self.done >= self.until {
                return if self.done < self.max_entries {
                    Ok(Progress::Partly)
                } else {
                    Err(Errno::NOTEMPTY)
                };
            }
        }
    }

    /// Deletes a file, or a directory after moving up the directories in it.
    fn delete_entry(&mut self, name: &[u8]) -> Result<()> {
        let dir = match self.opener.folder(self.dir.as_fd(), [name]) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let unlinked = unlinkat(&self.dir, name, AtFlags::empty());
                return self.count(unlinked);
            }
            dir => dir?,
        };
        make_writable(dir.as_fd());
        self.for_all(dir.as_fd(), |tree, kind, name| {
            let how = match kind {
                FileType::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            match unlinkat(&dir, name, how) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR) => {
                    tree.move_up(dir.as_fd(), name)
                }
                result => tree.count(result),
            }
        })?;
        let removed = unlinkat(&self.dir, name, AtFlags::REMOVEDIR);
        self.count(removed)
    }

    /// Calls `act` with the kind and name of each entry of `dir`, even after failures, until this part is done. Returns
    /// the last failure.
    fn for_all(
        &mut self,
        dir: BorrowedFd<'_>,
        mut act: impl FnMut(&mut Self, FileType, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut last = Ok(());
        let _ = for_each_entry(dir, |entry| {
            if let Err(error) = act(self, entry.file_type(), entry.file_name().to_bytes()) {
                last = Err(error);
            }
            Ok(if self.done < self.until {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        last
    }

    fn move_up(&mut self, from: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let to = random_name();
        let moved = move_folder(self.opener, from, name, self.dir.as_fd(), &to);
        self.count(moved)
    }

    /// Counts what was done. What is already gone is not a failure.
    fn count(&mut self, result: Result<()>) -> Result<()> {
        self.done += u64::from(gone_is_none(result)?.is_some());
        Ok(())
    }
}

/// Whom a directory belongs to; root if the operating system does not say.
fn owner(dir: &OwnedFd) -> u32 {
    fstat(dir).map_or(0, |stat| stat.st_uid)
}

/// Deleting takes write permission. Failures are ignored: root needs none, and for others the deletion itself fails.
fn make_writable(dir: BorrowedFd<'_>) {
    let _ = fchmod(dir, Mode::RWXU);
}

/// Moving a directory changes its `..`, which takes write permission on the directory itself.
fn move_folder(
    opener: Opener,
    from: BorrowedFd<'_>,
    name: &[u8],
    to: BorrowedFd<'_>,
    to_name: &str,
) -> Result<()> {
    match renameat(from, name, to, to_name) {
        Err(Errno::ACCESS) => {
            opener.grant_access(from, [name])?;
            renameat(from, name, to, to_name)
        }
        result => result,
    }
}

/// Deletes the folder `name` in `dir` where it is, with at most `max_entries` entries. False when there is none.
///
/// What is in it stays within the workspace until it is gone, so that it counts there, whatever a program still does.
///
/// # Errors
/// `NOTEMPTY`, if a program refills it.
pub(super) fn delete_in_place(
    opener: Opener,
    dir: BorrowedFd<'_>,
    name: &str,
    max_entries: u64,
) -> Result<bool> {
    match Staging::open(opener, dir, name.to_owned(), max_entries) {
        Err(error) if is_miss(error) => Ok(false),
        tree => gone_is_none(tree?.delete()).map(|_| true),
    }
}
