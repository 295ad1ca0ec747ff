//! Asks a running server, as any other program could by its REST interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::CommandError;
use super::table::harmless;

/// How long an answer may take: a cancelled run is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// Asks a server.
pub(super) struct Client {
    http: reqwest::Client,
    address: SocketAddr,
    token: SecretString,
}

impl Client {
    /// Asks the server that listens at an address of this machine.
    pub(super) fn new(mut address: SocketAddr, token: SecretString) -> Result<Self, CommandError> {
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .no_proxy()
            .user_agent(concat!("mcp-code-sandbox/", env!("CARGO_PKG_VERSION")));
        let http = client.build().map_err(CommandError::NoClient)?;
        Ok(Self {
            http,
            address,
            token,
        })
    }

    /// The answer of a route below `/admin/v1`.
    pub(super) async fn ask(
        &self,
        method: Method,
        route: &[&str],
        query: &[(&str, String)],
    ) -> Result<Value, CommandError> {
        let address = self.address;
        let mut url = url::Url::parse(&format!("http://{address}/admin/v1/"))
            .map_err(|_| CommandError::NoUrl { address })?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(route);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        let request = request.bearer_auth(self.token.expose_secret());
        let unreachable = |source| CommandError::Unreachable { address, source };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.bytes().await.map_err(unreachable)?;
        let answer = serde_json::from_slice::<Value>(&text);
        if status.is_success() {
            return answer.map_err(|_| CommandError::Foreign { address, status });
        }
        let answer = answer.unwrap_or_default();
        let error = &answer["error"];
        Err(match (status, error["code"].as_str()) {
            (StatusCode::UNAUTHORIZED, _) => CommandError::OtherToken { address },
            (StatusCode::NOT_FOUND, Some("no_such_route")) => CommandError::NotOn { address },
            (_, Some(_)) => {
                let message = error["message"].as_str().unwrap_or_default();
                CommandError::Refused(harmless(message))
            }
            (_, None) => CommandError::Foreign { address, status },
        })
    }
}
