//! Goes through a directory tree that a hostile program made, and may be changing right now.
//!
//! Breadth first, so that what a person put at the top comes before what an installer put below. There is no
//! recursion and no directory stays open: memory grows with the directories seen, which the visitor bounds.

use std::cell::OnceCell;
use std::ffi::CStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use super::beneath::{Opener, is_miss};
use super::entries::for_each_entry;

/// What the visitor wants after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The entry after it.
    Entry,
    /// The same, and later what is in this directory.
    Enter,
    /// Nothing more.
    Stop,
}

/// Something in a directory.
#[derive(Debug)]
pub(super) struct Found<'a> {
    opener: Opener,
    /// The directory that it is in.
    dir: BorrowedFd<'a>,
    /// Names of the directories above, from `.` on.
    above: &'a [&'a [u8]],
    /// Its own name: any bytes but NUL and `/`.
    pub(super) name: &'a CStr,
    /// What it is.
    pub(super) kind: FileType,
    /// Parts of its path: 1 at the top of the workspace.
    pub(super) depth: usize,
    /// Once somebody has asked.
    stat: OnceCell<Option<Stat>>,
}

impl Found<'_> {
    /// Puts the path below the top in place of what is in `path`: any bytes but NUL.
    pub(super) fn put_path(&self, path: &mut Vec<u8>) {
        path.clear();
        for name in self.above() {
            path.extend_from_slice(name);
            path.push(b'/');
        }
        path.extend_from_slice(self.name.to_bytes());
    }

    /// Names of the directories that it is in, from the top down.
    pub(super) fn above(&self) -> &[&[u8]] {
        &self.above[1..]
    }

    /// Whether its own name is valid UTF-8.
    pub(super) fn has_utf8_name(&self) -> bool {
        self.name.to_str().is_ok()
    }

    /// Opens the entry itself, never what a link points at.
    pub(super) fn open(&self) -> Result<OwnedFd> {
        self.opener.entry(self.dir, self.name.to_bytes())
    }

    /// Facts about the entry itself, never about what a link points at. `None` if it has just gone, or its directory
    /// has just been made inaccessible.
    pub(super) fn stat(&self) -> Result<Option<Stat>> {
        if let Some(stat) = self.stat.get() {
            return Ok(*stat);
        }
        let stat = match self.opener.attributes.named(self.dir, self.name) {
            Err(Errno::ACCESS) => None,
            result => gone_is_none(result)?,
        };
        Ok(*self.stat.get_or_init(|| stat))
    }
}

/// A directory to look into, in a chain that leads up to the top.
struct Folder {
    parent: usize,
    depth: usize,
    name: Box<[u8]>,
}

/// Shows `visit` everything below `top`, level by level.
///
/// What disappears on the way, or cannot be opened, is left out.
pub(super) fn walk(
    opener: Opener,
    top: BorrowedFd<'_>,
    mut visit: impl FnMut(&Found<'_>) -> Result<Next>,
) -> Result<()> {
    let mut folders = vec![Folder {
        parent: 0,
        depth: 0,
        name: Box::from(*b"."),
    }];
    let mut current = 0;
    while current < folders.len() {
        let names = names(&folders, current);
        let depth = folders[current].depth + 1;
        let dir = match opener.folder(top, names.iter().copied()) {
            Err(error) if is_miss(error) => {
                current += 1;
                continue;
            }
            dir => dir?,
        };
        let mut entered = Vec::new();
        let seen = for_each_entry(dir.as_fd(), |entry| {
            let mut found = Found {
                opener,
                dir: dir.as_fd(),
                above: &names,
                name: entry.file_name(),
                kind: entry.file_type(),
                depth,
                stat: OnceCell::new(),
            };
            if found.kind == FileType::Unknown {
                let Some(stat) = found.stat()? else {
                    return Ok(ControlFlow::Continue(()));
                };
                found.kind = FileType::from_raw_mode(stat.st_mode);
            }
            match visit(&found)? {
                Next::Entry => {}
                Next::Enter => entered.push(Folder {
                    parent: current,
                    depth,
                    name: found.name.to_bytes().into(),
                }),
                Next::Stop => return Ok(ControlFlow::Break(())),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if seen.is_break() {
            return Ok(());
        }
        folders.append(&mut entered);
        current += 1;
    }
    Ok(())
}

/// The names that lead from the top, which is `.`, to a directory.
fn names(folders: &[Folder], mut at: usize) -> Vec<&[u8]> {
    let mut names = vec![&*folders[at].name];
    while at != 0 {
        at = folders[at].parent;
        names.push(&folders[at].name);
    }
    names.reverse();
    names
}

/// Turns the error for a missing entry into `None`.
pub(super) fn gone_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => Ok(None),
        Err(error) => Err(error),
    }
}
