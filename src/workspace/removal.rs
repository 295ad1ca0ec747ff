//! Deletes a directory tree of any shape, while a program may still be changing it.
//!
//! A private *staging* directory serves as the queue. To delete a directory, its files are unlinked and the
//! directories in it that are not empty are moved up into the staging directory, whose entries are deleted in turn.
//! So the depth of a tree does not matter, few directories are open at a time, nothing is kept in memory, no name
//! has more than one part, and what a crash leaves behind is found in the private directory at the next start.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, RawDir, RawDirEntry, fchmod, mkdirat, renameat, unlinkat,
};
use rustix::io::{Errno, Result};

use super::beneath::Opener;
use super::random_name;
use super::walk::gone_is_none;

/// Room for the entries that one system call gives.
const BUFFER_BYTES: usize = 32 << 10;

/// A tree that was taken out of sight and waits to be deleted.
#[derive(Debug)]
pub(super) struct Staging {
    opener: Opener,
    private: OwnedFd,
    name: String,
    dir: OwnedFd,
    /// Name that the next directory gets here.
    next: u64,
}

/// Deletes whatever an earlier process left in the private directory.
///
/// # Errors
/// The last one, when it makes no progress any more.
pub(super) fn clear(opener: Opener, private: BorrowedFd<'_>) -> Result<()> {
    until_empty(opener, private, |name| {
        match unlinkat(private, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                stage(opener, private, private, name)?.map_or(Ok(()), |mut tree| tree.delete())
            }
            result => gone_is_none(result).map(drop),
        }
    })
}

/// Moves the directory `name` from `dir` into a new staging directory in `private`. `None` when there is none.
pub(super) fn stage(
    opener: Opener,
    private: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &[u8],
) -> Result<Option<Staging>> {
    let staging_name = random_name();
    mkdirat(private, &staging_name, Mode::RWXU)?;
    let staging = Staging {
        opener,
        private: private.try_clone_to_owned().map_err(|_| Errno::MFILE)?,
        dir: opener.folder(private, [staging_name.as_bytes()])?,
        name: staging_name,
        next: 1,
    };
    match gone_is_none(move_folder(opener, dir, name, staging.dir.as_fd(), "0")) {
        Ok(Some(())) => Ok(Some(staging)),
        nothing => {
            unlinkat(private, &staging.name, AtFlags::REMOVEDIR)?;
            nothing.map(|_| None)
        }
    }
}

impl Staging {
    /// Deletes everything in it, and then itself. After a failure it can be tried again.
    ///
    /// # Errors
    /// The last one, when it makes no progress any more: a running program refills it, or the kernel refuses.
    pub(super) fn delete(&mut self) -> Result<()> {
        let dir = self.dir.try_clone().map_err(|_| Errno::MFILE)?;
        until_empty(self.opener, dir.as_fd(), |name| self.delete_entry(name))?;
        unlinkat(&self.private, &self.name, AtFlags::REMOVEDIR)
    }

    /// Deletes a file, or a directory after moving up the directories in it.
    fn delete_entry(&mut self, name: &[u8]) -> Result<()> {
        let dir = match self.opener.folder(self.dir.as_fd(), [name]) {
            Err(Errno::NOTDIR | Errno::LOOP) => return unlinkat(&self.dir, name, AtFlags::empty()),
            dir => dir?,
        };
        // Deleting takes write permission; as root, or when it fails, that does not matter.
        let _ = fchmod(&dir, Mode::RWXU);
        for_each_entry(dir.as_fd(), |entry| {
            let (name, at) = (entry.file_name().to_bytes(), dir.as_fd());
            if entry.file_type() == FileType::Directory {
                return match unlinkat(at, name, AtFlags::REMOVEDIR) {
                    Err(_) => self.move_up(at, name),
                    result => result,
                };
            }
            match unlinkat(at, name, AtFlags::empty()) {
                Err(Errno::ISDIR) => self.move_up(at, name),
                result => gone_is_none(result).map(drop),
            }
        })?;
        unlinkat(&self.dir, name, AtFlags::REMOVEDIR)
    }

    fn move_up(&mut self, from: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let to = self.next.to_string();
        self.next += 1;
        gone_is_none(move_folder(self.opener, from, name, self.dir.as_fd(), &to)).map(drop)
    }
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

/// Calls `delete` for everything in `dir`, over and over until nothing is left, or nothing can be deleted.
///
/// Each pass reads on where it was: starting afresh would go over all the places that deletions have emptied.
fn until_empty(
    opener: Opener,
    dir: BorrowedFd<'_>,
    mut delete: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let (mut deleted, mut failure) = (false, None);
        for_each_entry(opener.folder(dir, [&b"."[..]])?.as_fd(), |entry| {
            match delete(entry.file_name().to_bytes()) {
                Ok(()) => deleted = true,
                Err(error) => failure = Some(error),
            }
            Ok(())
        })?;
        match (deleted, failure) {
            (true, _) => {}
            (false, Some(error)) => return Err(error),
            (false, None) => return Ok(()),
        }
    }
}

fn for_each_entry(
    dir: BorrowedFd<'_>,
    mut act: impl FnMut(&RawDirEntry<'_>) -> Result<()>,
) -> Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            act(&entry)?;
        }
    }
    Ok(())
}
