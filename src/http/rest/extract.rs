//! What handlers take from requests; what does not fit is refused in one form.

use std::fmt;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ApiError;
use crate::api::arguments;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::api::json::repeated_key;
use crate::audit::{Client, Origin};
use crate::body::{BodyError, LARGE_BODIES, ROOM_AGAIN, Whole};
use crate::conversation::{Conversation, ConversationIdError};
use crate::http::HttpState;
use crate::http::access::way;
use crate::principal::Principal;

/// Room in a body for everything except the program.
const MARGIN: usize = 64 << 10;
/// What a missing body means.
const NO_FIELDS: &[u8] = b"{}";
/// JSON may write any character of a program as `\uXXXX`.
const ESCAPED: usize = 6;
/// What is said of a body whose fields cannot be taken.
const UNFIT: &str = "the body does not fit";

/// A body of moderate size, of any type. To be parsed at once, so that its place becomes free.
pub(in crate::http) struct WholeBody(pub(in crate::http) Whole);

impl FromRequest<HttpState> for WholeBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        let limit = state.0.services.limits.code * ESCAPED + MARGIN;
        let (parts, body) = request.into_parts();
        let patience = state.0.config.patience.body;
        let room = &state.0.room;
        let read = room.read(&parts.headers, body, limit, patience).await;
        read.map_err(|error| match error {
            BodyError::TooLarge => {
                let message = format!("the body has more than {limit} bytes, which is the limit");
                ApiError::new(Code::BodyTooLarge, message)
            }
            BodyError::TooSlow => ApiError::new(Code::TooSlow, "the body did not come in time"),
            BodyError::Silent(silence) => {
                let message = format!("no more of the body came for {} s", silence.as_secs());
                ApiError::new(Code::TooSlow, message)
            }
            BodyError::Interrupted => ApiError::new(Code::Interrupted, "the body ended too early"),
            BodyError::NoRoom => ApiError::busy(LARGE_BODIES, ROOM_AGAIN),
        })
        .map(Self)
    }
}

/// A JSON body of moderate size, without unknown fields. No body at all is an object without fields.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequest<HttpState> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            let message =
                "the body must be JSON: send it with the header Content-Type: application/json";
            return Err(ApiError::new(Code::UnsupportedMediaType, message));
        }
        let WholeBody(body) = WholeBody::from_request(request, state).await?;
        parse(&body.bytes).map(Self)
    }
}

/// Reads the fields as the arguments of a tool are read.
fn parse<T: DeserializeOwned + JsonSchema + 'static>(body: &Bytes) -> Result<T, ApiError> {
    let body = if body.trim_ascii().is_empty() {
        NO_FIELDS
    } else {
        body
    };
    let wrong = |why: &dyn fmt::Display| ApiError::arguments(format!("{UNFIT}: {why}"));
    let fields = serde_json::from_slice(body).map_err(|error| wrong(&error))?;
    let Value::Object(fields) = fields else {
        return Err(wrong(&"it must be a JSON object"));
    };
    if let Some(key) = std::str::from_utf8(body).ok().and_then(repeated_key) {
        return Err(wrong(&format!(
            "{key:?} is there more than once in one object: give it once"
        )));
    }
    arguments::parse(UNFIT, fields).map_err(ApiError)
}

/// Whether a body may be JSON: `curl -d` sends JSON as a form, and plain clients send no type at all.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let is_form = kind == "application/x-www-form-urlencoded";
    let is_other = kind.starts_with("application/") && kind.ends_with("+json");
    kind == "application/json" || is_form || is_other
}

/// An error about a conversation's id, under the name that the id has here.
pub(super) fn session_id(error: ConversationIdError) -> ApiError {
    ApiError(CallError::from(error).naming(|_| "session_id"))
}

/// Who calls, and by which route.
pub(in crate::http) struct FromCaller(pub(in crate::http) Origin);

impl FromRequestParts<HttpState> for FromCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, ApiError> {
        let agent = parts.headers.get(USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        Ok(Self(Origin {
            caller: caller(parts)?.clone(),
            via: way(&parts.method, &parts.extensions).into(),
            client: agent.and_then(Client::of_user_agent),
        }))
    }
}

/// The session of a path.
pub(super) struct SessionPath(pub(super) Conversation);

impl FromRequestParts<HttpState> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let Segments(id) = Segments::<String>::from_request_parts(parts, state).await?;
        Ok(Self(conversation(parts, state, &id)?))
    }
}

/// The session and the file of a path.
pub(super) struct FilePath(pub(super) Conversation, pub(super) String);

impl FromRequestParts<HttpState> for FilePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        let segments = Segments::<(String, String)>::from_request_parts(parts, state).await?;
        let Segments((id, name)) = segments;
        Ok(Self(conversation(parts, state, &id)?, name))
    }
}

/// The conversation that the caller of a request calls `id`.
fn conversation(parts: &Parts, state: &HttpState, id: &str) -> Result<Conversation, ApiError> {
    let caller = caller(parts)?;
    Ok(state.0.services.files.conversation(caller, id.parse()?))
}

fn caller(parts: &Parts) -> Result<&Principal, ApiError> {
    let message = "the server does not know who calls";
    let caller = parts.extensions.get::<Principal>();
    caller.ok_or_else(|| ApiError::new(Code::Internal, message))
}

/// What a path has in place of the names of its route.
pub(in crate::http) struct Segments<T>(pub(in crate::http) T);

impl<T: DeserializeOwned + Send> FromRequestParts<HttpState> for Segments<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(values)) => Ok(Self(values)),
            Err(error) if error.status() == StatusCode::BAD_REQUEST => {
                let message =
                    "the address has a part that is not UTF-8: percent-encode it as UTF-8";
                Err(ApiError::arguments(message))
            }
            Err(_) => Err(ApiError::new(
                Code::Internal,
                "the server does not know its own routes",
            )),
        }
    }
}
