//! Has sandboxes of conversations give back what their programs had loaded: memory that others can use, while the
//! sandbox itself stays.

use std::sync::Arc;

use tokio::time::Instant;

use super::shelf::Owned;
use super::{Kind, Lease, Pool, SandboxSource};
use crate::runner::{Load, Runner};

impl Pool {
    /// Begins with one, if there is one whose programs have not used it for a while, or if more than there is room for
    /// have something loaded. One at a time, since programs may be running.
    pub(super) fn unload<'a>(&self, mut runners: impl Iterator<Item = &'a Arc<Runner>>) {
        let config = &self.0.config;
        let is_unused = |used: Instant| used.elapsed() >= config.loaded_ttl;
        let mut shelf = self.0.shelf.lock();
        let begun = shelf.begin_unloading(config.max_loaded, |warm| warm.used, is_unused);
        drop(shelf);
        let Some((ticket, owned)) = begun else {
            return;
        };
        let Owned {
            key,
            kind,
            sandbox: warm,
            since,
        } = owned;
        let Some(runner) = runners.find(|runner| Kind::of(runner) == kind) else {
            // Its image has gone, and so has the reason to keep it.
            let _ = self.0.shelf.lock().end_cleaning(ticket);
            return;
        };
        let source = SandboxSource::Own;
        let lease = Lease::new(self.clone(), warm.sandbox, key, runner, source, warm.data);
        let lease = lease.with_parking(runner, Load::Light);
        self.0.tasks.spawn(lease.unload(ticket, since));
    }
}
