//! TLS to hosts that secrets are for: it ends here and begins anew, so that each request can be looked at and have the
//! secret put into it. For every other host it is copied as it is (`relay`).
//!
//! ```text
//!  program ── TLS, certificate of ours ──▶ request ── fill ──▶ TLS, the host's certificate is verified ──▶ host
//!          ◀── search: no secret comes back ──────────── answer ◀─────────────────────────────────────────
//! ```
//!
//! One name decides everything: that of the entry, which is the one that was dialled, that the program said in TLS, that
//! the host's certificate has to have, and that every request has to be for.

mod answer;
mod authority;
mod fill;
mod forms;
mod search;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream as Outward;
use tokio_rustls::server::TlsStream as Inward;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use self::authority::{Authority, AuthorityError};
use self::fill::Refused;
pub(super) use self::search::Search;
use super::report::DeniedReason;
use super::web::{Answer, Refusal};
use crate::allow_list::HostName;
use crate::secrets::BoundSecret;

/// How long either side may take to begin with TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What is needed to be between programs and the hosts that secrets are for.
#[derive(Debug)]
pub struct Interception {
    authority: Authority,
    client: Arc<ClientConfig>,
}

impl Interception {
    /// With this authority for programs. Hosts have to have a certificate of one of the usual roots, or of `more`.
    ///
    /// # Errors
    /// One of `more` is no certificate of an authority.
    pub fn new(
        authority: Authority,
        more: &[CertificateDer<'static>],
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
        for root in more {
            roots.add(root.clone())?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![authority::HTTP_1.to_vec()];
        Ok(Self {
            authority,
            client: Arc::new(client),
        })
    }

    /// The certificate that programs have to trust.
    pub fn pem(&self) -> &str {
        self.authority.pem()
    }

    /// Whoever is between programs and this host, which some of these secrets are for; `None` if none is. `search` is for
    /// all of the run.
    pub(super) fn broker(
        &self,
        name: &HostName,
        secrets: &[BoundSecret],
        search: &Arc<Search>,
    ) -> Option<Broker> {
        let here = secrets.iter().filter(|secret| secret.is_for_host(name));
        let here: Vec<_> = here.cloned().collect();
        if here.is_empty() {
            return None;
        }
        Some(Broker {
            server: self.authority.server(name)?,
            client: Arc::clone(&self.client),
            search: Arc::clone(search),
            secrets: here,
            name: name.clone(),
        })
    }
}

/// TLS that has begun, if it has in time.
async fn shaken<T>(handshake: impl Future<Output = io::Result<T>>) -> Result<T, DeniedReason> {
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(_)) | Err(_) => Err(DeniedReason::TlsFailed),
    }
}

/// Who is between a program and one host.
#[derive(Debug)]
pub(super) struct Broker {
    name: HostName,
    secrets: Vec<BoundSecret>,
    search: Arc<Search>,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Broker {
    /// The host.
    pub(super) fn name(&self) -> &HostName {
        &self.name
    }

    /// Speaks TLS with a program in the host's name.
    pub(super) async fn accept<S>(&self, stream: S) -> Result<Inward<S>, DeniedReason>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server));
        shaken(acceptor.accept(stream)).await
    }

    /// Speaks TLS with the host, whose certificate has to be for its name.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
    ) -> Result<Outward<TcpStream>, DeniedReason> {
        let name = ServerName::try_from(self.name.to_string());
        let name = name.map_err(|_| DeniedReason::TlsFailed)?;
        let connector = TlsConnector::from(Arc::clone(&self.client));
        shaken(connector.connect(name, stream)).await
    }

    /// The request with its secrets, and the variables of these.
    pub(super) fn fill(
        &self,
        request: Request<Incoming>,
    ) -> Result<(Request<Incoming>, Vec<&str>), Refusal> {
        let (mut head, body) = request.into_parts();
        if !fill::is_passed_on(&head.method) {
            return Err(Refusal {
                status: StatusCode::NOT_IMPLEMENTED,
                reason: DeniedReason::SecretRefused,
                words: "TRACE is not possible with a host that secrets are for",
            });
        }
        let used = fill::fill(&mut head, &self.secrets).map_err(|refused| Refusal {
            status: StatusCode::FORBIDDEN,
            reason: DeniedReason::SecretRefused,
            words: match refused {
                Refused::NotForRequest => {
                    "the secret in this request is for other methods or paths: see what the operator of the sandbox has allowed"
                }
                Refused::Repeated => "a request with a secret has its header once",
            },
        })?;
        Ok((Request::from_parts(head, body), used))
    }

    /// The host's answer without the secrets. Calls `found` if there was one in it.
    pub(super) fn search(
        &self,
        answer: Response<Incoming>,
        found: impl Fn() + Send + 'static,
    ) -> Result<Answer, Refusal> {
        answer::without_secrets(answer, &self.search, found)
    }
}

#[cfg(test)]
mod tests;
