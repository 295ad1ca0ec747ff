//! The books of the kernels: who has which, who waits for it, and what has to go. Pure: what a kernel is and what time
//! it is are up to the caller.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::key::KernelKey;
use super::lost::{KernelLoss, REMEMBERED};
use crate::conversation::ConversationKey;
use crate::principal::Tenant;
use crate::recent::Recent;

/// Runs that may wait for one kernel.
pub(super) const MAX_WAITING: usize = 16;

/// Stands for a run that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelTicket(u64);

/// There is no room for another kernel, and none that could make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The tenant has as many as it may have.
    OfTenant,
    /// There are as many as there may be.
    OfAll,
}

/// The books. `K` is a kernel.
#[derive(Debug)]
pub(super) struct KernelBooks<K> {
    max_kernels: usize,
    idle: Duration,
    closed: bool,
    seats: BTreeMap<KernelKey, KernelSeat<K>>,
    lost: Recent<KernelKey, KernelLoss>,
    tickets: u64,
}

#[derive(Debug)]
struct KernelSeat<K> {
    state: SeatState<K>,
    waiting: VecDeque<KernelTicket>,
}

#[derive(Debug)]
enum SeatState<K> {
    /// There is no kernel: somebody waits for the chance to make one.
    Empty,
    /// It waits for its next cell.
    Idle { kernel: K, since: Instant },
    /// A run has its turn. There is a kernel, or room for one, if `room` is set. When the run leaves, the kernel is
    /// lost for the reason in `doomed`.
    Taken {
        room: bool,
        doomed: Option<KernelLoss>,
    },
}

impl<K> SeatState<K> {
    /// Whether there is a kernel, or room is kept for one.
    fn has_room(&self) -> bool {
        match self {
            Self::Empty => false,
            Self::Idle { .. } => true,
            Self::Taken { room, .. } => *room,
        }
    }
}

/// What a run that asks for a kernel gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KernelClaim<K> {
    /// Its turn.
    Granted {
        /// The existing one.
        kernel: Option<K>,
        /// What became of the last one, if that was not reported yet.
        lost: Option<KernelLoss>,
    },
    /// Others come first.
    Busy,
    /// There is no room for another kernel, and none that could make way.
    Full(NoRoom),
    /// There are no kernels any more.
    Closed,
}

impl<K> KernelBooks<K> {
    /// At most `max_kernels` kernels, each of which may be idle for `idle`.
    pub(super) fn new(max_kernels: usize, idle: Duration) -> Self {
        Self {
            max_kernels,
            idle,
            closed: false,
            seats: BTreeMap::new(),
            lost: Recent::new(REMEMBERED),
            tickets: 0,
        }
    }

    /// Asks for the kernel of a place, for the holder of `ticket`, whose tenant may have `max_of_tenant`. No other kernel
    /// makes way yet: the run may still be turned away.
    pub(super) fn claim(
        &mut self,
        key: &KernelKey,
        ticket: Option<KernelTicket>,
        max_of_tenant: usize,
    ) -> KernelClaim<K> {
        if self.closed {
            return KernelClaim::Closed;
        }
        if let Some(seat) = self.seats.get(key) {
            let is_first = seat.waiting.is_empty() || seat.waiting.front().copied() == ticket;
            if matches!(seat.state, SeatState::Taken { .. }) || !is_first {
                return KernelClaim::Busy;
            }
        }
        let room = self
            .seats
            .get(key)
            .is_some_and(|seat| seat.state.has_room());
        if !room && let Err(full) = self.making_way(&key.tenant, max_of_tenant) {
            return KernelClaim::Full(full);
        }
        let taken = SeatState::Taken { room, doomed: None };
        let before = std::mem::replace(&mut self.seat(key).state, taken);
        KernelClaim::Granted {
            kernel: match before {
                SeatState::Idle { kernel, .. } => Some(kernel),
                SeatState::Empty | SeatState::Taken { .. } => None,
            },
            lost: self.lost.remove(key),
        }
    }

    /// Keeps room for a kernel where a run has its turn, of a tenant that may have `max_of_tenant`. Returns a kernel that
    /// has to make way for it.
    ///
    /// # Errors
    /// There is no room, and every kernel is working or is waited for.
    pub(super) fn make_room(
        &mut self,
        key: &KernelKey,
        max_of_tenant: usize,
    ) -> Result<Option<K>, NoRoom> {
        let has_room = |seat: &KernelSeat<K>| seat.state.has_room();
        if self.seats.get(key).is_some_and(has_room) {
            return Ok(None);
        }
        let evicted = match self.making_way(&key.tenant, max_of_tenant)? {
            None => None,
            Some(least_used) => {
                let evict =
                    |other: &KernelKey| (*other == least_used).then_some(KernelLoss::Evicted);
                let taken = self.take_idle(|other, _, _| evict(other));
                taken.into_iter().next().map(|(kernel, _)| kernel)
            }
        };
        if let SeatState::Taken { room, .. } = &mut self.seat(key).state {
            *room = true;
        }
        Ok(evicted)
    }

