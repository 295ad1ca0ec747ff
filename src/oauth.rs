//! Callers whom others vouch for: holders of access tokens of authorization servers (OAuth 2.1, of which this server is
//! a resource server), and those whom Cloudflare Access lets through.
//!
//! ```text
//! token ──▶ came a moment ago? ──yes──────────────────────────────────────────────────────────▶ caller
//!              │ no                                                                               ▲
//!              ├─ a JWT ──▶ issuer by `iss` ──▶ key by `kid` ──▶ signature, times ──▶ audience ──┤
//!              └─ other ──▶ what its issuer says, if the operator has set that ──▶ audience ─────┘
//!                                                                          scope, who may enter, tenant
//! ```
//!
//! Issuers are asked when there is a token of theirs: the server starts without them, and lets nobody in by their tokens
//! while they cannot be reached and nothing is known of them.

mod audience;
mod claims;
mod client;
mod cloudflare;
mod discovery;
mod introspection;
mod issuer;
mod jwt;
mod keys;
mod known;
mod present;
mod refusal;
mod rules;
mod seen;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use self::audience::Audiences;
use self::claims::Claims;
use self::client::Client;
pub(crate) use self::client::{answer, builder};
use self::cloudflare::Cloudflare;
use self::introspection::Introspection;
use self::issuer::{Issuer, Source};
use self::jwt::Jwt;
use self::keys::Keys;
pub use self::known::Known;
use self::present::Present;
pub use self::refusal::{Flaw, Refusal};
use self::refusal::{MAX_TOKEN_BYTES, shown};
use self::rules::Rules;
use self::seen::Seen;
use crate::config::OauthConfig;
use crate::principal::Principal;

/// Why callers cannot be known as the settings say.
#[derive(Debug, Error)]
pub enum OauthError {
    /// No connection can be made that is safe.
    #[error("issuers cannot be asked, since no safe connection can be made")]
    Tls(#[from] reqwest::Error),
    /// The certificates are none.
    #[error("OAUTH_CA_BUNDLE={path} is not usable: {reason}", path = path.display())]
    CaBundle {
        /// Where they should be.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The keys are none.
    #[error("OAUTH_JWKS_FILE={path} is not usable: {reason}", path = path.display())]
    JwksFile {
        /// Where they should be.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An address is none.
    #[error("CF_ACCESS_TEAM is not usable")]
    Address(#[from] url::ParseError),
}

/// Knows callers by what others say of them. Clones share one state.
#[derive(Clone, Debug)]
pub struct Oauth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    issuers: Vec<Issuer>,
    introspection: Option<Introspection>,
    audiences: Audiences,
    rules: Rules,
    cloudflare: Option<Cloudflare>,
    seen: Seen,
    present: Present,
}

impl Oauth {
    /// Takes the tokens that are issued for one of our addresses, of which the first is the one to tell. There is nothing
    /// to take if no issuer is set.
    ///
    /// # Errors
    /// A file that the settings name is not usable.
    pub fn new(config: &OauthConfig, addresses: &[String]) -> Result<Option<Self>, OauthError> {
        if !config.is_on() {
            return Ok(None);
        }
        let client = Client::new(config.ca_bundle.as_deref())?;
        let source = match &config.jwks_file {
            None => Source::Discovery,
            Some(path) => Source::Given(keys_of(path)?),
        };
        let issuer = |name: &String| Issuer::new(name.clone(), source.clone(), client.clone());
        let introspection = config.introspection.clone();
        let cloudflare = config.cloudflare.as_ref();
        let cloudflare =
            cloudflare.map(|it| Cloudflare::new(it, config.tenant.clone(), client.clone()));
        Ok(Some(Self(Arc::new(Shared {
            issuers: config.issuers.iter().map(issuer).collect(),
            introspection: introspection.map(|own| Introspection::new(own, client.clone())),
            audiences: Audiences::new(addresses, &config.audiences, "OAUTH_AUDIENCE"),
            rules: config.into(),
            cloudflare: cloudflare.transpose()?,
            seen: Seen::default(),
            present: Present::default(),
        }))))
    }

    /// Whether clients can log in at an issuer.
    pub fn has_issuers(&self) -> bool {
        !self.0.issuers.is_empty()
    }

    /// Whether assertions of Cloudflare Access are taken.
    pub fn takes_assertions(&self) -> bool {
        self.0.cloudflare.is_some()
    }

    /// Whose access token it is, which came from this network.
    ///
    /// # Errors
    /// Why it lets nobody in.
    pub async fn caller(&self, token: &str, from: IpAddr) -> Result<Known, Refusal> {
        self.0.known(token, from).await
    }

    /// Whether somebody had an access token, and the last one has expired long ago.
    pub fn has_left(&self, caller: &Principal) -> bool {
        self.0.present.has_left(caller)
    }

    /// Whom an assertion of Cloudflare Access is about.
    ///
    /// # Errors
    /// Why it counts for nothing.
    pub async fn asserted(&self, assertion: &str) -> Result<Known, Refusal> {
        match &self.0.cloudflare {
            Some(cloudflare) => cloudflare.caller(assertion, &self.0.present).await,
            None => Err(Refusal::Assertion(Flaw::Opaque)),
        }
    }
}

impl Shared {
    async fn known(&self, token: &str, from: IpAddr) -> Result<Known, Refusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Flaw::TooLong(token.len()).into());
        }
        if let Some(verdict) = self.seen.find(token) {
            return verdict;
        }
        let (issuer, claims) = if jwt::has_form(token) {
            self.verified(token).await?
        } else {
            self.introspected(token, from).await?
        };
        claims.check_purpose()?;
        let subject = claims.subject()?;
        let caller = self.rules.caller(&issuer.name, subject, &claims)?;
        let known = Known::new(caller, self.rules.rights(&claims), subject, &claims);
        self.present.note(&known);
        self.seen.keep(token, known.clone());
        Ok(known)
    }

