//! The use cases of a conversation's files: upload, list, read, rename, delete, and all in one archive.

mod archive;
mod encoded;
mod entries;
mod page;

use bytes::Bytes;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use utoipa::ToSchema;

pub use self::page::FilePage;
pub(crate) use self::page::fitting;
use crate::argument::Argument::{self, Content, Cursor, Filename};
use crate::audit::AuditUnavailable;
use crate::conversation::{Conversation, ConversationId, ConversationKey};
use crate::links::FileLink;
use crate::links::FileLinks;
use crate::principal::Principal;
use crate::workspace::path::{PathError, RelativePath};
use crate::workspace::{
    Demand, Existing, FileEntry, Listing, OpenFile, Spool, WorkspaceError, Workspaces,
};

/// Most bytes that one `read_file` returns.
pub const MAX_READ_BYTES: u64 = 256 << 10;
/// Picture types that MCP clients show.
pub const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The files of all conversations, and how they are linked to.
#[derive(Clone, Debug)]
pub struct ConversationFiles {
    /// The directories.
    pub workspaces: Workspaces,
    /// Addresses for downloads.
    pub links: FileLinks,
    /// The secret behind conversation keys.
    pub file_secret: SecretString,
    /// Largest upload in bytes.
    pub max_upload_bytes: u64,
}

/// A file that passed every check and is not stored yet.
#[derive(Debug)]
pub struct Upload {
    path: RelativePath,
    bytes: Bytes,
}

impl Upload {
    /// Its name.
    pub fn name(&self) -> &str {
        self.path.as_str()
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Why a file operation was refused.
#[derive(Debug, Error)]
pub enum FilesError {
    /// The name is not acceptable.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The content is not base64.
    #[error(
        "{Content} is not valid base64 ({0}): send the file's bytes in base64, also if it is text"
    )]
    Base64(base64::DecodeError),
    /// The content is a `data:` URI whose data are not base64.
    #[error(
        "{Content} is a data: URI without base64: begin it with data:;base64, or send base64 alone"
    )]
    DataUri,
    /// The content is too large.
    #[error("{Content} has {0} bytes, the limit is {1}: upload smaller pieces")]
    TooLarge(u64, u64),
    /// A stream goes on past the limit.
    #[error("the file has more than {0} bytes, which is the limit: upload smaller pieces")]
    TooLong(u64),
    /// The body that the stream is part of is too large.
    #[error("the body has more than {0} bytes, which is the limit: send fewer or smaller files")]
    BodyTooLong(u64),
    /// A stream stalls, or takes too long.
    #[error("the file did not come in time: send it again, or in smaller pieces")]
    TooSlow,
    /// A stream ended too early.
    #[error("the file ended too early: send it again")]
    Interrupted,
    /// There is no such file.
    #[error("{Filename} {0:?} is not a file of this conversation: see list_files")]
    NotFound(String),
    /// A folder was to go into itself.
    #[error("a folder cannot be moved into itself: choose another name")]
    IntoItself,
    /// There are more files than an archive can have.
    #[error(
        "{0} An archive would not have them all: have a program pack what you want into one file"
    )]
    TooManyForArchive(String),
    /// The files have more bytes than an archive may have.
    #[error(
        "the files have {0} bytes, and an archive has at most {1} (WORKSPACE_QUOTA): download them one by one"
    )]
    TooLargeForArchive(u64, u64),
    /// The storage refused or failed.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// It cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditUnavailable),
    /// A cursor is none of ours.
    #[error(
        "{Cursor} is not one that this server gave: take the one that came with the page before, or leave it out to \
         begin with the first page"
    )]
    Cursor,
    /// A read failed half-way.
    #[error("failed to read a file")]
    Read(#[source] std::io::Error),
}

impl FilesError {
    /// The argument that it is about, if it is about one.
    pub fn argument(&self) -> Option<Argument> {
        match self {
            Self::Path(_) | Self::NotFound(_) => Some(Filename),
            Self::Base64(_) | Self::DataUri | Self::TooLarge(..) => Some(Content),
            Self::Cursor => Some(Cursor),
            Self::Workspace(error) => error.argument(),
            _ => None,
        }
    }
}

/// The files of a conversation.
#[derive(Clone, Debug, Default, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// The files by name.
    pub files: Vec<FileLink>,
    /// Why the list is not complete; null when it is.
    pub truncated: Option<String>,
    /// Files that are left out because their names are not valid UTF-8.
    pub skipped: u64,
}

/// A piece of a file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The whole file.
    pub file: FileLink,
    /// Where the piece begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A file that came as a stream and is in its place.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// The file.
    pub file: FileLink,
    /// Whether nothing had its name before.
    pub created: bool,
}

