//! Logs one line per request and counts it in the metrics: method, route, status, time. Never a query, a token, a body
//! or a whole file address.

use std::mem;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;
use tracing::{Level, event};

use super::HttpState;
use crate::metrics::HttpLabels;

/// The status of a request whose client went away before it had an answer. HTTP has no such status; this is nginx's.
const GIVEN_UP: u16 = 499;

/// What machines ask for every few seconds, day and night.
const ROUTINE: [&str; 5] = [
    "/healthz",
    "/readyz",
    "/health",
    "/api/v1/health",
    "/metrics",
];

/// Logs and counts a request when its answer begins, or when there will be none because its client went away.
pub(super) async fn log_request(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("(none)", MatchedPath::as_str)
        .to_owned();
    let mut logged = Logged {
        method: request.method().clone(),
        route,
        status: GIVEN_UP,
        started: Instant::now(),
        state,
    };
    let response = next.run(request).await;
    logged.status = response.status().as_u16();
    response
}

/// A request. It is logged and counted when dropped, which is all that happens to one that nobody waits for any more.
struct Logged {
    method: Method,
    /// The template of its route.
    route: String,
    /// The status of its answer, once there is one.
    status: u16,
    started: Instant,
    state: HttpState,
}

impl Logged {
    /// Writes the line. What is asked for all the time, and is well, is only a detail.
    fn log(&self) {
        macro_rules! at {
            ($level:expr) => {
                event!(
                    $level,
                    http.method = %self.method,
                    http.route = self.route,
                    http.status = self.status,
                    duration_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
                    "request"
                )
            };
        }
        if ROUTINE.contains(&self.route.as_str()) && self.status < 400 {
            at!(Level::DEBUG);
        } else {
            at!(Level::INFO);
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.log();
        let labels = HttpLabels {
            method: known(&self.method),
            route: mem::take(&mut self.route),
            status: self.status,
        };
        self.state.0.services.status.metrics().answered(&labels);
    }
}

/// The method, if it is a known one: anybody can make one up.
pub(super) fn known(method: &Method) -> &'static str {
    let methods = [
        "GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT",
    ];
    let found = methods.into_iter().find(|name| *name == method.as_str());
    found.unwrap_or("other")
}
