//! Who did what, as lines that nobody changes unnoticed (`AUDIT_LOG`).
//!
//! ```text
//! use cases ─▶ record, before, change ─▶ queue ─▶ writer ─▶ log: chain of lines ─▶ file, opened again at SIGHUP
//!                                          │ full       │ fails
//!                                          ▼            ▼
//!                                        lost: counted in a line of its own when lines can be written again
//!
//! written ──fails: WARN──▶ failing ──the next event, SIGHUP or minute: what is lost is told──▶ written
//! ```
//!
//! A line goes to the operating system in one piece and is not forced to the disk: what was written stays when the
//! server is killed, and may be lost with the machine. Without `AUDIT_REQUIRED` the queue is lost with the server too.

mod command;
mod denials;
mod error;
mod event;
mod excerpt;
mod line;
mod log;
mod origin;
mod target;
mod verify;
mod writer;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

pub use self::command::AuditCommand;
use self::denials::Denials;
pub use self::error::{AuditError, AuditUnavailable};
pub use self::event::{By, ByOperator, Change, Event, Program, Subject, kept};
pub use self::excerpt::{Excerpt, ExcerptError};
use self::line::Dated;
use self::log::Log;
pub use self::origin::{Client, Operator, Origin};
pub use self::verify::{Broken, Verified};
use self::writer::{Entry, Writer};
use crate::config::{AuditConfig, AuditTarget};
use crate::principal::Principal;

/// Callers that are remembered as let in. Beyond these, all are new again.
const MAX_SEEN: usize = 100_000;
/// Events that may wait for the writer.
const QUEUE: usize = 1024;
/// How long a caller waits until its event is written.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the last event may take at shutdown.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Records who did what. Clones share one log; by default there is none, and nothing is recorded.
#[derive(Clone, Debug, Default)]
pub struct Audit(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    entries: mpsc::Sender<Entry>,
    /// Where the lines are, if they are in a file.
    path: Option<PathBuf>,
    is_required: bool,
    /// Whether the last event was written.
    is_ok: AtomicBool,
    /// Events that found the queue full.
    lost: AtomicU64,
    /// Notified when there are more: there may be no other event that wakes the writer.
    more_lost: Notify,
    /// Callers that were let in since the start.
    seen: Mutex<HashSet<Principal>>,
    denials: Mutex<Denials>,
}

/// A change under way. It is recorded when it is done, and also when nobody is left to see whether it is: a caller who
/// goes away does not hide what it did.
#[derive(Debug)]
pub struct Pending {
    audit: Audit,
    event: Option<Event>,
}

