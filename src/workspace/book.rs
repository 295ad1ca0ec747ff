//! Which conversations are in use in this process, and how much of the disk each takes. Pure except for the lock.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Usage;
use crate::conversation::ConversationKey;
use crate::principal::Tenant;

/// A use is noted on the disk when the last note is older than this, so that a busy conversation costs nothing.
pub(crate) const NOTE_EVERY: Duration = Duration::from_mins(1);

/// A measurement is used again for this many times as long as it took, so that measuring takes a small part of the
/// time.
const REUSE_FACTOR: u32 = 10;
/// A measurement that took no longer is not worth keeping.
const QUICK: Duration = Duration::from_millis(5);

/// What a conversation took, found by going through its whole tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    pub(super) usage: Usage,
    pub(super) ended: Instant,
    pub(super) took: Duration,
}

/// Who holds a conversation, as long as anybody does.
#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    now: usize,
    /// With those that have let go of it.
    ever: usize,
}

/// The books on all conversations seen so far.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Which runs and uploads hold a conversation.
    held: HashMap<ConversationKey, Holders>,
    /// Those that are being taken away right now.
    leaving: HashSet<ConversationKey>,
    /// When a use was last noted on the disk.
    noted: HashMap<ConversationKey, SystemTime>,
    /// Bytes of disk as last measured.
    sizes: HashMap<ConversationKey, u64>,
    total: u64,
    /// What took long to measure.
    measurements: HashMap<ConversationKey, Measurement>,
    /// Those that may have changed since.
    stale: HashSet<ConversationKey>,
    /// Bytes of what was deleted while kernels have it open.
    deleted: HashMap<ConversationKey, u64>,
    /// The limits that are exceeded where nothing more can go: that on all, and those on tenants.
    full: HashMap<Option<Tenant>, u64>,
}

impl Book {
    /// Keeps a conversation from being taken away. False if it is being taken away already.
    pub(super) fn hold(&mut self, key: &ConversationKey) -> bool {
        if self.leaving.contains(key) {
            return false;
        }
        let holders = self.held.entry(key.clone()).or_default();
        holders.now += 1;
        holders.ever += 1;
        true
    }

    /// Whether it is in use.
    pub(super) fn is_held(&self, key: &ConversationKey) -> bool {
        self.held.contains_key(key)
    }

    /// `None` if several use it. Otherwise it is the same as long as nobody else does or did in between.
    pub(super) fn alone(&self, key: &ConversationKey) -> Option<usize> {
        let holders = self.held.get(key).copied().unwrap_or_default();
        (holders.now <= 1).then_some(holders.ever)
    }

    /// The limit of a tenant, or of all, that is exceeded.
    pub(super) fn full_at(&self, owner: Option<&Tenant>) -> Option<u64> {
        self.full.get(&owner.cloned()).copied()
    }

    /// Notes that a limit is exceeded, or that none is. Returns whether that is new.
    pub(super) fn set_full(&mut self, owner: Option<&Tenant>, limit: Option<u64>) -> bool {
        let before = match limit {
            Some(limit) => self.full.insert(owner.cloned(), limit),
            None => self.full.remove(&owner.cloned()),
        };
        before.is_some() != limit.is_some()
    }

    /// Forgets that a limit is exceeded of tenants that have none.
    pub(super) fn keep_full(&mut self, is_limited: impl Fn(&Tenant) -> bool) {
        self.full
            .retain(|owner, _| owner.as_ref().is_none_or(&is_limited));
    }

    /// The end of one [`Self::hold`].
    pub(super) fn release(&mut self, key: &ConversationKey) {
        self.changed(key);
        if let Some(holders) = self.held.get_mut(key) {
            holders.now -= 1;
            if holders.now == 0 {
                self.held.remove(key);
            }
        }
    }

    /// Begins to take a conversation away. False when it is in use, or is being taken away already.
    pub(super) fn begin_leaving(&mut self, key: &ConversationKey) -> bool {
        !self.held.contains_key(key) && self.leaving.insert(key.clone())
    }

    /// The end of [`Self::begin_leaving`].
    pub(super) fn end_leaving(&mut self, key: &ConversationKey) {
        self.leaving.remove(key);
    }

    /// Whether a use at `now` has to be noted on the disk. Notes have the clock that goes on while the machine sleeps.
    pub(super) fn is_due(&mut self, key: &ConversationKey, now: SystemTime) -> bool {
        if self
            .noted
            .get(key)
            .is_some_and(|noted| is_recent(*noted, now))
        {
            return false;
        }
        self.noted.insert(key.clone(), now);
        true
    }

    /// Records how much a conversation takes.
    pub(super) fn measured(&mut self, key: &ConversationKey, usage: Usage) {
        let before = self.sizes.insert(key.clone(), usage.bytes).unwrap_or(0);
        self.total = self.total - before + usage.bytes;
        if let Some(kept) = self.measurements.get_mut(key) {
            kept.usage = usage;
        }
    }

    /// Counts bytes that have no name any more, as long as a kernel has them open.
    pub(super) fn add_deleted(&mut self, key: &ConversationKey, bytes: u64) {
        *self.deleted.entry(key.clone()).or_default() += bytes;
        self.changed(key);
    }

    /// The end of [`Self::add_deleted`].
    pub(super) fn free_deleted(&mut self, key: &ConversationKey, bytes: u64) {
        self.changed(key);
        if let Some(all) = self.deleted.get_mut(key) {
            *all -= bytes;
            if *all == 0 {
                self.deleted.remove(key);
            }
        }
    }

    /// How many bytes of a conversation have no name.
    pub(super) fn deleted(&self, key: &ConversationKey) -> u64 {
        self.deleted.get(key).copied().unwrap_or(0)
    }