impl ConversationFiles {
    /// The conversation that a caller calls `id`.
    pub fn conversation(&self, caller: &Principal, id: ConversationId) -> Conversation {
        Conversation::new(caller.tenant().clone(), id, &self.file_secret)
    }

    /// A new conversation of a caller, whose id nobody can guess.
    pub fn new_conversation(&self, caller: &Principal) -> Conversation {
        self.conversation(caller, ConversationId::mint())
    }

    /// Checks the name and content of an upload before anything is created for it.
    ///
    /// # Errors
    /// A bad name or content.
    pub fn check_upload(&self, name: &str, content: &str) -> Result<Upload, FilesError> {
        let path = self.check_name(name)?;
        let content = encoded::standard(content)?;
        // By length first, so that a large one is not decoded for nothing; padding makes it up to two bytes too many.
        self.check_size((content.len() as u64 / 4 * 3).saturating_sub(2))?;
        let bytes = encoded::decode(&content)?;
        self.check_size(bytes.len() as u64)?;
        Ok(Upload {
            path,
            bytes: Bytes::from(bytes),
        })
    }

    /// Stores an upload. `existing` says what becomes of an older file of that name.
    ///
    /// # Errors
    /// No room, an older file that is to stay, or trouble with the storage.
    pub async fn store(
        &self,
        conversation: &Conversation,
        upload: Upload,
        existing: Existing,
    ) -> Result<FileLink, FilesError> {
        let key = conversation.key();
        let workspace = self.workspaces.create(key).await?;
        let Upload { path, bytes } = upload;
        let entry = workspace.write_file(&path, bytes, existing).await?;
        Ok(link(&self.links, key, &entry))
    }

    /// Moves a file that was received in full into its place, like [`store`](Self::store).
    ///
    /// # Errors
    /// No room, an older file that is to stay, or trouble with the storage.
    pub async fn put_received(
        &self,
        conversation: &Conversation,
        path: &RelativePath,
        spool: Spool,
        existing: Existing,
    ) -> Result<StoredFile, FilesError> {
        let key = conversation.key();
        let workspace = self.workspaces.create(key).await?;
        let placed = workspace.place_file(path, spool, existing).await?;
        Ok(StoredFile {
            file: link(&self.links, key, &placed.entry),
            created: placed.created,
        })
    }

