//! Which runs are remembered: all that are under way, and the latest of those that have ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{KEPT, RunHandle};
use crate::principal::Principal;
use crate::recent::{Bounds, Recent};

/// What is kept of runs that have ended.
const FINISHED: Bounds = Bounds {
    age: KEPT,
    count: 20_000,
    bytes: 256 << 20,
};

/// Whose run it is, and its id, which its caller may have made up.
type RunKey = (Principal, String);

/// The runs that clients can ask for.
#[derive(Debug)]
pub(super) struct Entries {
    under_way: HashMap<RunKey, Arc<RunHandle>>,
    finished: Recent<RunKey, Arc<RunHandle>>,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            under_way: HashMap::new(),
            finished: Recent::new(FINISHED),
        }
    }
}

impl Entries {
    /// Remembers a run that begins, unless its caller has one of that id.
    pub(super) fn begin(&mut self, run: Arc<RunHandle>) -> bool {
        let key = (run.owner.clone(), run.id.clone());
        if self.finished.get(&key).is_some() {
            return false;
        }
        let Entry::Vacant(vacant) = self.under_way.entry(key) else {
            return false;
        };
        vacant.insert(run);
        true
    }

    /// Notes that a run has ended, of which `bytes` are kept for a while.
    pub(super) fn end(&mut self, run: &RunHandle, bytes: usize) {
        let key = (run.owner.clone(), run.id.clone());
        if let Some(run) = self.under_way.remove(&key) {
            self.finished.insert(key, run, bytes);
        }
    }

    /// A caller's run by its id.
    pub(super) fn get(&mut self, owner: &Principal, id: &str) -> Option<&Arc<RunHandle>> {
        let key = (owner.clone(), id.to_owned());
        self.under_way.get(&key).or_else(|| self.finished.get(&key))
    }

    /// Those that have not ended.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Arc<RunHandle>> {
        self.under_way.values()
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = &Arc<RunHandle>> {
        let finished = self.finished.iter().map(|(_, run)| run);
        self.under_way.values().chain(finished)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::tests::run_handle;

    /// A run that has just ended, with `bytes` of output.
    fn ended(entries: &mut Entries, id: &str, bytes: usize) {
        let run = run_handle(id);
        entries.begin(Arc::clone(&run));
        entries.end(&run, bytes);
    }

    fn ids(entries: &mut Entries) -> Vec<&str> {
        let mut ids: Vec<_> = entries.iter().map(|run| run.id.as_str()).collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_go_by_age_take_no_others_with_them() {
        let mut entries = Entries::default();
        entries.begin(run_handle("under way"));
        ended(&mut entries, "old", FINISHED.bytes);
        tokio::time::advance(KEPT).await;
        ended(&mut entries, "new", 1);
        assert_eq!(ids(&mut entries), ["new", "under way"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_their_output_is_too_much() {
        let mut entries = Entries::default();
        for id in ["first", "second", "third"] {
            ended(&mut entries, id, FINISHED.bytes / 2);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(ids(&mut entries), ["second", "third"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_they_are_too_many() {
        let mut entries = Entries::default();
        for number in 0..=FINISHED.count {
            ended(&mut entries, &number.to_string(), 0);
        }
        assert_eq!(entries.iter().count(), FINISHED.count);
        let owner = Principal::local();
        assert!(entries.get(&owner, "0").is_none() && entries.get(&owner, "1").is_some());
    }
}
