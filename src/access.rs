//! Who may call: the holder of `MCP_API_TOKEN`, and those of the tokens in `ACCESS_FILE`, each for a tenant. And what
//! each tenant may have of the server.
//!
//! ```text
//! start ──▶ read ──▶ current ──changed and good──▶ current
//!             │       │    ▲
//!             │  bad  │    │ good again
//!             ▼       ▼    │
//!        no start    kept: what was read last counts
//!
//! A file that is gone lets nobody in, until there is one again; the limits that it set count on.
//! ```

mod command;
mod edit;
mod file;
mod limits;
mod overview;
mod secret;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use parking_lot::RwLock;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub use self::command::TokenCommand;
use self::file::{Book, Entry};
pub use self::limits::{NetworkLimits, TenantLimits};
use self::overview::LastUse;
pub use self::overview::{KnownTenant, KnownToken};
pub use self::secret::{TokenHash, TokenHashError};
use crate::principal::{Name, Principal, Tenant};
use crate::private_file;
use crate::scope::Scopes;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who may call. Clones share one state.
#[derive(Clone, Debug)]
pub struct Access {
    shared: Arc<Shared>,
    /// Whether others vouch for callers too.
    is_beside_others: bool,
}

#[derive(Debug)]
struct Shared {
    api_token: Option<SecretString>,
    api_token_use: LastUse,
    file: Option<PathBuf>,
    state: RwLock<State>,
}

/// What counts, and what was there when it was read.
#[derive(Debug)]
struct State {
    book: Arc<Book>,
    seen: Seen,
    /// Whether what was there last could not be read.
    is_kept: bool,
}

/// What was seen of a file, by which it is known to have changed. Editors and clusters replace it by another.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    File {
        inode: u64,
        size: u64,
        modified: Option<SystemTime>,
        /// When the status was changed, which also tells of its mode.
        changed: (i64, i64),
    },
    Gone,
    Unreadable(io::ErrorKind),
}

impl Seen {
    fn of(opened: &io::Result<(File, Self)>) -> Self {
        match opened {
            Ok((_, seen)) => seen.clone(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Gone,
            Err(error) => Self::Unreadable(error.kind()),
        }
    }
}

/// Whose a token is, and what it lets them do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who has it.
    pub caller: Principal,
    /// What they may do with it.
    pub scopes: Scopes,
    /// What can be kept of it, to ask later whether it still counts.
    pub hash: TokenHash,
    /// When it expires, if ever.
    pub expires: Option<Timestamp>,
}

/// Why a caller is not let in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has that token.
    #[error("the bearer token is missing or wrong")]
    Unknown,
    /// Its time is over.
    #[error("the bearer token {0} has expired")]
    Expired(Name),
}

/// What is wrong with the file of tokens.
#[derive(Debug, Error)]
pub enum AccessError {
    /// It cannot be opened or read.
    #[error("ACCESS_FILE={path} cannot be read", path = path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("ACCESS_FILE={path} cannot be written", path = path.display())]
    Unwritable {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its owner have a right to it.
    #[error("ACCESS_FILE={path} is open to others (mode {mode:o}): run `chmod 600 {path}`", path = path.display())]
    OpenToOthers {
        /// Where it is.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// What it says is no list of tenants.
    #[error("ACCESS_FILE is not valid: {0}")]
    Form(String),
    /// No file is named.
    #[error(
        "ACCESS_FILE is not set: it names the file that tokens are kept in, such as ACCESS_FILE=access.toml"
    )]
    NoFile,
    /// A token could not be added to what the file says.
    #[error("the token could not be added to ACCESS_FILE: write its tenant as [[tenant]]")]
    NotAdded,
    /// What a command asks for cannot be done: there is no such token, there are several, or its date is none.
    #[error("{0}")]
    Refused(String),
}

impl Access {
    /// Takes one token, or those of a file, or both.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(
        api_token: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> Result<Self, AccessError> {
        let mut state = State {
            book: Arc::default(),
            seen: Seen::Gone,
            is_kept: false,
        };
        if let Some(path) = &file {
            let opened = open(path);
            state.seen = Seen::of(&opened);
            state.book = Arc::new(read(opened, path, api_token.as_ref())?);
        }
        let shared = Shared {
            api_token,
            api_token_use: LastUse::default(),
            file,
            state: RwLock::new(state),
        };
        Ok(Self {
            shared: Arc::new(shared),
            is_beside_others: false,
        })
    }

    /// Who holds a token, and what it lets them do.
    ///
    /// # Errors
    /// Nobody does, or its time is over.
    pub fn let_in(&self, token: &str) -> Result<Holder, Denied> {
        let is_api_token = |expected: &SecretString| {
            let expected = expected.expose_secret().as_bytes();
            bool::from(token.as_bytes().ct_eq(expected))
        };
        if self.shared.api_token.as_ref().is_some_and(is_api_token) {
            self.shared.api_token_use.note();
            return Ok(Holder::of_api_token(token));
        }
        let book = Arc::clone(&self.shared.state.read().book);
        let hash = TokenHash::of(token);
        let entry = book.get(&hash).filter(|_| !token.is_empty());
        let holder = allowed(entry, hash)?;
        if let Some(entry) = entry {
            entry.last_use.note();
        }
        Ok(holder)
    }

