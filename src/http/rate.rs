//! How many requests one caller may send, where the operator has set a limit.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::RateLimiter;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use serde_json::json;

use super::HttpState;
use super::api::ApiError;
use crate::config::RateLimit;
use crate::principal::Principal;

/// A JSON-RPC code for errors that a server defines itself.
const TOO_MANY: i32 = -32000;

/// Counts requests by caller. Only callers with a valid token get here, so there are few.
#[derive(Clone)]
pub(super) struct Rate(Arc<RateLimiter<Principal, HashMapStateStore<Principal>, DefaultClock>>);

impl fmt::Debug for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Rate")
    }
}

impl Rate {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self(Arc::new(RateLimiter::hashmap(limit.quota())))
    }

    /// Fails with the seconds to wait if there were too many.
    fn check(&self, caller: &Principal) -> Result<(), u64> {
        self.0.check_key(caller).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            // Better a little late than too early again.
            wait.as_secs() + 1
        })
    }
}

/// Turns away a caller that sends too many requests, in a form that JSON-RPC clients understand.
pub(super) async fn limit(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let Err(seconds) = checked(&state, &request) else {
        return next.run(request).await;
    };
    let message = format!("too many requests (RATE_LIMIT): try again in {seconds} s");
    let body = json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": { "code": TOO_MANY, "message": message, "data": { "retryAfterSeconds": seconds } },
    });
    (
        StatusCode::TOO_MANY_REQUESTS,
        [(RETRY_AFTER, seconds.to_string())],
        Json(body),
    )
        .into_response()
}

/// The same in the form of the REST interface.
pub(super) async fn limit_rest(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    match checked(&state, &request) {
        Ok(()) => next.run(request).await,
        Err(seconds) => ApiError::too_many(seconds).into_response(),
    }
}

/// Fails with the seconds to wait if its caller has sent too many.
fn checked(state: &HttpState, request: &Request) -> Result<(), u64> {
    let caller = request.extensions().get::<Principal>();
    match (&state.0.rate, caller) {
        (Some(rate), Some(caller)) => rate.check(caller),
        _ => Ok(()),
    }
}
