//! The Python tool of gpt-oss, to which vLLM connects by the old transport of MCP (`--tool-server`).
//!
//! vLLM sends no headers, so the token may be in the path. Then it is in the address to which messages go as well.

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::credentials::{self, carry_as_bearer};
use crate::config::Toolset;
use crate::http::{HttpState, bearer, messages, rate};

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    Router::new()
        .route("/python/sse", get(open_stream))
        .route("/python/messages", post(messages))
        .route("/t/{token}/python/sse", get(open_stream))
        .route("/t/{token}/python/messages", post(messages))
        .route_layer(from_fn_with_state(state.clone(), rate::limit))
        .route_layer(from_fn_with_state(state.clone(), bearer::require_token))
        .route_layer(from_fn(carry_as_bearer))
}

/// Opens the event stream of one client.
async fn open_stream(
    State(state): State<HttpState>,
    parameters: RawPathParams,
    request: Request<Body>,
) -> Response {
    let token = credentials::of_path(&parameters).map(|token| {
        let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
        format!("/t/{token}")
    });
    let messages = format!("{}/python/messages", token.unwrap_or_default());
    let mcp = &state.0.mcp;
    mcp.open_stream_of(Toolset::PythonTool, &messages, &request)
}
