//! The books of the pool: what is warm, whose it is, what to start next and what has to go. Pure: what a sandbox is,
//! what time it is and what happens to returned sandboxes are up to the caller.

mod cleaning;
mod kind;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use self::cleaning::Cleaning;
pub(super) use self::cleaning::{ReadyAfter, ShelfTicket};
use self::kind::{KindBook, Pooled};
use super::Kind;
use crate::config::PoolSizes;
use crate::conversation::ConversationKey;
use crate::runner::Load;

/// A pooled sandbox is replaced after this long, so that none gets very old.
const POOLED_TTL: Duration = Duration::from_hours(12);
/// After a failed start, the next one of that kind waits this long, and twice as long after each further failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Longest such pause: what always fails costs little, and what is fixed is noticed soon.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);
/// How many idle sandboxes of one kind a conversation may keep.
const OWNED_PER_KIND: usize = 2;

/// The books. `S` is a sandbox.
#[derive(Debug)]
pub(super) struct Shelf<S> {
    max_warm: usize,
    idle_ttl: Duration,
    closed: bool,
    /// The current kinds; others are neither started nor kept.
    kinds: BTreeMap<Kind, KindBook<S>>,
    owned: Vec<Owned<S>>,
    /// Starts that have begun and not ended, including those of kinds that are gone but may come back.
    starting: BTreeMap<Ahead, usize>,
    /// Sandboxes on their way back.
    cleaning: BTreeMap<ShelfTicket, Cleaning>,
    tickets: u64,
    /// Sandboxes that runs have and will bring back: nothing is started in their places.
    lent: TaskTracker,
    /// When a new conversation came last.
    claimed: Option<Instant>,
}

/// What is started ahead.
pub(super) type Ahead = (Kind, Load);

/// A clean sandbox that waits for its conversation's next run.
#[derive(Debug)]
pub(super) struct Owned<S> {
    pub(super) key: ConversationKey,
    pub(super) kind: Kind,
    pub(super) sandbox: S,
    /// When the last run ended.
    pub(super) since: Instant,
}

/// What a conversation that asks for its own sandbox gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShelfClaim<S> {
    /// This one.
    Granted(S),
    /// It has one that will soon be clean.
    Cleaning,
    /// It has none.
    Nothing,
}

impl<S> ShelfClaim<S> {
    /// The same, with `make` applied to a granted sandbox.
    pub(super) fn map<T>(self, make: impl FnOnce(S) -> T) -> ShelfClaim<T> {
        match self {
            Self::Granted(sandbox) => ShelfClaim::Granted(make(sandbox)),
            Self::Cleaning => ShelfClaim::Cleaning,
            Self::Nothing => ShelfClaim::Nothing,
        }
    }
}

/// How many warm sandboxes of one kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// They wait for a new conversation.
    pub pooled: usize,
    /// They wait for their conversation's next run.
    pub owned: usize,
    /// They are being made ready for it.
    pub cleaning: usize,
    /// They are being started ahead.
    pub starting: usize,
}

impl<S> Shelf<S> {
    /// A shelf that keeps `max_warm` in all, and lets conversations keep theirs for `idle_ttl`.
    pub(super) fn new(max_warm: usize, idle_ttl: Duration) -> Self {
        Self {
            max_warm,
            idle_ttl,
            closed: false,
            kinds: BTreeMap::new(),
            owned: Vec::new(),
            starting: BTreeMap::new(),
            cleaning: BTreeMap::new(),
            tickets: 0,
            lent: TaskTracker::new(),
            claimed: None,
        }
    }

    /// Whether this conversation has a clean sandbox.
    pub(super) fn keeps(&self, key: &ConversationKey) -> bool {
        self.owned.iter().any(|owned| owned.key == *key)
    }

    /// How many each conversation has, clean or on their way back.
    pub(super) fn kept(&self) -> HashMap<ConversationKey, usize> {
        let owned = self.owned.iter().map(|owned| &owned.key);
        let cleaning = self.cleaning.values().map(|cleaning| &cleaning.key);
        let mut kept = HashMap::new();
        for key in owned.chain(cleaning) {
            *kept.entry(key.clone()).or_default() += 1;
        }
        kept
    }

