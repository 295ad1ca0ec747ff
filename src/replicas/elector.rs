//! The election: what is decided from what was seen, and the requests for it.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::standing::{Leader, Standing};
use crate::executor::leaders::{LeaderEntry, LeaderStore};
use crate::executor::outage::chain;
use crate::executor::{ErrorKind, ExecutorError};

/// How often a lead is renewed while it lasts.
const RENEWALS: u32 = 5;
/// How often a standby looks in that time. It is told of nothing, so this is how long a hand-over takes.
const LOOKS: u32 = 20;
/// Hundredths of the duration after which a leader that could not renew its lead ends.
const TENURE: u32 = 70;
/// Why a lead is over that no other server has taken yet.
pub(super) const NOT_RENEWED: &str = "it was not renewed in time";

/// How an election ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was to end, and the lead was given up.
    Released,
    /// It led, and may not any more.
    Lost(&'static str),
}

/// Why the store did not do what it was asked to.
#[derive(Debug, Error)]
enum ElectionError {
    /// It took too long.
    #[error("there was no answer within {0:?}")]
    Slow(Duration),
    /// Somebody else has written, or removed what is there.
    #[error("another server was faster")]
    Overtaken,
    /// It does not answer, or does not allow it.
    #[error("{}", chain(.0))]
    Store(ExecutorError),
}

impl From<ExecutorError> for ElectionError {
    fn from(error: ExecutorError) -> Self {
        match error.kind {
            ErrorKind::Conflict | ErrorKind::NotFound => Self::Overtaken,
            _ => Self::Store(error),
        }
    }
}

/// What a standby knows.
#[derive(Debug, Default)]
pub(super) struct Watched {
    entry: Option<LeaderEntry>,
    /// Whether there was an entry that somebody has removed: its leader may not know yet.
    is_removed: bool,
    /// Since when the entry is like this; `None` before it was seen once.
    since: Option<Instant>,
}

impl Watched {
    /// Learns what the store said. It was asked before `now`, so it may have changed since then and not before.
    pub(super) fn learn(&mut self, entry: Option<LeaderEntry>, now: Instant) {
        if self.since.is_none() || self.entry != entry {
            self.is_removed = self.entry.is_some() && entry.is_none();
            (self.entry, self.since) = (entry, Some(now));
        }
    }

    /// Whether `me` may lead: nobody does, or that one has not renewed its lead, or it is `me` and does not know it since
    /// there was no answer.
    pub(super) fn is_free(&self, me: &Leader, duration: Duration, now: Instant) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        let may_be_led = match self.leader() {
            Some(leader) => leader != me.name,
            None => self.is_removed,
        };
        !may_be_led || now >= since + duration
    }

    /// Whom to ask for everything meanwhile.
    pub(super) fn standing(&self, duration: Duration, now: Instant) -> Standing {
        let is_fresh = self.since.is_some_and(|since| now < since + duration);
        let leader = self.leader().and_then(Leader::named).filter(|_| is_fresh);
        leader.map_or(Standing::Unknown, Standing::Led)
    }

    fn leader(&self) -> Option<&str> {
        self.entry.as_ref()?.leader.as_deref()
    }

    fn version(&self) -> Option<String> {
        Some(self.entry.as_ref()?.version.clone())
    }
}

/// A lead.
#[derive(Debug)]
struct Lead {
    /// `None` if somebody has removed the entry.
    version: Option<String>,
    /// Until when it lasts if it is not renewed.
    until: Instant,
}

/// What came of a try to renew a lead.
#[derive(Debug)]
enum Renewal {
    Renewed(Lead),
    /// It is as long as it was, and this is what is there now.
    Unclear(Option<String>),
    /// Another server may lead.
    Ended,
}

/// One server's part.
#[derive(Debug)]
pub(super) struct Elector {
    store: Arc<dyn LeaderStore>,
    me: Leader,
    duration: Duration,
    standing: watch::Sender<Standing>,
}

impl Elector {
    pub(super) fn new(
        store: Arc<dyn LeaderStore>,
        me: Leader,
        duration: Duration,
        standing: watch::Sender<Standing>,
    ) -> Self {
        Self {
            store,
            me,
            duration,
            standing,
        }
    }

