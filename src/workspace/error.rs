//! What can go wrong with a workspace, by what the caller can do about it.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use thiserror::Error;

use crate::argument::Argument::{self, Filename};
use crate::config::UidRange;

/// Why an operation on a workspace failed. Messages never contain a path of the host.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// The conversation would have more bytes than it may keep.
    #[error(
        "the conversation's files would take {used} bytes{} and the limit is {limit}: delete some, or start a new conversation",
        deletion_size(*deleted)
    )]
    QuotaExceeded {
        /// Bytes that its files would take.
        used: u64,
        /// How many of these are in files that were deleted.
        deleted: u64,
        /// Bytes that they may take.
        limit: u64,
    },
    /// The conversation has more files and folders than it may keep, or than can be counted.
    #[error(
        "the conversation has {limit} files or more, or folders in folders too deep to count: delete some by a program \
         or delete the conversation, or start a new one"
    )]
    TooManyEntries {
        /// Entries that it may have.
        limit: u64,
    },
    /// A folder has more in it than one answer may.
    #[error(
        "the folder has more than {limit} entries: list the folders in it one by one, or have a program look"
    )]
    TooManyToList {
        /// Entries of one answer.
        limit: usize,
    },
    /// All conversations together take more than they may, and those that could go are gone.
    #[error(
        "the server's storage is full (STORAGE_LIMIT, {limit} bytes) and every conversation is in use: delete \
         conversations that are over, or try again later"
    )]
    StorageFull {
        /// Bytes that all may take.
        limit: u64,
    },
    /// The tenant's conversations take more than they may, and those that could go are gone.
    #[error(
        "the tenant's storage is full ({limit} bytes) and every one of its conversations is in use: delete conversations \
         that are over, or try again later"
    )]
    TenantFull {
        /// Bytes that they may take.
        limit: u64,
    },
    /// Every conversation has a user of its own, and all users are taken.
    #[error(
        "every user id of SANDBOX_UIDS={uids} belongs to a conversation: delete conversations that are over, or ask the \
         operator for a wider range"
    )]
    NoUserLeft {
        /// The setting.
        uids: UidRange,
    },
    /// The file system has less free space than must stay free.
    #[error("the server's disk is nearly full: write less, or ask the operator for room")]
    DiskFull,
    /// A file was to take the place of a folder.
    #[error("{Filename} is the name of a folder: choose another name")]
    IsDirectory,
    /// There is a file of that name, which was not to be replaced.
    #[error(
        "there is a file of that name already: choose another name, or say that it may be replaced"
    )]
    Exists,
    /// A file was to have the name of something else.
    #[error("there is something of that name already: choose another name, or delete that first")]
    NameTaken,
    /// The file of that name, or its absence, does not meet the demand.
    #[error("the file is not as was demanded: look at it again")]
    Unmet,
    /// As many files are being received as are allowed.
    #[error("too many uploads at the same time: try again in {} s", Self::AGAIN.as_secs())]
    TooManyUploads,
    /// A program removes the folders for a file as fast as they are made.
    #[error(
        "a program of the conversation removes the folders of the file as fast as they are made: try again in {} s, or \
         when the program has ended",
        Self::AGAIN.as_secs()
    )]
    FoldersVanish,
    /// A program fills a folder as fast as it is deleted.
    #[error(
        "a program of the conversation fills the folder as fast as it is deleted: try again in {} s, or when the \
         program has ended",
        Self::AGAIN.as_secs()
    )]
    Refilled,
    /// A file was to be put below something that is not a folder; links do not count as folders.
    #[error("{Filename} has a folder part that is a file or a link: choose another folder")]
    NotADirectory,
    /// The operating system failed.
    #[error("failed to {operation}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// What to know about files that were deleted, if they count.
fn deletion_size(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    format!(
        " ({bytes} of them in files that were deleted while a stateful kernel has them open: close them there, or run \
         once with restart: true)"
    )
}

impl WorkspaceError {
    /// The argument that it is about, if it is about one.
    pub fn argument(&self) -> Option<Argument> {
        matches!(self, Self::IsDirectory | Self::NotADirectory).then_some(Filename)
    }

    const AGAIN: Duration = Duration::from_secs(5);

    /// After what time it is worth trying again, when nothing but time helps.
    pub fn retry_after(&self) -> Option<Duration> {
        matches!(
            self,
            Self::TooManyUploads | Self::FoldersVanish | Self::Refilled
        )
        .then_some(Self::AGAIN)
    }

    /// Whether something was not there, or is no longer there.
    pub(super) fn is_gone(&self) -> bool {
        // The second comes from file systems that other machines change too.
        let is_gone = |kind| {
            matches!(
                kind,
                io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle
            )
        };
        matches!(self, Self::Io { source, .. } if is_gone(source.kind()))
    }

    /// Turns an error number into an error of `operation`, and a full disk into [`DiskFull`](Self::DiskFull).
    pub(super) fn of<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> Self {
        move |error| {
            let source = error.into();
            match source.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOSPC | Errno::DQUOT) => Self::DiskFull,
                _ => Self::Io { operation, source },
            }
        }
    }
}
