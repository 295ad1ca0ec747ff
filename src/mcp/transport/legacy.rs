//! HTTP+SSE, the transport of revision 2024-11-05: answers come on one long event stream, requests go to `/messages`.
//!
//! rmcp has dropped it and many clients have not. A stream belongs to the caller that opened it; when it closes, what
//! still runs for it is cancelled, since nobody is left to read the answer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::future::ready;
use futures::{SinkExt as _, Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::serve_server_with_ct;
use rmcp::transport::TransportAdapterIdentity;
use rmcp::transport::sink_stream::SinkStreamTransport;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::envelope::EnvelopeError;
use super::message::Incoming;
use super::shape::unbuffered;
use super::unique::{Backlog, UniqueIds};
use super::{KEEP_ALIVE, McpHandler};
use crate::mcp::toolset;
use crate::principal::Principal;

/// Streams at the same time.
const MAX_STREAMS: usize = 500;
/// Messages on their way in either direction of one stream. A sender of more has to wait.
const CAPACITY: usize = 32;
/// Requests of one stream whose answers are still to come or not yet read. More are refused.
const MAX_BACKLOG: usize = 256;
/// Where messages are posted, below the public address, unless a stream has a path of its own for them.
pub(crate) const MESSAGES: &str = "/messages";

/// All open streams.
#[derive(Clone)]
pub(super) struct LegacyStreams {
    open: Arc<Mutex<HashMap<String, Open>>>,
    /// What goes before the path of messages where the public address has a path.
    prefix: Arc<str>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Clone)]
struct Open {
    owner: Principal,
    input: mpsc::Sender<ClientJsonRpcMessage>,
    backlog: Backlog,
    /// What ends it.
    stop: CancellationToken,
}

/// Closes a stream when dropped. Lives as long as the response's body.
struct Closing {
    streams: LegacyStreams,
    id: String,
    _cancel: DropGuard,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.streams.open.lock().remove(&self.id);
    }
}

impl LegacyStreams {
    pub(super) fn new(prefix: &str, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            open: Arc::default(),
            prefix: prefix.into(),
            tasks,
            stop,
        }
    }

    /// Opens a stream for a caller. Its first event says that messages go to this path.
    pub(super) fn open(&self, handler: McpHandler, messages: &str, owner: Principal) -> Response {
        let toolset = handler.toolset;
        let stop = self.stop.child_token();
        let (input, incoming) = mpsc::channel(CAPACITY);
        let (outgoing, answers) = futures::channel::mpsc::channel::<ServerJsonRpcMessage>(CAPACITY);
        let transport = SinkStreamTransport::new(
            outgoing.sink_map_err(std::io::Error::other),
            ReceiverStream::new(incoming),
        );
        let transport = UniqueIds::new(transport, stop.clone());
        let id = hex::encode(rand::random::<[u8; 16]>());
        {
            let mut open = self.open.lock();
            if open.len() >= MAX_STREAMS {
                return EnvelopeError::TooManyStreams.into_response();
            }
            let backlog = transport.backlog();
            open.insert(
                id.clone(),
                Open {
                    owner,
                    input,
                    backlog,
                    stop: stop.clone(),
                },
            );
        }
        let served = stop.clone();
        self.tasks.spawn(async move {
            let service = Box::pin(serve_server_with_ct::<_, _, _, TransportAdapterIdentity>(
                handler, transport, served,
            ));
            // A client that goes away before it has initialized is not a failure of ours.
            if let Ok(service) = service.await {
                let _ = service.waiting().await;
            }
        });
        let endpoint = format!("{}{messages}?sessionId={id}", self.prefix);
        let closing = Closing {
            streams: self.clone(),
            id,
            _cancel: stop.drop_guard(),
        };
        let answers = answers.filter_map(move |answer| ready(toolset::as_json(toolset, &answer)));
        events(endpoint, answers, closing)
    }

    /// Ends those of callers who have left.
    pub(super) fn end_those_of(&self, has_left: impl Fn(&Principal) -> bool) {
        let open = self.open.lock();
        for stream in open.values().filter(|stream| has_left(&stream.owner)) {
            stream.stop.cancel();
        }
    }

    /// Takes messages for the stream that the query names. If one of them cannot be taken, none is.
    pub(super) async fn post(
        &self,
        parts: &Parts,
        caller: &Principal,
        incoming: Incoming,
    ) -> Result<(), EnvelopeError> {
        let open = stream_id(parts)
            .and_then(|id| self.open.lock().get(id).cloned())
            .filter(|open| open.owner == *caller);
        let open = open.ok_or(EnvelopeError::UnknownSession)?;
        for mut message in incoming.parse()? {
            if matches!(message, JsonRpcMessage::Request(_)) && open.backlog.count() > MAX_BACKLOG {
                return Err(EnvelopeError::Unread);
            }
            message.insert_extension(parts.clone());
            let taken = open.input.send(message).await;
            taken.map_err(|_| EnvelopeError::UnknownSession)?;
        }
        Ok(())
    }
}

/// The response that sends the endpoint, then the answers.
fn events(
    endpoint: String,
    answers: impl Stream<Item = String> + Send + 'static,
    closing: Closing,
) -> Response {
    let first = stream::iter([Event::default().event("endpoint").data(endpoint)]);
    let events = first.chain(answers.map(|json| Event::default().event("message").data(json)));
    let events = events.map(move |event| {
        // Owned by the stream, so that it ends with it.
        let _ = &closing;
        Ok::<_, Infallible>(event)
    });
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    unbuffered(response.headers_mut());
    response
}

fn stream_id(parts: &Parts) -> Option<&str> {
    parts
        .uri
        .query()?
        .split('&')
        .find_map(|pair| pair.strip_prefix("sessionId="))
}
