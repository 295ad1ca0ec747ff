//! Who may call a server, as its settings say.

use std::io;

use super::App;
use crate::access::{Access, AccessError};
use crate::config::{Config, HttpConfig, StorageConfig};
use crate::http;
use crate::login::Login;
use crate::oauth::{Oauth, OauthError};
use crate::principal::Principal;

impl App {
    /// The holders of tokens.
    ///
    /// # Errors
    /// The file of tokens is not usable.
    pub fn access(config: &Config) -> Result<Access, AccessError> {
        let HttpConfig {
            api_token,
            access_file,
            admin_token,
            ..
        } = &config.http;
        let access = Access::open(api_token.clone(), access_file.clone())?;
        if let Some(token) = admin_token {
            access.refuse_token(token, "ADMIN_TOKEN")?;
        }
        Ok(if config.oauth.is_on() {
            access.beside_others()
        } else {
            access
        })
    }

    /// Whom others vouch for.
    ///
    /// # Errors
    /// A file that the settings name is not usable.
    pub fn oauth(config: &Config) -> Result<Option<Oauth>, OauthError> {
        Oauth::new(&config.oauth, &http::resources(&config.http))
    }

    /// What logs holders of tokens in, if it is switched on.
    pub(super) fn login(config: &Config, access: &Access) -> io::Result<Option<Login>> {
        if !config.oauth.builtin {
            return Ok(None);
        }
        let addresses = (&*config.http.public_base_url, http::resources(&config.http));
        let StorageConfig {
            file_secret, root, ..
        } = &config.storage;
        Login::open(access.clone(), addresses, file_secret, root).map(Some)
    }

    /// Whether there are tokens that come to an end: that of `MCP_API_TOKEN` does not.
    pub(super) fn can_callers_leave(&self) -> bool {
        let has_file = self.config.http.access_file.is_some();
        has_file || self.oauth.is_some() || self.login.is_some()
    }

    /// Tells whether a caller has no token any more that counts.
    pub(super) fn has_left(&self) -> impl Fn(&Principal) -> bool + Send + Sync + 'static {
        let (access, oauth, login) = (self.access.clone(), self.oauth.clone(), self.login.clone());
        move |caller| {
            access.has_left(caller)
                || oauth.as_ref().is_some_and(|oauth| oauth.has_left(caller))
                || login.as_ref().is_some_and(|login| login.has_left(caller))
        }
    }
}
