//! How many requests one caller may send, and all callers of one tenant, where the operator has set a limit; and how many
//! may come from one address to where callers log in, which nobody has to be known for.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::Extensions;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{DefaultDirectRateLimiter, NotUntil, Quota, RateLimiter};
use parking_lot::Mutex;

use super::HttpState;
use super::login;
use super::rest::ApiError;
use crate::access::Access;
use crate::config::RateLimit;
use crate::mcp::transport::{self, RateCharge, TooMany};
use crate::principal::{Principal, Tenant};

/// Callers of whom so many are remembered that those who were silent for long enough are forgotten.
const REMEMBERED: usize = 10_000;
/// Requests a second from one address to where callers log in: a login takes about five.
const FROM_ADDRESS: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");
/// How many of them may come at once.
const AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("it is not zero");

/// Counts by whoever something comes from.
type KeyedLimiter<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// Counts requests. Clones share one state.
#[derive(Clone)]
pub(super) struct Rate(Arc<Shared>);

struct Shared {
    callers: Option<KeyedLimiter<Principal>>,
    addresses: KeyedLimiter<IpAddr>,
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
            addresses: RateLimiter::hashmap(Quota::per_second(FROM_ADDRESS).allow_burst(AT_ONCE)),
            tenants: Mutex::default(),
            access,
        }))
    }

    /// Counts one more request.
    pub(in crate::http) fn check(&self, caller: &Principal) -> Result<(), TooMany> {
        if let Some(callers) = &self.0.callers {
            check(callers, caller, "RATE_LIMIT")?;
        }
        self.check_tenant(caller.tenant())
    }

    /// Counts one more request of somebody who is not known yet.
    fn check_address(&self, address: &IpAddr) -> Result<(), TooMany> {
        check(&self.0.addresses, address, "from your address")
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

fn check<K: Clone + Eq + Hash>(
    limiter: &KeyedLimiter<K>,
    key: &K,
    limit: &'static str,
) -> Result<(), TooMany> {
    if limiter.len() > REMEMBERED {
        limiter.retain_recent();
    }
    let checked = limiter.check_key(key);
    checked.map_err(|early| too_many(limit, &early))
}

/// Where a request comes from, for what is counted together: whoever has an address of IPv6 has the 2^64 beside it too.
/// Behind a proxy all requests come from one: what it says of others could be made up.
pub(super) fn network(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    let address = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0.ip());
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
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

/// Turns away whoever sends too much to where callers log in, in the form of what is there.
pub(super) async fn limit_login(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    match state.0.rate.check_address(&network(request.extensions())) {
        Ok(()) => next.run(request).await,
        Err(excess) => login::too_many(request.uri().path(), excess),
    }
}

/// The same where clients bring what they were given. What succeeds is not counted: behind a proxy all come from one
/// address, and others must not keep anybody from the next access token.
pub(super) async fn limit_failures(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let (from, path) = (
        network(request.extensions()),
        request.uri().path().to_owned(),
    );
    let answer = next.run(request).await;
    if !answer.status().is_client_error() {
        return answer;
    }
    match state.0.rate.check_address(&from) {
        Ok(()) => answer,
        Err(excess) => login::too_many(&path, excess),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one() {
        let network = |address: &str| {
            let mut extensions = Extensions::new();
            let address: IpAddr = address.parse().unwrap();
            extensions.insert(ConnectInfo(SocketAddr::new(address, 4711)));
            network(&extensions).to_string()
        };
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8::ffff"), "2001:db8::");
        assert_eq!(network("2001:db8:0:1::1"), "2001:db8:0:1::");
    }
}
