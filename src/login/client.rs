//! Programs that log their users in: an id says what they have registered, and only we can have made it.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::LoginError;
use super::redirect::RedirectUri;
use super::seal::Seal;

/// Most addresses of one client, and most bytes of them: its id has them all.
const MAX_URIS: usize = 10;
const MAX_URI_BYTES: usize = 2048;
/// Characters of a name that are shown.
const MAX_NAME: usize = 60;
/// The id of the server's own page. Nobody registers it, and those who register get longer ones.
pub const PAGE: &str = "page";
const PAGE_NAME: &str = "The page of this server";
/// The name of a client that gives none.
const NAMELESS: &str = "A client without a name";

/// What a client says of itself (RFC 7591, section 2), as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub struct Registration {
    /// Where it wants to get codes.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// What people call it.
    pub client_name: Option<String>,
}

/// A program that logs its users in.
#[derive(Clone, Debug)]
pub struct Client {
    id: String,
    name: String,
    redirect_uris: Vec<RedirectUri>,
    is_page: bool,
}

/// What the id of a client says.
#[derive(Serialize, Deserialize)]
struct Registered {
    redirect_uris: Vec<String>,
    name: String,
}

/// What remains of an id where it is only compared.
pub(super) fn fingerprint(id: &str) -> String {
    hex::encode(Sha256::digest(id))
}

impl Client {
    /// The client of an id, if it can get codes anywhere. Some register addresses of which only one is for us, so the
    /// others are left out.
    pub(super) fn new(id: String, registration: &Registration) -> Result<Self, LoginError> {
        let uris = registration.redirect_uris.iter();
        let redirect_uris: Vec<_> = uris.filter_map(|uri| RedirectUri::parse(uri)).collect();
        if redirect_uris.is_empty() {
            return Err(LoginError::RedirectUri(
                "none of `redirect_uris` may be used here: one has to be http on localhost, 127.0.0.1 or [::1], or that \
                 of an application which docs/oauth.md names"
                    .to_owned(),
            ));
        }
        let bytes: usize = redirect_uris.iter().map(|uri| uri.as_str().len()).sum();
        if redirect_uris.len() > MAX_URIS || bytes > MAX_URI_BYTES {
            return Err(LoginError::RedirectUri(format!(
                "`redirect_uris` are more than {MAX_URIS} or {MAX_URI_BYTES} bytes: register fewer"
            )));
        }
        let name = shown(registration.client_name.as_deref().unwrap_or_default());
        Ok(Self {
            id,
            name,
            redirect_uris,
            is_page: false,
        })
    }

    /// The page of the server of this name, which is known without being registered: so no other client can have its
    /// address.
    pub(super) fn page(issuer: &str) -> Self {
        let redirect_uri = RedirectUri::of_page(format!("{issuer}/"));
        Self {
            id: PAGE.to_owned(),
            name: PAGE_NAME.to_owned(),
            redirect_uris: redirect_uri.into_iter().collect(),
            is_page: true,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the server's own page.
    pub fn is_page(&self) -> bool {
        self.is_page
    }

    /// Where it may get codes.
    pub fn redirect_uris(&self) -> impl Iterator<Item = &str> {
        self.redirect_uris.iter().map(RedirectUri::as_str)
    }

    /// The address that it asks for, if it is one of its own. Behind another port of this machine is not our page.
    pub(super) fn redirect(&self, asked: &str) -> Option<RedirectUri> {
        if self.is_page {
            let mut own = self.redirect_uris.iter();
            return own.find(|own| own.as_str() == asked).cloned();
        }
        let uri = RedirectUri::parse(asked)?;
        let is_own = self.redirect_uris.iter().any(|own| uri.fits(own));
        is_own.then_some(uri)
    }
}

/// A name as people see it: on one line, and in the direction in which it is written.
fn shown(name: &str) -> String {
    let is_shown = |sign: &char| {
        let turns = matches!(sign, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
        !sign.is_control() && !turns
    };
    let name: String = name.chars().filter(is_shown).take(MAX_NAME).collect();
    match name.trim() {
        "" => NAMELESS.to_owned(),
        name => name.to_owned(),
    }
}

/// Registers clients, and knows them again.
#[derive(Debug)]
pub(super) struct Clients(Seal);

impl Clients {
    pub(super) fn new(seal: Seal) -> Self {
        Self(seal)
    }

    pub(super) fn register(&self, registration: &Registration) -> Result<Client, LoginError> {
        let client = Client::new(String::new(), registration)?;
        let id = self.0.seal(&Registered {
            redirect_uris: client.redirect_uris().map(str::to_owned).collect(),
            name: client.name.clone(),
        });
        Ok(Client { id, ..client })
    }

    pub(super) fn find(&self, id: &str) -> Result<Client, LoginError> {
        let registered: Registered = self.0.open(id).ok_or(LoginError::Client)?;
        let registration = Registration {
            redirect_uris: registered.redirect_uris,
            client_name: Some(registered.name),
        };
        Client::new(id.to_owned(), &registration)
    }
}
