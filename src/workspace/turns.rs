//! One change at a time to the files of each conversation, so that two uploads cannot both claim the same room there.
//! Those of other conversations go on meanwhile: measuring a large tree takes seconds.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::conversation::ConversationKey;

/// Conversations whose turns are remembered although nobody has or wants one: looking for those costs time.
const UNUSED: usize = 64;

/// Whose turn it is in each conversation.
#[derive(Debug, Default)]
pub(super) struct ChangeTurns(Mutex<HashMap<ConversationKey, Weak<Semaphore>>>);

/// A turn. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct ChangeTurn {
    _permit: OwnedSemaphorePermit,
}

impl ChangeTurns {
    /// Waits until nobody else has the turn of this conversation. Who came first goes first.
    pub(super) async fn take(&self, key: &ConversationKey) -> ChangeTurn {
        let permit = self.of(key).acquire_owned().await;
        ChangeTurn {
            _permit: permit.expect("these semaphores are never closed"),
        }
    }

    fn of(&self, key: &ConversationKey) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= UNUSED {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(key.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn key(number: usize) -> ConversationKey {
        format!("{number:064x}").parse().unwrap()
    }

    #[tokio::test]
    async fn turns_of_one_conversation_come_one_after_another() {
        let turns = ChangeTurns::default();
        let one = key(1);
        let first = turns.take(&one).await;
        let mut second = Box::pin(turns.take(&one));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take(&key(2)).now_or_never().is_some());
        drop(first);
        second.await;
    }

    #[tokio::test]
    async fn conversations_without_a_turn_are_forgotten() {
        let turns = ChangeTurns::default();
        let held = turns.take(&key(0)).await;
        for number in 1..=1_000 {
            turns.take(&key(number)).await;
        }
        assert!(turns.0.lock().len() <= UNUSED);
        assert!(turns.take(&key(0)).now_or_never().is_none());
        drop(held);
    }
}
