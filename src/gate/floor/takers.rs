//! The books on the programs that take space: who has taken how much, and who has to go. Pure, but for the handles that
//! it keeps.

use std::collections::BTreeMap;

use sandbox_init::Held;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Scale;
use crate::workspace::Usage;

/// Who has taken less is never to blame.
const MUCH: u64 = 1 << 20;
/// What an entry counts, however little is in it: the file system may run out of these too.
const ENTRY_BYTES: u64 = 4_096;

/// What a program has taken, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Taken(u64);

impl Taken {
    /// What there is now and was not there before.
    pub(super) fn since(before: &Usage, now: &Usage) -> Self {
        let entries = now.entries.saturating_sub(before.entries);
        let bytes = now.bytes.saturating_sub(before.bytes);
        Self(bytes.saturating_add(entries.saturating_mul(ENTRY_BYTES)))
    }
}

/// The books. `S` is how to ask a program, `G` how to end it.
#[derive(Debug)]
pub(super) struct Takers<S = Scale, G = CancellationToken> {
    next: u64,
    takers: BTreeMap<u64, Entry<S, G>>,
}

#[derive(Debug)]
struct Entry<S, G> {
    scale: S,
    end: G,
    /// By names, and when that was measured.
    named: Taken,
    measured: Option<Instant>,
    /// Without a name.
    held: Held,
    /// What it had taken when somebody had to go the last time.
    forgiven: u64,
    doomed: bool,
}

impl<S, G> Entry<S, G> {
    fn all(&self) -> u64 {
        self.named.0.saturating_add(self.held.seen())
    }

    /// How much it is to blame, if at all. Who hides something comes before everybody else.
    fn blame(&self) -> Option<(bool, u64)> {
        let taken = self.all().saturating_sub(self.forgiven);
        (!self.doomed && (self.held.unseen || taken >= MUCH)).then_some((self.held.unseen, taken))
    }
}

impl<S, G> Default for Takers<S, G> {
    fn default() -> Self {
        Self {
            next: 0,
            takers: BTreeMap::new(),
        }
    }
}

impl<S: Clone, G> Takers<S, G> {
    pub(super) fn insert(&mut self, end: G, scale: S) -> u64 {
        self.next += 1;
        let entry = Entry {
            scale,
            end,
            named: Taken::default(),
            measured: None,
            held: Held::default(),
            forgiven: 0,
            doomed: false,
        };
        self.takers.insert(self.next, entry);
        self.next
    }

    pub(super) fn leave(&mut self, number: u64) {
        self.takers.remove(&number);
    }

    pub(super) fn measured(&mut self, number: u64, taken: Taken, at: Instant) {
        if let Some(entry) = self.takers.get_mut(&number) {
            (entry.named, entry.measured) = (taken, Some(at));
        }
    }

    /// Notes what it holds. One that did not answer in time is not to blame for that: its processor may be busy.
    pub(super) fn hold(&mut self, number: u64, held: Option<Held>) {
        if let Some(held) = held
            && let Some(entry) = self.takers.get_mut(&number)
        {
            entry.held = held;
        }
    }

    pub(super) fn scales(&self) -> Vec<(u64, S)> {
        let takers = self.takers.iter();
        takers
            .map(|(number, entry)| (*number, entry.scale.clone()))
            .collect()
    }

    /// Whether everybody's files were measured since then.
    pub(super) fn all_measured_since(&self, begun: Instant) -> bool {
        let is_recent = |entry: &Entry<S, G>| entry.measured.is_some_and(|at| at >= begun);
        self.takers.values().all(is_recent)
    }

    /// Who is most to blame.
    fn culprit(&self) -> Option<u64> {
        let blamed = |(number, entry): (&u64, &Entry<S, G>)| Some((entry.blame()?, *number));
        let largest = self.takers.iter().filter_map(blamed).max();
        largest.map(|(_, number)| number)
    }

