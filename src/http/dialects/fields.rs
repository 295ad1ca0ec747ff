//! What the clients of dialects send: JSON, whatever they say that it is, with fields that are not ours to refuse.

use std::fmt;

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::http::HttpState;
use crate::http::rest::{ApiError, WholeBody};

/// The fields of a body of moderate size. No body at all is an object without fields.
pub(super) struct Fields<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<HttpState> for Fields<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        let WholeBody(body) = WholeBody::from_request(request, state).await?;
        let body = body.bytes.trim_ascii();
        let fields = if body.is_empty() { b"{}" } else { body };
        let wrong =
            |why: &dyn fmt::Display| ApiError::arguments(format!("the body does not fit: {why}"));
        let fields: Value = serde_json::from_slice(fields).map_err(|error| wrong(&error))?;
        if !fields.is_object() {
            return Err(wrong(&"it must be a JSON object"));
        }
        let fields = serde_json::from_value(fields).map_err(|error| wrong(&error))?;
        Ok(Self(fields))
    }
}
