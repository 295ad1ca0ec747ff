//! What files were like when a run had ended, so that the next one of their conversation can begin without looking at
//! all of them.
//!
//! Programs change files only while a run lasts, and whatever the server changes itself makes void what is kept. What
//! others change meanwhile, on the host or from another server, is taken for a change of the next run.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use super::listing::Survey;
use super::{DirectoryId, Store, WorkspaceError};
use crate::conversation::ConversationKey;
use crate::recent::{Bounds, Recent};

/// Fewer entries are looked at anew in less than a tenth of a millisecond.
const FEW: u64 = 64;
/// What may take more than this part of its limits is measured anew before each run.
const PART: u64 = 2;
/// Conversations are remembered for as long as their sandboxes may be, and all together in this much memory.
const BOUNDS: Bounds = Bounds {
    age: Duration::from_hours(1),
    count: 4_096,
    bytes: 32 << 20,
};

/// What is remembered of all conversations.
pub(super) struct LastSeen(Mutex<Recent<ConversationKey, (DirectoryId, Survey)>>);

impl LastSeen {
    pub(super) fn keep(&self, key: &ConversationKey, directory: DirectoryId, survey: Survey) {
        let bytes = survey.memory();
        self.0
            .lock()
            .insert(key.clone(), (directory, survey), bytes);
    }

    /// What was seen of a directory, once.
    pub(super) fn take(&self, key: &ConversationKey, directory: DirectoryId) -> Option<Survey> {
        let (seen, survey) = self.0.lock().remove(key)?;
        (seen == directory).then_some(survey)
    }

    pub(super) fn forget(&self, key: &ConversationKey) {
        self.0.lock().remove(key);
    }
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(BOUNDS)))
    }
}

impl fmt::Debug for LastSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().fmt(f)
    }
}

impl Store {
    /// Keeps what was seen of a directory after a run, if nobody else has used the conversation since it was `alone` and
    /// if it is far from its limits, but not little.
    pub(super) fn keep_seen(
        &self,
        key: &ConversationKey,
        alone: usize,
        directory: DirectoryId,
        survey: Survey,
    ) {
        let is_large = |taken, limit| taken > limit / PART;
        let is_worth_it = survey.usage.is_some_and(|usage| {
            usage.entries >= FEW
                && !is_large(usage.entries, self.limits.max_entries)
                && !is_large(usage.bytes, self.quota(key))
        });
        // Locked until it is kept: whoever comes then takes it, or makes it void.
        let book = self.uses.book();
        if is_worth_it && book.alone(key) == Some(alone) {
            self.last_seen.keep(key, directory, survey);
        }
    }

    /// Changes files of a conversation. Whoever does so holds it, so that nothing is kept until that is done.
    pub(super) fn changing<T>(
        &self,
        key: &ConversationKey,
        change: impl FnOnce(&Self) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        self.last_seen.forget(key);
        let changed = change(self);
        self.uses.book().changed(key);
        changed
    }
}
