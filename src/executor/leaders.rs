//! Where servers that share a root note which one of them leads.

use std::fmt;

use async_trait::async_trait;

use super::ExecutorError;

/// What is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderEntry {
    /// Another one after each change.
    pub version: String,
    /// Who leads; `None` means that nobody does.
    pub leader: Option<String>,
}

/// A place for one such note, of which each change has a version that nobody else's has.
#[async_trait]
pub trait LeaderStore: fmt::Debug + Send + Sync {
    /// What is noted; `None` if nothing ever was.
    ///
    /// # Errors
    /// The store does not answer, or does not allow it.
    async fn read(&self) -> Result<Option<LeaderEntry>, ExecutorError>;

    /// Notes who leads, over the version that was seen last; `None` if there was none.
    ///
    /// # Errors
    /// The store does not answer, or there is another version, which is an
    /// [`ErrorKind::Conflict`](super::ErrorKind::Conflict).
    async fn write(
        &self,
        leader: Option<&str>,
        over: Option<&str>,
    ) -> Result<LeaderEntry, ExecutorError>;
}
