//! What is known of tokens that came a moment ago: their signatures are checked, and their issuers asked, once. Tokens
//! that are nobody's are kept apart, since anybody can make up as many as there is room for.

use std::time::{Duration, SystemTime};

use hashlink::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::known::Known;
use super::refusal::Refusal;

/// Tokens that are remembered.
const MOST: usize = 10_000;
/// How long: a token that was revoked, or whose key was, is taken for so much longer.
const KNOWN: Duration = Duration::from_mins(1);
/// How long a token is remembered that its issuer does not know.
const UNKNOWN: Duration = Duration::from_secs(10);

/// The latest tokens by their hashes, each with what became of it, and how long that counts.
type Latest<T> = Mutex<LruCache<[u8; 32], (T, Instant)>>;

/// Tokens that came lately.
pub(super) struct Seen {
    good: Latest<Known>,
    bad: Latest<Refusal>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            good: Mutex::new(LruCache::new(MOST)),
            bad: Mutex::new(LruCache::new(MOST)),
        }
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seen")
    }
}

impl Seen {
    /// What became of this token, if that still counts.
    pub(super) fn find(&self, token: &str) -> Option<Result<Known, Refusal>> {
        let hash = hash(token);
        let good = find(&self.good, &hash).map(Ok);
        good.or_else(|| find(&self.bad, &hash).map(Err))
    }

    /// Whether it was somebody's when it came last.
    pub(super) fn was_good(&self, token: &str) -> bool {
        self.good.lock().contains_key(&hash(token))
    }

    /// Remembers whose a token is: until it expires, for a minute at most.
    pub(super) fn keep(&self, token: &str, known: Known) {
        let left = known.expires.map_or(KNOWN, |expires| {
            let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires));
            let left = end.and_then(|end| end.duration_since(SystemTime::now()).ok());
            // One that has expired counts for as long as clocks may differ, and is checked each time.
            left.unwrap_or(Duration::ZERO).min(KNOWN)
        });
        let entry = (known, Instant::now() + left);
        self.good.lock().insert(hash(token), entry);
    }

    /// Remembers that a token is nobody's.
    pub(super) fn keep_out(&self, token: &str, refusal: &Refusal) {
        let hash = hash(token);
        self.good.lock().remove(&hash);
        let entry = (refusal.clone(), Instant::now() + UNKNOWN);
        self.bad.lock().insert(hash, entry);
    }
}

fn find<T: Clone>(latest: &Latest<T>, hash: &[u8; 32]) -> Option<T> {
    let mut latest = latest.lock();
    let (value, until) = latest.get(hash)?;
    (Instant::now() < *until).then(|| value.clone())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
