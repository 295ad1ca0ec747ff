//! Until when callers are there: as long as one of their tokens counts that has come here.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::seen::Known;
use crate::principal::Principal;

/// How long a token is taken after its end, since clocks may differ.
const LEEWAY: Duration = Duration::from_mins(1);
/// How long callers are remembered after that: by then, nothing that they began can be on its way.
const REMEMBERED: Duration = Duration::from_hours(1);
/// Callers of whom so many are remembered that those who left are forgotten.
const MANY: usize = 10_000;

/// When the last token of each caller expires, in seconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Present(Mutex<HashMap<Principal, u64>>);

impl Present {
    /// Notes that a caller has come with a token that counts. One that does not say when it expires is never known to
    /// be over.
    pub(super) fn note(&self, known: &Known) {
        let expires = known.expires.unwrap_or(u64::MAX);
        let mut present = self.0.lock();
        if present.len() >= MANY {
            let long_ago = now().saturating_sub((LEEWAY + REMEMBERED).as_secs());
            present.retain(|_, last| *last > long_ago);
        }
        let last = present.entry(known.caller.clone()).or_default();
        *last = expires.max(*last);
    }

    /// Whether a caller has come, and all of their tokens have expired since.
    pub(super) fn has_left(&self, caller: &Principal) -> bool {
        let present = self.0.lock();
        let last = present.get(caller).copied();
        last.is_some_and(|last| last.saturating_add(LEEWAY.as_secs()) <= now())
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
    use crate::scope::Permit;

    #[test]
    fn a_caller_is_there_as_long_as_one_of_their_tokens_counts() {
        let present = Present::default();
        let caller = Principal::of_subject(Tenant::Default, "https://auth.example", "anna");
        let come = |expires: Option<u64>| {
            present.note(&Known {
                caller: caller.clone(),
                permit: Permit::ALL,
                expires,
            });
            present.has_left(&caller)
        };
        assert!(!present.has_left(&caller), "nobody knows them");
        assert!(come(Some(now() - 60)));
        assert!(!come(Some(now() - 55)), "clocks may differ");
        assert!(!come(Some(now() + 300)));
        assert!(!come(Some(now() - 60)), "the one before counts");
        assert!(!come(None));
    }
}
