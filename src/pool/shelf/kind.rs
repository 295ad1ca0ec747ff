//! The part of the books that is about one kind: what waits for new conversations, and how much should.

use tokio::time::Instant;

use crate::config::PoolSizes;
use crate::pool::arrivals::Arrivals;
use crate::runner::Load;

/// The books on one kind.
#[derive(Debug)]
pub(super) struct KindBook<S> {
    pub(super) sizes: PoolSizes,
    pub(super) pooled: Vec<Pooled<S>>,
    pub(super) not_before: Option<Instant>,
    /// How many starts have failed since the last one that succeeded.
    pub(super) failures: u32,
    /// How often it was asked for, which hints at the kind that an upload is for.
    pub(super) claims: u64,
    /// Of new conversations.
    arrivals: Arrivals,
    /// Of those that wanted everything.
    full_arrivals: Arrivals,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Pooled<S> {
    pub(super) sandbox: S,
    pub(super) load: Load,
    pub(super) since: Instant,
}

impl<S> Default for KindBook<S> {
    fn default() -> Self {
        Self {
            sizes: PoolSizes::default(),
            pooled: Vec::new(),
            not_before: None,
            failures: 0,
            claims: 0,
            arrivals: Arrivals::default(),
            full_arrivals: Arrivals::default(),
        }
    }
}

impl<S> KindBook<S> {
    /// How many wait with this load.
    pub(super) fn ready(&self, load: Load) -> usize {
        let fits = |pooled: &&Pooled<S>| pooled.load == load;
        self.pooled.iter().filter(fits).count()
    }

    /// Notes that a new conversation comes, which wants this.
    pub(super) fn note_arrival(&mut self, load: Load, now: Instant) {
        self.claims += 1;
        self.arrivals.note(now);
        if load == Load::Full {
            self.full_arrivals.note(now);
        }
    }

    /// How many should: twice as many as new conversations have come at once, as far as there is room, since the next
    /// burst may be larger.
    pub(super) fn wanted(&self, load: Load, now: Instant) -> usize {
        let sizes = self.sizes;
        let (arrivals, usual, max) = match load {
            Load::Light => (&self.arrivals, sizes.light, sizes.max_light),
            Load::Full => (&self.full_arrivals, sizes.full, sizes.max_full),
        };
        let expected = arrivals.peak(now).saturating_mul(2);
        usual.max(expected.min(max))
    }

    /// Takes those that are more than are wanted, the newest ones.
    pub(super) fn take_surplus(&mut self, now: Instant) -> Vec<S> {
        let mut light = self.wanted(Load::Light, now);
        let mut full = self.wanted(Load::Full, now);
        let is_surplus = |pooled: &mut Pooled<S>| {
            let left = match pooled.load {
                Load::Light => &mut light,
                Load::Full => &mut full,
            };
            let is_wanted = *left > 0;
            *left = left.saturating_sub(1);
            !is_wanted
        };
        let surplus = self.pooled.extract_if(.., is_surplus);
        surplus.map(|pooled| pooled.sandbox).collect()
    }
}
