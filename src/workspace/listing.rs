//! Which files a workspace has, and which of them a run made or changed.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};
use rustix::io::Result;

use super::beneath::Opener;
use super::path::{MAX_PARTS, RelativePath, is_packages};
use super::usage::{Measure, Usage};
use super::walk::{Found, Next, walk};

/// Most files in a listing.
pub const MAX_FILES: usize = 1_000;
/// Most entries of any kind that are examined for one listing.
const MAX_VISITED: usize = 10_000;
/// Most entries that are counted beside a listing after a run.
const MAX_COUNTED: u64 = 10_000;
/// What the print of a file takes in memory beside its path.
const FILE_BYTES: usize = 128;
/// The last second of the year 9999, beyond which dates have no four digits.
const MAX_SECONDS: i64 = 253_402_300_799;
/// Kernels stamp files with a clock that stands still between two ticks, so a stamp can be this much older.
const TICK: Duration = Duration::from_millis(20);

/// A regular file of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub path: RelativePath,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written to, if the program did not set that to a date outside the years 1970 to 9999.
    pub modified: Option<SystemTime>,
    /// Whether it was made or changed since the snapshot that it was compared with, or by the operation that returns
    /// it.
    pub new: bool,
}

/// The regular files of a workspace, sorted by name. Links and everything else are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// At most [`MAX_FILES`]; those in fewer folders come first when there are more.
    pub files: Vec<FileEntry>,
    /// Why files are missing, as a sentence. `None` when none are.
    pub truncated: Option<String>,
    /// Files and folders that are left out because their names are not valid UTF-8.
    pub skipped: u64,
}

/// What a workspace was like at one time.
#[derive(Clone, Debug)]
pub struct Survey {
    snapshot: Snapshot,
    /// What it took. `None` if something in it could not be read.
    pub usage: Option<Usage>,
}

/// What the files of a workspace were like at one time. Clones share it.
#[derive(Clone, Debug)]
struct Snapshot(Arc<Prints>);

#[derive(Debug)]
struct Prints {
    files: HashMap<RelativePath, Print>,
    /// Whether `files` has all files.
    complete: bool,
    taken: SystemTime,
}

/// What changes when a file does. A program can reset all of it except the status change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// One scan of the tree: a listing, and a print for each of its files.
#[derive(Debug, Default)]
struct Scan<'a> {
    /// What files are compared with, if with anything.
    before: Option<&'a Snapshot>,
    files: Vec<(FileEntry, Print)>,
    /// Room for the path of one.
    path: Vec<u8>,
    /// Entries of any kind.
    visited: usize,
    truncated: Option<String>,
    skipped: u64,
}

pub(super) fn list(opener: Opener, dir: BorrowedFd<'_>) -> Result<Listing> {
    Ok(scan(opener, dir)?.into_listing())
}

/// What the workspace is like. What it takes is counted up to `max_entries` entries.
pub(super) fn survey(opener: Opener, dir: BorrowedFd<'_>, max_entries: u64) -> Result<Survey> {
    let taken = SystemTime::now();
    let (scan, usage) = scan_and_measure(opener, dir, max_entries, None)?;
    let snapshot = scan.snapshot(taken);
    Ok(Survey { snapshot, usage })
}

/// What has changed, and what the workspace is like now, if it has no more than `max_entries` entries and is small enough
/// to find that out beside.
pub(super) fn changes_since(
    opener: Opener,
    dir: BorrowedFd<'_>,
    before: &Survey,
    max_entries: u64,
) -> Result<(Listing, Option<Survey>)> {
    let taken = SystemTime::now();
    let most = max_entries.min(MAX_COUNTED);
    let is_small = |usage: Usage| usage.complete && usage.entries <= most;
    // What was large before would be counted in vain.
    let most = if before.usage.is_some_and(is_small) {
        most
    } else {
        0
    };
    let (scan, usage) = scan_and_measure(opener, dir, most, Some(&before.snapshot))?;
    let usage = usage.filter(|usage| usage.complete);
    let survey = usage.map(|usage| Survey {
        snapshot: scan.snapshot(taken),
        usage: Some(usage),
    });
    Ok((scan.into_listing(), survey))
}

/// A scan, and in the same walk what the workspace takes, which is `None` if something in it cannot be read.
fn scan_and_measure<'a>(
    opener: Opener,
    dir: BorrowedFd<'_>,
    max_entries: u64,
    before: Option<&'a Snapshot>,
) -> Result<(Scan<'a>, Option<Usage>)> {
    let mut scan = Scan {
        before,
        ..Scan::default()
    };
    let mut measure = Some(Measure::of(dir, max_entries)?);
    let (mut is_scanned, mut is_measured) = (false, false);
    walk(opener, dir, |found| {
        let mut wanted = [Next::Entry; 2];
        if !is_measured && let Some(counting) = &mut measure {
            match counting.visit(found) {
                Ok(next) => wanted[0] = next,
                Err(_) => measure = None,
            }
        }
        if !is_scanned && is_in_listings(found) {
            wanted[1] = scan.visit(found)?;
        }
        is_measured |= wanted[0] == Next::Stop || measure.is_none();
        // What is deeper comes later.
        is_scanned |= wanted[1] == Next::Stop || found.depth > MAX_PARTS;
        Ok(match (is_measured && is_scanned, wanted) {
            (true, _) => Next::Stop,
            (false, [Next::Enter, _] | [_, Next::Enter]) => Next::Enter,
            (false, _) => Next::Entry,
        })
    })?;
    Ok((scan, measure.map(Measure::usage)))
}

