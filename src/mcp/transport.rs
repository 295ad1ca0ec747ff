//! In front of rmcp's streamable HTTP: lets plain clients in and keeps every answer JSON-RPC.
//!
//! rmcp answers a request as the newest revisions of the protocol ask, which is stricter than what clients send:
//! `curl` has no `Accept` header, no `initialize` and no session. And what it refuses it refuses in plain text. Here
//! the envelope is checked first, then one of two services is chosen:
//!
//! * *stateful*, for clients that open a session and read event streams;
//! * *stateless*, for everybody else and when there are too many sessions.

mod envelope;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use self::envelope::{Envelope, EnvelopeError};
use super::McpHandler;

/// Sessions at the same time. Clients beyond them are served without one.
const MAX_SESSIONS: usize = 1000;
/// What rmcp wants to see.
const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const SESSION_ID: &str = "mcp-session-id";

/// The MCP endpoint.
#[derive(Clone)]
pub struct McpTransport {
    stateful: StreamableHttpService<McpHandler, LocalSessionManager>,
    stateless: StreamableHttpService<McpHandler, NeverSessionManager>,
    sessions: Arc<LocalSessionManager>,
    max_body: usize,
}

impl std::fmt::Debug for McpTransport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("McpTransport")
    }
}

impl McpTransport {
    /// An endpoint that takes bodies of up to `max_body` bytes. A session that was silent for `idle` is closed: it
    /// must be longer than the longest run, which is silent too. `stop` ends all sessions and streams at once.
    pub fn new(
        handler: McpHandler,
        max_body: usize,
        idle: Duration,
        stop: &CancellationToken,
    ) -> Self {
        // Host and Origin were checked before, for all routes alike.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_sse_retry(None)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(max_body)
            .with_cancellation_token(stop.child_token());
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.sse_retry = None;
        sessions.session_config.keep_alive = Some(idle);
        let sessions = Arc::new(sessions);
        let for_stateless = handler.clone();
        Self {
            stateful: StreamableHttpService::new(
                move || Ok(handler.clone()),
                Arc::clone(&sessions),
                config.clone(),
            ),
            stateless: StreamableHttpService::new(
                move || Ok(for_stateless.clone()),
                Arc::default(),
                config.with_legacy_session_mode(false),
            ),
            sessions,
            max_body,
        }
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Body>) -> Response {
        let response = match *request.method() {
            Method::POST => self.post(request).await,
            _ if request.headers().contains_key(SESSION_ID) => self.in_session(request).await,
            _ => return without_session(),
        };
        speak_json(response).await
    }

    /// GET and DELETE belong to sessions.
    async fn in_session(&self, request: Request<Body>) -> Response {
        let deletes = request.method() == Method::DELETE;
        let mut response = self.stateful.handle(request).await.map(Body::new);
        // Some clients take 202 for a failure.
        if deletes && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    async fn post(&self, request: Request<Body>) -> Response {
        let (mut parts, body) = request.into_parts();
        let bytes = match Limited::new(body, self.max_body).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return EnvelopeError::TooLarge(self.max_body).into_response();
            }
            Err(_) => return EnvelopeError::Interrupted.into_response(),
        };
        let envelope = match Envelope::read(&bytes) {
            Ok(envelope) => envelope,
            Err(error) => return error.into_response(),
        };
        let streams = accepts_streams(&parts.headers);
        parts.headers.insert(ACCEPT, BOTH_TYPES);
        parts.headers.insert(CONTENT_TYPE, JSON);
        let stateful = parts.headers.contains_key(SESSION_ID)
            || (envelope.method == "initialize" && streams && self.has_room().await);
        let request = Request::from_parts(parts, Body::from(bytes));
        if stateful {
            self.stateful.handle(request).await.map(Body::new)
        } else {
            self.stateless.handle(request).await.map(Body::new)
        }
    }

    async fn has_room(&self) -> bool {
        self.sessions.sessions.read().await.len() < MAX_SESSIONS
    }
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

fn without_session() -> Response {
    let error = EnvelopeError::NoSession;
    ([(ALLOW, "POST")], error.into_response()).into_response()
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
    let status = response.status();
    let text = response
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let text = String::from_utf8_lossy(&text.unwrap_or_else(|_| Bytes::new())).into_owned();
    EnvelopeError::Refused(status, text).into_response()
}
