//! Puts a file into a workspace: written whole to a private place first, then moved to its name in one step.
//!
//! So nobody ever sees half a file, a link in its place is replaced and not followed, and a failure leaves nothing
//! behind. The content is not forced to the disk: after a power cut a new file may be missing, as with any program's.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, fstat, linkat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::beneath::is_miss;
use super::error::WorkspaceError;
use super::listing::{self, FileEntry};
use super::open::{OpenFile, open};
use super::path::RelativePath;
use super::store::WORKSPACE_MODE;
use super::{Demand, Store, Usage, random_name, usage};
use crate::conversation::ConversationKey;

/// Unit in which file systems hand out space.
const PAGE_BYTES: u64 = 4_096;
/// A program may remove folders while they are being made.
const TRIES: u32 = 64;
/// How much longer each wait between two tries is: one that goes in step with the program would lose every time.
const PACE: Duration = Duration::from_micros(20);

/// What happens to a file that already has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays, and the new one is refused.
    Keep,
    /// It is replaced if it meets the demand at that moment, else the new one is refused.
    ReplaceIf(Demand),
}

impl Existing {
    /// Whether a file may be put where `there` is now, or where there is none.
    pub fn allows(self, there: Option<&OpenFile>) -> bool {
        match self {
            Self::Replace => true,
            Self::Keep => there.is_none(),
            Self::ReplaceIf(demand) => demand.is_met_by(there),
        }
    }
}

/// A file that was put into a workspace.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The file.
    pub entry: FileEntry,
    /// Whether nothing had its name before.
    pub created: bool,
}

/// A file under a random name in the private directory, which disappears unless it is moved away.
#[derive(Debug)]
pub(super) struct TempFile {
    dir: OwnedFd,
    name: String,
    pub(super) file: File,
    moved: bool,
}

/// Writes `content` to `path` below the conversation's directory `dir`, making folders on the way.
pub(super) fn write(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    content: &[u8],
    existing: Existing,
) -> Result<FileEntry, WorkspaceError> {
    let size = content.len() as u64;
    let _claim = store.claim_space(size)?;
    store.measured(key, check_room(store, key, dir, path, size)?);
    let mut temp = TempFile::create(store.private.as_fd())?;
    temp.file
        .write_all(content)
        .map_err(WorkspaceError::of("write a file"))?;
    put(store, key, dir, path, &mut temp, existing)
}

/// Moves an already written file to `path` below `dir`, if there is room for it.
pub(super) fn place(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    temp: &mut TempFile,
    existing: Existing,
) -> Result<Placed, WorkspaceError> {
    let stat = fstat(&temp.file).map_err(WorkspaceError::of("examine a file"))?;
    store.check_space(0)?;
    let usage = check_room(store, key, dir, path, listing::size(&stat))?;
    store.measured(key, usage);
    let there = store.opener.stat(dir, path.parts().map(str::as_bytes));
    Ok(Placed {
        entry: put(store, key, dir, path, temp, existing)?,
        created: there.is_err_and(is_miss),
    })
}

fn put(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    temp: &mut TempFile,
    existing: Existing,
) -> Result<FileEntry, WorkspaceError> {
    let owner = store.users.of(dir)?;
    owner
        .take(temp.file.as_fd())
        .map_err(WorkspaceError::of("set the owner of a file"))?;
    // The mode at creation depends on the umask, this one does not.
    fchmod(&temp.file, Mode::from_raw_mode(0o644))
        .map_err(WorkspaceError::of("set the mode of a file"))?;
    let stat = fstat(&temp.file).map_err(WorkspaceError::of("examine a file"))?;
    put_below(store, key, dir, path, temp, existing)?;
    Ok(FileEntry {
        path: path.clone(),
        size: listing::size(&stat),
        modified: listing::modified(&stat),
        new: true,
    })
}

