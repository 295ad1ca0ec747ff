//! How many runs go on at once, which ones wait, and which are turned away.
//!
//! Tenants take turns, and so do the conversations of each: each that waits gets one run, then the next one is served,
//! and both have only a limited number of runs at a time. So one that asks for a hundred runs delays another's by no more
//! than those in progress and one more. Within a conversation, runs are served in the order in which they came.
//!
//! At most half of the permits are for runs that start slowly, since large libraries are still to be loaded for them. So
//! short runs need not wait for those.

mod queue;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval, sleep_until};

use self::queue::{Queue, QueueTicket, Share};
use crate::access::Access;
use crate::config::AdmissionConfig;
use crate::conversation::{Conversation, ConversationKey};
use crate::principal::Tenant;

/// How long it may take until other sandboxes have made room.
const ROOM_RETRY: Duration = Duration::from_secs(10);
/// How often waiting runs learn their position.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// When a caller that is turned away may come back.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How long a run that loads large libraries counts as one, at most: about as long as it takes while others load theirs.
const SLOW_FOR: Duration = Duration::from_secs(5);

/// How many may run at once. Every run and install asks here for its permit.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue<oneshot::Sender<()>>>,
    config: AdmissionConfig,
    /// Knows how many runs each tenant may have.
    access: Access,
}

/// Who takes turns with others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Party {
    Tenant(Tenant),
    /// The server itself, which finds out whether the sandbox and the network hold.
    Server,
}

/// How soon a run can begin once it has its permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Soon.
    Ready,
    /// Large libraries have to be loaded first, which takes a core for a second.
    Slow,
}

/// Who asks for a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimant {
    party: Party,
    key: ConversationKey,
    start: Start,
}

/// The right to run. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Permit {
    admission: Admission,
    of: Claimant,
    slow: Option<SlowStart>,
}

/// The right to start slowly, which is part of a [`Permit`]. Dropping it lets another run do so.
#[derive(Debug)]
pub struct SlowStart {
    admission: Admission,
    /// Nobody sees when libraries are loaded, so it ends by itself.
    ends: Instant,
}

/// Why a run was turned away.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AdmissionError {
    /// All permits are taken and the queue is full, or the wait for a permit was too long.
    #[error("the server is busy: {running} runs and {waiting} waiting; try again in {} s", retry_after.as_secs())]
    Busy {
        /// Runs at the moment.
        running: usize,
        /// Runs that wait.
        waiting: usize,
        /// When to come back.
        retry_after: Duration,
    },
    /// The conversation has as many runs in progress and waiting as it may have, or the wait was too long.
    #[error(
        "the conversation is busy: it has {running} runs and {waiting} waiting; wait for their ends, or try again in \
         {} s",
        retry_after.as_secs()
    )]
    ConversationBusy {
        /// Its runs at the moment.
        running: usize,
        /// Its runs that wait.
        waiting: usize,
        /// When to come back.
        retry_after: Duration,
    },
    /// The tenant has as many runs in progress and waiting as it may have, or the wait was too long.
    #[error(
        "the tenant is busy: it has {running} runs and {waiting} waiting; wait for their ends, or try again in {} s",
        retry_after.as_secs()
    )]
    TenantBusy {
        /// Its runs at the moment.
        running: usize,
        /// Its runs that wait.
        waiting: usize,
        /// When to come back.
        retry_after: Duration,
    },
    /// There is no room for another sandbox.
    #[error(
        "the server is busy: there is no room for another sandbox now; try again in {} s ({reason})",
        retry_after.as_secs()
    )]
    NoRoom {
        /// In the words of what runs sandboxes.
        reason: String,
        /// When to come back.
        retry_after: Duration,
    },
    /// The server is stopping.
    #[error("the server is stopping and takes no new runs; try again in a minute")]
    Closed,
}

impl AdmissionError {
    /// There is no room for another sandbox, for this reason.
    pub fn no_room(reason: String) -> Self {
        Self::NoRoom {
            reason,
            retry_after: ROOM_RETRY,
        }
    }

    /// When it is worth trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. }
            | Self::ConversationBusy { retry_after, .. }
            | Self::TenantBusy { retry_after, .. }
            | Self::NoRoom { retry_after, .. } => Some(*retry_after),
            Self::Closed => None,
        }
    }
}

