//! In front of rmcp's streamable HTTP: lets plain clients in and keeps every answer JSON-RPC.
//!
//! rmcp holds requests to the newest revisions of the protocol, which is stricter than what clients send: `curl` sends
//! no such `Accept` header, no `initialize` and no session. It also refuses in plain text. Here the envelope is checked
//! first, then one of these is chosen:
//!
//! * *stateful*, for clients that open a session and read event streams;
//! * *stateless*, for everybody else, when there are too many sessions, for a request whose id its session is still
//!   answering, and for a tool call whose session is not known any more;
//! * [`legacy`], for clients of the first revision, which read one long event stream.
//!
//! What arrives is read and mended by [`message`], however it came. A session or stream belongs to the caller that
//! opened it: for others it does not exist.

mod accept;
mod batch;
mod dispatch;
mod envelope;
mod events;
mod greeting;
mod legacy;
mod lines;
mod manager;
mod mend;
mod message;
mod revision;
mod sessions;
mod shape;
mod unique;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, CONTENT_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::ready;
use http_body_util::BodyExt as _;
use rmcp::model::JsonRpcMessage;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use self::accept::{Reads, asks_for_stream};
pub(crate) use self::batch::{RateCharge, TooMany};
use self::dispatch::to_json_rpc_error;
use self::envelope::EnvelopeError;
use self::events::Events;
use self::legacy::LegacyStreams;
pub(crate) use self::legacy::MESSAGES;
pub(crate) use self::lines::Lines;
use self::manager::Manager;
use self::message::{Incoming, Message};
use self::revision::{REVISION, has_batches, named};
use self::sessions::{Sessions, Standing};
use self::shape::EVENT_STREAM;
pub(crate) use self::unique::UniqueIds;
use super::McpHandler;
use super::caller::{Caller, Delivery, RetryAfter, ToolBegun};
use crate::body::{BodyError, Room, Whole};
use crate::config::Toolset;
use crate::principal::Principal;
use crate::scope::Rights;

/// Whether a body has the outer form of a message, for the fuzzer.
#[cfg(fuzzing)]
pub fn has_form_of_a_message(body: &[u8]) -> bool {
    let body = Bytes::copy_from_slice(body);
    matches!(message::read(body, false), Ok(Incoming::One(_)))
}

const SESSION_ID: &str = "mcp-session-id";
/// Headers that say nothing when they are empty.
const MAY_BE_EMPTY: &[&str] = &[SESSION_ID, REVISION, "last-event-id"];
/// Headers of a GET from a client that knows sessions or newer revisions, and so does not want the old transport.
const NOT_LEGACY: &[&str] = &[SESSION_ID, REVISION, "last-event-id"];
/// How often a silent event stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the transport takes from the configuration.
#[derive(Clone, Debug)]
pub struct TransportSettings {
    /// Largest body in bytes.
    pub max_body: usize,
    /// How long a body may take to arrive.
    pub body_patience: Duration,
    /// How long a session may go unused before it is closed. One that answers or streams is used.
    pub idle: Duration,
    /// Path of the public address, without a trailing slash; usually empty.
    pub public_path: String,
}

/// The MCP endpoint.
#[derive(Clone)]
pub struct McpTransport {
    handler: McpHandler,
    stateful: StreamableHttpService<McpHandler, Manager>,
    stateless: StreamableHttpService<McpHandler, NeverSessionManager>,
    sessions: Sessions,
    legacy: LegacyStreams,
    max_body: usize,
    room: Room,
    body_patience: Duration,
}

impl std::fmt::Debug for McpTransport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("McpTransport")
    }
}

