//! The books of the gate: who runs, who waits, whose turn it is. Pure. A party is a tenant, or the server itself.
//!
//! ```text
//! Queue: parties take turns ──▶ PartyRuns: its conversations take turns ──▶ their runs, in the order in which they came
//! ```

mod party;

use std::collections::{HashMap, VecDeque};

use self::party::PartyRuns;
use super::{AdmissionError, Claimant, Party, RETRY_AFTER, Start};
use crate::config::AdmissionConfig;

/// How many there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// All.
    pub(super) all: Share,
    /// Those of one conversation.
    pub(super) of_one: Share,
    /// Those that start slowly, at the same time.
    pub(super) slow: usize,
}

/// A part of the permits, and of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Runs at the same time.
    pub(super) running: usize,
    /// Runs that wait.
    pub(super) queued: usize,
}

impl From<AdmissionConfig> for Limits {
    fn from(config: AdmissionConfig) -> Self {
        Self {
            all: Share {
                running: config.concurrent,
                queued: config.queued,
            },
            of_one: Share {
                running: config.per_conversation,
                // Half of the queue is for others.
                queued: config.queued.div_ceil(2),
            },
            // The others are for those that need a moment.
            slow: config.concurrent.div_ceil(2),
        }
    }
}

/// Identifies a run that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueTicket(u64);

/// The books. `T` tells a run that waits that its turn has come.
#[derive(Debug)]
pub(super) struct Queue<T> {
    limits: Limits,
    closed: bool,
    running: usize,
    /// Of these, those whose slow start is not over.
    slow: usize,
    waiting: usize,
    parties: HashMap<Party, PartyRuns<T>>,
    /// Those that wait, each once, in the order in which they are served.
    turns: VecDeque<Party>,
    next: u64,
}

