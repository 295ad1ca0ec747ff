//! The outer form of a JSON-RPC message, checked before rmcp sees it, and the errors that occur before any handler.

use std::time::Duration;

use axum::Json;
use axum::http::header::{ALLOW, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rmcp::model::RequestId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;

use super::batch::TooMany;
use crate::api::code::Code;
use crate::body::{LARGE_BODIES, ROOM_AGAIN};
use crate::scope::Forbidden;

/// Codes of JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// What the official SDKs answer for a session that there is not, and some clients look for.
const SESSION_NOT_FOUND: i32 = -32001;
/// One of those that a server defines itself.
const TOO_MANY: i32 = -32000;
const SESSION_HINT: &str =
    "it has ended, or it is another caller's: send a new initialize request without it";

/// The parts of a message that decide who answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Empty for a response from the client.
    pub(super) method: String,
    /// The id of a request.
    pub(super) id: Option<RequestId>,
}

impl Envelope {
    pub(super) fn id_as_json(&self) -> Option<Value> {
        self.id.clone().map(RequestId::into_json_value)
    }
}

/// Why no handler answered.
#[derive(Debug, Error)]
pub(super) enum EnvelopeError {
    #[error("the message is not valid JSON: {0}")]
    Parse(String),
    #[error("{reason}")]
    Invalid {
        id: Option<Value>,
        reason: &'static str,
    },
    #[error("{reason}")]
    Params { id: Option<Value>, reason: String },
    #[error(
        "batches are not supported in this revision of the protocol: send one message at a time, or speak revision 2025-03-26"
    )]
    NoBatches,
    #[error("the batch has {0} messages: send at most {1} at once")]
    LargeBatch(usize, usize),
    #[error(
        "the header MCP-Protocol-Version is {name}, which is not known here: use one of {known}"
    )]
    UnknownRevision {
        id: Option<Value>,
        name: String,
        known: String,
    },
    #[error("the message has more than {0} bytes, which is the limit: upload smaller files")]
    TooLarge(usize),
    #[error("the body is compressed: send it without Content-Encoding")]
    Compressed,
    #[error(
        "the body came too slowly: send at least 16 KiB a second, and all of it within {} s",
        .0.as_secs()
    )]
    TooSlow(Duration),
    #[error("no more of the body came for {} s: send it again", .0.as_secs())]
    Silent(Duration),
    #[error("the body ended too early")]
    Interrupted,
    #[error("{LARGE_BODIES}: try again in {} s", ROOM_AGAIN.as_secs())]
    NoRoom,
    #[error(
        "this needs the Mcp-Session-Id of a session: send an initialize request first, or use POST without one"
    )]
    NoSession,
    #[error("/mcp does not take this method: POST a message, or GET an event stream")]
    Method,
    /// Some clients know it by these words.
    #[error("Session not found")]
    UnknownSession,
    #[error("too many event streams are open: use POST /mcp, which needs none, or try again later")]
    TooManyStreams,
    #[error("too many answers wait on the event stream: read them, and send this again")]
    Unread,
    #[error("the request was cancelled")]
    Cancelled { id: Option<Value> },
    #[error("the server made a mistake: its log has the details")]
    NoCaller,
    #[error("{excess}")]
    TooMany { id: Option<Value>, excess: TooMany },
    #[error("{forbidden}")]
    Forbidden {
        id: Option<Value>,
        forbidden: Forbidden,
    },
    #[error("the message is not one of the protocol: {reason}")]
    NotHeld { id: Option<Value>, reason: String },
    #[error("{1}")]
    Refused(StatusCode, String),
}

/// Fields as they were written, since `Option<Value>` cannot distinguish `"id": null` from no id.
#[derive(Deserialize, Serialize)]
pub(super) struct Fields<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

/// A field that is there, whatever it holds.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Fields<'_> {
    /// Checks all but the parameters.
    pub(super) fn envelope(&self) -> Result<Envelope, EnvelopeError> {
        let id: Option<RequestId> = self.id.and_then(|id| serde_json::from_str(id.get()).ok());
        let echo = || id.clone().map(RequestId::into_json_value);
        if self
            .jsonrpc
            .is_none_or(|version| version.get() != r#""2.0""#)
        {
            return Err(invalid(
                echo(),
                r#"jsonrpc is missing or wrong: it must be "2.0""#,
            ));
        }
        // A failure of a request that could not be read has the id null.
        let of_no_request = self.method.is_none() && self.error.is_some();
        if self
            .id
            .is_some_and(|written| id.is_none() && !(of_no_request && written.get() == "null"))
        {
            return Err(invalid(
                None,
                "id must be a string or a whole number of at most 64 bits",
            ));
        }
        let answers = self.result.is_some() || self.error.is_some();
        let method = match self.method {
            Some(method) => serde_json::from_str(method.get())
                .map_err(|_| invalid(echo(), "method must be a string"))?,
            None if answers => String::new(),
            None => return Err(invalid(echo(), "method is missing")),
        };
        let id = id.filter(|_| self.method.is_some());
        Ok(Envelope { method, id })
    }

    pub(super) fn check_params(&self, envelope: &Envelope) -> Result<(), EnvelopeError> {
        let is_object = |params: &RawValue| params.get().starts_with('{');
        if self.params.is_none_or(is_object) {
            return Ok(());
        }
        Err(invalid(envelope.id_as_json(), "params must be an object"))
    }
}