impl McpTransport {
    /// An endpoint. `stop` ends all sessions and streams at once.
    pub fn new(
        handler: McpHandler,
        settings: &TransportSettings,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        // Host and Origin were checked before, for all routes alike.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_sse_retry(None)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .disable_allowed_hosts()
            .with_max_request_body_bytes(settings.max_body)
            .with_cancellation_token(stop.child_token());
        let events = Events::default();
        let manager = Arc::new(Manager::new(events.clone()));
        let sessions = Sessions::new(Arc::clone(&manager), events, settings.idle);
        let (keep, ended) = (sessions.clone().keep(), stop.clone());
        tasks.spawn(async move { ended.run_until_cancelled(keep).await });
        let (for_stateful, for_stateless) = (handler.clone(), handler.clone());
        Self {
            stateful: StreamableHttpService::new(
                move || Ok(for_stateful.for_one_client()),
                manager,
                config.clone(),
            ),
            stateless: StreamableHttpService::new(
                move || Ok(for_stateless.for_one_client()),
                Arc::default(),
                config.with_legacy_session_mode(false),
            ),
            sessions,
            legacy: LegacyStreams::new(&settings.public_path, tasks.clone(), stop.clone()),
            handler,
            max_body: settings.max_body,
            room: Room::new(settings.max_body),
            body_patience: settings.body_patience,
        }
    }

    /// Where large bodies are held, including those of other routes.
    pub(crate) fn room(&self) -> Room {
        self.room.clone()
    }

