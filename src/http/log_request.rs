//! One line per request, and one more in the metrics: method, route, status, time. Never a query, a token, a body or a
//! whole file address.

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::info;

use super::HttpState;
use crate::metrics::HttpLabels;

/// Logs and counts a request when its answer begins.
pub(super) async fn log_request(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("(none)", MatchedPath::as_str)
        .to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    info!(
        http.method = %method,
        http.route = route,
        http.status = response.status().as_u16(),
        duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        "request"
    );
    let labels = HttpLabels {
        method: known(&method),
        route,
        status: response.status().as_u16(),
    };
    let counted = &state.0.runs.metrics.http_requests;
    counted.get_or_create_owned(&labels).inc();
    response
}

/// Anybody can make up a method.
fn known(method: &Method) -> &'static str {
    let methods = [
        "GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT",
    ];
    let found = methods.into_iter().find(|name| *name == method.as_str());
    found.unwrap_or("other")
}
