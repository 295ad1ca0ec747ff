//! What an issuer says of a token that only it can read (RFC 7662).

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use super::audience::Audiences;
use super::claims::Claims;
use super::client::{AskError, Client};
use super::issuer::Issuer;
use super::refusal::{Flaw, Refusal, shown};
use crate::config::IntrospectionClient;

/// Tokens that an issuer is asked about at once: anybody can send some.
const AT_ONCE: usize = 16;
/// Longest wait for that.
const TURN: Duration = Duration::from_secs(5);

/// Asks about tokens.
#[derive(Debug)]
pub(super) struct Introspection {
    own: IntrospectionClient,
    client: Client,
    turns: Semaphore,
}

impl Introspection {
    pub(super) fn new(own: IntrospectionClient, client: Client) -> Self {
        Self {
            own,
            client,
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// What the issuer says of a token that is good, and for us.
    pub(super) async fn claims(
        &self,
        issuer: &Issuer,
        audiences: &Audiences,
        token: &str,
    ) -> Result<Claims, Refusal> {
        let Ok(Ok(_turn)) = timeout(TURN, self.turns.acquire()).await else {
            return Err(issuer.unavailable());
        };
        let answer = self.ask(issuer, token).await?;
        let claims = answer.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            warn!(
                error,
                issuer = issuer.name,
                "an issuer cannot be asked about a token"
            );
            issuer.unavailable()
        })?;
        Ok(checked(claims, issuer, audiences)?)
    }

    async fn ask(&self, issuer: &Issuer, token: &str) -> Result<Result<Claims, AskError>, Refusal> {
        let Some(url) = issuer.published().await?.introspection.clone() else {
            let missing = "it does not say where it can be asked (introspection_endpoint)";
            return Ok(Err(AskError::Content(missing.to_owned())));
        };
        let answer = self.client.introspect(url, &self.own, token).await;
        let read = |answer: Vec<u8>| {
            Ok(Claims(serde_json::from_slice::<Map<String, Value>>(
                &answer,
            )?))
        };
        Ok(answer.and_then(read))
    }
}

/// The same rules as for a JWT, as far as there is something to check.
fn checked(claims: Claims, issuer: &Issuer, audiences: &Audiences) -> Result<Claims, Flaw> {
    if claims.0.get("active") != Some(&Value::Bool(true)) {
        return Err(Flaw::Inactive);
    }
    match claims.0.get("iss") {
        None => {}
        Some(Value::String(came)) if *came == issuer.name => {}
        Some(came) => {
            return Err(Flaw::Issuer {
                came: shown(came.as_str().unwrap_or_default()),
                taken: issuer.name.clone(),
                setting: "OAUTH_ISSUER",
            });
        }
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    for (name, flaw) in [("exp", Flaw::Expired), ("nbf", Flaw::Early)] {
        let Some(time) = claims.0.get(name) else {
            continue;
        };
        let time = time.as_u64().ok_or_else(|| Flaw::Claim(name.to_owned()))?;
        let is_wrong = match name {
            "exp" => time <= now,
            _ => time > now,
        };
        if is_wrong {
            return Err(flaw);
        }
    }
    audiences.check(&claims)?;
    Ok(claims)
}