/// Makes the folders and moves the file into the last one; starts over if one of them has disappeared.
fn put_below(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    temp: &mut TempFile,
    existing: Existing,
) -> Result<(), WorkspaceError> {
    let mut attempt = || {
        let folder = make_folders(store, dir, path)?;
        let folder = folder.as_ref().map_or(dir, AsFd::as_fd);
        match existing {
            Existing::Replace => {}
            Existing::Keep => return temp.link_to(folder, path.file_name()),
            Existing::ReplaceIf(demand) => check(store, key, dir, path, demand)?,
        }
        temp.move_to(folder, path.file_name())
    };
    for number in 1..TRIES {
        match attempt() {
            Err(error) if error.is_gone() => thread::sleep(PACE * number),
            done => return done,
        }
    }
    attempt()
}

/// Refuses if the current file does not meet the demand.
fn check(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    demand: Demand,
) -> Result<(), WorkspaceError> {
    let there = open(store.opener, dir, path, key).map_err(WorkspaceError::of("open a file"))?;
    if demand.is_met_by(there.as_ref()) {
        Ok(())
    } else {
        Err(WorkspaceError::Unmet)
    }
}

/// Refuses what does not fit, else returns what all files will take. What it replaces counts as free already. A program
/// may have made room since an earlier measurement, so only a fresh one refuses.
fn check_room(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    bytes: u64,
) -> Result<Usage, WorkspaceError> {
    let quota = store.quota(key);
    let with_it = |usage| with_upload(store, usage, quota, dir, path, bytes);
    with_it(store.usage(key, dir, false)?).or_else(|_| with_it(store.usage(key, dir, true)?))
}

/// What all files will take, of which there may be so many bytes.
fn with_upload(
    store: &Store,
    usage: Usage,
    quota: u64,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    bytes: u64,
) -> Result<Usage, WorkspaceError> {
    let limits = &store.limits;
    let entries = usage.entries + added(store, dir, path);
    if !usage.complete || entries > limits.max_entries {
        return Err(WorkspaceError::TooManyEntries {
            limit: limits.max_entries,
        });
    }
    let used = usage.bytes.saturating_sub(replaced_bytes(store, dir, path));
    let used = used.saturating_add(bytes.next_multiple_of(PAGE_BYTES));
    if used > quota {
        return Err(WorkspaceError::QuotaExceeded {
            used,
            deleted: usage.deleted,
            limit: quota,
        });
    }
    Ok(Usage {
        bytes: used,
        entries,
        complete: true,
        deleted: usage.deleted,
    })
}

/// How many entries a file adds: the folders made for it, and itself unless it replaces another.
fn added(store: &Store, dir: BorrowedFd<'_>, path: &RelativePath) -> u64 {
    let parts: Vec<_> = path.parts().map(str::as_bytes).collect();
    let is_there = |count: &usize| {
        let part = parts[..*count].iter().copied();
        store.opener.stat(dir, part).is_ok()
    };
    let there = (1..=parts.len()).take_while(is_there).count();
    (parts.len() - there) as u64
}

/// Bytes of disk that become free when `path` is replaced: none when the file has another name too.
fn replaced_bytes(store: &Store, dir: BorrowedFd<'_>, path: &RelativePath) -> u64 {
    let stat = store.opener.stat(dir, path.parts().map(str::as_bytes));
    match stat {
        Ok(stat) if stat.st_nlink == 1 => usage::disk_bytes(&stat),
        _ => 0,
    }
}

