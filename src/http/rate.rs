//! How many requests one caller may send, where the operator has set a limit.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::RateLimiter;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;

use super::HttpState;
use super::rest::ApiError;
use crate::config::RateLimit;
use crate::mcp::transport::{self, RateCharge};
use crate::principal::Principal;

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
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(seconds) = checked(&state, &request) {
        return transport::too_many(seconds);
    }
    let caller = request.extensions().get::<Principal>().cloned();
    if let (Some(rate), Some(caller)) = (state.0.rate.clone(), caller) {
        let toll = RateCharge(Arc::new(move || rate.check(&caller)));
        request.extensions_mut().insert(toll);
    }
    next.run(request).await
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
