//! What codes and refresh tokens are exchanged for, and whom an access token lets in.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::client::fingerprint;
use super::codes::Spent;
use super::grants::{Grant, GrantId, Turn};
use super::request::check_resource;
use super::{Ended, EndedBy, Exchange, LoginError, Refresh, Refused, SCOPE, Shared};
use crate::principal::Principal;
use crate::scope::{Rights, Scopes};

/// How long an access token is taken.
const ACCESS_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// What an access token says.
#[derive(Serialize, Deserialize)]
struct AccessToken {
    grant: GrantId,
    resource: String,
    /// Seconds of Unix time.
    expires: i64,
    /// Tells it from others of the same second.
    generation: u64,
}

/// What a refresh token says.
#[derive(Serialize, Deserialize)]
struct RefreshToken {
    grant: GrantId,
    /// How often the grant was refreshed before.
    generation: u64,
}

/// What a client gets.
#[derive(Debug, Serialize)]
pub struct Tokens {
    pub(super) access_token: String,
    token_type: &'static str,
    expires_in: i64,
    refresh_token: String,
    scope: String,
}

impl Shared {
    pub(super) fn exchange(&self, exchange: &Exchange) -> Result<Tokens, LoginError> {
        let id = GrantId::random();
        let mut turn = self.grants.turn();
        let approval = match self.codes.spend(&exchange.code, &id) {
            Spent::First(approval) => approval,
            Spent::Again(earlier) => {
                // Whoever came first may have stolen it (RFC 6749, section 4.1.2).
                return Err(self.replayed(&mut turn, &earlier, EndedBy::CodeReplayed)?);
            }
            Spent::Unknown => {
                return Err(LoginError::grant(
                    "the code is not known or older than 60 seconds: log in again",
                ));
            }
        };
        approval.check(exchange)?;
        check_resource(&exchange.resource, std::slice::from_ref(&approval.resource))?;
        let may = self.access.holder(&approval.token)?.scopes;
        let grant = Grant::new(approval);
        let tokens = self.tokens(&id, &grant, may)?;
        turn.begin(id, grant)?;
        Ok(tokens)
    }

    pub(super) fn refresh(&self, refresh: &Refresh) -> Result<Tokens, LoginError> {
        let unknown = || LoginError::grant("the refresh token is not valid: log in again");
        let token: RefreshToken = self
            .refresh_tokens
            .open(&refresh.token)
            .ok_or_else(unknown)?;
        let mut turn = self.grants.turn();
        let mut grant = self.grants.find(&token.grant).ok_or_else(unknown)?;
        if grant.client != fingerprint(&refresh.client_id) {
            return Err(LoginError::grant("the refresh token is another client's"));
        }
        if grant.generation != token.generation {
            return Err(self.replayed(&mut turn, &token.grant, EndedBy::RefreshTokenReplayed)?);
        }
        check_resource(&refresh.resource, std::slice::from_ref(&grant.resource))?;
        let may = self.access.holder(&grant.token)?.scopes;
        grant.renew();
        let tokens = self.tokens(&token.grant, &grant, may)?;
        turn.renew(token.grant, grant)?;
        Ok(tokens)
    }

    /// The tokens of a grant by somebody who may do that much, unless they would be for nothing.
    fn tokens(&self, id: &GrantId, grant: &Grant, may: Scopes) -> Result<Tokens, LoginError> {
        let scope = match may.intersection(grant.scopes) {
            Scopes::ALL => SCOPE.to_owned(),
            Scopes::NONE => {
                return Err(LoginError::grant(
                    "the token that was pasted is for nothing of what was asked for any more: log in again",
                ));
            }
            fewer => fewer.as_words(),
        };
        Ok(Tokens {
            access_token: self.access_tokens.seal(&AccessToken {
                grant: id.clone(),
                resource: grant.resource.clone(),
                expires: Timestamp::now().as_second() + ACCESS_LIFE.as_secs(),
                generation: grant.generation,
            }),
            token_type: "Bearer",
            expires_in: ACCESS_LIFE.as_secs(),
            refresh_token: self.refresh_tokens.seal(&RefreshToken {
                grant: id.clone(),
                generation: grant.generation,
            }),
            scope,
        })
    }

    /// Ends the grant of a token, if there is one.
    pub(super) fn revoke(&self, token: &str) -> Result<Option<Ended>, LoginError> {
        let Some(id) = self.grant_of(token) else {
            return Ok(None);
        };
        self.end(&mut self.grants.turn(), &id, EndedBy::Revoked)
    }

    /// Ends a grant of which something came twice.
    fn replayed(
        &self,
        turn: &mut Turn<'_>,
        id: &GrantId,
        why: EndedBy,
    ) -> Result<LoginError, LoginError> {
        let ended = self.end(turn, id, why)?.map(Box::new);
        Ok(LoginError::Replayed { why, ended })
    }

    /// Ends a grant. There is nothing to tell if it was over.
    fn end(
        &self,
        turn: &mut Turn<'_>,
        id: &GrantId,
        why: EndedBy,
    ) -> Result<Option<Ended>, LoginError> {
        let grant = self.grants.find(id);
        turn.end(id)?;
        Ok(grant.map(|grant| {
            let holder = self.access.holder(&grant.token).ok();
            let holder = holder.map(|holder| holder.caller);
            Ended { holder, why }
        }))
    }

    /// Whether a grant is over, or what was pasted for it. An access token may have expired: its client gets another
    /// one with its next call.
    pub(super) fn has_left(&self, id: &str) -> bool {
        let grant = self.grants.find(&GrantId::from(id));
        grant.is_none_or(|grant| self.access.holder(&grant.token).is_err())
    }

    fn grant_of(&self, token: &str) -> Option<GrantId> {
        let refresh = self.refresh_tokens.open::<RefreshToken>(token);
        let access = || self.access_tokens.open::<AccessToken>(token);
        refresh
            .map(|token| token.grant)
            .or_else(|| access().map(|token| token.grant))
    }

    pub(super) fn expiry(&self, token: &str) -> Option<Timestamp> {
        let token: AccessToken = self.access_tokens.open(token)?;
        Timestamp::from_second(token.expires).ok()
    }

    pub(super) fn caller(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Principal, Rights), Refused> {
        let token: AccessToken = self.access_tokens.open(token).ok_or(Refused::Forged)?;
        if token.expires <= now.as_second() {
            return Err(Refused::Expired);
        }
        if !self.resources.contains(&token.resource) {
            return Err(Refused::Elsewhere(token.resource));
        }
        let grant = self.grants.find(&token.grant).ok_or(Refused::Ended)?;
        let holder = self.access.holder(&grant.token).map_err(Refused::Over)?;
        let scopes = holder.scopes.intersection(grant.scopes);
        let caller = holder.caller.by_login(token.grant.as_str());
        Ok((caller, Rights::by_login(scopes, holder.scopes)))
    }
}
