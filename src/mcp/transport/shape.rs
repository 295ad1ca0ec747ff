//! The form of an answer: one JSON message, or an event stream, whichever its client reads.
//!
//! Proxies give up on an answer that does not begin, and clients on a stream whose head they do not see. So a stream
//! begins with a comment, and an answer that is not there at once becomes a stream where the client reads one.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::future::{BoxFuture, Either, select};
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::KEEP_ALIVE;
use super::accept::Reads;
use super::envelope::EnvelopeError;
use crate::mcp::caller::ToolBegun;

/// How long an answer may take until it becomes a stream, where it may also be JSON. Runs in a warm sandbox are faster.
const AT_ONCE: Duration = Duration::from_millis(250);
/// What an event stream begins with, and what it sends while it is silent.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");
pub(super) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// An answer that is being made. Dropping it is what happens when the client goes away.
pub(super) type Work = BoxFuture<'static, Response>;

/// The answer to a request in a form that its client reads. For a client that reads nothing but streams, one begins as
/// soon as a tool is at work: what is refused before that has a status of its own.
pub(super) async fn shaped(
    mut work: Work,
    reads: Reads,
    begun: &ToolBegun,
    id: Option<Value>,
) -> Response {
    if !reads.streams() {
        return message(work.await, id).await;
    }
    let patience = async {
        if reads == Reads::Stream {
            let _ = timeout(AT_ONCE, begun.noted()).await;
        } else {
            sleep(AT_ONCE).await;
        }
    };
    let response = match select(&mut work, pin!(patience)).await {
        Either::Left((response, _)) => response,
        Either::Right(_) => return streamed(events(work)),
    };
    if is_stream(&response) {
        return commented(response);
    }
    if reads == Reads::Stream && response.status() == StatusCode::OK {
        return streamed(events(async { response }.boxed()));
    }
    response
}

/// A stream whose first bytes come at once.
pub(super) fn commented(response: Response) -> Response {
    if !is_stream(&response) {
        return response;
    }
    response.map(|body| {
        let comment = stream::iter([Ok(COMMENT)]);
        Body::from_stream(comment.chain(body.into_data_stream()))
    })
}

/// An event stream of these pieces, each of which is a whole event or comment.
pub(super) fn streamed(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let pieces = stream::iter([COMMENT]).chain(events);
    let mut response = Body::from_stream(pieces.map(Ok::<_, Infallible>)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    unbuffered(headers);
    response
}

/// Tells proxies to pass a stream on as it comes.
pub(super) fn unbuffered(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
}

/// The events of an answer, with comments until it is there.
pub(super) fn events(work: Work) -> BoxStream<'static, Bytes> {
    let waiting = stream::unfold(Some(work), async |work| {
        match select(work?, Box::pin(sleep(KEEP_ALIVE))).await {
            Either::Left((response, _)) => Some((contents(response).await, None)),
            Either::Right(((), work)) => Some((stream::iter([COMMENT]).boxed(), Some(work))),
        }
    });
    waiting.flatten().boxed()
}

/// What a response has to say, as events.
async fn contents(response: Response) -> BoxStream<'static, Bytes> {
    if is_stream(&response) {
        let pieces = response.into_body().into_data_stream();
        // A body that breaks off ends.
        return pieces.filter_map(async |piece| piece.ok()).boxed();
    }
    let message = text(response).await;
    let event = (!message.is_empty()).then(|| {
        let mut event = Vec::with_capacity(message.len() + 8);
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(&message);
        event.extend_from_slice(b"\n\n");
        Bytes::from(event)
    });
    stream::iter(event).boxed()
}

/// The one message of an answer as JSON: the last one of a stream.
pub(super) async fn message(response: Response, id: Option<Value>) -> Response {
    if !is_stream(&response) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let events = text(Response::new(body)).await;
    let last = events
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii)
        .rfind(|data| !data.is_empty());
    let Some(last) = last else {
        return EnvelopeError::Cancelled { id }.into_response();
    };
    head.headers.remove(CACHE_CONTROL);
    head.headers.remove("x-accel-buffering");
    head.headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(head, Body::from(events.slice_ref(last)))
}

/// Answers to several messages as one JSON list, without those that have none.
pub(super) async fn list(answers: Vec<Response>) -> Response {
    let mut list = vec![b'['];
    let mut again = None;
    for answer in answers {
        again = again.max(answer.headers().get(RETRY_AFTER).cloned());
        let message = text(answer).await;
        if !message.is_empty() {
            if list.len() > 1 {
                list.push(b',');
            }
            list.extend_from_slice(&message);
        }
    }
    list.push(b']');
    let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let mut response = (json, list).into_response();
    if let Some(again) = again {
        response.headers_mut().insert(RETRY_AFTER, again);
    }
    response
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The whole body; empty if it breaks off.
async fn text(response: Response) -> Bytes {
    let body = response.into_body().collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .unwrap_or_default()
}
