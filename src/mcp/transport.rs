//! In front of rmcp's streamable HTTP: lets plain clients in and keeps every answer JSON-RPC.
//!
//! rmcp holds requests to the newest revisions of the protocol, which is stricter than what clients send: `curl` sends
//! no such `Accept` header, no `initialize` and no session. It also refuses in plain text. Here the envelope is checked
//! first, then one of these is chosen:
//!
//! * *stateful*, for clients that open a session and read event streams;
//! * *stateless*, for everybody else, when there are too many sessions, and for a request whose id its session is still
//!   answering;
//! * [`legacy`], for clients of the first revision, which read one long event stream.
//!
//! A session or stream belongs to the caller that opened it: for others it does not exist.

mod envelope;
mod events;
mod legacy;
mod lines;
mod mend;
mod sessions;
mod unique;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcRequest};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use self::envelope::{Envelope, EnvelopeError};
use self::events::Events;
use self::legacy::LegacyStreams;
pub(crate) use self::legacy::MESSAGES;
pub(crate) use self::lines::Lines;
use self::sessions::Sessions;
pub(crate) use self::unique::UniqueIds;
use super::McpHandler;
use super::caller::{Caller, Delivery, Pause};
use crate::body::{BodyError, Room, Whole};
use crate::principal::Principal;

/// Whether a body has the outer form of a message, for the fuzzer.
#[cfg(fuzzing)]
pub fn has_form_of_a_message(body: &[u8]) -> bool {
    Envelope::read(body).is_ok()
}

/// The `Accept` header that rmcp asks for.
const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const SESSION_ID: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
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
    /// How long a session may be silent before it is closed. Must be longer than the longest run, which is silent too.
    pub idle: Duration,
    /// Path of the public address, without a trailing slash; usually empty.
    pub public_path: String,
}

/// The MCP endpoint.
#[derive(Clone)]
pub struct McpTransport {
    handler: McpHandler,
    stateful: StreamableHttpService<McpHandler, LocalSessionManager>,
    stateless: StreamableHttpService<McpHandler, NeverSessionManager>,
    sessions: Sessions,
    events: Events,
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
        let mut sessions =
            LocalSessionManager::default().with_event_store(Arc::new(events.clone()));
        sessions.session_config.sse_retry = None;
        sessions.session_config.keep_alive = Some(settings.idle);
        let sessions = Arc::new(sessions);
        let (for_stateful, for_stateless) = (handler.clone(), handler.clone());
        Self {
            stateful: StreamableHttpService::new(
                move || Ok(for_stateful.for_one_client()),
                Arc::clone(&sessions),
                config.clone(),
            ),
            stateless: StreamableHttpService::new(
                move || Ok(for_stateless.for_one_client()),
                Arc::default(),
                config.with_legacy_session_mode(false),
            ),
            sessions: Sessions::new(sessions),
            events,
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
    pub async fn handle(&self, request: Request<Body>) -> Response {
        let response = match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET if wants_legacy(request.headers()) => return self.open_stream(&request),
            _ => self.in_session(request).await,
        };
        speak_json(response).await
    }

    /// Opens an event stream of the old transport.
    pub fn open_stream(&self, request: &Request<Body>) -> Response {
        match principal(request.extensions()) {
            Ok(principal) => self.legacy.open(self.handler.for_one_client(), principal),
            Err(error) => error.into_response(),
        }
    }

    /// Takes a message for an event stream of the old transport.
    pub async fn messages(&self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let (envelope, bytes, principal) = match self.read(&mut parts, body).await {
            Ok(read) => read,
            Err(error) => return error.into_response(),
        };
        parts.extensions.insert(Caller {
            principal: principal.clone(),
            may_stream: true,
            names_revision: true,
            delivery: Delivery::default(),
            pause: Pause::default(),
        });
        let answer = self.legacy.post(parts, &principal, &bytes).await;
        say_why(answer, &envelope, &bytes)
    }

    /// GET and DELETE belong to sessions.
    async fn in_session(&self, request: Request<Body>) -> Response {
        let Some(session) = session_id(request.headers()) else {
            return ([(ALLOW, "POST")], EnvelopeError::NoSession.into_response()).into_response();
        };
        match principal(request.extensions()) {
            Ok(principal) if self.sessions.belongs_to(session, &principal) => {}
            Ok(_) => return EnvelopeError::UnknownSession.into_response(),
            Err(error) => return error.into_response(),
        }
        let deleted = (request.method() == Method::DELETE).then(|| session.to_owned());
        let mut response = self.stateful.handle(request).await.map(Body::new);
        if let Some(session) = deleted
            && response.status() == StatusCode::ACCEPTED
        {
            self.events.end(&session);
            // Some clients treat 202 as a failure.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    async fn post(&self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let (envelope, bytes, principal) = match self.read(&mut parts, body).await {
            Ok(read) => read,
            Err(error) => return error.into_response(),
        };
        let caller = Caller {
            principal,
            may_stream: accepts_streams(&parts.headers),
            names_revision: session_id(&parts.headers).is_some()
                || parts.headers.contains_key(REVISION),
            delivery: Delivery::default(),
            pause: Pause::default(),
        };
        let kept = bytes.clone();
        let mut response = self.dispatch(parts, bytes, &envelope, &caller).await;
        if let Some(seconds) = caller.pause.seconds() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        say_why(response, &envelope, &kept)
    }

