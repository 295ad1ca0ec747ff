//! Deletes a directory tree of any shape, while a program may still be changing it.
//!
//! The tree is moved into the private directory, and its top serves as the queue: the files in a folder of the top are
//! unlinked, and the folders in it that are not empty are moved up into the top, whose entries are deleted in turn.
//! So the depth of a tree does not matter, few directories are open at a time, nothing is kept in memory, no name
//! has more than one part, nothing is made, for which a full disk would have no room, and what a crash leaves behind is
//! found in the private directory at the next start.

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, fchmod, renameat, unlinkat};
use rustix::io::{Errno, Result};

use super::beneath::Opener;
use super::entries::{for_each_entry, names};
use super::random_name;
use super::walk::gone_is_none;

/// A tree that was taken out of sight and waits to be deleted.
#[derive(Debug)]
pub(super) struct Staging {
    opener: Opener,
    private: OwnedFd,
    name: String,
    dir: OwnedFd,
    /// What was deleted or moved up so far.
    done: u64,
}

/// Deletes whatever an earlier process left in the private directory.
///
/// # Errors
/// The last one: the rest is deleted.
pub(super) fn clear(opener: Opener, private: BorrowedFd<'_>) -> Result<()> {
    let mut last = Ok(());
    for name in names(opener, private)? {
        let deleted = match unlinkat(private, &name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                Staging::open(opener, private, name).and_then(|mut tree| tree.delete())
            }
            result => gone_is_none(result).map(drop),
        };
        last = deleted.and(last);
    }
    last
}

/// Moves the directory `name` from `dir` into `private`. `None` when there is none.
pub(super) fn stage(
    opener: Opener,
    private: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &[u8],
) -> Result<Option<Staging>> {
    // All that can fail comes before the move: what is out of sight has to have somebody who deletes it.
    let private_handle = private.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let Some(handle) = gone_is_none(opener.folder(dir, [name]))? else {
        return Ok(None);
    };
    let staged = random_name();
    let moved = gone_is_none(move_folder(opener, dir, name, private, &staged))?;
    Ok(moved.map(|()| Staging {
        opener,
        private: private_handle,
        // Somebody else may have moved the first one away, and it was made anew.
        dir: opener
            .folder(private, [staged.as_bytes()])
            .unwrap_or(handle),
        name: staged,
        done: 0,
    }))
}

impl Staging {
    fn open(opener: Opener, private: BorrowedFd<'_>, name: String) -> Result<Self> {
        Ok(Self {
            opener,
            private: private.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
            dir: opener.folder(private, [name.as_bytes()])?,
            name,
            done: 0,
        })
    }

    /// Deletes everything in it, and then itself. After a failure it can be tried again.
    ///
    /// # Errors
    /// The last one, when all that is left cannot be deleted: a running program refills it, or the kernel refuses.
    pub(super) fn delete(&mut self) -> Result<()> {
        make_writable(self.dir.as_fd());
        loop {
            let before = self.done;
            // Each pass reads on where it was: starting afresh would go over all the places that deletions have
            // emptied.
            let dir = self.opener.folder(self.dir.as_fd(), [&b"."[..]])?;
            let emptied = for_all(dir.as_fd(), |_, name| self.delete_entry(name));
            if self.done == before {
                emptied?;
                return unlinkat(&self.private, &self.name, AtFlags::REMOVEDIR);
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
        for_all(dir.as_fd(), |kind, name| {
            let how = match kind {
                FileType::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            match unlinkat(&dir, name, how) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR) => {
                    self.move_up(dir.as_fd(), name)
                }
                result => self.count(result),
            }
        })?;
        let removed = unlinkat(&self.dir, name, AtFlags::REMOVEDIR);
        self.count(removed)
    }

    fn move_up(&mut self, from: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let to = random_name();
        let moved = move_folder(self.opener, from, name, self.dir.as_fd(), &to);
        self.count(moved)
    }

    /// Takes down what was done. What is gone already needs nothing.
    fn count(&mut self, result: Result<()>) -> Result<()> {
        self.done += u64::from(gone_is_none(result)?.is_some());
        Ok(())
    }
}

/// Deleting takes write permission; as root, or when it fails, that does not matter.
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

/// Calls `act` with kind and name of everything in `dir`, also after failures, and gives the last one.
fn for_all(dir: BorrowedFd<'_>, mut act: impl FnMut(FileType, &[u8]) -> Result<()>) -> Result<()> {
    let mut last = Ok(());
    let _ = for_each_entry(dir, |entry| {
        if let Err(error) = act(entry.file_type(), entry.file_name().to_bytes()) {
            last = Err(error);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    last
}
