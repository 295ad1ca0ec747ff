//! What the operator can do: see who uses the server, what is kept and what runs, and end it; and the command that asks
//! a running server for that.
//!
//! Nothing is done in a way of its own: a deletion is that of [`Conversations`], a cancellation that of the
//! [`Ledger`](crate::ledger). The server knows no ids of conversations, so they go by their keys.

mod client;
mod command;
mod conversations;
mod error;
mod page;
mod runs;
mod table;
mod tenants;
mod usage;

use std::collections::HashMap;
use std::time::SystemTime;

use jiff::Timestamp;

pub use self::command::{AdminCommand, CommandError};
pub use self::conversations::{ConversationDetail, ConversationList, ConversationQuery, Sort};
pub use self::error::AdminError;
pub use self::page::{MAX_ROWS, PageQuery};
pub use self::runs::{RunList, RunQuery, RunRow};
pub use self::tenants::{Limits, TenantList, TenantRow};
pub use self::usage::{Grouping, UsageQuery, UsageReport};
use crate::audit::Excerpt;
use crate::conversation::ConversationKey;
use crate::conversations::Conversations;
use crate::ledger::Ledger;

/// What the operator can do. Clones share one state.
#[derive(Clone, Debug)]
pub struct Admin {
    conversations: Conversations,
    ledger: Ledger,
}

impl Admin {
    /// Looks at the conversations and runs of all clients.
    pub fn new(conversations: Conversations, ledger: Ledger) -> Self {
        Self {
            conversations,
            ledger,
        }
    }

    /// Up to `limit` lines of the audit log: those behind the one with the number `after`, or the last ones.
    ///
    /// # Errors
    /// The log is in no file, or it cannot be read.
    pub async fn audit(&self, after: Option<u64>, limit: usize) -> Result<Excerpt, AdminError> {
        Ok(self.conversations.audit.excerpt(after, limit).await?)
    }

    /// How many runs each conversation has in progress or waiting.
    fn active_runs(&self) -> HashMap<ConversationKey, usize> {
        let mut counts = HashMap::new();
        for run in self.ledger.under_way() {
            *counts.entry(run.conversation.key().clone()).or_default() += 1;
        }
        counts
    }
}

/// A time as answers have it, to the millisecond.
fn shown(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| String::new(), shown_timestamp)
}

fn shown_timestamp(time: Timestamp) -> String {
    format!("{time:.3}")
}
