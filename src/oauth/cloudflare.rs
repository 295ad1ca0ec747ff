//! Assertions of Cloudflare Access, which its tunnel adds to the requests that it lets through.
//!
//! Who may enter is up to the policies there. A service token has no subject, and is known by its name.

use url::Url;

use super::OauthError;
use super::audience::Audiences;
use super::claims::Claims;
use super::client::Client;
use super::issuer::{Issuer, Source};
use super::jwt::Jwt;
use super::known::Known;
use super::present::Present;
use super::refusal::{Flaw, MAX_TOKEN_BYTES, Refusal, shown};
use super::rules::Rules;
use super::seen::Seen;
use crate::config::{CloudflareConfig, OauthTenant};
use crate::scope::{Rights, Scopes};

/// Where a team's keys are.
const CERTS: &str = "/cdn-cgi/access/certs";
/// What comes before the name of a service token, so that it is nobody's `sub`.
const SERVICE: &str = "service:";

/// Knows callers by assertions.
#[derive(Debug)]
pub(super) struct Cloudflare {
    issuer: Issuer,
    audiences: Audiences,
    rules: Rules,
    seen: Seen,
}

impl Cloudflare {
    pub(super) fn new(
        config: &CloudflareConfig,
        tenant: OauthTenant,
        client: Client,
    ) -> Result<Self, OauthError> {
        let certs = Url::parse(&format!("{}{CERTS}", config.issuer))?;
        Ok(Self {
            issuer: Issuer::new(config.issuer.clone(), Source::Keys(certs), client),
            audiences: Audiences::new(&[], std::slice::from_ref(&config.audience), "CF_ACCESS_AUD"),
            rules: Rules {
                required_scope: None,
                unnamed: Scopes::ALL,
                obtainable: Scopes::NONE,
                allow: Vec::new(),
                tenant,
            },
            seen: Seen::default(),
        })
    }

    pub(super) async fn caller(
        &self,
        assertion: &str,
        present: &Present,
    ) -> Result<Known, Refusal> {
        match self.known(assertion, present).await {
            Err(Refusal::Invalid(flaw)) => Err(Refusal::Assertion(flaw)),
            known => known,
        }
    }

    async fn known(&self, assertion: &str, present: &Present) -> Result<Known, Refusal> {
        if let Some(verdict) = self.seen.find(assertion) {
            return verdict;
        }
        if assertion.len() > MAX_TOKEN_BYTES {
            return Err(Flaw::TooLong(assertion.len()).into());
        }
        let jwt = Jwt::parse(assertion)?;
        if jwt.issuer != self.issuer.name {
            let flaw = Flaw::Issuer {
                came: shown(&jwt.issuer),
                taken: self.issuer.name.clone(),
                setting: "CF_ACCESS_TEAM",
            };
            return Err(flaw.into());
        }
        let key = self.issuer.key(&jwt).await?;
        let claims = jwt.verified(&key)?;
        self.audiences.check(&claims)?;
        let subject = subject(&claims)?;
        let caller = self.rules.caller(&self.issuer.name, &subject, &claims)?;
        // What may be done is not up to the policies there.
        let known = Known::new(caller, Rights::ALL, &subject, &claims);
        present.note(&known);
        self.seen.keep(assertion, known.clone());
        Ok(known)
    }
}

/// A person, or a service token by its name.
fn subject(claims: &Claims) -> Result<String, Flaw> {
    let service = claims.text("common_name").filter(|name| !name.is_empty());
    match (claims.subject(), service) {
        (Ok(subject), _) => Ok(subject.to_owned()),
        (Err(_), Some(service)) => Ok(format!("{SERVICE}{service}")),
        (Err(flaw), None) => Err(flaw),
    }
}
