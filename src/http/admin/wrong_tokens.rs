//! How often a wrong token may come from an address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::mcp::transport::TooMany;

/// In a minute.
const MOST: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
/// Addresses that are remembered before those that were silent for long enough are forgotten.
const REMEMBERED: usize = 10_000;

/// Counts wrong tokens by address.
pub(in crate::http) struct WrongTokens(
    RateLimiter<Option<IpAddr>, HashMapStateStore<Option<IpAddr>>, DefaultClock>,
);

impl Default for WrongTokens {
    fn default() -> Self {
        Self(RateLimiter::hashmap(Quota::per_minute(MOST)))
    }
}

impl fmt::Debug for WrongTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WrongTokens")
    }
}

impl WrongTokens {
    /// Counts one more.
    pub(super) fn note(&self, address: Option<IpAddr>) -> Result<(), TooMany> {
        if self.0.len() > REMEMBERED {
            self.0.retain_recent();
        }
        let checked = self.0.check_key(&address.map(network));
        checked.map_err(|early| TooMany {
            limit: "wrong tokens of an address",
            seconds: early
                .wait_time_from(DefaultClock::default().now())
                .as_secs()
                + 1,
        })
    }
}

/// Whoever has an address of IPv6 has the 2^64 beside it too.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}