    /// Stands by, then leads until `stop` or until that is lost. Says by `extend` until when it leads, whenever that
    /// changes.
    pub(super) async fn run(self, stop: CancellationToken, extend: impl Fn(Instant)) -> End {
        let Some(lead) = stop.run_until_cancelled(self.stand_by()).await else {
            return End::Released;
        };
        extend(lead.until);
        info!(name = self.me.name, "leads");
        self.standing.send_replace(Standing::Leading);
        self.lead(lead, &stop, &extend).await
    }

    /// Waits until it leads.
    async fn stand_by(&self) -> Lead {
        let (mut watched, mut is_answered) = (Watched::default(), true);
        loop {
            let next = Instant::now() + self.duration / LOOKS;
            match self.answered(self.store.read()).await {
                Ok(entry) => {
                    is_answered = true;
                    watched.learn(entry, Instant::now());
                }
                // It is asked so often that once says it.
                Err(error) if is_answered => {
                    is_answered = false;
                    warn!(%error, "cannot find out who leads");
                }
                Err(_) => {}
            }
            let now = Instant::now();
            self.announce(watched.standing(self.duration, now));
            if watched.is_free(&self.me, self.duration, now) {
                match self.write(watched.version().as_deref()).await {
                    Ok(lead) => return lead,
                    Err(error) => info!(%error, "does not lead yet"),
                }
            }
            sleep_until(next).await;
        }
    }

    /// Tells what is new, and nothing else: who waits for a change is not woken for none.
    fn announce(&self, standing: Standing) {
        self.standing.send_if_modified(|known| {
            let is_new = *known != standing;
            if is_new {
                let leader = standing.leader().map(|leader| leader.name.as_str());
                info!(leader, "stands by");
                *known = standing;
            }
            is_new
        });
    }

    /// Renews the lead until it ends.
    async fn lead(
        &self,
        mut lead: Lead,
        stop: &CancellationToken,
        extend: &impl Fn(Instant),
    ) -> End {
        let mut pause = self.duration / RENEWALS;
        loop {
            let next = lead.until.min(Instant::now() + pause);
            if stop.run_until_cancelled(sleep_until(next)).await.is_none() {
                return self.release(&lead).await;
            }
            // It may have been stopped for longer than it meant to sleep.
            if Instant::now() >= lead.until {
                return End::Lost(NOT_RENEWED);
            }
            match timeout_at(lead.until, self.renew(&lead)).await {
                Ok(Renewal::Renewed(renewed)) => {
                    (lead, pause) = (renewed, self.duration / RENEWALS);
                    extend(lead.until);
                }
                Ok(Renewal::Unclear(version)) => {
                    (lead.version, pause) = (version, self.duration / LOOKS);
                }
                Ok(Renewal::Ended) => return End::Lost("another server leads"),
                Err(_) => return End::Lost(NOT_RENEWED),
            }
        }
    }

    async fn renew(&self, lead: &Lead) -> Renewal {
        match self.write(lead.version.as_deref()).await {
            Ok(renewed) => return Renewal::Renewed(renewed),
            // It may have been us: an earlier request may have come through without an answer.
            Err(ElectionError::Overtaken) => {}
            Err(error) => {
                warn!(%error, "cannot renew the lead");
                return Renewal::Unclear(lead.version.clone());
            }
        }
        match self.answered(self.store.read()).await {
            Ok(None) => Renewal::Unclear(None),
            Ok(Some(entry)) if entry.leader.as_ref() == Some(&self.me.name) => {
                Renewal::Unclear(Some(entry.version))
            }
            Ok(Some(_)) => Renewal::Ended,
            Err(error) => {
                warn!(%error, "cannot find out who leads");
                Renewal::Unclear(lead.version.clone())
            }
        }
    }

    /// Leads no more. Tried once: whoever waits for it goes on without.
    async fn release(&self, lead: &Lead) -> End {
        let written = self.answered(self.store.write(None, lead.version.as_deref()));
        match written.await {
            Ok(_) => info!("leads no more"),
            Err(error) => warn!(%error, "could not give up the lead"),
        }
        End::Released
    }

    /// Leads from before this was asked.
    async fn write(&self, over: Option<&str>) -> Result<Lead, ElectionError> {
        let until = Instant::now() + self.duration * TENURE / 100;
        let written = self.answered(self.store.write(Some(&self.me.name), over));
        Ok(Lead {
            version: Some(written.await?.version),
            until,
        })
    }

    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, ExecutorError>>,
    ) -> Result<T, ElectionError> {
        let limit = self.duration / RENEWALS;
        match timeout(limit, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(ElectionError::Slow(limit)),
        }
    }
}
