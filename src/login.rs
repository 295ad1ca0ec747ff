//! A small authorization server for those who have a token of this server: a person pastes it once into a page of ours,
//! and the client gets access tokens in its place, so that applications which can only log in reach the server too.
//!
//! ```text
//! registered ──▶ asks ──▶ a token is pasted ──▶ code, 60 s ──▶ grant ──┬─▶ access token, one hour
//!                                                                ▲     └─▶ refresh token, for one use
//!                                                                └──────────────────┘
//!
//! A refresh token or a code that comes twice ends the grant, as do its revocation and 90 days without use. While the
//! pasted token counts for nothing, neither does what was made from it.
//! ```
//!
//! Nothing is kept of clients: their id says what they registered, and is signed. Grants are files, so that they outlive
//! the server.

mod client;
mod codes;
mod document;
mod error;
mod grants;
mod redirect;
mod request;
mod seal;
mod tokens;

use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::SecretString;
use tokio::task::spawn_blocking;

pub use self::client::{Client, PAGE, Registration};
use self::client::{Clients, fingerprint};
use self::codes::{Approval, Codes};
use self::document::Documents;
pub use self::error::{Ended, EndedBy, LoginError, NotLetIn, Refused};
use self::grants::Grants;
pub use self::redirect::RedirectUri;
pub use self::request::{Asked, Request};
use self::seal::Seal;
pub use self::tokens::Tokens;
use crate::access::Access;
use crate::principal::Principal;
use crate::scope::{Rights, Scopes};

/// What clients are told to ask for: everything that the pasted token lets its holder do.
pub const SCOPE: &str = "sandbox";
/// What access tokens begin with. Some clients take whatever has dots for a JWT.
const ACCESS_PREFIX: &str = "mcs_at_";
const REFRESH_PREFIX: &str = "mcs_rt_";

/// The authorization server. Clones share one state.
#[derive(Clone, Debug)]
pub struct Login(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    access: Access,
    issuer: String,
    /// The addresses that tokens are for, the one of MCP first.
    resources: Vec<String>,
    clients: Clients,
    documents: Documents,
    codes: Codes,
    grants: Grants,
    access_tokens: Seal,
    refresh_tokens: Seal,
}

/// A code that a client wants to exchange.
#[derive(Debug)]
pub struct Exchange {
    /// The client's id.
    pub client_id: String,
    /// What the browser brought.
    pub code: String,
    /// Where it was sent.
    pub redirect_uri: String,
    /// That of which the request had a hash (RFC 7636).
    pub verifier: String,
    /// For which address, if that is said.
    pub resource: Vec<String>,
}

/// A refresh token that a client wants to exchange.
#[derive(Debug)]
pub struct Refresh {
    /// The client's id.
    pub client_id: String,
    /// The token.
    pub token: String,
    /// For which address, if that is said.
    pub resource: Vec<String>,
}

impl Login {
    /// Logs in those whom `access` knows, at the address `issuer`, for the first of `resources` or another of them.
    /// Grants are kept below `root`.
    ///
    /// # Errors
    /// The directory of grants is not usable.
    pub fn open(
        access: Access,
        (issuer, resources): (&str, Vec<String>),
        secret: &SecretString,
        root: &Path,
    ) -> io::Result<Self> {
        let seal = |purpose, prefix| Seal::new(secret, purpose, prefix);
        Ok(Self(Arc::new(Shared {
            access,
            issuer: issuer.trim_end_matches('/').to_owned(),
            resources,
            clients: Clients::new(seal("client", "")),
            documents: Documents::new().map_err(io::Error::other)?,
            codes: Codes::default(),
            grants: Grants::open(root)?,
            access_tokens: seal("access", ACCESS_PREFIX),
            refresh_tokens: seal("refresh", REFRESH_PREFIX),
        })))
    }

    /// The name of this server among authorization servers.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Registers a client (RFC 7591), and returns its id.
    ///
    /// # Errors
    /// Its browser could be sent nowhere.
    pub fn register(&self, registration: &Registration) -> Result<Client, LoginError> {
        self.0.clients.register(registration)
    }