    /// Keeps a measurement if it was slow.
    pub(super) fn keep(&mut self, key: &ConversationKey, measurement: Measurement) {
        if measurement.took > QUICK {
            self.measurements.insert(key.clone(), measurement);
        } else {
            self.measurements.remove(key);
        }
    }

    /// A kept measurement that is not too old.
    pub(super) fn recent(&self, key: &ConversationKey, now: Instant) -> Option<Usage> {
        let kept = self.measurements.get(key)?;
        let is_recent = now.duration_since(kept.ended) < kept.took * REUSE_FACTOR;
        is_recent.then_some(kept.usage)
    }

    /// The conversation is gone.
    pub(super) fn forget(&mut self, key: &ConversationKey) {
        self.total -= self.sizes.remove(key).unwrap_or(0);
        self.noted.remove(key);
        self.measurements.remove(key);
        self.stale.remove(key);
    }

    /// Forgets conversations that are no longer there, and old notes.
    pub(super) fn retain(&mut self, there: &HashSet<ConversationKey>, now: SystemTime) {
        let gone = |key: &&ConversationKey| !there.contains(*key) && !self.held.contains_key(*key);
        let gone: Vec<_> = self.sizes.keys().filter(gone).cloned().collect();
        for key in &gone {
            self.forget(key);
        }
        self.noted.retain(|_, noted| is_recent(*noted, now));
        self.stale.retain(|key| there.contains(key));
    }

    /// How much a conversation took when it was last measured.
    pub(super) fn size(&self, key: &ConversationKey) -> Option<u64> {
        self.sizes.get(key).copied()
    }

    /// Whether the size of a conversation is known and cannot have changed since.
    pub(super) fn is_measured(&self, key: &ConversationKey) -> bool {
        self.sizes.contains_key(key) && !self.stale.contains(key)
    }

    /// It may have grown or shrunk.
    pub(super) fn changed(&mut self, key: &ConversationKey) {
        self.stale.insert(key.clone());
    }

    /// It is about to be measured.
    pub(super) fn begin_look(&mut self, key: &ConversationKey) {
        self.stale.remove(key);
    }

    /// What each was measured to take.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (&ConversationKey, u64)> {
        self.sizes.iter().map(|(key, bytes)| (key, *bytes))
    }

    /// Bytes of all conversations, as far as they were measured.
    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// Whether a note is recent enough not to be renewed. One from the future was made before the clock was set back.
fn is_recent(noted: SystemTime, now: SystemTime) -> bool {
    now.duration_since(noted).is_ok_and(|age| age < NOTE_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> ConversationKey {
        digit.to_string().repeat(64).parse().unwrap()
    }

    #[test]
    fn what_is_held_does_not_leave_and_what_leaves_is_not_held() {
        let (mut book, key) = (Book::default(), key('a'));
        assert!(book.hold(&key) && book.hold(&key));
        book.release(&key);
        assert!(!book.begin_leaving(&key), "one still holds it");
        book.release(&key);
        assert!(book.begin_leaving(&key));
        assert!(!book.begin_leaving(&key) && !book.hold(&key));
        book.end_leaving(&key);
        assert!(book.hold(&key));
    }

    #[test]
    fn uses_are_noted_once_a_minute() {
        let (mut book, key) = (Book::default(), key('a'));
        let after = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + seconds);
        let due = [0, 59, 60, 119, 130, 20, 79].map(|seconds| book.is_due(&key, after(seconds)));
        assert_eq!(due, [true, false, true, false, true, true, false]);
    }

    fn usage(bytes: u64) -> Usage {
        Usage {
            bytes,
            ..Usage::default()
        }
    }

    #[test]
    fn a_slow_measurement_is_used_again_for_a_while_and_a_quick_one_is_not() {
        let (mut book, key, ended) = (Book::default(), key('a'), Instant::now());
        let took = |millis| Measurement {
            usage: usage(10),
            ended,
            took: Duration::from_millis(millis),
        };
        let after = |millis| ended + Duration::from_millis(millis);
        book.keep(&key, took(100));
        assert_eq!(book.recent(&key, after(999)), Some(usage(10)));
        book.measured(&key, usage(12));
        assert_eq!(book.recent(&key, after(999)), Some(usage(12)));
        assert_eq!(book.recent(&key, after(1_000)), None);
        book.keep(&key, took(5));
        assert_eq!(book.recent(&key, after(0)), None);
    }

    #[test]
    fn what_has_no_name_counts_as_long_as_it_is_open() {
        let (mut book, key) = (Book::default(), key('a'));
        book.add_deleted(&key, 5);
        book.add_deleted(&key, 7);
        let with = |book: &Book, before: Usage| before.with_deleted(book.deleted(&key));
        let used = with(&book, usage(10));
        assert_eq!((used.bytes, used.deleted), (22, 12));
        book.free_deleted(&key, 5);
        assert_eq!(
            with(&book, used).bytes,
            17,
            "what is counted is not added again"
        );
        book.free_deleted(&key, 7);
        assert_eq!(with(&book, used), usage(10));
        assert!(book.deleted.is_empty());
    }

    #[test]
    fn the_total_is_the_sum_of_what_is_there() {
        let mut book = Book::default();
        for (digit, bytes) in [('a', 10), ('b', 5), ('a', 7)] {
            book.measured(&key(digit), usage(bytes));
        }
        assert_eq!(book.total(), 12);
        book.retain(&HashSet::from([key('b')]), SystemTime::now());
        assert_eq!((book.total(), book.size(&key('a'))), (5, None));
        book.forget(&key('b'));
        assert_eq!(book.total(), 0);
    }
}
