//! Failures in the form that the clients of a dialect read.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::api::error::CallError;

/// The body that says what failed.
pub(super) type Shape = fn(&CallError) -> Value;

/// Gives every failure of the routes inside that body. Status and headers stay.
pub(super) async fn shape(State(shape): State<Shape>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let Some(body) = response.extensions().get::<CallError>().map(shape) else {
        return response;
    };
    let (mut head, _) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(CONTENT_TYPE);
    (head, Json(body)).into_response()
}