    async fn verified(&self, token: &str) -> Result<(&Issuer, Claims), Refusal> {
        let jwt = Jwt::parse(token)?;
        // To the letter, since two issuers may differ in a slash.
        let issuer = self.issuers.iter().find(|issuer| issuer.name == jwt.issuer);
        let issuer = issuer.ok_or_else(|| {
            let taken = self.issuers.iter().map(|issuer| issuer.name.as_str());
            Flaw::Issuer {
                came: shown(&jwt.issuer),
                taken: taken.collect::<Vec<_>>().join(" or "),
                setting: "OAUTH_ISSUER",
            }
        })?;
        let key = issuer.key(&jwt).await?;
        let claims = jwt.verified(&key)?;
        self.audiences.check(&claims)?;
        Ok((issuer, claims))
    }

    async fn introspected(&self, token: &str, from: IpAddr) -> Result<(&Issuer, Claims), Refusal> {
        let (Some(introspection), [issuer]) = (&self.introspection, self.issuers.as_slice()) else {
            return Err(Flaw::Opaque.into());
        };
        let turn = if self.seen.was_good(token) {
            introspection.turn_of_known().await
        } else {
            introspection.turn(from).await
        };
        let _turn = turn.ok_or_else(|| issuer.unavailable())?;
        let claims = introspection.claims(issuer, &self.audiences, token).await;
        if let Err(refusal @ Refusal::Invalid(_)) = &claims {
            self.seen.keep_out(token, refusal);
        }
        Ok((issuer, claims?))
    }
}

fn keys_of(path: &Path) -> Result<Keys, OauthError> {
    let unusable = |reason: String| OauthError::JwksFile {
        path: path.to_owned(),
        reason,
    };
    let document = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let keys = Keys::parse(&document).map_err(|error| unusable(error.to_string()))?;
    if keys.is_empty() {
        return Err(unusable("it has no key that checks signatures".to_owned()));
    }
    Ok(keys)
}
