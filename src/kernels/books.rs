//! The books of the kernels: who has which, who waits for it, and what has to go. Pure: what a kernel is and what time
//! it is are up to the caller.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::key::KernelKey;
use super::lost::{KernelLoss, Memory};
use crate::conversation::ConversationKey;

/// Runs that may wait for one kernel.
pub(super) const MAX_WAITING: usize = 16;

/// Stands for a run that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// There is no room for another kernel, and none that could make way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The books. `K` is a kernel.
#[derive(Debug)]
pub(super) struct Books<K> {
    max_kernels: usize,
    idle: Duration,
    closed: bool,
    places: BTreeMap<KernelKey, Seat<K>>,
    memory: Memory,
    tickets: u64,
}

#[derive(Debug)]
struct Seat<K> {
    state: State<K>,
    waiting: VecDeque<Ticket>,
}

#[derive(Debug)]
enum State<K> {
    /// There is no kernel: somebody waits for the chance to make one.
    Nobodys,
    /// It waits for its next cell.
    Idle { kernel: K, since: Instant },
    /// A run has its turn. There is a kernel, or room for one, if `room` is set. When the run leaves, the kernel is
    /// lost for the reason in `doomed`.
    Taken {
        room: bool,
        doomed: Option<KernelLoss>,
    },
}

impl<K> State<K> {
    /// Whether there is a kernel, or room is kept for one.
    fn has_room(&self) -> bool {
        match self {
            Self::Nobodys => false,
            Self::Idle { .. } => true,
            Self::Taken { room, .. } => *room,
        }
    }
}

/// What a run that asks for a kernel gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim<K> {
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
    Full,
    /// There are no kernels any more.
    Closed,
}

impl<K> Books<K> {
    /// At most `max_kernels` kernels, each of which may be idle for `idle`.
    pub(super) fn new(max_kernels: usize, idle: Duration) -> Self {
        Self {
            max_kernels,
            idle,
            closed: false,
            places: BTreeMap::new(),
            memory: Memory::default(),
            tickets: 0,
        }
    }

    /// Asks for the kernel of a place, for the holder of `ticket`. No other kernel makes way yet: the run may still be
    /// turned away.
    pub(super) fn claim(&mut self, place: &KernelKey, ticket: Option<Ticket>) -> Claim<K> {
        if self.closed {
            return Claim::Closed;
        }
        if let Some(seat) = self.places.get(place) {
            let is_first = seat.waiting.is_empty() || seat.waiting.front().copied() == ticket;
            if matches!(seat.state, State::Taken { .. }) || !is_first {
                return Claim::Busy;
            }
        }
        let room = self
            .places
            .get(place)
            .is_some_and(|seat| seat.state.has_room());
        if !room && self.count() >= self.max_kernels && self.least_used().is_none() {
            return Claim::Full;
        }
        let taken = State::Taken { room, doomed: None };
        let before = std::mem::replace(&mut self.seat(place).state, taken);
        Claim::Granted {
            kernel: match before {
                State::Idle { kernel, .. } => Some(kernel),
                State::Nobodys | State::Taken { .. } => None,
            },
            lost: self.memory.take(place),
        }
    }

    /// Keeps room for a kernel where a run has its turn. Returns a kernel that has to make way for it.
    ///
    /// # Errors
    /// There is no room, and every kernel is working or is waited for.
    pub(super) fn make_room(&mut self, place: &KernelKey) -> Result<Option<K>, NoRoom> {
        let has_room = |seat: &Seat<K>| seat.state.has_room();
        if self.places.get(place).is_some_and(has_room) {
            return Ok(None);
        }
        let mut evicted = None;
        if self.count() >= self.max_kernels {
            let least_used = self.least_used().ok_or(NoRoom)?;
            let taken =
                self.take_idle(|other, _, _| (*other == least_used).then_some(KernelLoss::Evicted));
            evicted = taken.into_iter().next().map(|(kernel, _)| kernel);
        }
        if let State::Taken { room, .. } = &mut self.seat(place).state {
            *room = true;
        }
        Ok(evicted)
    }

