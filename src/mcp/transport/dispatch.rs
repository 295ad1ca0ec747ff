//! Hands a message to the part that answers it: to its session, to a new one, or to a service without any.

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use rmcp::model::{ClientRequest, JsonRpcMessage};

use super::accept::Reads;
use super::envelope::EnvelopeError;
use super::message::Message;
use super::revision::{self, REVISION};
use super::sessions::Standing;
use super::shape::Work;
use super::{McpTransport, SESSION_ID, Sender, session_id};
use crate::mcp::caller::{Caller, Delivery, RetryAfter, ToolBegun};

/// The `Accept` header that rmcp asks for.
const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Words of rmcp for a session that ended while we looked.
const ENDED: StatusCode = StatusCode::NOT_FOUND;

impl McpTransport {
    /// The answer to one message, in the form that it comes in. When its tool is at work, that is noted in `begun`.
    pub(super) fn answer(
        &self,
        mut parts: Parts,
        message: Message,
        sender: &Sender,
        reads: Reads,
        begun: ToolBegun,
    ) -> Work {
        let caller = Caller {
            principal: sender.principal.clone(),
            rights: sender.rights,
            may_stream: reads.streams(),
            names_revision: session_id(&parts.headers).is_some()
                || parts.headers.contains_key(REVISION),
            delivery: Delivery::default(),
            retry_after: RetryAfter::default(),
            begun,
        };
        parts.headers.insert(ACCEPT, BOTH_TYPES);
        parts.headers.insert(CONTENT_TYPE, JSON);
        parts.extensions.insert(caller.clone());
        let transport = self.clone();
        async move {
            let mut response = transport.dispatch(parts, &message, &caller).await;
            if let Some(seconds) = caller.retry_after.seconds() {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            // rmcp takes a message that is JSON but cannot be held for a body of another type.
            if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
                response = message.unrepresentable().into_response();
            }
            to_json_rpc_error(response).await
        }
        .boxed()
    }

    async fn dispatch(&self, mut parts: Parts, message: &Message, caller: &Caller) -> Response {
        if let Some(session) = session_id(&parts.headers) {
            match self.sessions.standing(session, &caller.principal) {
                Standing::Own => return self.post_in_session(parts, message, caller).await,
                Standing::Unknown if needs_no_session(&message.envelope.method) => {
                    parts.headers.remove(SESSION_ID);
                }
                Standing::Unknown | Standing::Gone => {
                    return EnvelopeError::UnknownSession.into_response();
                }
            }
        }
        let greeting = greeting(message);
        let request = Request::from_parts(parts, Body::from(message.text.clone()));
        let Some(revision) = greeting.filter(|_| caller.may_stream && self.sessions.has_room())
        else {
            return self.stateless.handle(request).await.map(Body::new);
        };
        let response = self.stateful.handle(request).await.map(Body::new);
        if let Some(id) = session_id(response.headers()) {
            self.sessions.open(id, caller.principal.clone(), revision);
        }
        response
    }

    async fn post_in_session(
        &self,
        mut parts: Parts,
        message: &Message,
        caller: &Caller,
    ) -> Response {
        let session = session_id(&parts.headers).unwrap_or_default();
        // The client's responses and notifications have no id.
        let answering = message
            .id()
            .and_then(|id| self.sessions.answer(session, id));
        if message.id().is_some() && answering.is_none() {
            parts.headers.remove(SESSION_ID);
            let request = Request::from_parts(parts, Body::from(message.text.clone()));
            return self.stateless.handle(request).await.map(Body::new);
        }
        let in_use = self.sessions.hold(session);
        let delivery = Delivery::counted();
        parts.extensions.insert(Caller {
            delivery: delivery.clone(),
            ..caller.clone()
        });
        // The handler holds it too, since it goes on for a client that has hung up.
        parts.extensions.insert(answering.clone());
        let request = Request::from_parts(parts, Body::from(message.text.clone()));
        let response = self.stateful.handle(request).await;
        let reading = delivery.reading();
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // The body owns these, so that they end with it.
                let _ = (&answering, &in_use);
                reading.more();
                frame
            }))
        })
    }
}

/// Whether a message that names a lost session is served all the same: a model's turn would be lost with a call, which
/// needs nothing that the session has, and a greeting begins a new one.
fn needs_no_session(method: &str) -> bool {
    ["tools/call", "initialize"].contains(&method)
}

/// The revision that a session would speak which this message opens. The stateful service refuses any other message
/// because it has no session yet; the stateless one says what is wrong with it.
fn greeting(message: &Message) -> Option<String> {
    if message.envelope.method != "initialize" {
        return None;
    }
    match message.parse() {
        Ok(JsonRpcMessage::Request(request)) => match request.request {
            ClientRequest::InitializeRequest(initialize) => {
                Some(revision::negotiated(&initialize.params.protocol_version).to_string())
            }
            _ => None,
        },
        _ => None,
    }
}

/// rmcp's own refusals are plain text; clients get them as JSON-RPC errors.
pub(super) async fn to_json_rpc_error(response: Response) -> Response {
    let is_text = response
        .headers()
        .get(CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !is_text || response.status().is_success() || response.status() == StatusCode::UNAUTHORIZED {
        return response;
    }
    let (mut head, body) = response.into_parts();
    if head.status == ENDED {
        return EnvelopeError::UnknownSession.into_response();
    }
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