/// Whether the directories above it are all looked into for listings.
fn is_in_listings(found: &Found<'_>) -> bool {
    let above = found.above();
    above.len() < MAX_PARTS
        && !above.first().is_some_and(|name| is_packages(name))
        && above.iter().all(|name| std::str::from_utf8(name).is_ok())
}

impl Survey {
    /// About how many bytes it takes.
    pub(super) fn memory(&self) -> usize {
        let files = self.snapshot.0.files.keys();
        files.map(|path| FILE_BYTES + path.as_str().len()).sum()
    }
}

impl Snapshot {
    /// Whether a file of this print is new, by what is known of its name.
    fn differs(&self, known: Option<&Print>, now: &Print) -> bool {
        match known {
            Some(before) => before != now,
            // It may have been there without being listed.
            None => {
                self.0.complete
                    || timestamp(now.changed).is_none_or(|changed| changed + TICK >= self.0.taken)
            }
        }
    }
}

impl Scan<'_> {
    fn snapshot(&self, taken: SystemTime) -> Snapshot {
        let files = self.files.iter();
        let prints = Prints {
            files: files
                .map(|(file, print)| (file.path.clone(), *print))
                .collect(),
            complete: self.truncated.is_none(),
            taken,
        };
        Snapshot(Arc::new(prints))
    }

    fn into_listing(mut self) -> Listing {
        self.files
            .sort_unstable_by(|(left, _), (right, _)| left.path.cmp(&right.path));
        let files = self.files.into_iter().map(|(file, _)| file).collect();
        Listing {
            files,
            truncated: self.truncated,
            skipped: self.skipped,
        }
    }

    fn visit(&mut self, found: &Found<'_>) -> Result<Next> {
        if found.depth == 1 && is_packages(found.name.to_bytes()) {
            return Ok(Next::Entry);
        }
        self.visited += 1;
        if self.files.len() == MAX_FILES && found.kind == FileType::RegularFile {
            self.truncated = Some(format!(
                "Only {MAX_FILES} files are listed, there are more."
            ));
            return Ok(Next::Stop);
        }
        if self.visited > MAX_VISITED {
            self.truncated = Some(format!(
                "Only the files among {MAX_VISITED} entries are listed, there are more."
            ));
            return Ok(Next::Stop);
        }
        match found.kind {
            FileType::RegularFile => self.add(found)?,
            FileType::Directory if found.depth >= MAX_PARTS => {
                self.truncated = Some(format!(
                    "Files below more than {} folders are not listed.",
                    MAX_PARTS - 1
                ));
            }
            // No path below it would be valid UTF-8 either.
            FileType::Directory if !found.has_utf8_name() => self.skipped += 1,
            FileType::Directory => return Ok(Next::Enter),
            _ => {}
        }
        Ok(Next::Entry)
    }

    fn add(&mut self, found: &Found<'_>) -> Result<()> {
        let Some(stat) = found.stat()? else {
            return Ok(());
        };
        // It may have been replaced since its name was read.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let print = Print::of(&stat);
        let Some((path, new)) = self.compared(found, &print) else {
            self.skipped += 1;
            return Ok(());
        };
        let entry = FileEntry {
            path,
            size: print.size,
            modified: timestamp(print.modified),
            new,
        };
        self.files.push((entry, print));
        Ok(())
    }

    /// The path of a file, and whether it is new. `None` if it cannot be told in UTF-8. Most files are known from
    /// before, and share their path with that.
    fn compared(&mut self, found: &Found<'_>, print: &Print) -> Option<(RelativePath, bool)> {
        found.put_path(&mut self.path);
        let path = std::str::from_utf8(&self.path).ok()?;
        let known = self
            .before
            .and_then(|before| before.0.files.get_key_value(path));
        let new = self
            .before
            .is_some_and(|before| before.differs(known.map(|(_, print)| print), print));
        let path = match known {
            Some((path, _)) => path.clone(),
            None => RelativePath::parse(path).ok()?,
        };
        Some((path, new))
    }
}

fn scan(opener: Opener, dir: BorrowedFd<'_>) -> Result<Scan<'static>> {
    let mut scan = Scan::default();
    walk(opener, dir, |found| scan.visit(found))?;
    Ok(scan)
}

impl Print {
    fn of(stat: &Stat) -> Self {
        let wide = |value| i64::try_from(value).unwrap_or(i64::MAX);
        Self {
            inode: stat.st_ino,
            size: size(stat),
            modified: (stat.st_mtime, wide(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, wide(stat.st_ctime_nsec)),
        }
    }
}

/// The size of a file in bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// When a file was last written to, if that is in the years 1970 to 9999.
pub(super) fn modified(stat: &Stat) -> Option<SystemTime> {
    timestamp(Print::of(stat).modified)
}

/// Seconds and nanoseconds as a time, unless a program chose one that no date format can write.
fn timestamp((seconds, nanoseconds): (i64, i64)) -> Option<SystemTime> {
    if !(0..=MAX_SECONDS).contains(&seconds) {
        return None;
    }
    let since = Duration::new(
        u64::try_from(seconds).ok()?,
        u32::try_from(nanoseconds).ok()?,
    );
    UNIX_EPOCH.checked_add(since)
}
