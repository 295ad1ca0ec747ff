//! Asks issuers and others, within limits of time and size.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, RequestBuilder, StatusCode};
use secrecy::ExposeSecret as _;
use thiserror::Error;
use url::{Url, form_urlencoded};

use super::OauthError;
use crate::config::IntrospectionClient;

/// Longest time for one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of one answer.
const MAX_BYTES: usize = 256 << 10;

/// Why there is no answer of an issuer.
#[derive(Debug, Error)]
pub(crate) enum AskError {
    #[error("no answer")]
    Unreachable(#[from] reqwest::Error),
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("the answer cannot be read")]
    Form(#[from] serde_json::Error),
    #[error("{0}")]
    Content(String),
}

/// Asks issuers.
#[derive(Clone, Debug)]
pub(super) struct Client(reqwest::Client);

impl Client {
    /// Trusts the certificates of the system, Mozilla's, since an image need not have any, and those of the file.
    pub(super) fn new(ca_bundle: Option<&Path>) -> Result<Self, OauthError> {
        let mut client = builder();
        if let Some(path) = ca_bundle {
            client = client.tls_certs_merge(certificates(path)?);
        }
        Ok(Self(client.build()?))
    }

    pub(super) async fn get(&self, url: Url) -> Result<Vec<u8>, AskError> {
        answer(self.0.get(url), MAX_BYTES).await
    }

    /// Asks about a token, as a client of the issuer (RFC 7662, RFC 6749, section 2.3.1).
    pub(super) async fn introspect(
        &self,
        url: Url,
        client: &IntrospectionClient,
        token: &str,
    ) -> Result<Vec<u8>, AskError> {
        let encoded =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let secret = encoded(client.secret.expose_secret());
        let form = [("token", token), ("token_type_hint", "access_token")];
        let request = self.0.post(url).form(&form);
        let request = request.basic_auth(encoded(&client.id), Some(secret));
        answer(request, MAX_BYTES).await
    }
}

/// What all who ask others have in common. It trusts Mozilla's authorities beside those of the system, since an image
/// need not have any.
pub(crate) fn builder() -> ClientBuilder {
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let roots = roots.filter_map(|root| Certificate::from_der(root).ok());
    reqwest::Client::builder()
        .tls_certs_merge(roots)
        .timeout(PATIENCE)
        // A redirect would lead to somebody who was not meant.
        .redirect(Policy::none())
        .no_proxy()
        .user_agent(concat!("mcp-code-sandbox/", env!("CARGO_PKG_VERSION")))
}

/// A whole answer of at most so many bytes.
pub(crate) async fn answer(request: RequestBuilder, max_bytes: usize) -> Result<Vec<u8>, AskError> {
    let mut response = request.header(ACCEPT, "application/json").send().await?;
    if !response.status().is_success() {
        return Err(AskError::Status(response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max_bytes {
            return Err(AskError::TooLarge(max_bytes));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, OauthError> {
    let unusable = |reason: String| OauthError::CaBundle {
        path: PathBuf::from(path),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&text).map_err(|error| unusable(error.to_string()))?;
    if found.is_empty() {
        return Err(unusable("it has no certificate".to_owned()));
    }
    Ok(found)
}
