//! Who is inside, by conversation, so that deleting a conversation and stopping the server end them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::conversation::ConversationKey;

/// Who is inside. Clones share one book.
#[derive(Clone, Debug, Default)]
pub(super) struct Visitors(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    /// Notified when somebody has left.
    left: Notify,
}

#[derive(Debug, Default)]
struct Book {
    next: u64,
    stops: HashMap<u64, (ConversationKey, CancellationToken)>,
}

/// Somebody inside. Dropping it is leaving.
#[derive(Debug)]
pub(super) struct Visitor {
    visitors: Visitors,
    number: u64,
    stop: CancellationToken,
}

impl Visitors {
    pub(super) fn register(&self, key: &ConversationKey) -> Visitor {
        let mut book = self.0.book.lock();
        book.next += 1;
        let (number, stop) = (book.next, CancellationToken::new());
        book.stops.insert(number, (key.clone(), stop.clone()));
        Visitor {
            visitors: self.clone(),
            number,
            stop,
        }
    }

    /// Tells those to leave whose conversation is meant.
    pub(super) fn stop(&self, is_meant: impl Fn(&ConversationKey) -> bool) {
        let book = self.0.book.lock();
        let meant = book.stops.values().filter(|(key, _)| is_meant(key));
        meant.for_each(|(_, stop)| stop.cancel());
    }

    /// Resolves when something holds that changes when somebody leaves.
    pub(super) async fn until(&self, holds: impl Fn() -> bool) {
        loop {
            let left = self.0.left.notified();
            if holds() {
                return;
            }
            left.await;
        }
    }

    /// Whether somebody is inside for a conversation, or waits.
    pub(super) fn has(&self, key: &ConversationKey) -> bool {
        let book = self.0.book.lock();
        book.stops.values().any(|(owner, _)| owner == key)
    }

    /// How many are inside.
    pub(super) fn count(&self) -> usize {
        self.0.book.lock().stops.len()
    }
}

impl Visitor {
    /// Cancelled when they have to leave.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.visitors.0.book.lock().stops.remove(&self.number);
        self.visitors.0.left.notify_waiters();
    }
}