    /// Refuses a token of a setting that is in the file too: it would be two callers.
    ///
    /// # Errors
    /// It is there.
    pub fn refuse_token(&self, token: &SecretString, setting: &str) -> Result<(), AccessError> {
        let hash = TokenHash::of(token.expose_secret());
        match self.shared.state.read().book.get(&hash) {
            None => Ok(()),
            Some(entry) => Err(AccessError::Form(format!(
                "the token {} of {} is {setting}, which is another caller's: make another one with `mcp-code-sandbox token new`",
                entry.name,
                entry.principal.tenant().name()
            ))),
        }
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// Nobody's, or its time is over.
    pub fn caller(&self, token: &str) -> Result<Principal, Denied> {
        self.let_in(token).map(|holder| holder.caller)
    }

    /// Whose token has this hash: the same caller as by the token itself.
    ///
    /// # Errors
    /// Nobody's any more, or its time is over.
    pub fn holder(&self, hash: &TokenHash) -> Result<Holder, Denied> {
        let api_token = self
            .shared
            .api_token
            .as_ref()
            .map(SecretString::expose_secret);
        if let Some(token) = api_token.filter(|token| TokenHash::of(token) == *hash) {
            return Ok(Holder::of_api_token(token));
        }
        let book = Arc::clone(&self.shared.state.read().book);
        allowed(book.get(hash), *hash)
    }

    /// Whether a caller had a token of the file, and has none any more that counts.
    pub fn has_left(&self, caller: &Principal) -> bool {
        caller.token_name().is_some() && !self.shared.state.read().book.has(caller)
    }

    /// What a tenant may have of the server.
    pub fn limits(&self, tenant: &Tenant) -> Arc<TenantLimits> {
        self.shared.state.read().book.limits(tenant)
    }

    /// How many bytes the conversations of tenants may take, of those that have a limit.
    pub(crate) fn storage_limits(&self) -> Vec<(Tenant, u64)> {
        self.shared.state.read().book.storage_limits()
    }

    /// The same where others vouch for callers too, who may be tenants of their own.
    #[must_use]
    pub fn beside_others(self) -> Self {
        Self {
            is_beside_others: true,
            ..self
        }
    }

    /// Whether there may be several tenants.
    pub fn is_shared(&self) -> bool {
        self.is_beside_others || self.shared.file.is_some()
    }

    /// Whether what counts is what the file says now.
    pub fn is_current(&self) -> bool {
        !self.shared.state.read().is_kept
    }

    /// Follows the file until `stop`. One that is being written, or has just gone to come back, is left alone until it
    /// has stayed the same for a while: whoever is missing in it would lose all that they have begun.
    pub async fn follow(&self, stop: &CancellationToken) {
        let Some(path) = &self.shared.file else {
            return;
        };
        let mut before = None;
        while stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_some() {
            let seen = Some(Seen::of(&open(path)));
            if seen == before {
                self.look(path);
            }
            before = seen;
        }
    }

    /// Reads the file again if it has changed. A bad one changes nothing but what is logged.
    fn look(&self, path: &Path) {
        let opened = open(path);
        let seen = Seen::of(&opened);
        if self.shared.state.read().seen == seen {
            return;
        }
        let book = if seen == Seen::Gone {
            // Callers without a token of the file still have the limits of their tenants.
            Ok(self.shared.state.read().book.without_tokens())
        } else {
            read(opened, path, self.shared.api_token.as_ref())
        };
        let mut state = self.shared.state.write();
        state.seen = seen;
        state.is_kept = book.is_err();
        match book {
            Ok(mut book) => {
                info!("ACCESS_FILE has changed, and was read");
                book.keep_uses(&state.book);
                state.book = Arc::new(book);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                error!(
                    error,
                    "ACCESS_FILE has changed and is not usable: what was read before counts"
                );
            }
        }
    }
}

impl Holder {
    fn of_api_token(token: &str) -> Self {
        Self {
            caller: Principal::of_token(token),
            scopes: Scopes::ALL,
            hash: TokenHash::of(token),
            expires: None,
        }
    }
}

/// Whose token an entry is about, as long as it counts.
fn allowed(entry: Option<&Entry>, hash: TokenHash) -> Result<Holder, Denied> {
    match entry {
        None => Err(Denied::Unknown),
        Some(entry) if entry.is_expired() => Err(Denied::Expired(entry.name.clone())),
        Some(entry) => Ok(Holder {
            caller: entry.principal.clone(),
            scopes: entry.scopes,
            hash,
            expires: entry.expires,
        }),
    }
}

/// What an opened file says. A token that is in two places would count in one of them only.
fn read(
    opened: io::Result<(File, Seen)>,
    path: &Path,
    api_token: Option<&SecretString>,
) -> Result<Book, AccessError> {
    let (file, _) = opened.map_err(|source| AccessError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let book = Book::read(&file, path)?;
    match api_token.and_then(|token| book.find(token.expose_secret())) {
        None => Ok(book),
        Some(entry) => Err(AccessError::Form(format!(
            "the token {} of {} is MCP_API_TOKEN, which belongs to the tenant default: remove one of them",
            entry.name,
            entry.principal.tenant().name()
        ))),
    }
}

fn open(path: &Path) -> io::Result<(File, Seen)> {
    let (file, facts) = private_file::open(path)?;
    let seen = Seen::File {
        inode: facts.ino(),
        size: facts.len(),
        modified: facts.modified().ok(),
        changed: (facts.ctime(), facts.ctime_nsec()),
    };
    Ok((file, seen))
}

#[cfg(test)]
mod tests;
