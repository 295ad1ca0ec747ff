//! Why the operator gets no answer.

use std::io;

use thiserror::Error;

use crate::audit::{AuditUnavailable, ExcerptError};
use crate::conversation::ConversationKey;
use crate::files::FilesError;
use crate::workspace::WorkspaceError;

/// Why the operator gets no answer.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Nothing is kept under that key, and nothing runs for it.
    #[error("there is no conversation with the key {0}: GET /admin/v1/conversations lists them")]
    NoConversation(ConversationKey),
    /// There is no such run, or it is over for too long.
    #[error(
        "there is no run {0}: it never was, or it ended more than ten minutes ago; GET /admin/v1/runs lists them"
    )]
    NoRun(String),
    /// Several callers have chosen the same id.
    #[error(
        "{0} callers have a run with the id {1}: say whose is meant with `subject`, as GET /admin/v1/runs shows it"
    )]
    SeveralRuns(usize, String),
    /// A cursor is none of ours.
    #[error(
        "cursor is not one that this server gave for this list in this order: take the nextCursor of the page before, or leave it out to begin"
    )]
    Cursor,
    /// An answer would be too long.
    #[error(
        "that are more than {0} entries, which is the limit: ask for fewer days, for one tenant, or for a `group` with fewer words"
    )]
    TooManyEntries(usize),
    /// What tenants use cannot be read.
    #[error("failed to read what tenants use")]
    Tally(#[source] io::Error),
    /// Trouble with the storage.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Trouble with the storage.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// What is done has to be recorded and cannot be.
    #[error(transparent)]
    Audit(#[from] AuditUnavailable),
    /// There are no lines of the audit log.
    #[error(transparent)]
    Excerpt(#[from] ExcerptError),
}
