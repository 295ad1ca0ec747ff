//! One issuer: what it publishes, fetched when it is needed, and kept.
//!
//! ```text
//! nothing ──fetched──▶ fresh ──10 min──▶ due ──fetched──▶ fresh
//!    ▲  │ failed                          │ failed
//!    │  └─▶ nothing: 503                  ▼
//!    └────────────── 24 h ────────────── due: what there is counts
//! ```
//!
//! One request at a time fetches. Where there is something, the others go on with that; where there is nothing, they wait.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::DecodingKey;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};
use url::Url;

use super::client::{AskError, Client};
use super::discovery::Metadata;
use super::jwt::Jwt;
use super::keys::Keys;
use super::refusal::{Flaw, Refusal};

/// How long what an issuer publishes is not asked for again.
const FRESH: Duration = Duration::from_mins(10);
/// How long it counts while the issuer cannot be reached.
const LONGEST: Duration = Duration::from_hours(24);
/// Pause after a failure where there is something that counts.
const AGAIN_WITH: Duration = Duration::from_secs(30);
/// The same where there is nothing, and so nobody can enter.
const AGAIN_WITHOUT: Duration = Duration::from_secs(1);
/// How often keys may be fetched because of tokens that name unknown ones: anybody can make such tokens.
const UNKNOWN_KEYS: Duration = Duration::from_secs(30);

/// What an issuer publishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Published {
    keys: Keys,
    pub(super) introspection: Option<Url>,
}

/// Where that is from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The issuer's own documents.
    Discovery,
    /// Keys at this address, and nothing else.
    Keys(Url),
    /// Keys that the operator gave. The issuer's documents only say where it can be asked about tokens.
    Given(Keys),
}

/// When keys may be fetched again because of a token that names an unknown one.
#[derive(Debug, Default)]
struct UnknownKeys(Mutex<Option<Instant>>);

/// A fetch because of an unknown key. One that is broken off, as by a client that goes away, soon makes way for another:
/// otherwise whoever makes up tokens could keep those with new keys out.
struct Fetching<'a> {
    keys: &'a UnknownKeys,
    next: Duration,
}

impl UnknownKeys {
    fn begin(&self) -> Option<Fetching<'_>> {
        let next = *self.0.lock();
        next.is_none_or(|next| Instant::now() >= next)
            .then_some(Fetching {
                keys: self,
                next: AGAIN_WITHOUT,
            })
    }
}

impl Fetching<'_> {
    fn done(mut self) {
        self.next = UNKNOWN_KEYS;
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        *self.keys.0.lock() = Some(Instant::now() + self.next);
    }
}

/// One issuer.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) name: String,
    source: Source,
    client: Client,
    kept: Mutex<Kept>,
    unknown: UnknownKeys,
    /// Whoever has it fetches.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    published: Option<(Arc<Published>, Instant)>,
    failed: Option<Instant>,
}

/// What there is to go on with.
enum Look {
    Fresh(Arc<Published>),
    Due(Arc<Published>),
    Nothing,
    /// The last attempt failed just now.
    NothingYet,
}

impl Kept {
    fn look(&self) -> Look {
        let failed_within =
            |pause: Duration| self.failed.is_some_and(|failed| failed.elapsed() < pause);
        match &self.published {
            Some((published, since))
                if since.elapsed() < FRESH
                    || failed_within(AGAIN_WITH) && since.elapsed() < LONGEST =>
            {
                Look::Fresh(Arc::clone(published))
            }
            Some((published, since)) if since.elapsed() < LONGEST => {
                Look::Due(Arc::clone(published))
            }
            _ if failed_within(AGAIN_WITHOUT) => Look::NothingYet,
            _ => Look::Nothing,
        }
    }
}

