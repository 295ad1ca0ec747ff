//! Who may enter, and to whom they belong.

use super::claims::Claims;
use super::refusal::{Refusal, shown};
use crate::config::{Allowed, OauthConfig, OauthTenant};
use crate::principal::{DEFAULT_TENANT, Name, Principal, SUBJECT_PREFIX, Tenant};
use crate::scope::{Rights, Scopes};

/// The rules of the operator.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) required_scope: Option<String>,
    /// What a token without scopes of ours lets its holder do.
    pub(super) unnamed: Scopes,
    /// What another login could give: what clients are told to ask for.
    pub(super) obtainable: Scopes,
    pub(super) allow: Vec<Allowed>,
    pub(super) tenant: OauthTenant,
}

impl From<&OauthConfig> for Rules {
    fn from(config: &OauthConfig) -> Self {
        let named = Scopes::of_words(config.named_scopes().into_iter());
        Self {
            required_scope: config.required_scope.clone(),
            // An issuer that is to give some gives none to those who are to do nothing.
            unnamed: named.map_or(Scopes::ALL, |_| Scopes::NONE),
            obtainable: named.unwrap_or(Scopes::NONE),
            allow: config.allow.clone(),
            tenant: config.tenant.clone(),
        }
    }
}

impl Rules {
    /// What a token that says this lets its holder do.
    pub(super) fn rights(&self, claims: &Claims) -> Rights {
        let scopes = claims.scopes().unwrap_or(self.unnamed);
        Rights::by_login(scopes, self.obtainable)
    }

    /// The caller of whom an issuer says this, if that one may enter.
    pub(super) fn caller(
        &self,
        issuer: &str,
        subject: &str,
        claims: &Claims,
    ) -> Result<Principal, Refusal> {
        if let Some(required) = self
            .required_scope
            .as_ref()
            .filter(|scope| !claims.has_scope(scope))
        {
            let required = required.clone();
            return Err(Refusal::Scope { required });
        }
        if !self.allow.is_empty()
            && !self
                .allow
                .iter()
                .any(|allowed| is(allowed, subject, claims))
        {
            return Err(Refusal::NotAllowed(format!(
                "{} may not use this server: its operator can add that `sub` to OAUTH_ALLOW",
                shown(subject)
            )));
        }
        let tenant = self.tenant(issuer, subject, claims)?;
        Ok(Principal::of_subject(tenant, issuer, subject))
    }

    fn tenant(&self, issuer: &str, subject: &str, claims: &Claims) -> Result<Tenant, Refusal> {
        let claim = match &self.tenant {
            OauthTenant::Subject => return Ok(Tenant::of_subject(issuer, subject)),
            OauthTenant::Default => return Ok(Tenant::Default),
            OauthTenant::Claim(claim) => claim,
        };
        let refused = |why: String| {
            Err(Refusal::NotAllowed(format!(
                "the access token does not say to which tenant its holder belongs: its claim {claim} (OAUTH_TENANT) {why}"
            )))
        };
        let Some(value) = claims.text(claim) else {
            return refused("is not there, or is no text".to_owned());
        };
        if value == DEFAULT_TENANT || value.starts_with(SUBJECT_PREFIX) {
            return refused(format!("is {}, which no issuer can give", shown(value)));
        }
        match value.parse::<Name>() {
            Ok(name) => Ok(Tenant::of(name)),
            Err(error) => refused(format!("is {}, and {error}", shown(value))),
        }
    }
}

/// Whether a caller is the one, or one of those.
fn is(allowed: &Allowed, subject: &str, claims: &Claims) -> bool {
    match allowed {
        Allowed::Subject(allowed) => allowed == subject,
        // Anybody may have entered an address that is not verified.
        Allowed::Email(allowed) => {
            let is_verified = claims
                .0
                .get("email_verified")
                .and_then(serde_json::Value::as_bool);
            is_verified == Some(true)
                && claims
                    .text("email")
                    .is_some_and(|email| email.eq_ignore_ascii_case(allowed))
        }
        Allowed::Group(allowed) => claims.texts("groups").contains(&allowed.as_str()),
    }
}
