//! Clients whose id is the address of a document about them (OAuth Client ID Metadata Document), which is fetched from
//! the internet only: an id comes from anybody, and is not to reach what is beside this server.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::ClientBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::Deserialize;
use tokio::net::lookup_host;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::{Host, Url};

use super::LoginError;
use super::client::{Client, Registration};
use super::redirect::is_public;
use crate::oauth::{answer, builder};
use crate::recent::{Bounds, Recent};

/// What the addresses of documents begin with.
const SCHEME: &str = "https://";
/// Longest address.
const MAX_ADDRESS: usize = 512;
/// Most bytes of a document.
const MAX_BYTES: usize = 5 << 10;
/// Documents that are fetched at the same time.
const AT_ONCE: usize = 32;
/// How long one waits for others.
const PATIENCE: Duration = Duration::from_secs(10);
const KEPT: Bounds = Bounds {
    age: Duration::from_mins(5),
    count: 100,
    bytes: usize::MAX,
};

/// Fetches documents, and keeps them for a while.
#[derive(Debug)]
pub(super) struct Documents {
    client: reqwest::Client,
    permits: Semaphore,
    kept: Mutex<Recent<String, Client>>,
}

/// What a client says of itself.
#[derive(Deserialize)]
struct Document {
    client_id: String,
    #[serde(flatten)]
    registration: Registration,
}

/// Whether an id is the address of a document.
pub(super) fn is_address(id: &str) -> bool {
    id.starts_with(SCHEME)
}

impl Documents {
    /// Over safe connections alone, and to public addresses.
    ///
    /// # Errors
    /// No such connection can be made.
    pub(super) fn new() -> reqwest::Result<Self> {
        Self::through(builder().dns_resolver(PublicOnly))
    }

    /// Fetches by what finds addresses and trusts certificates.
    fn through(roads: ClientBuilder) -> reqwest::Result<Self> {
        Ok(Self {
            client: roads.https_only(true).build()?,
            permits: Semaphore::new(AT_ONCE),
            kept: Mutex::new(Recent::new(KEPT)),
        })
    }

    pub(super) async fn client(&self, id: &str) -> Result<Client, LoginError> {
        if let Some(client) = self.kept.lock().get(&id.to_owned()) {
            return Ok(client.clone());
        }
        let unusable = |reason| unusable(id, reason);
        let address = address(id).ok_or_else(|| {
            unusable(
                "it has to be an address such as https://client.example/client.json".to_owned(),
            )
        })?;
        let permit = timeout(PATIENCE, self.permits.acquire()).await;
        let others = || unusable("others are fetched, try again".to_owned());
        let _permit = permit.map_err(|_| others())?.map_err(|_| others())?;
        let body = answer(self.client.get(address), MAX_BYTES).await;
        let body = body.map_err(|error| unusable(reason(&error)))?;
        let client = described(id, &body)?;
        self.kept.lock().insert(id.to_owned(), client.clone(), 0);
        Ok(client)
    }
}

/// The client that a document is about, which has to be the one of its address.
fn described(id: &str, document: &[u8]) -> Result<Client, LoginError> {
    let document: Document =
        serde_json::from_slice(document).map_err(|error| unusable(id, error.to_string()))?;
    if document.client_id != id {
        return Err(unusable(id, "its `client_id` is another one".to_owned()));
    }
    Client::new(id.to_owned(), &document.registration)
}

fn unusable(id: &str, reason: String) -> LoginError {
    LoginError::Document {
        id: id.chars().take(MAX_ADDRESS).collect(),
        reason,
    }
}

/// An error with what caused it, the last of which says most.
fn reason(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

/// The address of a document, which has the one form that it is compared in.
fn address(id: &str) -> Option<Url> {
    let url = Url::parse(id).ok()?;
    let is_plain = url.as_str() == id
        && id.len() <= MAX_ADDRESS
        && url.scheme() == "https"
        && url.port().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
        && url.path() != "/"
        && matches!(url.host(), Some(Host::Domain(_)));
    is_plain.then_some(url)
}

/// Finds the addresses of names on the internet. The connection goes to an address that was looked at.
#[derive(Debug)]
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Vec<_> = lookup_host((name.as_str(), 0)).await?.collect();
            if addresses.iter().any(|address| !is_public(address.ip())) {
                return Err("the name has an address that is not public".into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
