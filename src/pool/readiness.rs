//! Tells whether a run would find large libraries loaded, before it has its turn.

use super::{Kind, Pool, Warm};
use crate::conversation::ConversationKey;
use crate::runner::{Load, Runner};

impl Warm {
    fn is_loaded(&self) -> bool {
        self.load == Load::Full || self.used.is_some()
    }
}

impl Pool {
    /// Whether large libraries are loaded in the conversation's own sandbox. What waits in the pool may be another's by the
    /// time that it is claimed.
    pub fn has_loaded(&self, key: &ConversationKey, runner: &Runner) -> bool {
        let is_loaded = |warm: &Warm| warm.is_loaded() && self.is_usable(&warm.sandbox);
        let shelf = self.0.shelf.lock();
        shelf.own_passes(key, &Kind::of(runner), is_loaded)
    }
}
