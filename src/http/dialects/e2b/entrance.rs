//! Who calls on the data plane: whoever made the sandbox that a request names and has the token of.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::sandboxes::Sandbox;
use crate::api::code::Code;
use crate::http::HttpState;
use crate::http::access::note_denied;
use crate::http::rest::ApiError;

/// Which sandbox a request is for.
const ID: &str = "e2b-sandbox-id";
/// Which of its ports.
const PORT: &str = "e2b-sandbox-port";
/// The sandbox's own token.
const TOKEN: &str = "x-access-token";
/// The ports that something listens on: files and programs, and cells.
const PORTS: [&str; 2] = ["49983", "49999"];

/// What shows that a sandbox is somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Its token.
    Token,
    /// Its id, where clients send nothing else.
    Id,
}

/// Lets requests for a sandbox in, as requests of its owner.
pub(super) async fn let_in(
    State((state, proof)): State<(HttpState, Proof)>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let id = text(headers, ID);
    let Some(sandbox) = state.0.sandboxes.find(id) else {
        note_denied(&state, &request, "unknown_sandbox");
        return unavailable(id, "The sandbox was not found");
    };
    let port = text(headers, PORT);
    if !port.is_empty() && !PORTS.contains(&port) {
        return unavailable(id, "The sandbox is running but port is not open");
    }
    let given = headers.get(TOKEN).map_or(&[][..], |token| token.as_bytes());
    if proof == Proof::Token && !sandbox.is_token(given) {
        note_denied(&state, &request, "unknown_token");
        let message = "the header X-Access-Token is missing or wrong: it is the envdAccessToken that the sandbox was made with";
        return ApiError::new(Code::Unauthorized, message).into_response();
    }
    if state.has_left(&sandbox.owner) {
        note_denied(&state, &request, "expired_token");
        let message = "the token that the sandbox was made with counts no longer: make a sandbox with another one";
        return ApiError::new(Code::Unauthorized, message).into_response();
    }
    state.0.audit.let_in(&sandbox.owner);
    let extensions = request.extensions_mut();
    extensions.insert(sandbox.owner.clone());
    extensions.insert(sandbox.rights);
    extensions.insert(sandbox);
    next.run(request).await
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// What clients take for the proxy in front of sandboxes: they look for these words.
fn unavailable(id: &str, message: &str) -> Response {
    let id: String = id.chars().take(64).collect();
    let code = StatusCode::BAD_GATEWAY;
    let body = json!({ "sandboxId": id, "message": message, "code": code.as_u16() });
    (code, Json(body)).into_response()
}

/// What all programs of a sandbox find in their environment.
pub(super) async fn variables(Extension(sandbox): Extension<Arc<Sandbox>>) -> Json<Value> {
    Json(json!(sandbox.wish.variables))
}
