//! The runs in progress by conversation, so that deleting a conversation and stopping the server end them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::conversation::ConversationKey;

/// The runs in progress.
#[derive(Clone, Debug, Default)]
pub struct ActiveRuns(Arc<Mutex<HashMap<ConversationKey, Conversation>>>);

#[derive(Debug, Default)]
struct Conversation {
    runs: usize,
    stop: CancellationToken,
}

/// A run in progress. Dropping it says that the run is over.
#[derive(Debug)]
pub(super) struct ActiveRun {
    active: ActiveRuns,
    key: ConversationKey,
    /// Cancelled when the run has to end.
    pub(super) stop: CancellationToken,
}

impl ActiveRuns {
    pub(super) fn enter(&self, key: &ConversationKey) -> ActiveRun {
        let mut conversations = self.lock();
        let conversation = conversations.entry(key.clone()).or_default();
        conversation.runs += 1;
        ActiveRun {
            active: self.clone(),
            key: key.clone(),
            stop: conversation.stop.clone(),
        }
    }

    /// Ends the runs of a conversation.
    pub fn stop(&self, key: &ConversationKey) {
        if let Some(conversation) = self.lock().remove(key) {
            conversation.stop.cancel();
        }
    }

    /// Ends all runs.
    pub fn stop_all(&self) {
        for conversation in self.lock().values() {
            conversation.stop.cancel();
        }
    }

    /// How many runs are in progress.
    pub fn count(&self) -> usize {
        self.lock()
            .values()
            .map(|conversation| conversation.runs)
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationKey, Conversation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        let mut conversations = self.active.lock();
        // A stopped conversation was taken out already; a later one of the same key is not ours to count down.
        if let Some(conversation) = conversations.get_mut(&self.key)
            && !self.stop.is_cancelled()
        {
            conversation.runs -= 1;
            if conversation.runs == 0 {
                conversations.remove(&self.key);
            }
        }
    }
}
