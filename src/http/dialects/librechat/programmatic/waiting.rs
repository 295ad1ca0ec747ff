//! What waits for its client under a token: for so long, so much of one caller and of all.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::principal::Principal;

/// Most of one caller, and of all. What has a run is bounded by the places for runs; what has ended is not.
const MAX_OF_ONE: usize = 32;
const MAX_OF_ALL: usize = 256;
/// How long a client has time to come back, and how often is looked for those that did not.
const PATIENCE: Duration = Duration::from_mins(5);
const SWEEP: Duration = Duration::from_secs(10);

/// All that waits. What is let go of is dropped.
#[derive(Debug)]
pub(super) struct Waiting<T>(Mutex<HashMap<String, Entry<T>>>);

/// One that waits.
#[derive(Debug)]
pub(super) struct Entry<T> {
    owner: Principal,
    since: Instant,
    pub(super) value: T,
}

impl<T> Entry<T> {
    /// Begins to wait now.
    pub(super) fn new(owner: Principal, value: T) -> Self {
        Self {
            owner,
            since: Instant::now(),
            value,
        }
    }
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Waiting<T> {
    /// Keeps one under a token. Where there are too many, the one that waits longest is let go of.
    pub(super) fn keep(&self, token: String, entry: Entry<T>) {
        let mut book = self.0.lock();
        let of_one = book.iter().filter(|(_, it)| it.owner == entry.owner);
        let longest = match (of_one.clone().count(), book.len()) {
            (MAX_OF_ONE.., _) => of_one.min_by_key(|(_, it)| it.since),
            (_, MAX_OF_ALL..) => book.iter().min_by_key(|(_, it)| it.since),
            _ => None,
        };
        if let Some(longest) = longest.map(|(token, _)| token.clone()) {
            book.remove(&longest);
        }
        book.insert(token, entry);
    }

    /// Takes the one out that a caller has under a token.
    pub(super) fn take(&self, owner: &Principal, token: &str) -> Option<Entry<T>> {
        let mut book = self.0.lock();
        let is_theirs = book.get(token).is_some_and(|it| it.owner == *owner);
        is_theirs.then(|| book.remove(token)).flatten()
    }

    /// Lets go of those whose client does not come back.
    pub(super) async fn maintain(&self) {
        loop {
            sleep(SWEEP).await;
            let mut book = self.0.lock();
            book.retain(|_, it| it.since.elapsed() < PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: u8) -> Principal {
        Principal::of_token(&number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_five_minutes_to_come_back_and_none_of_another() {
        let waiting = Waiting::default();
        let (ours, theirs) = (caller(1), caller(2));
        waiting.keep("a".to_owned(), Entry::new(ours.clone(), "a"));
        let (wait, book) = (Duration::from_mins(4), &waiting);
        let pass = async |time| {
            tokio::select! {
                () = book.maintain() => {}
                () = sleep(time) => {}
            }
        };
        pass(wait).await;
        assert!(waiting.take(&theirs, "a").is_none());
        let entry = waiting.take(&ours, "a").unwrap();
        // One that is put back does not begin to wait again.
        waiting.keep("a".to_owned(), entry);
        waiting.keep("b".to_owned(), Entry::new(ours.clone(), "b"));
        pass(wait).await;
        assert!(waiting.take(&ours, "a").is_none());
        assert_eq!(waiting.take(&ours, "b").map(|it| it.value), Some("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_waits_longest_makes_room() {
        let waiting = Waiting::default();
        let keep = async |owner: &Principal, token: String| {
            waiting.keep(token, Entry::new(owner.clone(), ()));
            sleep(Duration::from_millis(1)).await;
        };
        let (busy, quiet) = (caller(0), caller(1));
        keep(&quiet, "quiet".to_owned()).await;
        for number in 0..=MAX_OF_ONE {
            keep(&busy, number.to_string()).await;
        }
        let has = |owner: &Principal, token: &str| {
            let entry = waiting.take(owner, token);
            let found = entry.is_some();
            if let Some(entry) = entry {
                waiting.keep(token.to_owned(), entry);
            }
            found
        };
        assert_eq!(["0", "1"].map(|token| has(&busy, token)), [false, true]);
        assert!(has(&quiet, "quiet"));
        for number in 2..u8::MAX {
            keep(&caller(number), format!("other {number}")).await;
        }
        assert!(!has(&quiet, "quiet"));
        assert_eq!(waiting.0.lock().len(), MAX_OF_ALL);
    }
}
