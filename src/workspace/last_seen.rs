//! What files were like when a run had ended, so that the next one of their conversation can begin without looking at
//! all of them.
//!
//! Programs change files only while a run lasts, and the server says what it changes itself. What others change
//! meanwhile, on the host or from another server, is told from what a run changed by when that was.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use super::listing::Survey;
use super::{DirectoryId, Store};
use crate::conversation::ConversationKey;
use crate::recent::{Bounds, Recent};

/// Fewer entries are looked at anew in less than a tenth of a millisecond.
const FEW: u64 = 64;
/// What an entry takes in memory, with a name of usual length.
const ENTRY_BYTES: usize = 160;
/// Conversations are remembered for as long as their sandboxes may be, and all together in this much memory.
const BOUNDS: Bounds = Bounds {
    age: Duration::from_hours(1),
    count: 4_096,
    bytes: 32 << 20,
};

/// What is remembered of all conversations.
pub(super) struct LastSeen(Mutex<Seen>);

struct Seen {
    surveys: Recent<ConversationKey, (DirectoryId, Survey)>,
    /// How often the server has changed files, of any conversation.
    changes: u64,
}

/// A time before files are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

impl LastSeen {
    pub(super) fn mark(&self) -> Mark {
        Mark(self.0.lock().changes)
    }

    /// Keeps what was seen of a directory since a mark, unless the server changed files meanwhile or there is little.
    pub(super) fn keep(
        &self,
        key: &ConversationKey,
        directory: DirectoryId,
        survey: Survey,
        mark: Mark,
    ) {
        let entries = survey.usage.map_or(0, |usage| usage.entries);
        let mut seen = self.0.lock();
        if entries < FEW || seen.changes != mark.0 {
            return;
        }
        let entries = usize::try_from(entries).unwrap_or(usize::MAX);
        let bytes = entries.saturating_mul(ENTRY_BYTES);
        seen.surveys.insert(key.clone(), (directory, survey), bytes);
    }

    /// What was seen of a directory, once.
    pub(super) fn take(&self, key: &ConversationKey, directory: DirectoryId) -> Option<Survey> {
        let (seen, survey) = self.0.lock().surveys.remove(key)?;
        (seen == directory).then_some(survey)
    }

    /// The server has changed files of a conversation, or deleted it.
    pub(super) fn changed(&self, key: &ConversationKey) {
        let mut seen = self.0.lock();
        seen.changes += 1;
        seen.surveys.remove(key);
    }
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Mutex::new(Seen {
            surveys: Recent::new(BOUNDS),
            changes: 0,
        }))
    }
}

impl fmt::Debug for LastSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().surveys.fmt(f)
    }
}

impl Store {
    /// Notes that the server has changed files of a conversation.
    pub(super) fn changed(&self, key: &ConversationKey) {
        self.uses.book().changed(key);
        self.last_seen.changed(key);
    }
}
