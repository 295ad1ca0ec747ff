//! Whether the server is alive, whether it can run programs, and what it says when it has made a mistake.

use std::any::Any;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::HttpState;
use super::rest::ApiError;
use crate::api::code::Code;

/// The process answers.
pub(super) async fn alive() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// Answers 200 if the engine is up, there is a runner, the sandbox was proved to hold, and the disk has room; otherwise
/// 503 and why. Names the nodes on which sandboxes are not kept from the network, and what they reached there.
pub(super) async fn ready(State(state): State<HttpState>) -> Response {
    let view = state.0.services.status.view();
    let runners: Vec<_> = view.runners.keys().collect();
    let (code, mut body) = match state.0.services.status.problem() {
        None => (
            StatusCode::OK,
            json!({ "status": "ok", "runners": runners }),
        ),
        Some(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            json!({ "status": "unavailable", "reason": reason, "runners": runners }),
        ),
    };
    let avoided = state.0.services.status.avoided_nodes();
    if !avoided.is_empty() {
        body["avoidedNodes"] = json!(avoided);
    }
    (code, Json(body)).into_response()
}

/// A handler panicked. The log has the details.
pub(super) fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::new(
        Code::Internal,
        "the server made a mistake: its log has the details",
    )
    .into_response()
}