    /// Answers one request to `/mcp`.
    pub async fn handle(&self, mut request: Request<Body>) -> Response {
        let headers = request.headers_mut();
        for name in MAY_BE_EMPTY {
            if headers
                .get(*name)
                .is_some_and(|value| value.as_bytes().trim_ascii().is_empty())
            {
                headers.remove(*name);
            }
        }
        let answer = match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET if wants_legacy(request.headers()) => return self.open_stream(&request),
            Method::GET | Method::DELETE | Method::HEAD => self.in_session(request).await,
            _ => Err(EnvelopeError::Method),
        };
        answer.unwrap_or_else(EnvelopeError::into_response)
    }

    /// Opens an event stream of the old transport.
    pub fn open_stream(&self, request: &Request<Body>) -> Response {
        self.open_stream_of(self.handler.toolset, MESSAGES, request)
    }

    /// The same for a client that sees this set of tools, and posts its messages to this path.
    pub fn open_stream_of(
        &self,
        toolset: Toolset,
        messages: &str,
        request: &Request<Body>,
    ) -> Response {
        match sender(request.extensions()) {
            Ok(sender) => {
                let handler = self.handler.speaking(toolset);
                self.legacy.open(handler, messages, sender.principal)
            }
            Err(error) => error.into_response(),
        }
    }

    /// Takes messages for an event stream of the old transport.
    pub async fn messages(&self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let taken = async {
            let (text, sender) = self.read(&mut parts, body).await?;
            let incoming = message::read(text, has_batches(named(&parts.headers)))?;
            let incoming = batch::charged(&parts, incoming);
            parts.extensions.insert(Caller {
                principal: sender.principal.clone(),
                rights: sender.rights,
                may_stream: true,
                names_revision: true,
                delivery: Delivery::default(),
                retry_after: RetryAfter::default(),
                begun: ToolBegun::default(),
            });
            self.legacy.post(&parts, &sender.principal, incoming).await
        };
        match taken.await {
            Ok(()) => (StatusCode::ACCEPTED, Body::from("Accepted")).into_response(),
            Err(error) => error.into_response(),
        }
    }

    /// GET and DELETE belong to sessions.
    async fn in_session(&self, mut request: Request<Body>) -> Result<Response, EnvelopeError> {
        let session = session_id(request.headers()).ok_or(EnvelopeError::NoSession)?;
        revision::check(request.headers(), None)?;
        let caller = sender(request.extensions())?.principal;
        if self.sessions.standing(session, &caller) != Standing::Own {
            return Err(EnvelopeError::UnknownSession);
        }
        if request.method() == Method::DELETE {
            self.sessions.end(session).await;
            // Some clients treat 202, which the specification's own server answers, as a failure.
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let in_use = self.sessions.hold(session);
        if asks_for_stream(request.headers()) || !request.headers().contains_key(ACCEPT) {
            request.headers_mut().insert(ACCEPT, EVENT_STREAM);
        }
        let response = self.stateful.handle(request).await.map(Body::new);
        let response = response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // The body owns it, so that the session is in use until it ends.
                let _ = &in_use;
                frame
            }))
        });
        Ok(shape::commented(to_json_rpc_error(response).await))
    }

    async fn post(&self, request: Request<Body>) -> Result<Response, EnvelopeError> {
        let (mut parts, body) = request.into_parts();
        let reads = Reads::of(&parts.headers);
        let (text, sender) = self.read(&mut parts, body).await?;
        let incoming = message::read(text, self.takes_batches(&parts.headers, &sender.principal))?;
        match batch::charged(&parts, incoming) {
            Incoming::One(message) => {
                revision::check(&parts.headers, Some(&message))?;
                self.check_scopes(&message, sender.rights)?;
                let (id, opens) = (
                    message.id_as_json(),
                    message.envelope.method == "initialize",
                );
                let begun = ToolBegun::default();
                let work = self.answer(parts, message, &sender, reads, begun.clone());
                // The head of its answer may name a session, so it is waited for.
                let work = if opens {
                    ready(work.await).boxed()
                } else {
                    work
                };
                Ok(shape::shaped(work, reads, &begun, id).await)
            }
            Incoming::Batch(messages) => {
                revision::check(&parts.headers, None)?;
                Ok(self.batch(&parts, messages, &sender, reads).await)
            }
        }
    }

    /// Refuses a message for which its client has to log its user in again, which only the head of an answer can say.
    /// All others that need more than their caller may do are refused by the handler.
    fn check_scopes(&self, message: &Message, rights: Rights) -> Result<(), EnvelopeError> {
        if !rights.can_grow() {
            return Ok(());
        }
        let Ok(JsonRpcMessage::Request(request)) = message.parse() else {
            return Ok(());
        };
        match rights.check(self.handler.needs(&request.request)) {
            Err(forbidden) if forbidden.by_login => Err(EnvelopeError::Forbidden {
                id: message.id_as_json(),
                forbidden,
            }),
            _ => Ok(()),
        }
    }

    /// Ends the sessions and streams of callers who have left.
    pub(crate) async fn end_those_of(&self, has_left: impl Fn(&Principal) -> bool) {
        self.legacy.end_those_of(&has_left);
        self.sessions.end_those_of(&has_left).await;
    }

    /// Whether several messages may come at once: what the request says, or else its session.
    fn takes_batches(&self, headers: &HeaderMap, caller: &Principal) -> bool {
        let agreed = || self.sessions.revision(session_id(headers)?, caller);
        let revision = named(headers).map(str::to_owned).or_else(agreed);
        has_batches(revision.as_deref())
    }

    /// Reads a body. Returns its sender too. Its place in memory goes with the request to its handler.
    async fn read(&self, parts: &mut Parts, body: Body) -> Result<(Bytes, Sender), EnvelopeError> {
        let sender = sender(&parts.extensions)?;
        let encoding = parts.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(EnvelopeError::Compressed);
        }
        let (limit, patience) = (self.max_body, self.body_patience);
        let read = self.room.read(&parts.headers, body, limit, patience).await;
        let Whole { bytes, permit } = read.map_err(|error| match error {
            BodyError::TooLarge => EnvelopeError::TooLarge(self.max_body),
            BodyError::TooSlow => EnvelopeError::TooSlow(self.body_patience),
            BodyError::Silent(silence) => EnvelopeError::Silent(silence),
            BodyError::Interrupted => EnvelopeError::Interrupted,
            BodyError::NoRoom => EnvelopeError::NoRoom,
        })?;
        parts.extensions.insert(permit);
        Ok((bytes, sender))
    }
}

/// The answer to a caller that sends more than `RATE_LIMIT`.
pub(crate) fn too_many(excess: TooMany) -> Response {
    EnvelopeError::TooMany { id: None, excess }.into_response()
}

/// Who sent a request, and what they may do.
#[derive(Clone)]
struct Sender {
    principal: Principal,
    rights: Rights,
}

/// The sender of a request, as noted by the route's guard. A request that came around the guard has none.
fn sender(extensions: &axum::http::Extensions) -> Result<Sender, EnvelopeError> {
    let (principal, rights) = (extensions.get().cloned(), extensions.get().copied());
    let noted = principal.zip(rights);
    let sender = noted.map(|(principal, rights)| Sender { principal, rights });
    sender.ok_or_else(|| {
        error!("a request came around the guard of its route");
        EnvelopeError::NoCaller
    })
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

fn wants_legacy(headers: &HeaderMap) -> bool {
    asks_for_stream(headers) && !NOT_LEGACY.iter().any(|name| headers.contains_key(*name))
}
