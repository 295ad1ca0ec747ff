//! What an issuer says of a token that only it can read (RFC 7662).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tracing::warn;

use super::audience::Audiences;
use super::claims::Claims;
use super::client::{AskError, Client};
use super::issuer::Issuer;
use super::refusal::{Flaw, Refusal, shown};
use crate::config::IntrospectionClient;

/// Tokens that an issuer is asked about at once: anybody can send some. As many again may be asked about that were good
/// when they came last, so that tokens which somebody makes up do not keep these out.
const AT_ONCE: usize = 16;
/// How many of them may be from one network.
const FROM_ONE: usize = 4;
/// Longest wait for that.
const TURN: Duration = Duration::from_secs(5);

/// Asks about tokens.
#[derive(Debug)]
pub(super) struct Introspection {
    own: IntrospectionClient,
    client: Client,
    turns: Semaphore,
    turns_of_known: Semaphore,
    networks: Networks,
}

/// The right to ask about a token.
pub(super) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    _of_network: Option<OfNetwork<'a>>,
}

/// Who asks from where: a semaphore for each network from which somebody does.
#[derive(Debug, Default)]
struct Networks(Mutex<HashMap<IpAddr, Arc<Semaphore>>>);

/// A place of a network. Dropping the last one forgets the network.
struct OfNetwork<'a> {
    networks: &'a Networks,
    network: IpAddr,
    permit: Option<OwnedSemaphorePermit>,
}

impl Networks {
    async fn place(&self, network: IpAddr) -> Option<OfNetwork<'_>> {
        let mut place = OfNetwork {
            networks: self,
            network,
            permit: None,
        };
        let places = {
            let mut all = self.0.lock();
            let new = || Arc::new(Semaphore::new(FROM_ONE));
            Arc::clone(all.entry(network).or_insert_with(new))
        };
        place.permit = places.acquire_owned().await.ok();
        place.permit.is_some().then_some(place)
    }
}

impl Drop for OfNetwork<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut all = self.networks.0.lock();
        // Whoever has a place or waits for one has a clone.
        if all
            .get(&self.network)
            .is_some_and(|places| Arc::strong_count(places) == 1)
        {
            all.remove(&self.network);
        }
    }
}

impl Introspection {
    pub(super) fn new(own: IntrospectionClient, client: Client) -> Self {
        Self {
            own,
            client,
            turns: Semaphore::new(AT_ONCE),
            turns_of_known: Semaphore::new(AT_ONCE),
            networks: Networks::default(),
        }
    }

    /// Waits for the turn of a token from a network. `None` if that takes too long. A proxy on this machine brings the
    /// tokens of all, and is held to no part.
    pub(super) async fn turn(&self, network: IpAddr) -> Option<Turn<'_>> {
        let turn = async {
            // The network's own first, so that it holds no place of the others while it waits.
            let of_network = if network.is_loopback() {
                None
            } else {
                Some(self.networks.place(network).await?)
            };
            Some(Turn {
                _permit: self.turns.acquire().await.ok()?,
                _of_network: of_network,
            })
        };
        timeout(TURN, turn).await.ok()?
    }

    /// The same for a token that was good when it came last.
    pub(super) async fn turn_of_known(&self) -> Option<Turn<'_>> {
        let permit = timeout(TURN, self.turns_of_known.acquire()).await;
        Some(Turn {
            _permit: permit.ok()?.ok()?,
            _of_network: None,
        })
    }

    /// What the issuer says of a token that is good, and for us.
    pub(super) async fn claims(
        &self,
        issuer: &Issuer,
        audiences: &Audiences,
        token: &str,
    ) -> Result<Claims, Refusal> {
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
