//! What the server remembers of one client: as long as its session or stream lives, or for one request if it has
//! neither.
#![expect(
    deprecated,
    reason = "log notifications are; the clients that use them are not gone"
)]

pub(super) mod known;

use std::collections::VecDeque;

use parking_lot::Mutex;
use rmcp::model::LoggingLevel;

use crate::conversation::Conversation;

/// Conversations that are remembered, the latest ones.
const MAX_CONVERSATIONS: usize = 16;

/// One client.
#[derive(Debug, Default)]
pub(super) struct Client {
    conversations: Mutex<VecDeque<Conversation>>,
    log_level: Mutex<Option<LoggingLevel>>,
}

impl Client {
    /// Notes that the client has worked with a conversation, so that its files are listed as resources.
    pub(super) fn remember(&self, id: &Conversation) {
        let mut conversations = self.conversations.lock();
        conversations.retain(|known| known != id);
        conversations.push_front(id.clone());
        conversations.truncate(MAX_CONVERSATIONS);
    }

    /// The conversations it has worked with, the latest first.
    pub(super) fn conversations(&self) -> Vec<Conversation> {
        self.conversations.lock().iter().cloned().collect()
    }

    /// The least serious log messages that it wants to receive, if it has asked.
    pub(super) fn log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock()
    }

    /// Notes that it wants log messages of this level and more serious ones.
    pub(super) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = Some(level);
    }
}