    /// Hands a message to the transport that fits.
    async fn dispatch(
        &self,
        mut parts: Parts,
        bytes: Bytes,
        envelope: &Envelope,
        caller: &Caller,
    ) -> Response {
        parts.headers.insert(ACCEPT, BOTH_TYPES);
        parts.headers.insert(CONTENT_TYPE, JSON);
        parts.extensions.insert(caller.clone());
        if session_id(&parts.headers).is_some() {
            return self.post_in_session(parts, bytes, envelope, caller).await;
        }
        let greets = envelope.method == "initialize" && is_greeting(&bytes);
        let request = Request::from_parts(parts, Body::from(bytes));
        if !greets || !caller.may_stream || !self.sessions.has_room().await {
            return self.stateless.handle(request).await.map(Body::new);
        }
        let response = self.stateful.handle(request).await.map(Body::new);
        if let Some(id) = session_id(response.headers()) {
            self.sessions.bind(id, caller.principal.clone()).await;
        }
        response
    }

    async fn post_in_session(
        &self,
        mut parts: Parts,
        bytes: Bytes,
        envelope: &Envelope,
        caller: &Caller,
    ) -> Response {
        let session = session_id(&parts.headers).unwrap_or_default();
        if !self.sessions.belongs_to(session, &caller.principal) {
            return EnvelopeError::UnknownSession.into_response();
        }
        // The client's responses and notifications have no id.
        let id = envelope.id.as_deref();
        let answering = id.and_then(|id| self.sessions.answer(session, id));
        if id.is_some() && answering.is_none() {
            parts.headers.remove(SESSION_ID);
            let request = Request::from_parts(parts, Body::from(bytes));
            return self.stateless.handle(request).await.map(Body::new);
        }
        let delivery = Delivery::counted();
        parts.extensions.insert(Caller {
            delivery: delivery.clone(),
            ..caller.clone()
        });
        // The handler holds it too, since it goes on for a client that has hung up.
        parts.extensions.insert(answering.clone());
        let request = Request::from_parts(parts, Body::from(bytes));
        let response = self.stateful.handle(request).await;
        let reading = delivery.reading();
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // The body owns both, so that they end with it.
                let _ = &answering;
                reading.more();
                frame
            }))
        })
    }

    /// Reads a message. Returns its form and its sender too. Its place in memory goes with the request to its handler.
    async fn read(
        &self,
        parts: &mut Parts,
        body: Body,
    ) -> Result<(Envelope, Bytes, Principal), EnvelopeError> {
        let principal = principal(&parts.extensions)?;
        let (limit, patience) = (self.max_body, self.body_patience);
        let read = self.room.read(&parts.headers, body, limit, patience).await;
        let Whole { bytes, place } = read.map_err(|error| match error {
            BodyError::TooLarge => EnvelopeError::TooLarge(self.max_body),
            BodyError::TooSlow => EnvelopeError::TooSlow(self.body_patience),
            BodyError::Silent(silence) => EnvelopeError::Silent(silence),
            BodyError::Interrupted => EnvelopeError::Interrupted,
            BodyError::NoRoom => EnvelopeError::NoRoom,
        })?;
        parts.extensions.insert(place);
        let bytes = match mend::mended(&bytes) {
            Cow::Borrowed(_) => bytes,
            Cow::Owned(mended) => mended.into(),
        };
        Ok((Envelope::read(&bytes)?, bytes, principal))
    }
}

/// The sender of a request, as noted by the route's guard. A request that came around the guard has none.
fn principal(extensions: &axum::http::Extensions) -> Result<Principal, EnvelopeError> {
    extensions.get().cloned().ok_or_else(|| {
        error!("a request came around the guard of its route");
        EnvelopeError::NoCaller
    })
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

fn accepts_streams(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// Whether a message is an `initialize` whose parameters fit. The stateful service refuses any other one because it has
/// no session yet; the stateless one says what is wrong with it.
fn is_greeting(body: &[u8]) -> bool {
    matches!(
        serde_json::from_slice(body),
        Ok(ClientJsonRpcMessage::Request(JsonRpcRequest {
            request: ClientRequest::InitializeRequest(_),
            ..
        }))
    )
}

fn wants_legacy(headers: &HeaderMap) -> bool {
    accepts_streams(headers) && !NOT_LEGACY.iter().any(|name| headers.contains_key(*name))
}

/// Answers a message that is JSON but cannot be held, which rmcp takes for a body of another type.
fn say_why(response: Response, envelope: &Envelope, body: &[u8]) -> Response {
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return response;
    }
    envelope.not_held(body).into_response()
}

/// rmcp's own refusals are plain text; clients get them as JSON-RPC errors.
async fn speak_json(response: Response) -> Response {
    let is_text = response
        .headers()
        .get(CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !is_text || response.status().is_success() || response.status() == StatusCode::UNAUTHORIZED {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let text = String::from_utf8_lossy(&text.unwrap_or_else(|_| Bytes::new())).into_owned();
    let mut refused = EnvelopeError::Refused(head.status, text).into_response();
    if let Some(methods) = head.headers.remove(ALLOW) {
        refused.headers_mut().insert(ALLOW, methods);
    }
    refused
}
