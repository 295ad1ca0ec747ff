//! What there is by name: folders and links beside files. They are looked at and never followed, and folders are made,
//! moved and deleted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};

use super::beneath::{Opener, is_miss};
use super::error::WorkspaceError;
use super::listing;
use super::path::{MAX_PARTS, RelativePath, is_packages};
use super::removal::delete_in_place;
use super::walk::{Found, Next, walk};
use super::{Store, upload};
use crate::conversation::ConversationKey;

/// Most entries of one listing.
pub(super) const MAX_LISTED: usize = 10_000;

/// How many times the limit on entries is deleted of a folder before a program must be refilling it. Each may be moved
/// before it is deleted, and a program can have made somewhat more.
const MOST_DELETED: u64 = 4;

/// Something that has a name in a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub path: RelativePath,
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Who may do what, as the nine bits of Unix.
    pub mode: u32,
    /// When it was last written to, if that is in the years 1970 to 9999.
    pub modified: Option<SystemTime>,
}

/// What has a name. Sockets, pipes and devices are nothing to anybody outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, wherever it leads.
    Link,
}

impl Entry {
    fn of(path: RelativePath, stat: &Stat) -> Option<Self> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => return None,
        };
        Some(Self {
            path,
            kind,
            size: listing::size(stat),
            mode: stat.st_mode & 0o777,
            modified: listing::modified(stat),
        })
    }
}

/// What has the name `path` below `dir`, if anything has.
pub(super) fn look(
    opener: Opener,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> Result<Option<Entry>> {
    let entry = parent(opener, dir, path)
        .and_then(|folder| opener.entry(folder.as_fd(), path.file_name().as_bytes()));
    match entry {
        Err(error) if is_miss(error) => Ok(None),
        entry => Ok(Entry::of(path.clone(), &opener.attributes.of(entry?)?)),
    }
}

/// What is in a folder, up to so many levels deep, sorted by name. `None` stands for the workspace itself; the answer is
/// `None` if there is no such folder. What has no name in UTF-8, or is deeper than names may be, is left out.
pub(super) fn list(
    store: &Store,
    dir: BorrowedFd<'_>,
    folder: Option<&RelativePath>,
    levels: usize,
) -> std::result::Result<Option<Vec<Entry>>, WorkspaceError> {
    let parts = folder.into_iter().flat_map(RelativePath::parts);
    let parts = std::iter::once(".").chain(parts).map(str::as_bytes);
    let top = match store.opener.folder(dir, parts) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(WorkspaceError::NotADirectory),
        Err(error) if is_miss(error) => return Ok(None),
        top => top.map_err(WorkspaceError::of("open a folder"))?,
    };
    let (mut entries, mut is_full) = (Vec::new(), false);
    let walked = walk(store.opener, top.as_fd(), |found| {
        if folder.is_none() && found.depth == 1 && is_packages(found.name.to_bytes()) {
            return Ok(Next::Entry);
        }
        if entries.len() == MAX_LISTED {
            is_full = true;
            return Ok(Next::Stop);
        }
        entries.extend(entry(folder, found)?);
        let is_entered = found.kind == FileType::Directory && found.depth < levels.min(MAX_PARTS);
        Ok(if is_entered { Next::Enter } else { Next::Entry })
    });
    walked.map_err(WorkspaceError::of("list a folder"))?;
    if is_full {
        return Err(WorkspaceError::TooManyToList { limit: MAX_LISTED });
    }
    entries.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(Some(entries))
}

fn entry(folder: Option<&RelativePath>, found: &Found<'_>) -> Result<Option<Entry>> {
    let mut below = Vec::new();
    found.put_path(&mut below);
    let Ok(below) = String::from_utf8(below) else {
        return Ok(None);
    };
    let path = match folder {
        Some(folder) => format!("{}/{below}", folder.as_str()),
        None => below,
    };
    let Ok(path) = RelativePath::parse(&path) else {
        return Ok(None);
    };
    Ok(found.stat()?.and_then(|stat| Entry::of(path, &stat)))
}

/// Deletes a folder with all that is in it. False if there is none.
pub(super) fn remove(
    store: &Store,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> std::result::Result<bool, WorkspaceError> {
    let Some(folder) = parent_of(store, dir, path)? else {
        return Ok(false);
    };
    store.make_accessible(folder.as_fd())?;
    let most = store.limits.max_entries.saturating_mul(MOST_DELETED);
    match delete_in_place(store.opener, folder.as_fd(), path.file_name(), most) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(WorkspaceError::Refilled),
        deleted => deleted.map_err(WorkspaceError::of("delete a folder")),
    }
}

/// Gives the folder `from` the name `to`, which nothing has, making folders on the way. False if there is no such folder.
pub(super) fn rename(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    from: &RelativePath,
    to: &RelativePath,
) -> std::result::Result<bool, WorkspaceError> {
    let Some(folder) = parent_of(store, dir, from)? else {
        return Ok(false);
    };
    let own = match store
        .opener
        .folder(folder.as_fd(), [from.file_name().as_bytes()])
    {
        Err(error) if is_miss(error) => return Ok(false),
        own => own.map_err(WorkspaceError::of("open a folder"))?,
    };
    store.make_accessible(folder.as_fd())?;
    // Its `..` changes.
    store.make_accessible(own.as_fd())?;
    let target = upload::make_room(store, key, dir, to)?;
    let target = target.as_ref().map_or(dir, AsFd::as_fd);
    let (name, new) = (from.file_name(), to.file_name());
    match store
        .moves
        .move_unguarded((folder.as_fd(), name), (target, new))
    {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Err(WorkspaceError::NameTaken),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(WorkspaceError::of("rename a folder")(error)),
    }
}

/// Opens the folder that `path` is in. `None` if there is none.
pub(super) fn parent_of(
    store: &Store,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
) -> std::result::Result<Option<OwnedFd>, WorkspaceError> {
    match parent(store.opener, dir, path) {
        Err(error) if is_miss(error) => Ok(None),
        folder => folder
            .map(Some)
            .map_err(WorkspaceError::of("open a folder")),
    }
}

/// Opens the folder that `path` is in.
fn parent(opener: Opener, dir: BorrowedFd<'_>, path: &RelativePath) -> Result<OwnedFd> {
    let folders = std::iter::once(".").chain(path.folders());
    opener.folder(dir, folders.map(str::as_bytes))
}
