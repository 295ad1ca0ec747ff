//! Until when callers are there: for a while after the last of their tokens has expired that came here. Clients get
//! another one with their next call, so that a caller whose token has expired during a run is not gone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hashlink::LruCache;
use parking_lot::Mutex;

use super::known::Known;
use crate::principal::Principal;

/// How long callers are there after their last token: as long as a run may take by default, and more.
const PATIENCE: Duration = Duration::from_hours(1);
/// Callers that are remembered: those who came last. Of others, nobody knows that they have left.
const MOST: usize = 10_000;

/// When the last token of each caller expires, in seconds since 1970.
pub(super) struct Present(Mutex<LruCache<Principal, u64>>);

impl Default for Present {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }
}

impl std::fmt::Debug for Present {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Present")
    }
}

impl Present {
    /// Notes that a token was found to count. One that does not say when it expires counts until it is asked about
    /// again.
    pub(super) fn note(&self, known: &Known) {
        let expires = known.expires.unwrap_or_else(now);
        let mut present = self.0.lock();
        let last = present.get(&known.caller).copied();
        present.insert(known.caller.clone(), last.unwrap_or_default().max(expires));
    }

    /// Whether a caller has come, and all of their tokens have expired long ago.
    pub(super) fn has_left(&self, caller: &Principal) -> bool {
        self.has_left_at(caller, now())
    }

    fn has_left_at(&self, caller: &Principal, now: u64) -> bool {
        let last = self.0.lock().peek(caller).copied();
        last.is_some_and(|last| last.saturating_add(PATIENCE.as_secs()) <= now)
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Tenant;
    use crate::scope::Rights;

    #[test]
    fn a_caller_is_there_until_an_hour_after_the_last_of_their_tokens() {
        let present = Present::default();
        let caller = Principal::of_subject(Tenant::Default, "https://auth.example", "anna");
        let come = |expires: Option<u64>| {
            present.note(&Known {
                caller: caller.clone(),
                rights: Rights::ALL,
                name: "Anna".to_owned(),
                expires,
            });
        };
        let now = now();
        let is_there_until = |time: u64| {
            assert!(!present.has_left_at(&caller, time - 1));
            assert!(present.has_left_at(&caller, time));
        };
        assert!(!present.has_left_at(&caller, u64::MAX), "nobody knows them");
        come(Some(now - 60));
        is_there_until(now + 3540);
        come(Some(now + 300));
        is_there_until(now + 3900);
        come(Some(now - 60));
        come(None);
        is_there_until(now + 3900);
    }
}
