//! The runs in progress by conversation, so that deleting a conversation and stopping the server end them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::conversation::ConversationKey;

/// The runs in progress.
#[derive(Clone, Debug, Default)]
pub struct ActiveRuns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    /// Notified when a run is over.
    over: Notify,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    runs: HashMap<u64, (ConversationKey, CancellationToken)>,
}

/// A run in progress. Dropping it marks the run as over.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    active: ActiveRuns,
    number: u64,
    /// Cancelled when the run has to end.
    pub(crate) stop: CancellationToken,
}

impl ActiveRuns {
    pub(crate) fn register(&self, key: &ConversationKey) -> ActiveRun {
        let mut book = self.0.book.lock();
        book.next += 1;
        let (number, stop) = (book.next, CancellationToken::new());
        book.runs.insert(number, (key.clone(), stop.clone()));
        ActiveRun {
            active: self.clone(),
            number,
            stop,
        }
    }

    /// Ends the runs of a conversation.
    pub fn stop(&self, key: &ConversationKey) {
        let book = self.0.book.lock();
        book.runs
            .values()
            .filter(|(owner, _)| owner == key)
            .for_each(|(_, stop)| stop.cancel());
    }

    /// Resolves when no run of a conversation is in progress.
    pub(crate) async fn idle(&self, key: &ConversationKey) {
        self.until(|| !self.is_busy(key)).await;
    }

    /// Resolves when no run is in progress.
    pub async fn all_over(&self) {
        self.until(|| self.count() == 0).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let over = self.0.over.notified();
            if is_so() {
                return;
            }
            over.await;
        }
    }

    /// Ends all runs.
    pub fn stop_all(&self) {
        self.0
            .book
            .lock()
            .runs
            .values()
            .for_each(|(_, stop)| stop.cancel());
    }

    /// Whether a conversation has a run in progress or waiting.
    pub fn is_busy(&self, key: &ConversationKey) -> bool {
        self.0
            .book
            .lock()
            .runs
            .values()
            .any(|(owner, _)| owner == key)
    }

    /// How many runs are in progress.
    pub fn count(&self) -> usize {
        self.0.book.lock().runs.len()
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        self.active.0.book.lock().runs.remove(&self.number);
        self.active.0.over.notify_waiters();
    }
}