    /// Nobody is blamed again for what they have taken so far.
    pub(super) fn forgive(&mut self) {
        for entry in self.takers.values_mut() {
            entry.forgiven = entry.all();
        }
    }
}

impl<S: Clone> Takers<S, CancellationToken> {
    /// Tells the one that is most to blame to go. False if nobody is to blame.
    pub(super) fn doom(&mut self) -> bool {
        let culprit = self.culprit();
        let entry = culprit.and_then(|number| self.takers.get_mut(&number));
        if let Some(entry) = entry {
            entry.doomed = true;
            entry.end.cancel();
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Book = Takers<(), CancellationToken>;

    /// A book on programs that have taken so many KiB by names.
    fn book(taken: &[u64]) -> (Book, Vec<u64>) {
        let mut book = Book::default();
        let insert = |kibibytes: &u64| {
            let number = book.insert(CancellationToken::new(), ());
            book.measured(number, Taken(kibibytes << 10), Instant::now());
            number
        };
        let numbers = taken.iter().map(insert).collect();
        (book, numbers)
    }

    fn held(mebibytes: u64, unseen: bool) -> Held {
        Held {
            bytes: mebibytes << 20,
            mapped_bytes: 0,
            unseen,
        }
    }

    #[test]
    fn who_has_taken_most_goes_and_who_has_taken_little_stays() {
        let (mut book, numbers) = book(&[1023, 8 << 10, 2 << 10]);
        let gone = |book: &Book| -> Vec<bool> {
            let entries = numbers.iter().map(|number| &book.takers[number]);
            entries.map(|entry| entry.end.is_cancelled()).collect()
        };
        assert!(book.doom());
        assert_eq!(gone(&book), [false, true, false]);
        // The first one is about to go.
        assert!(book.doom());
        assert_eq!(gone(&book), [false, true, true]);
        assert!(!book.doom());
        assert_eq!(gone(&book), [false, true, true]);
    }

    #[test]
    fn what_has_no_name_counts_and_who_hides_it_goes_first() {
        let (mut book, numbers) = book(&[8 << 10, 0, 0]);
        book.hold(numbers[1], Some(held(9, false)));
        assert_eq!(book.culprit(), Some(numbers[1]));
        book.hold(numbers[1], None);
        assert_eq!(book.culprit(), Some(numbers[1]));
        book.hold(numbers[2], Some(held(0, true)));
        assert_eq!(book.culprit(), Some(numbers[2]));
    }

    #[test]
    fn when_somebody_has_gone_only_what_is_taken_after_that_counts() {
        let (mut book, numbers) = book(&[50 << 10, 8 << 10]);
        assert_eq!(book.culprit(), Some(numbers[0]));
        book.leave(numbers[0]);
        book.forgive();
        assert_eq!(book.culprit(), None);
        book.measured(numbers[1], Taken(9 << 20), Instant::now());
        assert_eq!(book.culprit(), Some(numbers[1]));
    }

    #[test]
    fn entries_count_as_well_as_bytes() {
        let usage = |bytes, entries| Usage {
            bytes,
            entries,
            complete: true,
            deleted: 0,
        };
        let taken = |before, now| Taken::since(&before, &now).0;
        assert_eq!(taken(usage(100, 1), usage(150, 3)), 50 + 2 * ENTRY_BYTES);
        assert_eq!(taken(usage(100, 3), usage(50, 1)), 0);
    }

    #[test]
    fn it_is_known_whether_all_have_measured() {
        let (mut book, numbers) = book(&[1, 2]);
        let now = Instant::now();
        assert!(!book.all_measured_since(now + std::time::Duration::from_millis(1)));
        let later = now + std::time::Duration::from_millis(2);
        book.measured(numbers[0], Taken(1), later);
        assert!(!book.all_measured_since(now + std::time::Duration::from_millis(1)));
        book.measured(numbers[1], Taken(1), later);
        assert!(book.all_measured_since(now + std::time::Duration::from_millis(1)));
    }
}