impl Audit {
    /// Opens the log and has a task write it until `stop`.
    ///
    /// # Errors
    /// The log is not usable.
    pub fn open(
        config: &AuditConfig,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Self, AuditError> {
        let Some(target) = &config.log else {
            return Ok(Self::default());
        };
        let log = Log::open(target)?;
        if let Some(bytes) = log.torn_bytes() {
            warn!(
                bytes,
                "the audit log ends in the middle of a line: a line behind it will say so"
            );
        }
        let hangups = match target {
            AuditTarget::File(_) => Some(signal(SignalKind::hangup()).map_err(AuditError::Signal)?),
            AuditTarget::Stdout => None,
        };
        let (sender, entries) = mpsc::channel(QUEUE);
        let path = match target {
            AuditTarget::File(path) => Some(path.clone()),
            AuditTarget::Stdout => None,
        };
        let shared = Arc::new(Shared {
            entries: sender,
            path,
            is_required: config.required,
            is_ok: AtomicBool::new(true),
            lost: AtomicU64::new(0),
            more_lost: Notify::new(),
            seen: Mutex::default(),
            denials: Mutex::default(),
        });
        let writer = Writer {
            log,
            shared: Arc::clone(&shared),
            entries,
            hangups,
        };
        tasks.spawn(writer.run(stop));
        Ok(Self(Some(shared)))
    }

    /// Whether everything that happened could be written, as far as is known.
    pub fn is_ok(&self) -> bool {
        let ok = |shared: &Arc<Shared>| shared.is_ok.load(Ordering::Relaxed);
        self.0.as_ref().is_none_or(ok)
    }

    /// Up to `limit` lines of the current file: those behind the one with the number `after`, or the last ones.
    ///
    /// # Errors
    /// The log is in no file, or it cannot be read.
    pub async fn excerpt(&self, after: Option<u64>, limit: usize) -> Result<Excerpt, ExcerptError> {
        let path = self.0.as_ref().and_then(|shared| shared.path.clone());
        let path = path.ok_or(ExcerptError::NoFile)?;
        let read = tokio::task::spawn_blocking(move || excerpt::read(&path, after, limit));
        read.await.map_err(std::io::Error::from)?
    }

    /// Records what has happened.
    pub fn record(&self, event: impl FnOnce() -> Event) {
        if let Some(shared) = &self.0 {
            let _ = shared.send(Some(event()), None);
        }
    }

    /// Records what is about to happen. Where the log is required, it is written when this returns.
    ///
    /// # Errors
    /// It is required and cannot be written.
    pub async fn before(&self, event: impl FnOnce() -> Event) -> Result<(), AuditUnavailable> {
        match &self.0 {
            Some(shared) if shared.is_required => shared.written(Some(event()), PATIENCE).await,
            _ => {
                self.record(event);
                Ok(())
            }
        }
    }

    /// Begins a change, which is recorded when it is done.
    ///
    /// # Errors
    /// The log is required, and what happened last cannot be written.
    pub async fn change(&self, event: impl FnOnce() -> Event) -> Result<Pending, AuditUnavailable> {
        if let Some(shared) = &self.0
            && shared.is_required
        {
            shared.written(None, PATIENCE).await?;
        }
        Ok(Pending {
            audit: self.clone(),
            event: self.0.is_some().then(event),
        })
    }

    /// Records that a caller is let in, the first time.
    pub fn let_in(&self, caller: &Principal) {
        let Some(shared) = &self.0 else {
            return;
        };
        let mut seen = shared.seen.lock();
        let is_new = !seen.contains(caller);
        if is_new {
            if seen.len() == MAX_SEEN {
                seen.clear();
            }
            seen.insert(caller.clone());
        }
        drop(seen);
        if is_new {
            let subject = event::Subject::of(caller);
            self.record(|| Event::TokenFirstUsed { subject });
        }
    }

    /// Records that somebody is not let in, unless that happens all the time.
    pub fn denied(
        &self,
        address: Option<IpAddr>,
        route: impl FnOnce() -> String,
        reason: &'static str,
    ) {
        let Some(shared) = &self.0 else {
            return;
        };
        let now = Instant::now();
        let mut denials = shared.denials.lock();
        let (left_out, is_recorded) = (denials.over(now), denials.count(now));
        drop(denials);
        if let Some(count) = left_out {
            self.record(|| Event::AuthDeniedMore { count });
        }
        if is_recorded {
            self.record(|| Event::AuthDenied {
                address: address.map(|address| address.to_canonical()),
                route: route(),
                reason,
            });
        }
    }

    /// Records that the server stops, and waits a moment until that is written.
    pub async fn stopped(&self) {
        if let Some(shared) = &self.0 {
            let left_out = shared.denials.lock().end();
            if let Some(count) = left_out {
                self.record(|| Event::AuthDeniedMore { count });
            }
            let _ = shared.written(Some(Event::ServerStopped), LAST_WAIT).await;
        }
    }
}

impl Shared {
    /// Hands an event to the writer, or counts it as lost.
    fn send(
        &self,
        event: Option<Event>,
        written: Option<oneshot::Sender<bool>>,
    ) -> Result<(), AuditUnavailable> {
        let is_event = event.is_some();
        let dated = event.map(Dated::now);
        let sent = self.entries.try_send(Entry { dated, written });
        sent.map_err(|_| {
            self.lose(u64::from(is_event));
            AuditUnavailable
        })
    }

    /// Notes that events are lost.
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
        if self.is_ok.swap(false, Ordering::Relaxed) {
            warn!("the audit log is not written fast enough: events are lost");
        }
        self.more_lost.notify_one();
    }

    /// Waits until an event is written, or until it is known that the log can be.
    async fn written(
        &self,
        event: Option<Event>,
        patience: Duration,
    ) -> Result<(), AuditUnavailable> {
        let (sender, written) = oneshot::channel();
        self.send(event, Some(sender))?;
        match timeout(patience, written).await {
            Ok(Ok(true)) => Ok(()),
            _ => Err(AuditUnavailable),
        }
    }
}

impl Pending {
    /// It is over, and has happened or not.
    pub fn end(mut self, has_happened: bool) {
        if let Some(event) = self.event.take().filter(|_| has_happened) {
            self.audit.record(|| event);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.audit.record(|| event.unsure());
        }
    }
}

#[cfg(test)]
mod tests;