impl Issuer {
    pub(super) fn new(name: String, source: Source, client: Client) -> Self {
        Self {
            name,
            source,
            client,
            kept: Mutex::default(),
            unknown: UnknownKeys::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The key that a token is signed with. One that is unknown may be new.
    pub(super) async fn key(&self, jwt: &Jwt<'_>) -> Result<DecodingKey, Refusal> {
        let find = |keys: &Keys| keys.find(jwt.key_id.as_deref(), jwt.algorithm).cloned();
        if let Source::Given(keys) = &self.source {
            return Ok(find(keys)?);
        }
        match find(&self.published().await?.keys) {
            Err(Flaw::Key(_)) => {
                let _turn = self.turn.lock().await;
                // Another one may have fetched it meanwhile.
                let found = find(&self.known()?.keys);
                let (Err(Flaw::Key(_)), Some(fetching)) = (&found, self.unknown.begin()) else {
                    return Ok(found?);
                };
                self.fetch().await;
                fetching.done();
                Ok(find(&self.known()?.keys)?)
            }
            found => Ok(found?),
        }
    }

    /// What it publishes, as far as that is known or can be fetched.
    pub(super) async fn published(&self) -> Result<Arc<Published>, Refusal> {
        let look = self.kept.lock().look();
        match look {
            Look::Fresh(published) => Ok(published),
            Look::Due(published) => {
                let Ok(_turn) = self.turn.try_lock() else {
                    return Ok(published);
                };
                self.fetch().await;
                self.known()
            }
            Look::NothingYet => Err(self.unavailable()),
            Look::Nothing => {
                let _turn = self.turn.lock().await;
                // Another one may have fetched it meanwhile, or failed.
                let look = self.kept.lock().look();
                if let Look::Nothing = look {
                    self.fetch().await;
                }
                self.known()
            }
        }
    }

    /// That nobody can tell at the moment.
    pub(super) fn unavailable(&self) -> Refusal {
        Refusal::Unavailable {
            issuer: self.name.clone(),
        }
    }

    /// What counts now.
    fn known(&self) -> Result<Arc<Published>, Refusal> {
        let look = self.kept.lock().look();
        match look {
            Look::Fresh(published) | Look::Due(published) => Ok(published),
            Look::Nothing | Look::NothingYet => Err(self.unavailable()),
        }
    }

    /// Fetches it. A failure changes nothing but when the next attempt is.
    async fn fetch(&self) {
        let fetched = self.ask().await;
        let mut kept = self.kept.lock();
        match fetched {
            Ok(published) => {
                info!(
                    issuer = self.name,
                    "read what an issuer of access tokens publishes"
                );
                kept.published = Some((Arc::new(published), Instant::now()));
                kept.failed = None;
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    issuer = self.name,
                    "an issuer of access tokens cannot be asked"
                );
                kept.failed = Some(Instant::now());
            }
        }
    }

    async fn ask(&self) -> Result<Published, AskError> {
        let discover = || Metadata::discover(&self.client, &self.name);
        match &self.source {
            Source::Discovery => {
                let metadata = discover().await?;
                Ok(Published {
                    keys: self.keys_at(metadata.jwks()?).await?,
                    introspection: metadata.introspection(),
                })
            }
            Source::Keys(url) => Ok(Published {
                keys: self.keys_at(url.clone()).await?,
                introspection: None,
            }),
            Source::Given(_) => Ok(Published {
                keys: Keys::default(),
                introspection: discover().await?.introspection(),
            }),
        }
    }

    async fn keys_at(&self, url: Url) -> Result<Keys, AskError> {
        let keys = Keys::parse(&self.client.get(url.clone()).await?)?;
        if keys.is_empty() {
            return Err(AskError::Content(format!(
                "{url} has no key that checks signatures"
            )));
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn name(kept: &Kept) -> &'static str {
        match kept.look() {
            Look::Fresh(_) => "fresh",
            Look::Due(_) => "due",
            Look::Nothing => "nothing",
            Look::NothingYet => "nothing yet",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_fetched_is_fresh_then_due_and_counts_for_a_day() {
        let published = Some((Arc::default(), Instant::now()));
        let mut kept = Kept {
            published,
            failed: None,
        };
        assert_eq!(name(&kept), "fresh");
        advance(FRESH).await;
        assert_eq!(name(&kept), "due");
        kept.failed = Some(Instant::now());
        assert_eq!(name(&kept), "fresh", "it is not asked for again at once");
        advance(AGAIN_WITH).await;
        assert_eq!(name(&kept), "due");
        advance(LONGEST).await;
        assert_eq!(name(&kept), "nothing");
        kept.failed = Some(Instant::now());
        assert_eq!(name(&kept), "nothing yet");
        advance(AGAIN_WITHOUT).await;
        assert_eq!(name(&kept), "nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_keys_are_fetched_twice_a_minute_at_most() {
        let unknown = UnknownKeys::default();
        let fetch = || unknown.begin().map(Fetching::done).is_some();
        assert_eq!([fetch(), fetch()], [true, false]);
        advance(UNKNOWN_KEYS).await;
        assert_eq!([fetch(), fetch()], [true, false]);
        advance(UNKNOWN_KEYS).await;
        drop(unknown.begin());
        assert!(
            !fetch(),
            "one that was broken off counts too, but not for long"
        );
        advance(AGAIN_WITHOUT).await;
        assert!(fetch());
    }
}