    /// Joins the line for a place. `None` when too many wait.
    pub(super) fn line_up(&mut self, key: &KernelKey) -> Option<KernelTicket> {
        self.tickets += 1;
        let ticket = KernelTicket(self.tickets);
        let waiting = &mut self.seat(key).waiting;
        if waiting.len() >= MAX_WAITING {
            return None;
        }
        waiting.push_back(ticket);
        Some(ticket)
    }

    /// Leaves the line.
    pub(super) fn leave_line(&mut self, key: &KernelKey, ticket: KernelTicket) {
        if let Some(seat) = self.seats.get_mut(key) {
            seat.waiting.retain(|other| *other != ticket);
        }
        self.forget_if_empty(key);
    }

    /// A run leaves its kernel for the next one. Returns the kernel if it has to go.
    #[must_use]
    pub(super) fn give_back(
        &mut self,
        key: &KernelKey,
        kernel: K,
        now: Instant,
    ) -> Option<(K, KernelLoss)> {
        let seat = self.seats.get_mut(key);
        let doomed = match seat {
            Some(KernelSeat {
                state: SeatState::Taken { doomed, .. },
                ..
            }) => *doomed,
            _ => None,
        };
        let doomed = doomed.or(self.closed.then_some(KernelLoss::Gone));
        if let Some(why) = doomed {
            self.leave(key, Some(why));
            return Some((kernel, why));
        }
        self.seat(key).state = SeatState::Idle { kernel, since: now };
        None
    }

    /// Remembers what became of the kernel of a place.
    pub(super) fn remember(&mut self, key: &KernelKey, why: KernelLoss) {
        self.lost.insert(key.clone(), why, 0);
    }

