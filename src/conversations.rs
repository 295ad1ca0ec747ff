//! The use cases of a conversation as a whole: its files are sent, renamed and deleted, it is deleted, somebody asks
//! whether it is busy.
//!
//! A file comes whole in one message, or as a stream that is never in memory as a whole.

mod folders;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::audit::{Audit, AuditUnavailable, Change, Event, Origin, Pending, kept};
use crate::body::time_for;
use crate::conversation::{Conversation, ConversationKey};
use crate::files::{ConversationFiles, FilesError, StoredFile};
use crate::gate::Gate;
use crate::kernels::{KernelLoss, Kernels};
use crate::links::FileLink;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::tally::Tally;
use crate::workspace::{Demand, Existing, Spool};

/// How long a client may be silent in the middle of a file.
const SILENCE: Duration = Duration::from_secs(30);

/// A file on its way.
#[derive(Debug)]
pub struct Incoming<B> {
    /// How many bytes its client announced.
    pub declared: Option<u64>,
    /// How long all of them may take.
    pub patience: Duration,
    /// Its content. A stream that ends early says why.
    pub body: B,
}

/// The conversations of all clients.
#[derive(Clone, Debug)]
pub struct Conversations {
    pub(crate) files: ConversationFiles,
    pub(crate) gate: Gate,
    pub(crate) pool: Pool,
    pub(crate) kernels: Kernels,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) audit: Audit,
    pub(crate) tally: Tally,
}

impl Conversations {
    /// Whether a conversation has a run in progress or waiting.
    pub fn is_busy(&self, conversation: &Conversation) -> bool {
        self.gate.is_busy(conversation.key())
    }

