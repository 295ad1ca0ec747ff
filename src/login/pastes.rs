//! How often wrong tokens may be pasted from one address.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

use super::Refused;
use crate::access::Denied;
use crate::recent::{Bounds, Recent};

/// Wrong tokens after which there is a pause.
const MOST: u32 = 5;
const BOUNDS: Bounds = Bounds {
    age: Duration::from_mins(1),
    count: 10_000,
    bytes: usize::MAX,
};

/// How many wrong tokens came of late, by address.
#[derive(Debug)]
pub(super) struct Pastes(Mutex<Recent<IpAddr, u32>>);

impl Default for Pastes {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(BOUNDS)))
    }
}

impl Pastes {
    /// Judges a token. The right one is always taken: otherwise anybody could keep everybody behind a proxy, which is one
    /// address, from logging in. Those who come at once wait for each other, so that none is missed.
    pub(super) fn judge<T>(
        &self,
        address: IpAddr,
        judge: impl FnOnce() -> Result<T, Denied>,
    ) -> Result<T, Refused> {
        let network = network(address);
        let mut wrong = self.0.lock();
        judge().map_err(|denied| {
            if wrong.get(&network).is_some_and(|count| *count >= MOST) {
                return Refused::TooManyWrong;
            }
            wrong.update(network, || 0, |count, _| *count += 1);
            denied.into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_five_wrong_tokens_an_address_waits_a_minute() {
        let pastes = Pastes::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let wrong = |text: &str| pastes.judge(address(text), || Err::<(), _>(Denied::Unknown));
        for last in 1..=MOST {
            assert_eq!(
                wrong(&format!("2001:db8::{last}")),
                Err(Denied::Unknown.into())
            );
        }
        assert_eq!(wrong("2001:db8::ffff"), Err(Refused::TooManyWrong));
        assert_eq!(wrong("2001:db8:0:1::1"), Err(Denied::Unknown.into()));
        let right = |text: &str| pastes.judge(address(text), || Ok(()));
        assert_eq!(right("2001:db8::ffff"), Ok(()));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(wrong("2001:db8::ffff"), Err(Denied::Unknown.into()));
    }
}