    /// Sets which kinds there are now, and how many of each are kept ready. Returns the sandboxes whose kind is gone, and
    /// those that are more than are wanted.
    #[must_use]
    pub(super) fn set_kinds(&mut self, kinds: &BTreeMap<Kind, PoolSizes>, now: Instant) -> Vec<S> {
        let gone: Vec<Kind> = self
            .kinds
            .keys()
            .filter(|kind| !kinds.contains_key(*kind))
            .cloned()
            .collect();
        let pooled = gone
            .iter()
            .filter_map(|kind| self.kinds.remove(kind))
            .flat_map(|book| book.pooled);
        let mut retired: Vec<S> = pooled.map(|pooled| pooled.sandbox).collect();
        for (kind, sizes) in kinds {
            let book = self.kinds.entry(kind.clone()).or_default();
            book.sizes = *sizes;
            retired.extend(book.take_surplus(now));
        }
        retired.extend(self.take_owned(|owned| !kinds.contains_key(&owned.kind)));
        retired
    }

    /// What to start next, if something is missing and there is room. The caller starts it and reports with
    /// [`Shelf::started`] or [`Shelf::start_failed`].
    pub(super) fn begin_start(&mut self, now: Instant) -> Option<Ahead> {
        if self.closed || self.total() >= self.max_warm {
            return None;
        }
        // The light ones first, since each takes a tenth of the time; of these the emptiest kind, and among equals the
        // most wanted.
        let next = [Load::Light, Load::Full].into_iter().find_map(|load| {
            let missing = |(kind, book): (&Kind, &KindBook<S>)| {
                let waits = book.not_before.is_some_and(|not_before| now < not_before);
                let starting = self.starting.get(&(kind.clone(), load)).copied();
                let have = book.ready(load) + starting.unwrap_or_default();
                let order = (have, u64::MAX - book.claims);
                (!waits && have < book.wanted(load, now)).then(|| (order, kind.clone()))
            };
            let (_, kind) = self.kinds.iter().filter_map(missing).min()?;
            Some((kind, load))
        })?;
        // What takes long gives way to what is soon done.
        let mut starting = self.starting.keys();
        if next.1 == Load::Full && starting.any(|(_, load)| *load == Load::Light) {
            return None;
        }
        *self.starting.entry(next.clone()).or_default() += 1;
        Some(next)
    }

    /// Takes the least recently used one from its conversation when there is no room to fill the pool, which may have
    /// half of all. Otherwise, many old conversations would leave nothing warm for new ones.
    #[must_use]
    pub(super) fn make_room(&mut self, now: Instant) -> Option<S> {
        let (pooled, _) = self.count();
        let ahead = pooled + self.starting();
        let total = |book: &KindBook<S>| {
            let light = book.wanted(Load::Light, now);
            light.saturating_add(book.wanted(Load::Full, now))
        };
        let wanted = self.kinds.values().map(total);
        let wanted = wanted.fold(0, usize::saturating_add);
        let lacks = !self.closed && ahead < wanted.min(self.max_warm / 2);
        (lacks && self.total() >= self.max_warm && !self.owned.is_empty())
            .then(|| self.owned.remove(0).sandbox)
    }

    /// For how long no new conversation has come.
    pub(super) fn quiet(&self, now: Instant) -> Duration {
        self.claimed.map_or(Duration::MAX, |at| now - at)
    }

    fn starting_of(&self, kind: &Kind) -> usize {
        let starting = self.starting.iter().filter(|((each, _), _)| each == kind);
        starting.map(|(_, count)| count).sum()
    }

    /// How many are being started.
    pub(super) fn starting(&self) -> usize {
        self.starting.values().sum()
    }