    /// A run leaves without a kernel. What became of it is remembered; a deletion in the meantime takes precedence.
    pub(super) fn leave(&mut self, key: &KernelKey, lost: Option<KernelLoss>) {
        let Some(seat) = self.seats.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut seat.state, SeatState::Empty);
        let doomed = match before {
            SeatState::Taken { doomed, .. } => doomed,
            SeatState::Empty | SeatState::Idle { .. } => None,
        };
        if let Some(why) = doomed.filter(|_| lost.is_some()).or(lost) {
            self.lost.insert(key.clone(), why, 0);
        }
        self.forget_if_empty(key);
    }

    /// Takes every idle kernel of a conversation, or only those with a number. Those that runs have are lost when the runs
    /// leave them.
    #[must_use]
    pub(super) fn retire(
        &mut self,
        conversation: &ConversationKey,
        number: Option<u32>,
        why: KernelLoss,
    ) -> Vec<(K, KernelLoss)> {
        let is_meant = |key: &KernelKey| {
            key.conversation == *conversation && number.is_none_or(|number| key.number == number)
        };
        for (key, seat) in &mut self.seats {
            if let SeatState::Taken { doomed, .. } = &mut seat.state
                && is_meant(key)
            {
                *doomed = Some(why);
            }
        }
        self.take_idle(|key, _, _| is_meant(key).then_some(why))
    }

    /// Takes every kernel that was idle for too long, or that is lost for another reason.
    #[must_use]
    pub(super) fn expire(
        &mut self,
        now: Instant,
        lost: impl Fn(&Tenant, &K) -> Option<KernelLoss>,
    ) -> Vec<(K, KernelLoss)> {
        let idle = self.idle;
        self.take_idle(|key, kernel, since| {
            lost(&key.tenant, kernel).or((now >= since + idle).then_some(KernelLoss::Unused))
        })
    }

    /// Takes idle kernels of tenants that have more than they may, the ones that were idle longest first.
    #[must_use]
    pub(super) fn trim(
        &mut self,
        max_of_tenant: impl Fn(&Tenant) -> usize,
    ) -> Vec<(K, KernelLoss)> {
        let tenants: BTreeSet<_> = self.seats.keys().map(|key| key.tenant.clone()).collect();
        let mut taken = Vec::new();
        for tenant in tenants {
            let (is_own, most) = (
                |key: &KernelKey| key.tenant == tenant,
                max_of_tenant(&tenant),
            );
            while self.count(is_own) > most
                && let Some(least_used) = self.least_used(is_own)
            {
                let is_it = |key: &KernelKey| (*key == least_used).then_some(KernelLoss::Evicted);
                taken.extend(self.take_idle(|key, _, _| is_it(key)));
            }
        }
        taken
    }

    /// Does something with every kernel that is idle.
    pub(super) fn visit_idle(&mut self, mut visit: impl FnMut(&mut K)) {
        for seat in self.seats.values_mut() {
            if let SeatState::Idle { kernel, .. } = &mut seat.state {
                visit(kernel);
            }
        }
    }

    /// Takes the idle kernel that weighs most, of those that weigh anything.
    #[must_use]
    pub(super) fn take_heaviest<W: Ord>(
        &mut self,
        weight: impl Fn(&K) -> Option<W>,
        why: KernelLoss,
    ) -> Option<(K, KernelLoss)> {
        let idle = self
            .seats
            .iter()
            .filter_map(|(key, seat)| match &seat.state {
                SeatState::Idle { kernel, .. } => Some((weight(kernel)?, key)),
                SeatState::Empty | SeatState::Taken { .. } => None,
            });
        let heaviest = idle.max_by(|a, b| a.0.cmp(&b.0))?.1.clone();
        let taken = self.take_idle(|key, _, _| (*key == heaviest).then_some(why));
        taken.into_iter().next()
    }

    /// Takes every kernel, for good.
    #[must_use]
    pub(super) fn close(&mut self) -> Vec<(K, KernelLoss)> {
        self.closed = true;
        self.take_idle(|_, _, _| Some(KernelLoss::Gone))
    }

    /// How many of a language are idle, and how many are taken.
    pub(super) fn count_of(&self, language: &str) -> (usize, usize) {
        let seats = || {
            let of_language = |(key, _): &(&KernelKey, &KernelSeat<K>)| key.language == language;
            self.seats.iter().filter(of_language)
        };
        let idle = seats().filter(|(_, seat)| matches!(seat.state, SeatState::Idle { .. }));
        let taken =
            seats().filter(|(_, seat)| matches!(seat.state, SeatState::Taken { room: true, .. }));
        (idle.count(), taken.count())
    }

    /// The languages of which each conversation has a kernel, or room for one.
    pub(super) fn languages(&self) -> HashMap<ConversationKey, Vec<String>> {
        let mut languages: HashMap<_, Vec<_>> = HashMap::new();
        for (key, _) in self.seats.iter().filter(|(_, seat)| seat.state.has_room()) {
            let of_one = languages.entry(key.conversation.clone()).or_default();
            if !of_one.contains(&key.language) {
                of_one.push(key.language.clone());
            }
        }
        languages
    }

    /// Whose kernel makes way for another one of a tenant, which may have `max_of_tenant`; nobody's if there is room. A
    /// tenant has others lose theirs only if it has none that is idle.
    fn making_way(
        &self,
        tenant: &Tenant,
        max_of_tenant: usize,
    ) -> Result<Option<KernelKey>, NoRoom> {
        let is_own = |key: &KernelKey| key.tenant == *tenant;
        if self.count(is_own) >= max_of_tenant {
            return self.least_used(is_own).map(Some).ok_or(NoRoom::OfTenant);
        }
        if self.count(|_| true) < self.max_kernels {
            return Ok(None);
        }
        let least_used = self.least_used(is_own);
        let least_used = least_used.or_else(|| self.least_used(|_| true));
        least_used.map(Some).ok_or(NoRoom::OfAll)
    }

    fn count(&self, counts: impl Fn(&KernelKey) -> bool) -> usize {
        let with_room =
            |(key, seat): &(&KernelKey, &KernelSeat<K>)| seat.state.has_room() && counts(key);
        self.seats.iter().filter(with_room).count()
    }

    /// The place of the kernel that was idle longest, of some.
    fn least_used(&self, counts: impl Fn(&KernelKey) -> bool) -> Option<KernelKey> {
        let idle = self.seats.iter().filter_map(|(key, seat)| match seat {
            KernelSeat {
                state: SeatState::Idle { since, .. },
                waiting,
            } if waiting.is_empty() && counts(key) => Some((*since, key)),
            _ => None,
        });
        idle.min().map(|(_, key)| key.clone())
    }

    fn take_idle(
        &mut self,
        why: impl Fn(&KernelKey, &K, Instant) -> Option<KernelLoss>,
    ) -> Vec<(K, KernelLoss)> {
        let lost: Vec<(KernelKey, KernelLoss)> = self
            .seats
            .iter()
            .filter_map(|(key, seat)| match &seat.state {
                SeatState::Idle { kernel, since } => Some((key.clone(), why(key, kernel, *since)?)),
                SeatState::Empty | SeatState::Taken { .. } => None,
            })
            .collect();
        let mut taken = Vec::with_capacity(lost.len());
        for (key, why) in lost {
            let before = std::mem::replace(&mut self.seat(&key).state, SeatState::Empty);
            if let SeatState::Idle { kernel, .. } = before {
                taken.push((kernel, why));
            }
            self.lost.insert(key.clone(), why, 0);
            self.forget_if_empty(&key);
        }
        taken
    }

    fn seat(&mut self, key: &KernelKey) -> &mut KernelSeat<K> {
        self.seats.entry(key.clone()).or_insert_with(|| KernelSeat {
            state: SeatState::Empty,
            waiting: VecDeque::new(),
        })
    }

    fn forget_if_empty(&mut self, key: &KernelKey) {
        let is_empty = |seat: &KernelSeat<K>| {
            matches!(seat.state, SeatState::Empty) && seat.waiting.is_empty()
        };
        if self.seats.get(key).is_some_and(is_empty) {
            self.seats.remove(key);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
