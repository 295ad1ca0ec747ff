//! What a sandbox is known to hold of the disk that no name shows, and how to ask.

use std::sync::Arc;
use std::time::Duration;

use sandbox_init::Held;
use tokio::sync::{Notify, watch};

/// How long sandbox-init may take to look at the processes of a sandbox, on a busy host.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// A view of one sandbox. It does not keep the sandbox.
#[derive(Clone, Debug)]
pub struct Scale {
    asked: Arc<Notify>,
    held: watch::Receiver<Held>,
}

impl Scale {
    pub(super) fn new(held: watch::Receiver<Held>) -> Self {
        Self {
            asked: Arc::default(),
            held,
        }
    }

    /// What was last reported: at the end of a cell, a second after it, or as an answer.
    pub fn held(&self) -> Held {
        *self.held.borrow()
    }

    /// What the program in it holds right now. `None` when there is no answer.
    pub async fn weigh(&self) -> Option<Held> {
        let mut held = self.held.clone();
        held.mark_unchanged();
        self.asked.notify_waiters();
        let answer = tokio::time::timeout(ANSWER_WAIT, held.changed()).await;
        answer.ok()?.ok()?;
        Some(*held.borrow_and_update())
    }

    /// Resolves when the sandbox is to be asked.
    pub(super) fn asked(&self) -> impl Future<Output = ()> + Send + use<> {
        let asked = Arc::clone(&self.asked);
        async move { asked.notified().await }
    }
}
