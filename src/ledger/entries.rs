//! Which runs are remembered: all that are under way, and the latest of those that have ended.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::{KEPT, LiveRun};

/// How many finished runs are kept, and how many bytes of them: the oldest go first.
const MAX_FINISHED: usize = 20_000;
const MAX_BYTES: usize = 256 << 20;

/// The runs that clients can ask for, by id.
#[derive(Debug, Default)]
pub(super) struct Entries {
    runs: HashMap<String, Arc<LiveRun>>,
    /// Those that have ended, oldest first: what a run costs must not grow with the number of runs before it.
    finished: VecDeque<KeptRun>,
    /// Bytes kept of all that have ended.
    bytes: usize,
}

#[derive(Debug)]
struct KeptRun {
    id: String,
    at: Instant,
    bytes: usize,
}

impl Entries {
    /// Remembers a run that begins, unless there is one of that id.
    pub(super) fn begin(&mut self, run: Arc<LiveRun>) -> bool {
        self.forget();
        let Entry::Vacant(vacant) = self.runs.entry(run.id.clone()) else {
            return false;
        };
        vacant.insert(run);
        true
    }

    /// Notes that a run has ended, of which `bytes` are kept for a while.
    pub(super) fn end(&mut self, id: String, bytes: usize) {
        self.bytes += bytes;
        self.finished.push_back(KeptRun {
            id,
            at: Instant::now(),
            bytes,
        });
        self.forget();
    }

    pub(super) fn get(&mut self, id: &str) -> Option<&Arc<LiveRun>> {
        self.forget();
        self.runs.get(id)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = &Arc<LiveRun>> {
        self.forget();
        self.runs.values()
    }

    /// Forgets runs that ended too long ago, and the oldest while too much is kept.
    fn forget(&mut self) {
        let now = Instant::now();
        while let Some(oldest) = self.finished.front() {
            let is_old = now.duration_since(oldest.at) >= KEPT;
            if !is_old && self.finished.len() <= MAX_FINISHED && self.bytes <= MAX_BYTES {
                break;
            }
            self.bytes -= oldest.bytes;
            self.runs.remove(&oldest.id);
            self.finished.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::tests::live_run;

    /// A run that has just ended, with `bytes` of output.
    fn ended(entries: &mut Entries, id: &str, bytes: usize) {
        entries.begin(live_run(id));
        entries.end(id.to_owned(), bytes);
    }

    fn ids(entries: &mut Entries) -> Vec<&str> {
        let mut ids: Vec<_> = entries.iter().map(|run| run.id.as_str()).collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_go_by_age_take_no_others_with_them() {
        let mut entries = Entries::default();
        entries.begin(live_run("under way"));
        ended(&mut entries, "old", MAX_BYTES);
        tokio::time::advance(KEPT).await;
        ended(&mut entries, "new", 1);
        assert_eq!(ids(&mut entries), ["new", "under way"]);
        assert_eq!(entries.bytes, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_their_output_is_too_much() {
        let mut entries = Entries::default();
        for id in ["first", "second", "third"] {
            ended(&mut entries, id, MAX_BYTES / 2);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(ids(&mut entries), ["second", "third"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_they_are_too_many() {
        let mut entries = Entries::default();
        for number in 0..=MAX_FINISHED {
            ended(&mut entries, &number.to_string(), 0);
        }
        assert_eq!(entries.iter().count(), MAX_FINISHED);
        assert!(entries.get("0").is_none() && entries.get("1").is_some());
    }
}
