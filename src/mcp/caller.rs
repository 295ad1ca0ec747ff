//! What the transport knows about the sender of a request and the handler needs to know.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{CallToolResult, ErrorData};
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Notify;
use tracing::error;

use super::error::{forbidden, internal_error};
use crate::api::error::CallError;
use crate::principal::Principal;
use crate::scope::{Rights, Scopes};

/// The sender of one request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Whose runs and sessions it may touch.
    pub(super) principal: Principal,
    /// What its token lets it do.
    pub(super) rights: Rights,
    /// Whether it reads event streams, so that notifications may be sent before the answer.
    pub(super) may_stream: bool,
    /// Whether the request says which revision it speaks, itself or by its session.
    pub(super) names_revision: bool,
    /// How much of the event stream its connection has taken.
    pub(super) delivery: Delivery,
    /// When it may come back, for the header of its answer.
    pub(super) retry_after: RetryAfter,
    /// When its tool is at work, for the transport.
    pub(super) begun: ToolBegun,
}

/// Whether a tool is at work on a request. From then on no answer changes the head of the response, so an event stream
/// can begin. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolBegun(Arc<Notify>);

impl ToolBegun {
    /// Notes it.
    pub(super) fn note(&self) {
        self.0.notify_one();
    }

    /// Waits until it is noted.
    pub(super) async fn noted(&self) {
        self.0.notified().await;
    }
}

/// How many seconds until a caller that was turned away may come back. The tool's answer contains this, and the
/// transport repeats it where the head of the answer can still be written. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct RetryAfter(Arc<OnceLock<u64>>);

impl RetryAfter {
    /// Notes it, if there is something to note.
    pub(super) fn note(&self, retry_after: Option<Duration>) {
        if let Some(retry_after) = retry_after {
            let _ = self.0.set(retry_after.as_secs());
        }
    }

    /// What was noted.
    pub(super) fn seconds(&self) -> Option<u64> {
        self.0.get().copied()
    }
}

/// Counts what a connection has taken of an event stream. A session stalls for all its requests when one of its streams
/// is not read, so nothing but the answer may be sent into a stalled stream. Other transports do not have this weakness
/// and count nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery(Option<Arc<AtomicU64>>);

impl Delivery {
    /// The stream is not connected: what is sent is kept for later and stalls nothing.
    const DETACHED: u64 = u64::MAX;

    /// A delivery that counts.
    pub(super) fn counted() -> Self {
        Self(Some(Arc::default()))
    }

    /// Changes with every event that was taken; `None` when nothing can stall.
    pub(super) fn taken(&self) -> Option<u64> {
        let taken = self.0.as_ref()?.load(Ordering::Relaxed);
        (taken != Self::DETACHED).then_some(taken)
    }

    /// The part that the connection holds.
    pub(super) fn reading(&self) -> Reading {
        Reading(self.clone())
    }
}

/// A connection that reads. Dropping it notes that the connection is gone.
pub(super) struct Reading(Delivery);

impl Reading {
    /// Counts one more event.
    pub(super) fn more(&self) {
        if let Some(taken) = &self.0.0 {
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(taken) = &self.0.0 {
            taken.store(Delivery::DETACHED, Ordering::Relaxed);
        }
    }
}

impl Caller {
    /// The sender of a request: from the HTTP request that brought it, or else the process on standard input.
    ///
    /// # Errors
    /// The transport has not noted who sent the HTTP request.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let Some(parts) = context.extensions.get::<Parts>() else {
            return Ok(Self {
                principal: Principal::local(),
                rights: Rights::ALL,
                may_stream: true,
                names_revision: true,
                delivery: Delivery::default(),
                retry_after: RetryAfter::default(),
                begun: ToolBegun::default(),
            });
        };
        parts.extensions.get().cloned().ok_or_else(|| {
            error!("a request has no caller");
            internal_error()
        })
    }

    /// The same caller, if its token has these scopes.
    ///
    /// # Errors
    /// It does not have them.
    pub(super) fn may(self, needed: Scopes) -> Result<Self, ErrorData> {
        match self.rights.check(needed) {
            Ok(()) => Ok(self),
            Err(missing) => Err(forbidden(missing)),
        }
    }

    /// The answer to a call that failed, which may say when to come back.
    ///
    /// # Errors
    /// The server made a mistake.
    pub(super) fn refuse(&self, error: CallError) -> Result<CallToolResult, ErrorData> {
        self.retry_after.note(error.retry_after);
        error.into_result()
    }
}
