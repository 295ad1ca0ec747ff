//! What a client asks of a person whose browser it sends here (RFC 6749, section 4.1.1; RFC 7636; RFC 8707).

use super::client::Client;
use super::redirect::RedirectUri;
use super::{LoginError, NotLetIn};
use crate::scope::Scopes;

/// Digits of a SHA-256 in base64url.
const CHALLENGE: usize = 43;

/// What a client asks, as it came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The client's id.
    pub client_id: String,
    /// Where the browser is to be sent.
    pub redirect_uri: String,
    /// What the client wants: a code.
    pub response_type: String,
    /// What it wants to have back.
    pub state: Option<String>,
    /// The hash of what only it knows.
    pub code_challenge: String,
    /// Which hash that is.
    pub code_challenge_method: String,
    /// For which address it wants a token, if it says so.
    pub resource: Vec<String>,
    /// What it wants to do, separated by spaces.
    pub scope: String,
}

/// What a client asks, when there is nothing wrong with it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Who asks.
    pub client: Client,
    /// Where the browser will be sent.
    pub redirect: RedirectUri,
    /// What the client wants to have back.
    pub state: Option<String>,
    pub(super) challenge: String,
    pub(super) resource: String,
    /// What it wants to do.
    pub scopes: Scopes,
}

impl Request {
    /// Finds what is wrong. Until it is known that the address is the client's, nobody is sent there.
    pub(super) fn check(&self, client: Client, own: &[String]) -> Result<Asked, NotLetIn> {
        let redirect = client.redirect(&self.redirect_uri).ok_or_else(|| {
            LoginError::RedirectUri(
                "`redirect_uri` is none that the client has registered, or none that may be used here"
                    .to_owned(),
            )
        })?;
        let sent_back = |error| NotLetIn::SentBack {
            error,
            redirect: Box::new(redirect.clone()),
            state: self.state.clone(),
        };
        if self.response_type != "code" {
            return Err(sent_back(LoginError::ResponseType));
        }
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_challenge =
            self.code_challenge.len() == CHALLENGE && self.code_challenge.bytes().all(is_digit);
        if self.code_challenge_method != "S256" || !is_challenge {
            return Err(sent_back(LoginError::Request(
                "`code_challenge` has to be a SHA-256 in base64url, and `code_challenge_method` S256"
                    .to_owned(),
            )));
        }
        let resource = check_resource(&self.resource, own).map_err(&sent_back)?;
        let scopes = Scopes::of_words(self.scope.split_whitespace()).unwrap_or(Scopes::ALL);
        if scopes == Scopes::NONE {
            return Err(sent_back(LoginError::Scope));
        }
        Ok(Asked {
            client,
            redirect,
            state: self.state.clone(),
            challenge: self.code_challenge.clone(),
            resource,
            scopes,
        })
    }
}

/// The address that is meant. Some clients name none (RFC 8707 lets them), and some with a slash at its end.
pub(super) fn check_resource(asked: &[String], own: &[String]) -> Result<String, LoginError> {
    let find = |asked: &String| {
        let is_it = |own: &&String| asked.trim_end_matches('/') == own.as_str();
        own.iter().find(is_it).ok_or_else(|| LoginError::Target {
            came: asked.chars().take(200).collect(),
            own: own.join(" or "),
        })
    };
    let found: Vec<_> = asked.iter().map(find).collect::<Result<_, _>>()?;
    let first = found.first().copied().or_else(|| own.first());
    Ok(first.cloned().unwrap_or_default())
}
