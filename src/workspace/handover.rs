//! Gives everything in a directory to one owner, without being led astray by what a program left there.
//!
//! What is given is what was opened, not what has a name: each entry is opened in place, without following links or
//! crossing mounts, and the owner is set on the handle. Root could give anything, so it gives only what belongs to the
//! conversation for certain:
//!
//! - A directory, and a file of one name: there is no other way to it than through this conversation's directory.
//! - A file with more names if they are all in the directory. Programs see no other directory and cannot make links out
//!   of theirs, but a person or a backup can: such a file stays whose it is, and everybody keeps what they could do.
//! - Links themselves, and the FIFOs and sockets that older versions let programs make. Devices are left alone.
//!
//! Programs that still write there, those of a server that is being replaced, had all of this before; whatever they
//! change meanwhile is within their own conversation. The kernel removes set-user-ID modes and capabilities from files
//! whose owner changes.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Gid, Stat, Uid, chownat, fstat};
use rustix::io::{Errno, Result};

use super::beneath::{Opener, is_miss};
use super::owners::Owner;
use super::usage::Depths;
use super::walk::{Found, Next, walk};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    /// Files that stay whose they are.
    pub(super) left: u64,
    /// False if there were more entries than allowed: the rest is still to be given.
    pub(super) complete: bool,
}

/// Gives everything below `top` to `owner`, up to `max_entries` entries.
pub(super) fn hand_over(
    opener: Opener,
    top: BorrowedFd<'_>,
    owner: Owner,
    max_entries: u64,
) -> Result<Handover> {
    let (mut seen, mut left, mut complete) = (0, Left::default(), true);
    let mut depths = Depths::default();
    walk(opener, top, |found| {
        if seen == max_entries {
            complete = false;
            return Ok(Next::Stop);
        }
        seen += 1;
        match give(found, owner, &mut left) {
            // It has just gone, or is something that is not opened.
            Err(error) if is_miss(error) => {}
            given => given?,
        }
        if found.kind != FileType::Directory {
            return Ok(Next::Entry);
        }
        if depths.allow(found.depth) {
            return Ok(Next::Enter);
        }
        complete = false;
        Ok(Next::Entry)
    })?;
    Ok(Handover {
        left: left.count(),
        complete,
    })
}

/// How many names there are in the directory, and elsewhere, of files with several.
#[derive(Debug, Default)]
struct Left {
    elsewhere: HashMap<u64, usize>,
    /// Files that the kernel does not let us give, such as those made immutable.
    refused: u64,
}

impl Left {
    /// Whether this was the last name of the file.
    fn is_last(&mut self, stat: &Stat) -> bool {
        let names = usize::try_from(stat.st_nlink).unwrap_or(usize::MAX);
        let left = self.elsewhere.entry(stat.st_ino).or_insert(names);
        *left = left.saturating_sub(1);
        *left == 0
    }

    fn count(&self) -> u64 {
        let files = self.elsewhere.values().filter(|names| **names > 0);
        files.count() as u64 + self.refused
    }
}

fn give(found: &Found<'_>, owner: Owner, left: &mut Left) -> Result<()> {
    let opened = found.open()?;
    let stat = fstat(&opened)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_ours = match kind {
        FileType::BlockDevice | FileType::CharacterDevice | FileType::Unknown => false,
        FileType::Directory => true,
        _ => stat.st_nlink == 1 || left.is_last(&stat),
    };
    if !is_ours || (stat.st_uid, stat.st_gid) == (owner.uid, owner.gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    let given = chownat(&opened, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH);
    left.refused += u64::from(given == Err(Errno::PERM));
    given
}