    /// Ends the runs of a conversation and deletes its files. Returns whether there were any.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn delete(
        &self,
        origin: &Origin,
        conversation: &Conversation,
    ) -> Result<bool, FilesError> {
        let change = self.audit.change(|| Event::ConversationDeleted {
            change: Change::of(origin, conversation),
        });
        let change = change.await?;
        let existed = self.clear(conversation.key()).await;
        change.end(existed.as_ref().is_ok_and(|existed| *existed));
        existed
    }

    /// The same of a conversation that is known by its key alone, and not recorded.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub(crate) async fn clear(&self, key: &ConversationKey) -> Result<bool, FilesError> {
        self.kernels.retire(key, KernelLoss::Deleted);
        // A run that is about to create its directory would create it again.
        self.gate.clear(key).await;
        self.gate.grants.forget(key);
        self.pool.retire(key);
        self.files.delete_all(key).await
    }

    /// Ends the kernels of a conversation that have this number.
    pub(crate) fn end_kernels(&self, conversation: &Conversation, number: u32) {
        self.kernels
            .retire_numbered(conversation.key(), number, KernelLoss::Deleted);
    }

    /// Deletes one file of a conversation, if it is as demanded.
    ///
    /// # Errors
    /// There is no such file, it is a folder or not as demanded, or trouble with the storage.
    pub async fn delete_file(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        name: &str,
        demand: Option<Demand>,
    ) -> Result<(), FilesError> {
        let _in_use = self.gate.enter_files(conversation).await;
        let change = self.audit.change(|| Event::FileDeleted {
            change: Change::of(origin, conversation),
            name: kept(name),
        });
        let change = change.await?;
        let deleted = self.files.delete_file(conversation, name, demand).await;
        change.end(deleted.is_ok());
        deleted
    }

    /// Gives a file of a conversation another name, which nothing has yet.
    ///
    /// # Errors
    /// There is no such file, it is a folder, the name is taken or none for a file, or trouble with the storage.
    pub async fn rename_file(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        name: &str,
        new: &str,
    ) -> Result<FileLink, FilesError> {
        let _in_use = self.gate.enter_files(conversation).await;
        let change = self.audit.change(|| Event::FileRenamed {
            change: Change::of(origin, conversation),
            name: kept(name),
            new_name: kept(new),
        });
        let change = change.await?;
        let renamed = self.files.rename_file(conversation, name, new).await;
        change.end(renamed.is_ok());
        renamed
    }

    /// Stores a file in a conversation. A new conversation gets a warm sandbox, so that its first run is warm too.
    ///
    /// # Errors
    /// A bad name or content, too many uploads, no room, or trouble with the storage.
    pub async fn upload(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        name: String,
        content: String,
        existing: Existing,
    ) -> Result<FileLink, FilesError> {
        // All of it is in memory until it is stored.
        let place = self.files.workspaces.reserve_upload()?;
        let files = self.files.clone();
        let check = move || (files.check_upload(&name, &content), place);
        let checked = tokio::task::spawn_blocking(check).await;
        let (upload, _place) = checked.map_err(|error| FilesError::Read(error.into()))?;
        let upload = upload?;
        let key = conversation.key();
        let _in_use = self.gate.enter_upload(conversation).await?;
        self.pool.prewarm(key).await?;
        let (name, bytes) = (upload.name().to_owned(), upload.size());
        let change = self.storing(origin, conversation, name, bytes).await?;
        let file = self.files.store(conversation, upload, existing).await;
        change.end(file.is_ok());
        file.inspect(|file| self.count_upload(conversation, file))
    }

    /// Stores the content of a stream under a name. Nothing is created for the conversation before the last byte has
    /// arrived.
    ///
    /// # Errors
    /// A bad name, too many bytes, a client that stalls or goes away, no room, or trouble with the storage.
    pub async fn receive(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        name: &str,
        existing: Existing,
        incoming: Incoming<impl Stream<Item = Result<Bytes, FilesError>>>,
    ) -> Result<StoredFile, FilesError> {
        let Incoming {
            declared,
            patience,
            body,
        } = incoming;
        let path = self.files.check_name(name)?;
        self.files.check_size(declared.unwrap_or_default())?;
        self.files.workspaces.check_storage(conversation.tenant())?;
        let mut spool = self.files.workspaces.spool().await?;
        let due = Instant::now() + patience;
        let received = timeout_at(due, self.fill(&mut spool, body)).await;
        received.map_err(|_| FilesError::TooSlow)??;
        let key = conversation.key();
        let _in_use = self.gate.enter_upload(conversation).await?;
        self.pool.prewarm(key).await?;
        let (name, bytes) = (path.as_str().to_owned(), spool.size());
        let change = self.storing(origin, conversation, name, bytes).await?;
        let stored = self
            .files
            .put_received(conversation, &path, spool, existing)
            .await;
        change.end(stored.is_ok());
        stored.inspect(|stored| self.count_upload(conversation, &stored.file))
    }

    /// Begins to store a file.
    async fn storing(
        &self,
        origin: &Origin,
        conversation: &Conversation,
        name: String,
        bytes: u64,
    ) -> Result<Pending, AuditUnavailable> {
        let change = || Change::of(origin, conversation);
        let event = || Event::FileUploaded {
            change: change(),
            name,
            bytes,
        };
        self.audit.change(event).await
    }

    async fn fill(
        &self,
        spool: &mut Spool,
        body: impl Stream<Item = Result<Bytes, FilesError>>,
    ) -> Result<(), FilesError> {
        tokio::pin!(body);
        let begun = Instant::now();
        loop {
            let due = (begun + time_for(spool.size())).min(Instant::now() + SILENCE);
            let piece = timeout_at(due, body.next()).await;
            let Some(piece) = piece.map_err(|_| FilesError::TooSlow)? else {
                return Ok(());
            };
            let piece = piece?;
            if spool.size() + piece.len() as u64 > self.files.max_upload_bytes {
                return Err(FilesError::TooLong(self.files.max_upload_bytes));
            }
            spool.write(&piece).await?;
        }
    }

    fn count_upload(&self, conversation: &Conversation, file: &FileLink) {
        self.metrics.uploads.inc();
        self.metrics.uploaded_bytes.inc_by(file.size);
        self.tally.uploaded(conversation.tenant(), file.size);
    }
}
