//! What is known of tokens that came a moment ago: their signatures are checked, and their issuers asked, once.

use std::time::{Duration, SystemTime};

use hashlink::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::refusal::Refusal;
use crate::principal::Principal;
use crate::scope::Permit;

/// Tokens that are remembered.
const MOST: usize = 10_000;
/// How long: a token that was revoked, or whose key was, is taken for so much longer.
const KNOWN: Duration = Duration::from_mins(1);
/// How long a token is remembered that its issuer does not know.
const UNKNOWN: Duration = Duration::from_secs(10);

/// What became of a token.
type Verdict = Result<(Principal, Permit), Refusal>;

/// Tokens that came lately, by their hashes.
pub(super) struct Seen(Mutex<LruCache<[u8; 32], (Verdict, Instant)>>);

impl Default for Seen {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seen")
    }
}

impl Seen {
    /// What became of this token, if that still counts.
    pub(super) fn find(&self, token: &str) -> Option<Verdict> {
        let mut seen = self.0.lock();
        let (verdict, until) = seen.get(&hash(token))?;
        (Instant::now() < *until).then(|| verdict.clone())
    }

    /// Remembers whose a token is: until it expires, for a minute at most.
    pub(super) fn keep(&self, token: &str, known: &(Principal, Permit), expires: Option<u64>) {
        let left = expires.map_or(KNOWN, |expires| {
            let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires));
            let left = end.and_then(|end| end.duration_since(SystemTime::now()).ok());
            // One that has expired counts for as long as clocks may differ, and is checked each time.
            left.unwrap_or(Duration::ZERO).min(KNOWN)
        });
        let entry = (Ok(known.clone()), Instant::now() + left);
        self.0.lock().insert(hash(token), entry);
    }

    /// Remembers that a token is nobody's.
    pub(super) fn keep_out(&self, token: &str, refusal: &Refusal) {
        let entry = (Err(refusal.clone()), Instant::now() + UNKNOWN);
        self.0.lock().insert(hash(token), entry);
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
