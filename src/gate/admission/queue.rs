//! The books of the gate: who runs, who waits, whose turn it is. Pure.

use std::collections::{HashMap, VecDeque};

use super::{AdmissionError, RETRY_AFTER};
use crate::config::AdmissionConfig;
use crate::conversation::ConversationKey;

/// How many there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Runs at the same time.
    pub(super) max_running: usize,
    /// The same for one conversation.
    pub(super) max_running_of_one: usize,
    /// Runs that wait.
    pub(super) queued: usize,
    /// The same for one conversation.
    pub(super) queued_of_one: usize,
}

impl From<AdmissionConfig> for Limits {
    fn from(config: AdmissionConfig) -> Self {
        Self {
            max_running: config.concurrent,
            max_running_of_one: config.per_conversation,
            queued: config.queued,
            // Half of the queue is for others.
            queued_of_one: config.queued.div_ceil(2),
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
    waiting: usize,
    members: HashMap<ConversationKey, Member<T>>,
    /// The conversations that wait, each once, in the order in which they are served.
    turns: VecDeque<ConversationKey>,
    next: u64,
}

/// A conversation with runs in progress or waiting.
#[derive(Debug)]
struct Member<T> {
    running: usize,
    waiting: VecDeque<(QueueTicket, T)>,
}

impl<T> Queue<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            closed: false,
            running: 0,
            waiting: 0,
            members: HashMap::new(),
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

    /// Takes a permit if one is free for this conversation. False when the run has to wait, for which there is then
    /// room.
    pub(super) fn try_enter(&mut self, key: &ConversationKey) -> Result<bool, AdmissionError> {
        self.check_open()?;
        let (running, waiting) = self.of(key);
        if self.running < self.limits.max_running && running < self.limits.max_running_of_one {
            self.begin(key);
            return Ok(true);
        }
        if self.waiting >= self.limits.queued || waiting >= self.limits.queued_of_one {
            return Err(self.busy(key));
        }
        Ok(false)
    }

    /// Joins the queue.
    pub(super) fn join(&mut self, key: &ConversationKey, turn: T) -> QueueTicket {
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting += 1;
        let member = self.member(key);
        member.waiting.push_back((ticket, turn));
        if member.waiting.len() == 1 {
            self.turns.push_back(key.clone());
        }
        ticket
    }

    /// Gives a free permit to the next one whose turn it is.
    pub(super) fn serve(&mut self) -> Option<(ConversationKey, T)> {
        if self.running >= self.limits.max_running {
            return None;
        }
        let max_running = self.limits.max_running_of_one;
        let may_run = |key: &ConversationKey| self.of(key).0 < max_running;
        let index = self.turns.iter().position(may_run)?;
        let key = self.turns.remove(index)?;
        let member = self.members.get_mut(&key)?;
        let (_, turn) = member.waiting.pop_front()?;
        if !member.waiting.is_empty() {
            self.turns.push_back(key.clone());
        }
        self.waiting -= 1;
        self.begin(&key);
        Some((key, turn))
    }

    /// Notes that a run is over.
    pub(super) fn leave(&mut self, key: &ConversationKey) {
        self.running -= 1;
        self.member(key).running -= 1;
        self.forget_idle(key);
    }

    /// Removes a run from the queue, if it still waits.
    pub(super) fn give_up(&mut self, key: &ConversationKey, ticket: QueueTicket) {
        let Some(member) = self.members.get_mut(key) else {
            return;
        };
        let before = member.waiting.len();
        member.waiting.retain(|(waits, _)| *waits != ticket);
        let (after, gone) = (member.waiting.len(), before - member.waiting.len());
        self.waiting -= gone;
        if gone > 0 && after == 0 {
            self.turns.retain(|waits| waits != key);
        }
        self.forget_idle(key);
    }

    /// Lets nobody in any more, and drops all that wait.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.waiting = 0;
        self.turns.clear();
        for member in self.members.values_mut() {
            member.waiting.clear();
        }
        self.members.retain(|_, member| member.running > 0);
    }

    /// How many runs are served up to this one, if no conversation had more than its share of permits.
    pub(super) fn position(&self, key: &ConversationKey, ticket: QueueTicket) -> Option<usize> {
        let turn = self.turns.iter().position(|waits| waits == key)?;
        let own = &self.members.get(key)?.waiting;
        let index = own.iter().position(|(waits, _)| *waits == ticket)?;
        let others = self.turns.iter().enumerate().filter(|(at, _)| *at != turn);
        let before =
            others.map(|(at, other)| (index + usize::from(at < turn)).min(self.of(other).1));
        Some(before.sum::<usize>() + index + 1)
    }

    /// Why a run is turned away now.
    pub(super) fn busy(&self, key: &ConversationKey) -> AdmissionError {
        let (running, waiting) = self.of(key);
        let has_its_share = running >= self.limits.max_running_of_one
            && self.running < self.limits.max_running
            || waiting >= self.limits.queued_of_one && self.waiting < self.limits.queued;
        if has_its_share {
            return AdmissionError::ConversationBusy {
                running,
                waiting,
                retry_after: RETRY_AFTER,
            };
        }
        AdmissionError::Busy {
            running: self.running,
            waiting: self.waiting,
            retry_after: RETRY_AFTER,
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.waiting > 0 && self.running >= self.limits.max_running
    }

    fn begin(&mut self, key: &ConversationKey) {
        self.running += 1;
        self.member(key).running += 1;
    }

    /// How many runs of a conversation there are, and how many wait.
    fn of(&self, key: &ConversationKey) -> (usize, usize) {
        self.members
            .get(key)
            .map_or((0, 0), |member| (member.running, member.waiting.len()))
    }

    fn member(&mut self, key: &ConversationKey) -> &mut Member<T> {
        let nobody = || Member {
            running: 0,
            waiting: VecDeque::new(),
        };
        self.members.entry(key.clone()).or_insert_with(nobody)
    }

    fn forget_idle(&mut self, key: &ConversationKey) {
        if self.of(key) == (0, 0) {
            self.members.remove(key);
        }
    }
}
