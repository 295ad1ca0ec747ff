//! Gives a file of a workspace another name, never in place of something else.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::beneath::is_miss;
use super::error::WorkspaceError;
use super::folders::parent_of;
use super::listing::{self, FileEntry};
use super::path::RelativePath;
use super::walk::gone_is_none;
use super::{Store, upload};
use crate::conversation::ConversationKey;

/// Moves the file `from` below `dir` to `to`, making folders on the way. `None` when there is no such file.
///
/// A program may put something else in its place meanwhile. Then that is moved, to a name that nothing had, or stays if
/// it is a folder; nothing leaves the workspace.
pub(super) fn rename(
    store: &Store,
    key: &ConversationKey,
    dir: BorrowedFd<'_>,
    from: &RelativePath,
    to: &RelativePath,
) -> Result<Option<FileEntry>, WorkspaceError> {
    let Some(folder) = parent_of(store, dir, from)? else {
        return Ok(None);
    };
    let entry = match store
        .opener
        .entry(folder.as_fd(), from.file_name().as_bytes())
    {
        Err(error) if is_miss(error) => return Ok(None),
        entry => entry.map_err(WorkspaceError::of("examine a file"))?,
    };
    let stat = gone_is_none(store.opener.attributes.of(&entry));
    let Some(stat) = stat.map_err(WorkspaceError::of("examine a file"))? else {
        return Ok(None);
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(WorkspaceError::IsDirectory),
        _ => return Ok(None),
    }
    store.make_accessible(folder.as_fd())?;
    let target = upload::make_room(store, key, dir, to)?;
    let target = target.as_ref().map_or(dir, AsFd::as_fd);
    let (name, new) = (from.file_name(), to.file_name());
    match store.moves.move_file((folder.as_fd(), name), (target, new)) {
        Ok(()) => Ok(Some(FileEntry {
            path: to.clone(),
            size: listing::size(&stat),
            modified: listing::modified(&stat),
            new: false,
        })),
        Err(Errno::EXIST) => Err(WorkspaceError::NameTaken),
        Err(Errno::ISDIR) => Err(WorkspaceError::IsDirectory),
        Err(Errno::NOENT | Errno::STALE) => Ok(None),
        Err(error) => Err(WorkspaceError::of("rename a file")(error)),
    }
}