pub(super) fn invalid(id: Option<Value>, reason: &'static str) -> EnvelopeError {
    EnvelopeError::Invalid { id, reason }
}

impl EnvelopeError {
    /// The status over HTTP, and the code.
    fn codes(&self) -> (StatusCode, i32) {
        match self {
            Self::Parse(_) | Self::Interrupted => (StatusCode::BAD_REQUEST, PARSE_ERROR),
            Self::Invalid { .. }
            | Self::NotHeld { .. }
            | Self::NoBatches
            | Self::LargeBatch(..)
            | Self::UnknownRevision { .. } => (StatusCode::BAD_REQUEST, INVALID_REQUEST),
            // As from a handler.
            Self::Params { .. } => (StatusCode::OK, INVALID_PARAMS),
            Self::Cancelled { .. } => (StatusCode::OK, INVALID_REQUEST),
            Self::UnknownSession => (StatusCode::NOT_FOUND, SESSION_NOT_FOUND),
            Self::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, TOO_MANY),
            Self::Forbidden { .. } => (StatusCode::FORBIDDEN, INVALID_REQUEST),
            Self::Compressed => (StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST),
            Self::NoCaller => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR),
            Self::TooManyStreams | Self::Unread | Self::NoRoom => {
                (StatusCode::SERVICE_UNAVAILABLE, INTERNAL_ERROR)
            }
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST),
            Self::TooSlow(_) | Self::Silent(_) => (StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST),
            Self::NoSession | Self::Method => (StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST),
            Self::Refused(status, _) if status.is_client_error() => (*status, INVALID_REQUEST),
            Self::Refused(_, _) => (StatusCode::SERVICE_UNAVAILABLE, INTERNAL_ERROR),
        }
    }

    /// What else a client may want to know.
    fn data(&self) -> Option<Value> {
        match self {
            Self::UnknownSession => Some(SESSION_HINT.into()),
            Self::Forbidden { .. } => Some(json!({ "code": Code::ForbiddenScope })),
            Self::TooMany { excess, .. } => Some(json!({ "retryAfterSeconds": excess.seconds })),
            Self::UnknownRevision { known, .. } => {
                Some(json!({ "supported": known.split(", ").collect::<Vec<_>>() }))
            }
            _ => None,
        }
    }

    /// The answer as a message.
    pub(super) fn into_answer(self) -> Value {
        let (_, code) = self.codes();
        let mut error = json!({ "code": code, "message": self.to_string() });
        if let Some(data) = self.data() {
            error["data"] = data;
        }
        let id = match self {
            Self::Invalid { id, .. }
            | Self::NotHeld { id, .. }
            | Self::Params { id, .. }
            | Self::Cancelled { id }
            | Self::TooMany { id, .. }
            | Self::Forbidden { id, .. }
            | Self::UnknownRevision { id, .. } => id,
            _ => None,
        };
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

impl IntoResponse for EnvelopeError {
    fn into_response(self) -> Response {
        let (status, _) = self.codes();
        let again = match &self {
            Self::NoRoom => Some(ROOM_AGAIN.as_secs()),
            Self::TooMany { excess, .. } => Some(excess.seconds),
            _ => None,
        };
        let methods = match &self {
            Self::NoSession => Some("POST"),
            Self::Method => Some("GET, POST, DELETE"),
            _ => None,
        };
        let forbidden = match &self {
            Self::Forbidden { forbidden, .. } => Some(*forbidden),
            _ => None,
        };
        let mut response = (status, Json(self.into_answer())).into_response();
        // Whoever knows where one can log in tells that.
        forbidden.map(|forbidden| response.extensions_mut().insert(forbidden));
        let headers = response.headers_mut();
        headers.extend(again.map(|seconds| (RETRY_AFTER, seconds.into())));
        headers.extend(methods.map(|methods| (ALLOW, HeaderValue::from_static(methods))));
        response
    }
}
