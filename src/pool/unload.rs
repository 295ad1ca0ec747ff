//! Has sandboxes of conversations give back what their programs had loaded: memory that others can use, while the
//! sandbox itself stays.

use std::sync::Arc;

use procfs::{Current as _, Meminfo};
use tokio::time::Instant;

use super::shelf::Owned;
use super::{Kind, Lease, Pool, SandboxSource};
use crate::runner::{Load, Runner};

/// Memory is short when less than this part of it is available to programs.
const SHORT_PART: u64 = 8;

/// Whether the machine needs what is only kept for later. Of an engine or nodes elsewhere it says nothing.
fn memory_is_short() -> bool {
    Meminfo::current().is_ok_and(|memory| {
        let available = memory.mem_available.unwrap_or(memory.mem_total);
        available < memory.mem_total / SHORT_PART
    })
}

impl Pool {
    /// Begins with one, if there is one whose programs have not used it for a while, if more than there is room for
    /// have something loaded, or if memory is short. One at a time, since programs may be running.
    pub(super) fn unload<'a>(&self, mut runners: impl Iterator<Item = &'a Arc<Runner>>) {
        let config = &self.0.config;
        let is_unused = |used: Instant| used.elapsed() >= config.loaded_ttl;
        let max_loaded = if memory_is_short() {
            0
        } else {
            config.max_loaded
        };
        let mut shelf = self.0.shelf.lock();
        let begun = shelf.begin_unloading(max_loaded, |warm| warm.used, is_unused);
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
