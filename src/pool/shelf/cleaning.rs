//! The part of the books that is about sandboxes on their way back to their conversation: scrubbed after a run, or made
//! light again.

use tokio::time::Instant;

use super::{Owned, Shelf, ShelfClaim};
use crate::conversation::ConversationKey;
use crate::pool::Kind;

/// Stands for a sandbox on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::pool) struct ShelfTicket(u64);

#[derive(Debug)]
pub(super) struct Cleaning {
    pub(super) key: ConversationKey,
    pub(super) kind: Kind,
    back: ReadyAfter,
    /// Whether a run waits for it.
    is_awaited: bool,
}

/// How soon a sandbox is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum ReadyAfter {
    /// Once it is scrubbed: worth waiting for.
    Scrub,
    /// Once an interpreter is parked in it, which does not take long: worth waiting for.
    LightPark,
    /// Once everything is loaded: not worth waiting for.
    FullLoad,
}

impl<S> Shelf<S> {
    /// Whether a sandbox of this conversation is on its way back.
    pub(in crate::pool) fn is_cleaning(&self, key: &ConversationKey) -> bool {
        self.cleaning.values().any(|each| each.key == *key)
    }

    /// Notes that a run waits for what is worth waiting for.
    pub(super) fn wait_for_own(&mut self, key: &ConversationKey, kind: &Kind) -> ShelfClaim<S> {
        let worth_it = |each: &&mut Cleaning| {
            each.key == *key && each.kind == *kind && each.back != ReadyAfter::FullLoad
        };
        let mut claim = ShelfClaim::Nothing;
        for cleaning in self.cleaning.values_mut().filter(worth_it) {
            cleaning.is_awaited = true;
            claim = ShelfClaim::Cleaning;
        }
        claim
    }

    /// Whether a sandbox of this conversation will be back as it was.
    pub(super) fn is_scrubbing(&self, key: &ConversationKey, kind: &Kind) -> bool {
        self.is_coming(key, kind, |back| back == ReadyAfter::Scrub)
    }

    /// Whether a run waits for a sandbox on its way back, or nobody wants it any more.
    pub(in crate::pool) fn is_awaited(&self, ticket: ShelfTicket) -> bool {
        let cleaning = self.cleaning.get(&ticket);
        cleaning.is_none_or(|cleaning| cleaning.is_awaited)
    }

    /// Notes that a sandbox is on its way back to its conversation. `None` when it is not wanted back.
    pub(in crate::pool) fn begin_cleaning(
        &mut self,
        key: &ConversationKey,
        kind: &Kind,
        back: ReadyAfter,
    ) -> Option<ShelfTicket> {
        // One at a time: a burst of cold runs would load an interpreter each, although only two are kept.
        let is_loaded =
            back != ReadyAfter::Scrub && self.is_coming(key, kind, |other| other == back);
        if self.closed || is_loaded || !self.kinds.contains_key(kind) {
            return None;
        }
        Some(self.new_cleaning(key, kind, back))
    }

    /// Notes that the way back has ended, well or not. Returns whether the conversation still wants the sandbox.
    pub(in crate::pool) fn end_cleaning(&mut self, ticket: ShelfTicket) -> bool {
        self.cleaning.remove(&ticket).is_some()
    }

    /// Takes the sandbox in which what is loaded was `used` longest ago, if more than `max_loaded` have something loaded,
    /// or if it `is_unused` since. Not while another one is parked.
    pub(in crate::pool) fn begin_unloading(
        &mut self,
        max_loaded: usize,
        used: impl Fn(&S) -> Option<Instant>,
        is_unused: impl Fn(Instant) -> bool,
    ) -> Option<(ShelfTicket, Owned<S>)> {
        let back = ReadyAfter::LightPark;
        if self.closed || self.cleaning.values().any(|each| each.back == back) {
            return None;
        }
        let owned = self.owned.iter().enumerate();
        let loaded = owned.filter_map(|(index, owned)| Some((used(&owned.sandbox)?, index)));
        let loaded: Vec<_> = loaded.collect();
        let &(since, index) = loaded.iter().min()?;
        if loaded.len() <= max_loaded && !is_unused(since) {
            return None;
        }
        let owned = self.owned.remove(index);
        let ticket = self.new_cleaning(&owned.key, &owned.kind, back);
        Some((ticket, owned))
    }

    fn new_cleaning(
        &mut self,
        key: &ConversationKey,
        kind: &Kind,
        back: ReadyAfter,
    ) -> ShelfTicket {
        self.tickets += 1;
        let cleaning = Cleaning {
            key: key.clone(),
            kind: kind.clone(),
            back,
            is_awaited: false,
        };
        self.cleaning.insert(ShelfTicket(self.tickets), cleaning);
        ShelfTicket(self.tickets)
    }

    fn is_coming(
        &self,
        key: &ConversationKey,
        kind: &Kind,
        is_so: impl Fn(ReadyAfter) -> bool,
    ) -> bool {
        let mut cleaning = self.cleaning.values();
        cleaning.any(|each| each.key == *key && each.kind == *kind && is_so(each.back))
    }
}