    /// Notes that a start has failed.
    pub(super) fn start_failed(&mut self, ahead: &Ahead, now: Instant) {
        self.end_start(ahead);
        if let Some(book) = self.kinds.get_mut(&ahead.0) {
            let times = 2_u32.saturating_pow(book.failures);
            let pause = PAUSE_AFTER_FAILURE.saturating_mul(times).min(LONGEST_PAUSE);
            book.not_before = Some(now + pause);
            book.failures = book.failures.saturating_add(1);
        }
    }

    /// Notes that a start has succeeded. Returns the sandbox if it is no longer wanted.
    #[must_use]
    pub(super) fn started(&mut self, ahead: &Ahead, sandbox: S, now: Instant) -> Option<S> {
        self.end_start(ahead);
        if let Some(book) = self.kinds.get_mut(&ahead.0) {
            (book.not_before, book.failures) = (None, 0);
        }
        self.put_back(ahead, sandbox, now)
    }

    fn end_start(&mut self, ahead: &Ahead) {
        if let Some(count) = self.starting.get_mut(ahead) {
            *count -= 1;
            if *count == 0 {
                self.starting.remove(ahead);
            }
        }
    }

    /// Puts back a sandbox that was claimed and not used. Returns it if it is no longer wanted.
    #[must_use]
    pub(super) fn put_back(&mut self, (kind, load): &Ahead, sandbox: S, now: Instant) -> Option<S> {
        match self.kinds.get_mut(kind) {
            Some(book) if !self.closed => {
                let pooled = Pooled {
                    sandbox,
                    load: *load,
                    since: now,
                };
                book.pooled.push(pooled);
                None
            }
            _ => Some(sandbox),
        }
    }

    /// Claims a pooled sandbox, which is the caller's from now on. One with another load is better than none.
    pub(super) fn claim_pooled(&mut self, kind: &Kind, load: Load, now: Instant) -> Option<S> {
        let book = self.kinds.get_mut(kind)?;
        book.note_arrival(load, now);
        self.claimed = Some(now);
        let fits = book.pooled.iter().position(|pooled| pooled.load == load);
        // The oldest one, so that none gets very old.
        let index = fits.or((!book.pooled.is_empty()).then_some(0))?;
        Some(book.pooled.remove(index).sandbox)
    }

    /// The kind that was asked for most often, among those with a pooled sandbox.
    pub(super) fn likeliest_kind(&self) -> Option<Kind> {
        let ready = self
            .kinds
            .iter()
            .filter(|(_, book)| !book.pooled.is_empty());
        ready
            .max_by_key(|(_, book)| book.claims)
            .map(|(kind, _)| kind.clone())
    }

    /// Whether the sandbox of its own that a run of this conversation would get passes. One that is being scrubbed does: its
    /// last program may have been like the next.
    pub(super) fn own_passes(
        &self,
        key: &ConversationKey,
        kind: &Kind,
        passes: impl Fn(&S) -> bool,
    ) -> bool {
        let mut owned = self.owned.iter().rev();
        let found = owned.find(|owned| owned.key == *key && owned.kind == *kind);
        found.map_or_else(
            || self.is_scrubbing(key, kind),
            |owned| passes(&owned.sandbox),
        )
    }

    /// Claims the conversation's own sandbox of a kind, the last used one first. It is the caller's from now on.
    pub(super) fn claim_own(&mut self, key: &ConversationKey, kind: &Kind) -> ShelfClaim<S> {
        if let Some(book) = self.kinds.get_mut(kind) {
            book.claims += 1;
        }
        let found = self
            .owned
            .iter()
            .rposition(|owned| owned.key == *key && owned.kind == *kind);
        match found {
            Some(index) => ShelfClaim::Granted(self.owned.remove(index).sandbox),
            None => self.wait_for_own(key, kind),
        }
    }

    /// Keeps the place of a claimed sandbox, for as long as the token lives.
    pub(super) fn lend(&self) -> TaskTrackerToken {
        self.lent.token()
    }

