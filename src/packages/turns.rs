//! Whose turn it is: one install of a conversation at a time, and not too many of them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use parking_lot::Mutex;

use super::error::PackagesError;
use crate::config::RateLimit;
use crate::conversation::ConversationKey;

/// How many conversations are remembered before those that would be let in anyway are forgotten.
const REMEMBERED: usize = 10_000;

type Rate = RateLimiter<ConversationKey, HashMapStateStore<ConversationKey>, DefaultClock>;

/// The installs in progress and the recent ones.
#[derive(Clone)]
pub(super) struct InstallTurns(Arc<Shared>);

struct Shared {
    rate: Option<Rate>,
    busy: Mutex<HashSet<ConversationKey>>,
}

impl fmt::Debug for InstallTurns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InstallTurns")
    }
}

/// An install in progress. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct InstallTurn {
    turns: InstallTurns,
    key: ConversationKey,
}

impl InstallTurns {
    pub(super) fn new(limit: Option<RateLimit>) -> Self {
        let rate = limit.map(|limit| RateLimiter::hashmap(limit.quota()));
        Self(Arc::new(Shared {
            rate,
            busy: Mutex::default(),
        }))
    }

    /// Lets an install in, unless one is in progress.
    pub(super) fn take(&self, key: &ConversationKey) -> Result<InstallTurn, PackagesError> {
        if !self.0.busy.lock().insert(key.clone()) {
            return Err(PackagesError::Busy);
        }
        Ok(InstallTurn {
            turns: self.clone(),
            key: key.clone(),
        })
    }
}

impl InstallTurn {
    /// Counts the install, or refuses it if there were too many recently.
    pub(super) fn count(&self) -> Result<(), PackagesError> {
        let Some(rate) = &self.turns.0.rate else {
            return Ok(());
        };
        if rate.len() > REMEMBERED {
            rate.retain_recent();
        }
        rate.check_key(&self.key).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            // Better a little late than too early again.
            PackagesError::RateLimited(Duration::from_secs(wait.as_secs() + 1))
        })
    }
}

impl Drop for InstallTurn {
    fn drop(&mut self) {
        self.turns.0.busy.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::config::RateUnit;

    fn key(letter: &str) -> ConversationKey {
        letter.repeat(64).parse().unwrap()
    }

    #[test]
    fn a_conversation_has_one_install_at_a_time() {
        let turns = InstallTurns::new(None);
        let first = turns.take(&key("a")).unwrap();
        assert!(matches!(
            turns.take(&key("a")).unwrap_err(),
            PackagesError::Busy
        ));
        let _other = turns.take(&key("b")).unwrap();
        drop(first);
        drop(turns.take(&key("a")).unwrap());
    }

    #[test]
    fn too_many_are_told_when_to_come_back() {
        let turns = InstallTurns::new(Some(RateLimit {
            count: NonZeroU32::new(2).unwrap(),
            unit: RateUnit::Hour,
        }));
        let count = |letter| turns.take(&key(letter)).unwrap().count();
        for _ in 0..2 {
            count("a").unwrap();
        }
        // An install that is turned away does not count as one in progress.
        for _ in 0..2 {
            let error = count("a").unwrap_err();
            assert!(matches!(error, PackagesError::RateLimited(wait) if wait.as_secs() > 1000));
        }
        count("b").unwrap();
    }
}