/// Opens the folder that `path` is in, and makes what is missing if the conversation may have so many entries. `None`
/// stands for the workspace itself.
pub(super) fn make_room(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> Result<Option<OwnedFd>, WorkspaceError> {
    // One is the file's own entry, which it has already.
    if added(store, dir, path) > 1 {
        store.measured(key, check_room(store, key, dir, path, 0)?);
    }
    match make_folders(store, dir, path) {
        Err(error) if error.is_gone() => Err(WorkspaceError::FoldersVanish),
        folder => folder,
    }
}

/// Opens the folder that `path` is in and makes what is missing. `None` stands for the workspace itself.
fn make_folders(
    store: &Store,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> Result<Option<OwnedFd>, WorkspaceError> {
    let mut reached: Option<OwnedFd> = None;
    for part in path.folders() {
        let at = reached.as_ref().map_or(dir, AsFd::as_fd);
        let (folder, _) = enter(store, dir, at, part)?;
        reached = Some(folder);
    }
    Ok(reached)
}

/// Opens the folder `name` in `at`, and makes it if it is missing. Returns whether it was.
fn enter(
    store: &Store,
    dir: BorrowedFd<'_>,
    at: BorrowedFd<'_>,
    name: &str,
) -> Result<(OwnedFd, bool), WorkspaceError> {
    let made = match mkdirat(at, name, Mode::from_raw_mode(WORKSPACE_MODE)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(WorkspaceError::of("make a folder")(error)),
    };
    let folder = store
        .opener
        .folder(at, [name.as_bytes()])
        .map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP | Errno::XDEV => WorkspaceError::NotADirectory,
            error => WorkspaceError::of("open a folder")(error),
        })?;
    if made {
        store.users.of(dir)?.take_over(folder.as_fd())?;
    } else {
        // A program may have removed write permission from it.
        store.make_accessible(folder.as_fd())?;
    }
    Ok((folder, made))
}

/// Makes the folder `path` below `dir` and those that it is in. False if it is there already.
pub(super) fn make_folder(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> Result<bool, WorkspaceError> {
    store.measured(key, check_room(store, key, dir, path, 0)?);
    let folder = make_folders(store, dir, path)?;
    let at = folder.as_ref().map_or(dir, AsFd::as_fd);
    enter(store, dir, at, path.file_name()).map(|(_, made)| made)
}

impl TempFile {
    pub(super) fn create(dir: BorrowedFd<'_>) -> Result<Self, WorkspaceError> {
        let name = random_name();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = dir
            .try_clone_to_owned()
            .map_err(WorkspaceError::of("open the private directory"))?;
        let file = openat(&dir, &name, flags, Mode::from_raw_mode(0o600))
            .map_err(WorkspaceError::of("make a temporary file"))?;
        Ok(Self {
            dir,
            name,
            file: File::from(file),
            moved: false,
        })
    }

    /// Gives it a name, in place of whatever has that name.
    pub(super) fn move_to(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), WorkspaceError> {
        renameat(&self.dir, &self.name, folder, name).map_err(|error| match error {
            Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST => WorkspaceError::IsDirectory,
            error => WorkspaceError::of("move a file to its place")(error),
        })?;
        self.moved = true;
        Ok(())
    }

    /// Gives it a second name, unless something has that already. The first goes when this is dropped.
    fn link_to(&self, folder: BorrowedFd<'_>, name: &str) -> Result<(), WorkspaceError> {
        linkat(&self.dir, &self.name, folder, name, AtFlags::empty()).map_err(|error| match error {
            Errno::EXIST => WorkspaceError::Exists,
            error => WorkspaceError::of("move a file to its place")(error),
        })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.moved
            && let Err(error) = unlinkat(&self.dir, &self.name, AtFlags::empty())
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a temporary file was left behind"
            );
        }
    }
}

/// Deletes the file or link `path` below `dir`. False when there is none.
pub(super) fn remove(
    store: &Store,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> Result<bool, WorkspaceError> {
    let folders = std::iter::once(".")
        .chain(path.folders())
        .map(str::as_bytes);
    let folder = match store.opener.folder(dir, folders) {
        Err(error) if is_miss(error) => return Ok(false),
        folder => folder.map_err(WorkspaceError::of("open a folder"))?,
    };
    store.make_accessible(folder.as_fd())?;
    match unlinkat(&folder, path.file_name(), AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(Errno::ISDIR) => Err(WorkspaceError::IsDirectory),
        Err(error) => Err(WorkspaceError::of("delete a file")(error)),
    }
}
