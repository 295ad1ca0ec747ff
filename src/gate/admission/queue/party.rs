//! The part of the books that is one party's, whose conversations take turns. Pure.

use std::collections::{HashMap, VecDeque};

use super::{QueueTicket, Share};
use crate::conversation::ConversationKey;
use crate::gate::admission::Start;

/// A party with runs in progress or waiting. `T` tells a run that waits that its turn has come.
#[derive(Debug)]
pub(super) struct PartyRuns<T> {
    /// What it may have.
    pub(super) share: Share,
    running: usize,
    waiting: usize,
    conversations: HashMap<ConversationKey, ConversationRuns<T>>,
    /// The conversations that wait, each once, in the order in which they are served.
    turns: VecDeque<ConversationKey>,
}

/// A conversation with runs in progress or waiting.
#[derive(Debug)]
struct ConversationRuns<T> {
    running: usize,
    waiting: VecDeque<Waiter<T>>,
}

/// A run that waits.
#[derive(Debug)]
struct Waiter<T> {
    ticket: QueueTicket,
    start: Start,
    turn: T,
}

impl<T> PartyRuns<T> {
    pub(super) fn new(share: Share) -> Self {
        Self {
            share,
            running: 0,
            waiting: 0,
            conversations: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether one waits that starts slowly.
    pub(super) fn has_slow_waiting(&self) -> bool {
        let waiting = self.conversations.values().flat_map(|runs| &runs.waiting);
        waiting
            .into_iter()
            .any(|waiter| waiter.start == Start::Slow)
    }

    /// How many runs of a conversation there are, and how many wait.
    pub(super) fn of(&self, key: &ConversationKey) -> (usize, usize) {
        self.conversations
            .get(key)
            .map_or((0, 0), |runs| (runs.running, runs.waiting.len()))
    }

    pub(super) fn begin(&mut self, key: &ConversationKey) {
        self.running += 1;
        self.conversation(key).running += 1;
    }

    pub(super) fn end(&mut self, key: &ConversationKey) {
        self.running -= 1;
        self.conversation(key).running -= 1;
        self.forget_idle(key);
    }

    pub(super) fn join(
        &mut self,
        key: &ConversationKey,
        ticket: QueueTicket,
        start: Start,
        turn: T,
    ) {
        self.waiting += 1;
        let runs = self.conversation(key);
        runs.waiting.push_back(Waiter {
            ticket,
            start,
            turn,
        });
        if runs.waiting.len() == 1 {
            self.turns.push_back(key.clone());
        }
    }

    /// Begins the run whose turn it is, if the party may have another one, and one of a conversation with fewer than
    /// `max_running_of_one` waits. One that starts slowly only if it `may_be_slow`.
    pub(super) fn serve(
        &mut self,
        max_running_of_one: usize,
        may_be_slow: bool,
    ) -> Option<(ConversationKey, Start, T)> {
        if self.running >= self.share.running {
            return None;
        }
        let may_run = |key: &ConversationKey| {
            let runs = self.conversations.get(key);
            runs.is_some_and(|runs| {
                let next = runs.waiting.front();
                runs.running < max_running_of_one
                    && next.is_some_and(|next| may_be_slow || next.start == Start::Ready)
            })
        };
        let index = self.turns.iter().position(may_run)?;
        let key = self.turns.remove(index)?;
        let runs = self.conversations.get_mut(&key)?;
        let Waiter { start, turn, .. } = runs.waiting.pop_front()?;
        if !runs.waiting.is_empty() {
            self.turns.push_back(key.clone());
        }
        self.waiting -= 1;
        self.begin(&key);
        Some((key, start, turn))
    }

    /// Removes a run that waits. False if it does not.
    pub(super) fn give_up(&mut self, key: &ConversationKey, ticket: QueueTicket) -> bool {
        let Some(runs) = self.conversations.get_mut(key) else {
            return false;
        };
        let is_it = |waiter: &Waiter<T>| waiter.ticket == ticket;
        let Some(index) = runs.waiting.iter().position(is_it) else {
            return false;
        };
        runs.waiting.remove(index);
        self.waiting -= 1;
        if runs.waiting.is_empty() {
            self.turns.retain(|waits| waits != key);
        }
        self.forget_idle(key);
        true
    }

    /// Drops all that wait.
    pub(super) fn close(&mut self) {
        self.waiting = 0;
        self.turns.clear();
        for runs in self.conversations.values_mut() {
            runs.waiting.clear();
        }
        self.conversations.retain(|_, runs| runs.running > 0);
    }

    /// How many of the party's runs are served up to this one.
    pub(super) fn position(&self, key: &ConversationKey, ticket: QueueTicket) -> Option<usize> {
        let turn = self.turns.iter().position(|waits| waits == key)?;
        let own = &self.conversations.get(key)?.waiting;
        let index = own.iter().position(|waiter| waiter.ticket == ticket)?;
        let waiting = self.turns.iter().map(|other| self.of(other).1);
        Some(super::position_among(waiting, turn, index + 1))
    }

    fn conversation(&mut self, key: &ConversationKey) -> &mut ConversationRuns<T> {
        let nobody = || ConversationRuns {
            running: 0,
            waiting: VecDeque::new(),
        };
        self.conversations.entry(key.clone()).or_insert_with(nobody)
    }

    fn forget_idle(&mut self, key: &ConversationKey) {
        if self.of(key) == (0, 0) {
            self.conversations.remove(key);
        }
    }
}