impl<T> Queue<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            closed: false,
            running: 0,
            slow: 0,
            waiting: 0,
            parties: HashMap::new(),
            turns: VecDeque::new(),
            next: 0,
        }
    }

    pub(super) fn check_open(&self) -> Result<(), AdmissionError> {
        if self.closed {
            return Err(AdmissionError::Closed);
        }
        Ok(())
    }

    /// Takes a permit if one is free for this conversation of a tenant, which may have `share`. False when the run has
    /// to wait, for which there is then room.
    pub(super) fn try_enter(
        &mut self,
        of: &Claimant,
        share: Share,
    ) -> Result<bool, AdmissionError> {
        self.check_open()?;
        self.set_share(&of.party, share);
        let (all, tenant, own) = self.counts(of);
        let Limits {
            all: limit, of_one, ..
        } = self.limits;
        let fits = |counts: Share, limit: Share| counts.running < limit.running;
        // An earlier run of its conversation may wait for a slow start.
        let is_next = own.queued == 0 && self.may_start(of.start);
        if is_next && fits(all, limit) && fits(tenant, share) && fits(own, of_one) {
            self.begin(of.start);
            self.party(of, share).begin(&of.key);
            return Ok(true);
        }
        let fits = |counts: Share, limit: Share| counts.queued < limit.queued;
        // Two tenants can fill the queue: it has a place more for each that has none in it, up to as many again.
        let is_first = tenant.queued == 0 && share != limit && all.queued < limit.queued * 2;
        if (fits(all, limit) || is_first) && fits(tenant, share) && fits(own, of_one) {
            return Ok(false);
        }
        Err(self.busy(of, share))
    }

    /// What a tenant may have from now on.
    pub(super) fn set_share(&mut self, party: &Party, share: Share) {
        if let Some(runs) = self.parties.get_mut(party) {
            runs.share = share;
        }
    }

    /// Joins the queue.
    pub(super) fn join(&mut self, of: &Claimant, share: Share, turn: T) -> QueueTicket {
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting += 1;
        let runs = self.party(of, share);
        runs.join(&of.key, ticket, of.start, turn);
        if runs.waiting() == 1 {
            self.turns.push_back(of.party.clone());
        }
        ticket
    }

    /// Gives a free permit to the next one whose turn it is.
    pub(super) fn serve(&mut self) -> Option<(Claimant, T)> {
        if self.running >= self.limits.all.running {
            return None;
        }
        let max_running_of_one = self.limits.of_one.running;
        let may_be_slow = self.may_start(Start::Slow);
        let (index, key, start, turn) =
            self.turns.iter().enumerate().find_map(|(index, party)| {
                let runs = self.parties.get_mut(party)?;
                let (key, start, turn) = runs.serve(max_running_of_one, may_be_slow)?;
                Some((index, key, start, turn))
            })?;
        let party = self.turns.remove(index)?;
        if self.parties.get(&party)?.waiting() > 0 {
            self.turns.push_back(party.clone());
        }
        self.waiting -= 1;
        self.begin(start);
        Some((Claimant { party, key, start }, turn))
    }

    /// Notes that a run is over.
    pub(super) fn leave(&mut self, of: &Claimant) {
        if let Some(runs) = self.parties.get_mut(&of.party) {
            self.running -= 1;
            runs.end(&of.key);
        }
        self.forget_idle(&of.party);
    }

    /// Notes that a slow start is over.
    pub(super) fn end_slow_start(&mut self) {
        self.slow -= 1;
    }

    /// Removes a run from the queue, if it still waits.
    pub(super) fn give_up(&mut self, of: &Claimant, ticket: QueueTicket) {
        let Some(runs) = self.parties.get_mut(&of.party) else {
            return;
        };
        if runs.give_up(&of.key, ticket) {
            self.waiting -= 1;
            if runs.waiting() == 0 {
                self.turns.retain(|waits| *waits != of.party);
            }
        }
        self.forget_idle(&of.party);
    }

    /// Lets nobody in any more, and drops all that wait.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.waiting = 0;
        self.turns.clear();
        self.parties.values_mut().for_each(PartyRuns::close);
        self.parties.retain(|_, runs| runs.running() > 0);
    }

    /// How many runs are served up to this one, if nobody had more than its share of permits.
    pub(super) fn position(&self, of: &Claimant, ticket: QueueTicket) -> Option<usize> {
        let turn = self.turns.iter().position(|waits| *waits == of.party)?;
        let own = self.parties.get(&of.party)?.position(&of.key, ticket)?;
        let waiting_of = |party| self.parties.get(party).map_or(0, PartyRuns::waiting);
        Some(position_among(self.turns.iter().map(waiting_of), turn, own))
    }

    /// Why a run of a tenant, which may have `share`, is turned away now.
    pub(super) fn busy(&self, of: &Claimant, share: Share) -> AdmissionError {
        let (all, tenant, own) = self.counts(of);
        let has_all = |counts: Share, limit: Share| {
            counts.running >= limit.running && all.running < self.limits.all.running
                || counts.queued >= limit.queued && all.queued < self.limits.all.queued
        };
        let retry_after = RETRY_AFTER;
        if has_all(own, self.limits.of_one) {
            return AdmissionError::ConversationBusy {
                running: own.running,
                waiting: own.queued,
                retry_after,
            };
        }
        if has_all(tenant, share) {
            return AdmissionError::TenantBusy {
                running: tenant.running,
                waiting: tenant.queued,
                retry_after,
            };
        }
        AdmissionError::Busy {
            running: self.running,
            waiting: self.waiting,
            retry_after,
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_crowded(&self) -> bool {
        let slow_waits = || self.parties.values().any(PartyRuns::has_slow_waiting);
        self.waiting > 0
            && (self.running >= self.limits.all.running
                || !self.may_start(Start::Slow) && slow_waits())
    }

    fn may_start(&self, start: Start) -> bool {
        start == Start::Ready || self.slow < self.limits.slow
    }

    fn begin(&mut self, start: Start) {
        self.running += 1;
        self.slow += usize::from(start == Start::Slow);
    }

    /// How many there are of all, of a tenant and of a conversation.
    fn counts(&self, of: &Claimant) -> (Share, Share, Share) {
        let share = |(running, queued)| Share { running, queued };
        let runs = self.parties.get(&of.party);
        let tenant = runs.map_or((0, 0), |runs| (runs.running(), runs.waiting()));
        let own = runs.map_or((0, 0), |runs| runs.of(&of.key));
        (
            share((self.running, self.waiting)),
            share(tenant),
            share(own),
        )
    }

    fn party(&mut self, of: &Claimant, share: Share) -> &mut PartyRuns<T> {
        let runs = self.parties.entry(of.party.clone());
        runs.or_insert_with(|| PartyRuns::new(share))
    }

    fn forget_idle(&mut self, party: &Party) {
        let is_idle = |runs: &PartyRuns<T>| runs.running() + runs.waiting() == 0;
        if self.parties.get(party).is_some_and(is_idle) {
            self.parties.remove(party);
        }
    }
}

/// How many are served up to the one that is at place `own` of its group, counted from 1, when groups take turns.
/// `waiting` has how many wait in each group, and `turn` is which of them it is.
fn position_among(waiting: impl Iterator<Item = usize>, turn: usize, own: usize) -> usize {
    let others = waiting.enumerate().filter(|(at, _)| *at != turn);
    let before = others.map(|(at, waiting)| (own - 1 + usize::from(at < turn)).min(waiting));
    before.sum::<usize>() + own
}

#[cfg(test)]
mod tests;
