//! How much of the disk a workspace takes.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Result;

use super::beneath::Opener;
use super::walk::{Found, Next, walk};

/// Directories deeper than this are not looked into. Opening one costs time in proportion to its depth, so a program
/// could otherwise make each measurement take seconds.
const MAX_DEPTH: usize = 512;
/// Most that the depths of all directories looked into may add up to: many deep ones cost as much as a very deep one.
/// 100,000 at a depth of 20 are fine.
const MAX_DEPTHS: usize = 2_000_000;
/// What an empty directory takes on most file systems. Only what the top has grown by is counted.
const EMPTY_DIRECTORY: u64 = 4_096;
/// Unit of block counts, whatever the file system's own is.
const BLOCK_BYTES: u64 = 512;

/// What a workspace takes of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of disk, which is less than the sizes for sparse files and more for small ones. A file with several
    /// names counts once.
    pub bytes: u64,
    /// Files, folders, links and everything else that has a name.
    pub entries: u64,
    /// Whether everything was counted: false with more entries than allowed, with folders nested more than 512 deep, or
    /// with too many deep ones.
    pub complete: bool,
    /// How much of the bytes has no name: what was deleted while a kernel has it open.
    pub deleted: u64,
}

impl Usage {
    /// The same, with so many bytes that have no name.
    pub(super) fn with_deleted(self, deleted: u64) -> Self {
        Self {
            bytes: (self.bytes - self.deleted).saturating_add(deleted),
            deleted,
            ..self
        }
    }
}

/// How deep the directories are that were looked into.
#[derive(Debug, Default)]
pub(super) struct Depths(usize);

impl Depths {
    /// Whether a directory may be looked into as well.
    pub(super) fn allow(&mut self, depth: usize) -> bool {
        self.0 += depth;
        depth < MAX_DEPTH && self.0 <= MAX_DEPTHS
    }
}

/// Counts what a walk shows it.
pub(super) struct Measure {
    usage: Usage,
    max_entries: u64,
    /// Files with several names.
    counted: HashSet<(u64, u64)>,
    depths: Depths,
}

impl Measure {
    /// Of a directory, up to `max_entries` entries.
    pub(super) fn of(dir: BorrowedFd<'_>, max_entries: u64) -> Result<Self> {
        let usage = Usage {
            bytes: disk_bytes(&fstat(dir)?).saturating_sub(EMPTY_DIRECTORY),
            entries: 0,
            complete: true,
            deleted: 0,
        };
        Ok(Self {
            usage,
            max_entries,
            counted: HashSet::new(),
            depths: Depths::default(),
        })
    }

    pub(super) fn visit(&mut self, found: &Found<'_>) -> Result<Next> {
        let usage = &mut self.usage;
        if usage.entries == self.max_entries {
            usage.complete = false;
            return Ok(Next::Stop);
        }
        let Some(stat) = found.stat()? else {
            return Ok(Next::Entry);
        };
        usage.entries += 1;
        let is_folder = found.kind == FileType::Directory;
        if is_folder || stat.st_nlink == 1 || self.counted.insert((stat.st_dev, stat.st_ino)) {
            usage.bytes = usage.bytes.saturating_add(disk_bytes(&stat));
        }
        if !is_folder {
            return Ok(Next::Entry);
        }
        if self.depths.allow(found.depth) {
            return Ok(Next::Enter);
        }
        usage.complete = false;
        Ok(Next::Entry)
    }

    pub(super) fn usage(self) -> Usage {
        self.usage
    }
}

pub(super) fn measure(opener: Opener, dir: BorrowedFd<'_>, max_entries: u64) -> Result<Usage> {
    let mut measure = Measure::of(dir, max_entries)?;
    walk(opener, dir, |found| measure.visit(found))?;
    Ok(measure.usage())
}

/// Bytes of disk that something takes.
pub(super) fn disk_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(BLOCK_BYTES)
}