    /// Checks the name of an upload.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_name(&self, name: &str) -> Result<RelativePath, FilesError> {
        Ok(RelativePath::given_for_upload(name)?)
    }

    /// Checks the size of an upload.
    ///
    /// # Errors
    /// It is too large.
    pub fn check_size(&self, bytes: u64) -> Result<(), FilesError> {
        if bytes > self.max_upload_bytes {
            return Err(FilesError::TooLarge(bytes, self.max_upload_bytes));
        }
        Ok(())
    }

    /// All files of a conversation.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn list(&self, conversation: &Conversation) -> Result<FileList, FilesError> {
        let key = conversation.key();
        match self.workspaces.find(key).await? {
            None => Ok(FileList::default()),
            Some(workspace) => Ok(self.listed(key, workspace.list().await?)),
        }
    }

    /// The same for the operator, who knows the conversation by its key, and whose looking is no use of it.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn list_for_operator(&self, key: &ConversationKey) -> Result<FileList, FilesError> {
        match self.workspaces.find(key).await? {
            None => Ok(FileList::default()),
            Some(workspace) => Ok(self.listed(key, workspace.list_for_operator().await?)),
        }
    }

    fn listed(&self, key: &ConversationKey, listing: Listing) -> FileList {
        let files = listing.files.iter();
        FileList {
            files: files.map(|entry| link(&self.links, key, entry)).collect(),
            truncated: listing.truncated,
            skipped: listing.skipped,
        }
    }

    /// Up to `length` bytes of a file from `offset`.
    ///
    /// # Errors
    /// There is no such file, or trouble with the storage.
    pub async fn read(
        &self,
        conversation: &Conversation,
        name: &str,
        offset: u64,
        length: u64,
    ) -> Result<Piece, FilesError> {
        let (file, open) = self.open(conversation, name).await?;
        let mut reader = tokio::fs::File::from_std(open.file);
        reader
            // There is nothing beyond the end, however far the offset.
            .seek(std::io::SeekFrom::Start(offset.min(file.size)))
            .await
            .map_err(FilesError::Read)?;
        let mut bytes = Vec::new();
        reader
            .take(length.min(MAX_READ_BYTES))
            .read_to_end(&mut bytes)
            .await
            .map_err(FilesError::Read)?;
        Ok(Piece {
            file,
            offset,
            bytes,
        })
    }

    /// A whole file of at most `limit` bytes; a larger one comes without its bytes.
    ///
    /// # Errors
    /// There is no such file, or trouble with the storage.
    pub async fn read_whole(
        &self,
        conversation: &Conversation,
        name: &str,
        limit: u64,
    ) -> Result<(FileLink, Option<Vec<u8>>), FilesError> {
        let (file, open) = self.open(conversation, name).await?;
        if open.size > limit {
            return Ok((file, None));
        }
        let mut bytes = Vec::new();
        // A program may still be writing to it.
        tokio::fs::File::from_std(open.file)
            .take(limit)
            .read_to_end(&mut bytes)
            .await
            .map_err(FilesError::Read)?;
        Ok((file, Some(bytes)))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// There is no such file, or trouble with the storage.
    pub async fn open(
        &self,
        conversation: &Conversation,
        name: &str,
    ) -> Result<(FileLink, OpenFile), FilesError> {
        let mut path = RelativePath::given(name)?;
        let not_found = || FilesError::NotFound(name.chars().take(255).collect());
        let key = conversation.key();
        let workspace = self.workspaces.find(key).await?.ok_or_else(not_found)?;
        let mut open = workspace.open_file(&path).await?;
        if open.is_none()
            && let Some(other) = RelativePath::without_quotes(name)
        {
            open = workspace.open_file(&other).await?;
            path = other;
        }
        let open = open.ok_or_else(not_found)?;
        let entry = FileEntry {
            path,
            size: open.size,
            modified: open.modified,
            new: false,
        };
        Ok((link(&self.links, key, &entry), open))
    }

    /// Deletes one file of a conversation, if it is as demanded.
    ///
    /// # Errors
    /// There is no such file, it is a folder or not as demanded, or trouble with the storage.
    pub async fn delete_file(
        &self,
        conversation: &Conversation,
        name: &str,
        demand: Option<Demand>,
    ) -> Result<(), FilesError> {
        let path = RelativePath::given(name)?;
        let not_found = || FilesError::NotFound(name.chars().take(255).collect());
        let workspace = self.workspaces.find(conversation.key()).await?;
        let workspace = workspace.ok_or_else(not_found)?;
        if !workspace.remove_file(&path, demand).await? {
            return Err(not_found());
        }
        Ok(())
    }

    /// Gives a file of a conversation another name, which nothing has yet.
    ///
    /// # Errors
    /// There is no such file, it is a folder, the name is taken or none for a file, or trouble with the storage.
    pub async fn rename_file(
        &self,
        conversation: &Conversation,
        name: &str,
        new: &str,
    ) -> Result<FileLink, FilesError> {
        let path = RelativePath::given(name)?;
        let new = RelativePath::given_for_upload(new)?;
        let not_found = || FilesError::NotFound(name.chars().take(255).collect());
        let key = conversation.key();
        let workspace = self.workspaces.find(key).await?.ok_or_else(not_found)?;
        let renamed = workspace.rename_file(&path, &new).await?;
        Ok(link(&self.links, key, &renamed.ok_or_else(not_found)?))
    }

    /// Whether a conversation has a directory.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn exists(&self, conversation: &Conversation) -> Result<bool, FilesError> {
        let key = conversation.key();
        Ok(self.workspaces.find(key).await?.is_some())
    }

    /// Deletes all files of a conversation. Returns whether there were any.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn delete_all(&self, key: &ConversationKey) -> Result<bool, FilesError> {
        Ok(self.workspaces.remove(key).await?)
    }
}

/// A file as clients see it.
pub fn link(links: &FileLinks, key: &ConversationKey, entry: &FileEntry) -> FileLink {
    let name = entry.path.as_str();
    FileLink {
        url: links.url(key, &entry.path, std::time::SystemTime::now()),
        size: entry.size,
        mime_type: mime_type(name),
        new: entry.new,
        name: name.to_owned(),
    }
}

/// Whether a file of this name should be a picture that MCP clients show.
pub fn is_picture_name(name: &str) -> bool {
    PICTURES.contains(&mime_type(name).as_str())
}

fn mime_type(name: &str) -> String {
    if let Some((_, "ts" | "mts" | "cts")) = name.rsplit_once('.') {
        // mime_guess takes the first two for video and does not know the third.
        return "text/typescript".to_owned();
    }
    let guess = mime_guess::from_path(name).first_or_octet_stream();
    guess.essence_str().to_owned()
}
