//! Where an issuer says how it is used (RFC 8414, `OpenID` Connect Discovery), and what it says there.

use serde::Deserialize;
use url::Url;

use super::client::{AskError, Client};
use crate::config::is_safe;

/// Names of the documents below `.well-known`.
const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// What an issuer says of itself, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    jwks_uri: Option<Url>,
    introspection_endpoint: Option<Url>,
}

impl Metadata {
    /// Asks an issuer at one address after the other. One that cannot be reached is not asked again.
    pub(super) async fn discover(client: &Client, issuer: &str) -> Result<Self, AskError> {
        let mut failed = AskError::Content("it has no address to ask at".to_owned());
        for address in addresses(issuer) {
            match client.get(address).await {
                Ok(document) => match Self::read(&document, issuer) {
                    Ok(metadata) => return Ok(metadata),
                    Err(error) => failed = error,
                },
                Err(error @ AskError::Unreachable(_)) => return Err(error),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// A document counts only for the issuer that it names: others may be served by the same host.
    fn read(document: &[u8], issuer: &str) -> Result<Self, AskError> {
        let metadata: Self = serde_json::from_slice(document)?;
        if metadata.issuer != issuer {
            return Err(AskError::Content(format!(
                "it calls itself {:?}, and OAUTH_ISSUER has to be that to the letter",
                metadata.issuer
            )));
        }
        let urls = [&metadata.jwks_uri, &metadata.introspection_endpoint];
        if let Some(unsafe_url) = urls.into_iter().flatten().find(|url| !is_safe(url)) {
            return Err(AskError::Content(format!("{unsafe_url} is not https")));
        }
        Ok(metadata)
    }

    pub(super) fn jwks(&self) -> Result<Url, AskError> {
        let missing =
            || AskError::Content("it does not say where its keys are (jwks_uri)".to_owned());
        self.jwks_uri.clone().ok_or_else(missing)
    }

    pub(super) fn introspection(&self) -> Option<Url> {
        self.introspection_endpoint.clone()
    }
}

/// Where the documents of an issuer may be: OAuth puts its name before the issuer's path, and `OpenID` behind it.
fn addresses(issuer: &str) -> Vec<Url> {
    let Ok(base) = Url::parse(issuer) else {
        return Vec::new();
    };
    let path = base.path().trim_end_matches('/').to_owned();
    let before = |name: &str| format!("/.well-known/{name}{path}");
    let paths = [
        before(OAUTH),
        before(OPENID),
        format!("{path}/.well-known/{OPENID}"),
    ];
    let mut addresses: Vec<Url> = paths
        .iter()
        .map(|path| {
            let mut address = base.clone();
            address.set_path(path);
            address
        })
        .collect();
    addresses.dedup();
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_with_a_path_is_asked_before_and_behind_it() {
        let asked = |issuer| {
            let addresses = addresses(issuer).into_iter();
            addresses
                .map(|url| url.path().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            asked("https://auth.example/realms/team/"),
            [
                "/.well-known/oauth-authorization-server/realms/team",
                "/.well-known/openid-configuration/realms/team",
                "/realms/team/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            asked("https://auth.example/"),
            [
                "/.well-known/oauth-authorization-server",
                "/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn documents_of_others_and_addresses_that_are_not_safe_do_not_count() {
        let read = |document: &str| Metadata::read(document.as_bytes(), "https://auth.example");
        assert!(
            read(r#"{"issuer":"https://auth.example","jwks_uri":"https://keys.example/a"}"#)
                .is_ok()
        );
        for bad in [
            r#"{"issuer":"https://auth.example/"}"#,
            r#"{"issuer":"https://auth.example","jwks_uri":"http://keys.example/a"}"#,
            r#"{"issuer":"https://auth.example","introspection_endpoint":"http://auth.example/a"}"#,
            r#"{"jwks_uri":"https://keys.example/a"}"#,
            "[]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
