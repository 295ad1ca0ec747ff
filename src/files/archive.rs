//! All files of a conversation in one ZIP archive, which is made while it is sent.
//!
//! It is never on the disk and only a piece of it in memory. Programs may change the files meanwhile: each is as it is
//! when its turn comes, one that is gone by then is left out, and all of them have no more bytes than were counted.

use std::collections::HashSet;
use std::io::{self, Read as _, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::{ConversationFiles, FilesError};
use crate::conversation::{Conversation, ConversationKey};
use crate::workspace::path::RelativePath;
use crate::workspace::{OpenFile, Workspace};

/// The quickest: programs need the processor more.
const LEVEL: i64 = 1;
/// Files from this size on have longer fields in an archive.
const LARGE: u64 = 0xffff_ffff;

/// The files that an archive is to have.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The conversation.
    pub(crate) key: ConversationKey,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Where they are, if there is a place.
    workspace: Option<Workspace>,
    paths: Vec<RelativePath>,
    /// Most bytes that an archive may have before they are compressed.
    limit: u64,
}

impl ConversationFiles {
    /// All files of a conversation for an archive; none if it was never used.
    ///
    /// # Errors
    /// There are more files than are listed, or more bytes than a conversation may have, as in files with holes; or
    /// trouble with the storage.
    pub(crate) async fn archive(&self, conversation: &Conversation) -> Result<Archive, FilesError> {
        let key = conversation.key().clone();
        let limit = self.workspaces.limits().quota_bytes;
        let workspace = self.workspaces.find(&key).await?;
        let mut archive = Archive {
            key,
            bytes: 0,
            workspace,
            paths: Vec::new(),
            limit,
        };
        let Some(workspace) = &archive.workspace else {
            return Ok(archive);
        };
        let listing = workspace.list().await?;
        if let Some(why) = listing.truncated {
            return Err(FilesError::TooManyForArchive(why));
        }
        archive.bytes = listing.files.iter().map(|file| file.size).sum();
        if archive.bytes > limit {
            return Err(FilesError::TooLargeForArchive(archive.bytes, limit));
        }
        archive.paths = listing.files.into_iter().map(|file| file.path).collect();
        Ok(archive)
    }
}

impl Archive {
    /// Writes it, on a thread that may wait.
    pub(crate) fn write(self, to: impl Write) -> io::Result<()> {
        let mut zip = ZipWriter::new_stream(to);
        if let Some(workspace) = &self.workspace {
            let runtime = tokio::runtime::Handle::current();
            let mut left = self.limit;
            let mut names = HashSet::new();
            for path in &self.paths {
                let file = runtime.block_on(workspace.open_file(path));
                let Some(file) = file.map_err(io::Error::other)? else {
                    continue;
                };
                let grown = || io::Error::other("the files grew while they were packed");
                left = left.checked_sub(file.size).ok_or_else(grown)?;
                add(&mut zip, unlike(&mut names, path.as_str()), file)?;
            }
        }
        zip.finish()?;
        Ok(())
    }
}

fn add<W: Write>(
    zip: &mut ZipWriter<StreamWriter<W>>,
    name: String,
    file: OpenFile,
) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .large_file(file.size >= LARGE)
        .last_modified_time(date(&file).unwrap_or_default());
    zip.start_file(name, options)?;
    io::copy(&mut file.file.take(file.size), zip)?;
    Ok(())
}

/// A name for an archive that it does not have yet. A backslash leads to another folder where archives are unpacked on
/// Windows, also upwards, and control characters cannot be in names there.
fn unlike(names: &mut HashSet<String>, path: &str) -> String {
    let mut name = path.replace(
        |character: char| character == '\\' || character.is_control(),
        "_",
    );
    while !names.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// When a file was last written to, in UTC, if an archive can tell: it begins to count in 1980.
fn date(file: &OpenFile) -> Option<DateTime> {
    let time = Timestamp::try_from(file.modified?).ok()?;
    let time = TimeZone::UTC.to_datetime(time);
    let part = |value: i8| u8::try_from(value).ok();
    DateTime::from_date_and_time(
        u16::try_from(time.year()).ok()?,
        part(time.month())?,
        part(time.day())?,
        part(time.hour())?,
        part(time.minute())?,
        part(time.second())?,
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder_and_apart() {
        let mut names = HashSet::new();
        let made: Vec<_> = ["a_b", "a\\b", "a\nb", "..\\..\\evil.txt", "folder/é.csv"]
            .into_iter()
            .map(|path| unlike(&mut names, path))
            .collect();
        assert_eq!(
            made,
            ["a_b", "a_b_", "a_b__", ".._.._evil.txt", "folder/é.csv"]
        );
    }
}