    /// Leaves a clean sandbox with its conversation, whose last run ended at `since`. Returns those that have to make way,
    /// perhaps including itself.
    #[must_use]
    pub(super) fn give_back(
        &mut self,
        key: &ConversationKey,
        kind: &Kind,
        sandbox: S,
        since: Instant,
    ) -> Vec<S> {
        if self.closed || !self.kinds.contains_key(kind) || self.max_warm == 0 {
            return vec![sandbox];
        }
        // The list is in order of use.
        let place = self.owned.partition_point(|owned| owned.since <= since);
        let owned = Owned {
            key: key.clone(),
            kind: kind.clone(),
            sandbox,
            since,
        };
        self.owned.insert(place, owned);
        let mut retired = Vec::new();
        let same = |owned: &Owned<S>| owned.key == *key && owned.kind == *kind;
        if self.owned.iter().filter(|owned| same(owned)).count() > OWNED_PER_KIND {
            let oldest = self.owned.iter().position(same);
            retired.extend(oldest.map(|index| self.owned.remove(index).sandbox));
        }
        while self.total() > self.max_warm
            && let Some(spared) = self.spare()
        {
            retired.push(spared);
        }
        retired
    }

    /// Takes one that makes way for another: from the pool, while that has more than its half of all, otherwise the
    /// least recently used one of a conversation.
    fn spare(&mut self) -> Option<S> {
        let (pooled, owned) = self.count();
        if owned > 0 && pooled <= self.max_warm / 2 {
            return Some(self.owned.remove(0).sandbox);
        }
        let fullest = self.kinds.values_mut().max_by_key(|book| book.pooled.len());
        fullest?.pooled.pop().map(|pooled| pooled.sandbox)
    }

    /// Takes everything whose time has come, or that `is_dead`.
    #[must_use]
    pub(super) fn expire(&mut self, now: Instant, is_dead: impl Fn(&S) -> bool) -> Vec<S> {
        let idle_ttl = self.idle_ttl;
        let mut retired =
            self.take_owned(|owned| now >= owned.since + idle_ttl || is_dead(&owned.sandbox));
        for book in self.kinds.values_mut() {
            let old = book.pooled.extract_if(.., |pooled| {
                now >= pooled.since + POOLED_TTL || is_dead(&pooled.sandbox)
            });
            retired.extend(old.map(|pooled| pooled.sandbox));
        }
        retired
    }

    /// Takes every idle sandbox of a conversation. What is on its way back is no longer wanted.
    #[must_use]
    pub(super) fn retire(&mut self, key: &ConversationKey) -> Vec<S> {
        self.cleaning.retain(|_, cleaning| cleaning.key != *key);
        self.take_owned(|owned| owned.key == *key)
    }

    /// Takes everything, for good.
    #[must_use]
    pub(super) fn close(&mut self) -> Vec<S> {
        self.closed = true;
        self.set_kinds(&BTreeMap::new(), Instant::now())
    }

    /// How many of a kind are pooled.
    pub(super) fn ready(&self, kind: &Kind) -> usize {
        self.kinds.get(kind).map_or(0, |book| book.pooled.len())
    }

    /// How many of a kind there are, by what they are for.
    pub(super) fn depth(&self, kind: &Kind) -> Depth {
        let cleaning = self.cleaning.values().filter(|each| each.kind == *kind);
        Depth {
            pooled: self.ready(kind),
            owned: self
                .owned
                .iter()
                .filter(|owned| owned.kind == *kind)
                .count(),
            cleaning: cleaning.count(),
            starting: self.starting_of(kind),
        }
    }

    /// How many are pooled and how many are owned.
    pub(super) fn count(&self) -> (usize, usize) {
        (
            self.kinds.values().map(|book| book.pooled.len()).sum(),
            self.owned.len(),
        )
    }

    fn total(&self) -> usize {
        let (pooled, owned) = self.count();
        pooled + owned + self.starting() + self.cleaning.len() + self.lent.len()
    }

    fn take_owned(&mut self, mut which: impl FnMut(&Owned<S>) -> bool) -> Vec<S> {
        self.owned
            .extract_if(.., |owned| which(owned))
            .map(|owned| owned.sandbox)
            .collect()
    }
}

#[cfg(test)]
mod tests;