    /// The client of an id.
    ///
    /// # Errors
    /// There is none.
    pub async fn client(&self, id: &str) -> Result<Client, LoginError> {
        if id == PAGE {
            return Ok(Client::page(&self.0.issuer));
        }
        if document::is_address(id) {
            return self.0.documents.client(id).await;
        }
        self.0.clients.find(id)
    }

    /// Whether there may be such a client. Grants have its fingerprint, so its document is not needed again.
    fn check_client(&self, id: &str) -> Result<(), LoginError> {
        if id == PAGE || document::is_address(id) {
            return Ok(());
        }
        self.0.clients.find(id).map(drop)
    }

    /// What a client asks of a person.
    ///
    /// # Errors
    /// What is wrong with it, and whether the client may be told.
    pub async fn asked(&self, request: &Request) -> Result<Asked, NotLetIn> {
        let client = self.client(&request.client_id).await?;
        request.check(client, &self.0.resources)
    }

    /// Lets a client in for whoever has `token`, which was pasted. Returns them, and the client's code.
    ///
    /// # Errors
    /// The token is not right, or lets nobody do what the client asks for.
    pub fn let_in(&self, asked: &Asked, token: &str) -> Result<(Principal, String), Refused> {
        let shared = &*self.0;
        let holder = shared.access.let_in(token)?;
        if holder.scopes.intersection(asked.scopes) == Scopes::NONE {
            return Err(Refused::Scopes);
        }
        let code = shared.codes.issue(Approval {
            client: fingerprint(asked.client.id()),
            redirect_uri: asked.redirect.as_str().to_owned(),
            challenge: asked.challenge.clone(),
            resource: asked.resource.clone(),
            scopes: asked.scopes,
            token: holder.hash,
        });
        Ok((holder.caller, code))
    }

    /// Exchanges a code for tokens.
    ///
    /// # Errors
    /// It is not for whoever sends it, or was used.
    pub async fn exchange(&self, exchange: Exchange) -> Result<Tokens, LoginError> {
        self.check_client(&exchange.client_id)?;
        self.apart(move |shared| shared.exchange(&exchange)).await
    }

    /// Exchanges a refresh token for the next ones.
    ///
    /// # Errors
    /// It is not for whoever sends it, or was used.
    pub async fn refresh(&self, refresh: Refresh) -> Result<Tokens, LoginError> {
        self.check_client(&refresh.client_id)?;
        self.apart(move |shared| shared.refresh(&refresh)).await
    }

    /// Ends the grant of a token. Returns what became of it, unless there was none.
    ///
    /// # Errors
    /// It cannot be removed.
    pub async fn revoke(&self, token: String) -> Result<Option<Ended>, LoginError> {
        self.apart(move |shared| shared.revoke(&token)).await
    }

    /// Whether a caller came by a login that is over.
    pub fn has_left(&self, caller: &Principal) -> bool {
        let id = caller.login();
        id.is_some_and(|id| self.0.has_left(id))
    }

    /// Whether a token has the form of those that are issued here.
    pub fn has_form(token: &str) -> bool {
        token.starts_with(ACCESS_PREFIX)
    }

    /// Whose access token it is: whose token was pasted for it. And what it lets them do.
    ///
    /// # Errors
    /// Why it lets nobody in.
    pub fn caller(&self, token: &str) -> Result<(Principal, Rights), Refused> {
        self.0.caller(token, Timestamp::now())
    }

    /// When an access token of ours expires.
    pub fn expiry(&self, token: &str) -> Option<Timestamp> {
        self.0.expiry(token)
    }

    /// Does what touches files where waiting for them holds up nobody. It goes on if the client goes away.
    async fn apart<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Shared) -> Result<T, LoginError> + Send + 'static,
    ) -> Result<T, LoginError> {
        let shared = Arc::clone(&self.0);
        spawn_blocking(move || act(&shared)).await?
    }
}

#[cfg(test)]
mod tests;
