//! How many requests one caller may send, and all callers of one tenant, where the operator has set a limit.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{DefaultDirectRateLimiter, NotUntil, RateLimiter};
use parking_lot::Mutex;

use super::HttpState;
use super::rest::ApiError;
use crate::access::Access;
use crate::config::RateLimit;
use crate::mcp::transport::{self, RateCharge, TooMany};
use crate::principal::{Principal, Tenant};

/// Callers of whom so many are remembered that those who were silent for long enough are forgotten.
const REMEMBERED: usize = 10_000;

/// Counts requests. Only callers with a valid token get here, so there are few. Clones share one state.
#[derive(Clone)]
pub(super) struct Rate(Arc<Shared>);

struct Shared {
    callers: Option<RateLimiter<Principal, HashMapStateStore<Principal>, DefaultClock>>,
    tenants: Mutex<HashMap<Tenant, TenantRate>>,
    /// Knows the limits of tenants.
    access: Access,
}

/// The count of a tenant, and the limit that it is for.
struct TenantRate {
    limit: RateLimit,
    count: DefaultDirectRateLimiter,
}

impl fmt::Debug for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Rate")
    }
}

impl Rate {
    /// Each caller may send as many as `limit` says, and those of a tenant together as many as `access` knows.
    pub(super) fn new(limit: Option<RateLimit>, access: Access) -> Self {
        Self(Arc::new(Shared {
            callers: limit.map(|limit| RateLimiter::hashmap(limit.quota())),
            tenants: Mutex::default(),
            access,
        }))
    }

    /// Counts one more request.
    fn check(&self, caller: &Principal) -> Result<(), TooMany> {
        if let Some(callers) = &self.0.callers {
            if callers.len() > REMEMBERED {
                callers.retain_recent();
            }
            let checked = callers.check_key(caller);
            checked.map_err(|early| too_many("RATE_LIMIT", &early))?;
        }
        self.check_tenant(caller.tenant())
    }

    fn check_tenant(&self, tenant: &Tenant) -> Result<(), TooMany> {
        let limit = self.0.access.limits(tenant).rate;
        let mut tenants = self.0.tenants.lock();
        let Some(limit) = limit else {
            tenants.remove(tenant);
            return Ok(());
        };
        let new = || TenantRate {
            limit,
            count: RateLimiter::direct(limit.quota()),
        };
        let rate = tenants.entry(tenant.clone()).or_insert_with(new);
        if rate.limit != limit {
            *rate = new();
        }
        let checked = rate.count.check();
        checked.map_err(|early| too_many("rate_limit of the tenant", &early))
    }
}

fn too_many(limit: &'static str, early: &NotUntil<<DefaultClock as Clock>::Instant>) -> TooMany {
    let wait = early.wait_time_from(DefaultClock::default().now());
    // Better a little late than too early again.
    let seconds = wait.as_secs() + 1;
    TooMany { limit, seconds }
}

/// Turns away a caller that sends too many requests, in a form that JSON-RPC clients understand.
pub(super) async fn limit(
    State(state): State<HttpState>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Principal>().cloned();
    if let Some(caller) = caller {
        let rate = state.0.rate.clone();
        if let Err(excess) = rate.check(&caller) {
            return transport::too_many(excess);
        }
        let charge = RateCharge(Arc::new(move || rate.check(&caller)));
        request.extensions_mut().insert(charge);
    }
    next.run(request).await
}

/// The same in the form of the REST interface.
pub(super) async fn limit_rest(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Principal>();
    match caller.map_or(Ok(()), |caller| state.0.rate.check(caller)) {
        Ok(()) => next.run(request).await,
        Err(excess) => ApiError::too_many(excess).into_response(),
    }
}
