//! Several messages in one request, which clients of revision 2025-03-26 may send.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::join_all;
use futures::stream::select_all;
use thiserror::Error;

use super::accept::Reads;
use super::envelope::EnvelopeError;
use super::message::{Incoming, Message};
use super::shape::{self, Work};
use super::{McpTransport, Sender};
use crate::mcp::caller::ToolBegun;

/// Counts one more message of a caller whose requests are limited. The request that brought it counts as one whatever
/// it holds.
#[derive(Clone)]
pub(crate) struct RateCharge(pub(crate) Arc<dyn Fn() -> Result<(), TooMany> + Send + Sync>);

/// More requests than a limit allows.
#[derive(Clone, Copy, Debug, Error)]
#[error("too many requests ({limit}): try again in {seconds} s")]
pub(crate) struct TooMany {
    /// What the operator calls the limit.
    pub(crate) limit: &'static str,
    /// When to come back.
    pub(crate) seconds: u64,
}

/// Refuses the messages of a batch that are more than its sender may send.
pub(super) fn charged(parts: &Parts, incoming: Incoming) -> Incoming {
    let Some(RateCharge(count)) = parts.extensions.get() else {
        return incoming;
    };
    let Incoming::Batch(mut messages) = incoming else {
        return incoming;
    };
    for message in messages.iter_mut().skip(1) {
        if let Err(excess) = count() {
            let id = message.as_ref().ok().and_then(Message::id_as_json);
            *message = Err(EnvelopeError::TooMany { id, excess });
        }
    }
    Incoming::Batch(messages)
}

impl McpTransport {
    /// Answers each message as if it had come alone: in a list, or on one stream as they come.
    pub(super) async fn batch(
        &self,
        parts: &Parts,
        messages: Vec<Result<Message, EnvelopeError>>,
        sender: &Sender,
        reads: Reads,
    ) -> Response {
        let to_answer = |message: &Result<Message, _>| {
            message
                .as_ref()
                .map_or(true, |message| message.id().is_some())
        };
        let nothing_to_answer = !messages.iter().any(to_answer);
        let answers = messages.into_iter().map(|message| match message {
            Ok(message) => self.answer(parts.clone(), message, sender, reads, ToolBegun::default()),
            Err(error) => async { error.into_response() }.boxed(),
        });
        if nothing_to_answer {
            let taken = join_all(answers).await;
            // One that was refused tells of all: such as that there is no such session.
            let refused = taken
                .into_iter()
                .find(|answer| !answer.status().is_success());
            return refused.unwrap_or_else(|| StatusCode::ACCEPTED.into_response());
        }
        if reads.streams() {
            return shape::streamed(select_all(answers.map(shape::events)));
        }
        let whole = answers.map(async |work: Work| shape::message(work.await, None).await);
        shape::list(join_all(whole).await).await
    }
}
