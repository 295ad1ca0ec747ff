//! The outer form of a JSON-RPC message, checked before rmcp sees it, and the errors that occur before any handler.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;

use crate::body::{LARGE_BODIES, ROOM_AGAIN};

/// Codes of JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INTERNAL_ERROR: i32 = -32603;

/// The parts of a message that decide who answers it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Empty for a response from the client.
    pub(super) method: String,
    /// The id of a request, as JSON.
    pub(super) id: Option<String>,
}

/// Why no handler answered.
#[derive(Debug, Error)]
pub(super) enum EnvelopeError {
    #[error("the message is not valid JSON: {0}")]
    Parse(String),
    #[error("{reason}")]
    Invalid { id: Value, reason: &'static str },
    #[error("the message has more than {0} bytes, which is the limit: upload smaller files")]
    TooLarge(usize),
    #[error("the body took longer than {} s: send smaller files", .0.as_secs())]
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
    #[error(
        "there is no such session any more, or it is another caller's: send a new initialize request"
    )]
    UnknownSession,
    #[error(
        "there is no such event stream any more, or it is another caller's: open a new one with GET"
    )]
    NoStream,
    #[error("too many event streams are open: use POST /mcp, which needs none, or try again later")]
    TooManyStreams,
    #[error("too many answers wait on the event stream: read them, and send this again")]
    Unread,
    #[error("the server made a mistake: its log has the details")]
    NoCaller,
    #[error("the message is not one of the protocol: {reason}")]
    NotHeld { id: Value, reason: String },
    #[error("{1}")]
    Refused(StatusCode, String),
}

/// Fields as they were written, since `Option<Value>` cannot distinguish `"id": null` from no id.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A field that is there, whatever it holds.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope {
    /// Reads a message as far as needed.
    pub(super) fn read(body: &[u8]) -> Result<Self, EnvelopeError> {
        // The whole text first, so that a mistake anywhere in it is a parse error.
        let value: &RawValue = serde_json::from_slice(body)
            .map_err(|error| EnvelopeError::Parse(error.to_string()))?;
        if value.get().starts_with('[') {
            return Err(invalid(
                Value::Null,
                "batches are not supported: send one message at a time",
            ));
        }
        let fields: Fields<'_> = serde_json::from_str(value.get()).map_err(|_| {
            invalid(
                Value::Null,
                "a message is one JSON object without repeated fields",
            )
        })?;
        let id = fields
            .id
            .map(|id| serde_json::from_str(id.get()).unwrap_or(Value::Null));
        fields.check(id.as_ref())?;
        let method = fields
            .method
            .and_then(|method| serde_json::from_str(method.get()).ok());
        let id = fields.method.and(fields.id).map(|id| id.get().to_owned());
        Ok(Self {
            method: method.unwrap_or_default(),
            id,
        })
    }

    /// Why a message with the outer form cannot be taken: JSON can express more than a value can hold.
    pub(super) fn not_held(&self, body: &[u8]) -> EnvelopeError {
        let id = self.id.as_deref();
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        let reason = match serde_json::from_slice::<Value>(body) {
            Err(error) => format!(
                "{error}: half of a surrogate pair, numbers beyond 64 bits and more than 127 levels are not taken"
            ),
            Ok(_) => "its parts are not of the types that the protocol asks for".to_owned(),
        };
        EnvelopeError::NotHeld {
            id: id.unwrap_or_default(),
            reason,
        }
    }
}

impl Fields<'_> {
    fn check(&self, id: Option<&Value>) -> Result<(), EnvelopeError> {
        let good_id = id.is_none_or(|id| id.is_string() || id.is_i64() || id.is_u64());
        let echo = || id.filter(|_| good_id).cloned().unwrap_or_default();
        if self
            .jsonrpc
            .is_none_or(|version| version.get() != r#""2.0""#)
        {
            return Err(invalid(
                echo(),
                r#"jsonrpc is missing or wrong: it must be "2.0""#,
            ));
        }
        if !good_id {
            return Err(invalid(
                Value::Null,
                "id must be a string or a whole number",
            ));
        }
        let answers = self.result.is_some() || self.error.is_some();
        match self.method {
            Some(method) if !method.get().starts_with('"') => {
                Err(invalid(echo(), "method must be a string"))
            }
            None if !answers => Err(invalid(echo(), "method is missing")),
            _ if self
                .params
                .is_some_and(|params| !params.get().starts_with('{')) =>
            {
                Err(invalid(echo(), "params must be an object"))
            }
            _ => Ok(()),
        }
    }
}

fn invalid(id: Value, reason: &'static str) -> EnvelopeError {
    EnvelopeError::Invalid { id, reason }
}

impl EnvelopeError {
    /// The status over HTTP, and the code.
    fn codes(&self) -> (StatusCode, i32) {
        match self {
            Self::Parse(_) | Self::Interrupted => (StatusCode::BAD_REQUEST, PARSE_ERROR),
            Self::Invalid { .. } | Self::NotHeld { .. } => {
                (StatusCode::BAD_REQUEST, INVALID_REQUEST)
            }
            Self::UnknownSession | Self::NoStream => (StatusCode::NOT_FOUND, INVALID_REQUEST),
            Self::NoCaller => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR),
            Self::TooManyStreams | Self::Unread | Self::NoRoom => {
                (StatusCode::SERVICE_UNAVAILABLE, INTERNAL_ERROR)
            }
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST),
            Self::TooSlow(_) | Self::Silent(_) => (StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST),
            Self::NoSession => (StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST),
            Self::Refused(status, _) if status.is_client_error() => (*status, INVALID_REQUEST),
            Self::Refused(_, _) => (StatusCode::SERVICE_UNAVAILABLE, INTERNAL_ERROR),
        }
    }

    /// The answer as a message.
    pub(super) fn into_answer(self) -> Value {
        let (_, code) = self.codes();
        let message = self.to_string();
        let id = match self {
            Self::Invalid { id, .. } | Self::NotHeld { id, .. } => id,
            _ => Value::Null,
        };
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
    }
}

impl IntoResponse for EnvelopeError {
    fn into_response(self) -> Response {
        let (status, _) = self.codes();
        let again = matches!(self, Self::NoRoom).then(|| ROOM_AGAIN.as_secs());
        let mut response = (status, Json(self.into_answer())).into_response();
        if let Some(seconds) = again {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str) -> String {
        Envelope::read(body.as_bytes())
            .map_or_else(|error| error.to_string(), |envelope| envelope.method)
    }

    #[test]
    fn good_messages_pass() {
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), "ping");
        assert_eq!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            "notifications/initialized"
        );
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#), "");
    }

    #[test]
    fn bad_messages_say_why() {
        insta::assert_snapshot!(read("{"), @"the message is not valid JSON: EOF while parsing an object at line 1 column 1");
        insta::assert_snapshot!(read("[]"), @"batches are not supported: send one message at a time");
        insta::assert_snapshot!(read("1"), @"a message is one JSON object without repeated fields");
        insta::assert_snapshot!(read(r#"{"id":1,"method":"ping"}"#), @r#"jsonrpc is missing or wrong: it must be "2.0""#);
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), @"id must be a string or a whole number");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), @"method must be a string");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1}"#), @"method is missing");
        insta::assert_snapshot!(read(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#), @"params must be an object");
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Envelope::read(&body);
        }
    }
}
