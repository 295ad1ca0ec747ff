//! Reads directories.

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{RawDir, RawDirEntry};
use rustix::io::{Errno, Result};

use super::beneath::Opener;

/// Room for the entries that one system call returns, a few hundred.
const BUFFER_BYTES: usize = 32 << 10;

/// Shows `visit` the entries of a directory that was just opened, in no particular order, until it breaks or fails.
pub(super) fn for_each_entry(
    dir: BorrowedFd<'_>,
    mut visit: impl FnMut(&RawDirEntry<'_>) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // The directory was deleted, here or by another machine.
            Err(Errno::NOENT | Errno::STALE) => break,
            entry => entry?,
        };
        let is_itself = entry.file_name() == c"." || entry.file_name() == c"..";
        if !is_itself && visit(&entry)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The names in a directory that are valid UTF-8.
pub(super) fn names(opener: Opener, dir: BorrowedFd<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let dir = opener.folder(dir, [&b"."[..]])?;
    let _ = for_each_entry(dir.as_fd(), |entry| {
        names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(names)
}
