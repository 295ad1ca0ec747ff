//! Reads on what a request still sends when its answer is there already.
//!
//! A client that is still sending when the connection is closed sees a reset and not the answer; and so does a server
//! that stands by and passes the request on.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::EXPECT;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, Request};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How long the rest of a body is read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of it.
const MAX_BYTES: u64 = 256 << 20;

/// The body of a request. Dropping it has its rest read, within limits of size and time.
pub(super) struct Lingering {
    /// `None` once nothing more comes.
    body: Option<Incoming>,
    /// Whether the client was asked for it, or sends it without that.
    comes: bool,
    tasks: TaskTracker,
}

/// The request with a body whose rest is read on `tasks`.
pub(super) fn lingering(request: Request<Incoming>, tasks: &TaskTracker) -> Request<Lingering> {
    let comes = comes_unasked(request.headers());
    request.map(|body| Lingering {
        body: Some(body),
        comes,
        tasks: tasks.clone(),
    })
}

/// One that asks before it sends may not have begun, and reading would be the answer that it is to send.
fn comes_unasked(headers: &HeaderMap) -> bool {
    !headers.contains_key(EXPECT)
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.comes = true;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        self.body.as_ref().map_or_else(none, Body::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && self.comes
            && !body.is_end_stream()
        {
            self.tasks.spawn(timeout(PATIENCE, read_on(body)));
        }
    }
}

/// Reads until the end, or as much as it may.
async fn read_on(mut body: Incoming) {
    let mut left = MAX_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(still_left) = left.checked_sub(bytes) else {
            return;
        };
        left = still_left;
    }
}