impl Admission {
    /// With the given number of permits, of which tenants have the shares that `access` knows.
    pub fn new(config: AdmissionConfig, access: Access) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::new(Queue::new(config.into())),
            config,
            access,
        }))
    }

    /// Waits for a permit. `report_position` gets the number of runs that are served up to and including this one: 1
    /// for the next.
    ///
    /// # Errors
    /// [`AdmissionError::Busy`], [`AdmissionError::TenantBusy`] or [`AdmissionError::ConversationBusy`] at once when the
    /// queue or one's share of it is full, or after the longest wait; [`AdmissionError::Closed`] when the server is
    /// stopping.
    pub async fn acquire(
        &self,
        conversation: &Conversation,
        start: Start,
        report_position: impl Fn(usize),
    ) -> Result<Permit, AdmissionError> {
        let of = Claimant {
            party: Party::Tenant(conversation.tenant().clone()),
            key: conversation.key().clone(),
            start,
        };
        self.acquire_as(of, report_position).await
    }

    /// The same for a check of the server's own, which takes turns with tenants and is nobody's run.
    pub(super) async fn acquire_for_check(
        &self,
        conversation: &Conversation,
        report_position: impl Fn(usize),
    ) -> Result<Permit, AdmissionError> {
        let of = Claimant {
            party: Party::Server,
            key: conversation.key().clone(),
            start: Start::Ready,
        };
        self.acquire_as(of, report_position).await
    }

    async fn acquire_as(
        &self,
        of: Claimant,
        report_position: impl Fn(usize),
    ) -> Result<Permit, AdmissionError> {
        let share = self.share(&of.party);
        let mut waiting = {
            let mut queue = self.0.queue.lock();
            if queue.try_enter(&of, share)? {
                return Ok(self.permit(&of));
            }
            let (turn, permit) = oneshot::channel();
            let ticket = queue.join(&of, share, turn);
            Waiting {
                admission: self,
                of: &of,
                ticket,
                permit,
            }
        };
        let deadline = sleep_until(Instant::now() + self.0.config.wait);
        tokio::pin!(deadline);
        let mut tick = interval(TOLD_EVERY);
        loop {
            tokio::select! {
                biased;
                granted = &mut waiting.permit => {
                    return granted.map(|()| self.permit(&of)).map_err(|_| AdmissionError::Closed);
                }
                () = &mut deadline => return Err(self.0.queue.lock().busy(&of, share)),
                _ = tick.tick() => {
                    self.renew_share(&of.party);
                    let position = self.0.queue.lock().position(&of, waiting.ticket);
                    position.into_iter().for_each(&report_position);
                }
            }
        }
    }

    /// Whether anybody can get in, for callers that have to wait for something else first.
    ///
    /// # Errors
    /// [`AdmissionError::Closed`] when the server is stopping.
    pub fn check_open(&self) -> Result<(), AdmissionError> {
        self.0.queue.lock().check_open()
    }

    /// Lets no run in any more; those that wait are told.
    pub fn close(&self) {
        self.0.queue.lock().close();
    }

    /// How many runs wait for a permit.
    pub fn waiting(&self) -> usize {
        self.0.queue.lock().waiting()
    }

    /// How many runs have a permit.
    pub fn running(&self) -> usize {
        self.0.queue.lock().running()
    }

    /// How many runs there may be.
    pub fn config(&self) -> &AdmissionConfig {
        &self.0.config
    }

    /// How many sandboxes may be started ahead at a time, of `max`: none while runs wait because all permits are taken, or
    /// all that are for slow starts, and not because of their conversation, and one while there are runs, so that most of
    /// the processor is theirs.
    pub fn allowed_starts(&self, max: usize) -> usize {
        let queue = self.0.queue.lock();
        match queue.running() {
            _ if queue.is_crowded() => 0,
            0 => max,
            _ => max.min(1),
        }
    }

    /// What one may have: a tenant of a server that several share half of the queue, and half of the permits unless its
    /// limits say otherwise.
    fn share(&self, party: &Party) -> Share {
        let AdmissionConfig {
            concurrent, queued, ..
        } = self.0.config;
        if !self.0.access.is_shared() {
            return Share {
                running: concurrent,
                queued,
            };
        }
        let max_runs = match party {
            Party::Tenant(tenant) => self.0.access.limits(tenant).max_runs,
            Party::Server => Some(concurrent),
        };
        Share {
            running: max_runs.unwrap_or(concurrent.div_ceil(2)),
            queued: queued.div_ceil(2),
        }
    }

    fn permit(&self, of: &Claimant) -> Permit {
        Permit {
            admission: self.clone(),
            of: of.clone(),
            slow: (of.start == Start::Slow).then(|| SlowStart {
                admission: self.clone(),
                ends: Instant::now() + SLOW_FOR,
            }),
        }
    }

    /// Takes a permit back, and hands free permits to the runs whose turn it is.
    fn leave(&self, of: &Claimant) {
        let mut queue = self.0.queue.lock();
        queue.leave(of);
        serve(&mut queue);
    }

    /// Looks again what one may have: its runs may wait for nothing but that.
    fn renew_share(&self, party: &Party) {
        let share = self.share(party);
        let mut queue = self.0.queue.lock();
        queue.set_share(party, share);
        serve(&mut queue);
    }
}

/// Hands free permits to the runs whose turn it is.
fn serve(queue: &mut Queue<oneshot::Sender<()>>) {
    while let Some((of, turn)) = queue.serve() {
        // Nobody leaves the queue without saying so, but a permit must never get lost.
        if turn.send(()).is_err() {
            queue.leave(&of);
            if of.start == Start::Slow {
                queue.end_slow_start();
            }
        }
    }
}

impl Permit {
    /// Takes the right to start slowly, if there is one: the caller knows when that is over.
    pub fn take_slow_start(&mut self) -> Option<SlowStart> {
        self.slow.take()
    }
}

impl SlowStart {
    /// The result of work that has this right, if there is one, and the right if it has not ended by then.
    pub async fn during<T>(
        slow: Option<Self>,
        mut work: impl Future<Output = T> + Unpin,
    ) -> (T, Option<Self>) {
        let Some(slow) = slow else {
            return (work.await, None);
        };
        tokio::select! {
            biased;
            done = &mut work => return (done, Some(slow)),
            () = sleep_until(slow.ends) => drop(slow),
        }
        (work.await, None)
    }
}

impl Drop for SlowStart {
    fn drop(&mut self) {
        let mut queue = self.admission.0.queue.lock();
        queue.end_slow_start();
        serve(&mut queue);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.leave(&self.of);
    }
}

/// A position in the queue. Dropping it gives it up.
struct Waiting<'a> {
    admission: &'a Admission,
    of: &'a Claimant,
    ticket: QueueTicket,
    permit: oneshot::Receiver<()>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        {
            let mut queue = self.admission.0.queue.lock();
            queue.give_up(self.of, self.ticket);
            // A run of its conversation that was behind it may be next.
            serve(&mut queue);
        }
        // Its turn came, but nobody took it.
        if self.permit.try_recv().is_ok() {
            drop(self.admission.permit(self.of));
        }
    }
}

#[cfg(test)]
mod tests;