    /// Joins the line for a place. `None` when too many wait.
    pub(super) fn line_up(&mut self, place: &KernelKey) -> Option<Ticket> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let waiting = &mut self.seat(place).waiting;
        if waiting.len() >= MAX_WAITING {
            return None;
        }
        waiting.push_back(ticket);
        Some(ticket)
    }

    /// Leaves the line.
    pub(super) fn leave_line(&mut self, place: &KernelKey, ticket: Ticket) {
        if let Some(seat) = self.places.get_mut(place) {
            seat.waiting.retain(|other| *other != ticket);
        }
        self.forget_if_empty(place);
    }

    /// A run leaves its kernel for the next one. Returns the kernel if it has to go.
    #[must_use]
    pub(super) fn give_back(
        &mut self,
        place: &KernelKey,
        kernel: K,
        now: Instant,
    ) -> Option<(K, KernelLoss)> {
        let seat = self.places.get_mut(place);
        let doomed = match seat {
            Some(Seat {
                state: State::Taken { doomed, .. },
                ..
            }) => *doomed,
            _ => None,
        };
        let doomed = doomed.or(self.closed.then_some(KernelLoss::Gone));
        if let Some(why) = doomed {
            self.leave(place, Some(why));
            return Some((kernel, why));
        }
        self.seat(place).state = State::Idle { kernel, since: now };
        None
    }

    /// Remembers what became of the kernel of a place.
    pub(super) fn remember(&mut self, place: &KernelKey, why: KernelLoss) {
        self.memory.remember(place.clone(), why);
    }

    /// A run leaves without a kernel. What became of it is remembered; a deletion in the meantime takes precedence.
    pub(super) fn leave(&mut self, place: &KernelKey, lost: Option<KernelLoss>) {
        let Some(seat) = self.places.get_mut(place) else {
            return;
        };
        let before = std::mem::replace(&mut seat.state, State::Nobodys);
        let doomed = match before {
            State::Taken { doomed, .. } => doomed,
            State::Nobodys | State::Idle { .. } => None,
        };
        if let Some(why) = doomed.filter(|_| lost.is_some()).or(lost) {
            self.memory.remember(place.clone(), why);
        }
        self.forget_if_empty(place);
    }

    /// Takes every idle kernel of a conversation. Those that runs have are lost when the runs leave them.
    #[must_use]
    pub(super) fn retire(
        &mut self,
        key: &ConversationKey,
        why: KernelLoss,
    ) -> Vec<(K, KernelLoss)> {
        for (place, seat) in &mut self.places {
            if let State::Taken { doomed, .. } = &mut seat.state
                && place.conversation == *key
            {
                *doomed = Some(why);
            }
        }
        self.take_idle(|place, _, _| (place.conversation == *key).then_some(why))
    }

    /// Takes every kernel that was idle for too long, or that is lost for another reason.
    #[must_use]
    pub(super) fn expire(
        &mut self,
        now: Instant,
        lost: impl Fn(&K) -> Option<KernelLoss>,
    ) -> Vec<(K, KernelLoss)> {
        let idle = self.idle;
        self.take_idle(|_, kernel, since| {
            lost(kernel).or((now >= since + idle).then_some(KernelLoss::Unused))
        })
    }

    /// Does something with every kernel that is idle.
    pub(super) fn visit_idle(&mut self, mut visit: impl FnMut(&mut K)) {
        for seat in self.places.values_mut() {
            if let State::Idle { kernel, .. } = &mut seat.state {
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
            .places
            .iter()
            .filter_map(|(place, seat)| match &seat.state {
                State::Idle { kernel, .. } => Some((weight(kernel)?, place)),
                State::Nobodys | State::Taken { .. } => None,
            });
        let heaviest = idle.max_by(|a, b| a.0.cmp(&b.0))?.1.clone();
        let taken = self.take_idle(|place, _, _| (*place == heaviest).then_some(why));
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
            let of_language = |(place, _): &(&KernelKey, &Seat<K>)| place.language == language;
            self.places.iter().filter(of_language)
        };
        let idle = seats().filter(|(_, seat)| matches!(seat.state, State::Idle { .. }));
        let taken =
            seats().filter(|(_, seat)| matches!(seat.state, State::Taken { room: true, .. }));
        (idle.count(), taken.count())
    }

    fn count(&self) -> usize {
        let seats = self.places.values();
        seats.filter(|seat| seat.state.has_room()).count()
    }

    /// The place of the kernel that was idle longest.
    fn least_used(&self) -> Option<KernelKey> {
        let idle = self.places.iter().filter_map(|(place, seat)| match seat {
            Seat {
                state: State::Idle { since, .. },
                waiting,
            } if waiting.is_empty() => Some((*since, place)),
            _ => None,
        });
        idle.min().map(|(_, place)| place.clone())
    }

    fn take_idle(
        &mut self,
        why: impl Fn(&KernelKey, &K, Instant) -> Option<KernelLoss>,
    ) -> Vec<(K, KernelLoss)> {
        let lost: Vec<(KernelKey, KernelLoss)> = self
            .places
            .iter()
            .filter_map(|(place, seat)| match &seat.state {
                State::Idle { kernel, since } => Some((place.clone(), why(place, kernel, *since)?)),
                State::Nobodys | State::Taken { .. } => None,
            })
            .collect();
        let mut taken = Vec::with_capacity(lost.len());
        for (place, why) in lost {
            let before = std::mem::replace(&mut self.seat(&place).state, State::Nobodys);
            if let State::Idle { kernel, .. } = before {
                taken.push((kernel, why));
            }
            self.memory.remember(place.clone(), why);
            self.forget_if_empty(&place);
        }
        taken
    }

    fn seat(&mut self, place: &KernelKey) -> &mut Seat<K> {
        self.places.entry(place.clone()).or_insert_with(|| Seat {
            state: State::Nobodys,
            waiting: VecDeque::new(),
        })
    }

    fn forget_if_empty(&mut self, place: &KernelKey) {
        let is_empty =
            |seat: &Seat<K>| matches!(seat.state, State::Nobodys) && seat.waiting.is_empty();
        if self.places.get(place).is_some_and(is_empty) {
            self.places.remove(place);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
