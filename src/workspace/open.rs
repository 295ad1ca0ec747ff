//! Opens a file of a conversation for reading.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::SystemTime;

use rustix::fs::FileType;

use super::beneath::{Opener, is_miss};
use super::listing;
use super::path::RelativePath;
use crate::conversation::ConversationKey;

/// A file that was opened for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The conversation it belongs to.
    pub key: ConversationKey,
    /// The open file, which is certainly a regular one. A program may go on writing to it.
    pub file: File,
    /// Its size in bytes when it was opened.
    pub size: u64,
    /// When it was last written to, if that is in the years 1970 to 9999.
    pub modified: Option<SystemTime>,
}

/// Opens the file `path` below the conversation's directory `dir`. `None` if there is no readable one.
pub(super) fn open(
    opener: Opener,
    dir: BorrowedFd<'_>,
    path: &RelativePath,
    key: &ConversationKey,
) -> rustix::io::Result<Option<OpenFile>> {
    let file = match opener.file(dir, path.parts().map(str::as_bytes)) {
        Err(error) if is_miss(error) => return Ok(None),
        file => file?,
    };
    let stat = opener.attributes.of(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    Ok(Some(OpenFile {
        key: key.clone(),
        file: File::from(file),
        size: listing::size(&stat),
        modified: listing::modified(&stat),
    }))
}
