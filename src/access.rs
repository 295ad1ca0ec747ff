//! Who may call: the holder of `MCP_API_TOKEN`, and those of the tokens in `ACCESS_FILE`, each for a tenant.
//!
//! ```text
//! start ──▶ read ──▶ current ──changed and good──▶ current
//!             │       │    ▲
//!             │  bad  │    │ good again
//!             ▼       ▼    │
//!        no start    kept: what was read last counts
//!
//! A file that is gone lets nobody in, until there is one again.
//! ```

mod command;
mod edit;
mod file;
mod secret;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub use self::command::TokenCommand;
use self::file::Book;
pub use self::secret::TokenHashError;
use crate::principal::{Name, Principal};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Who may call. Clones share one state.
#[derive(Clone, Debug)]
pub struct Access(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    api_token: Option<SecretString>,
    file: Option<PathBuf>,
    state: RwLock<State>,
}

/// What counts, and which file it was read from.
#[derive(Debug, Default)]
struct State {
    book: Arc<Book>,
    seen: Option<Seen>,
    /// Whether the file could be read when it was last looked at.
    is_kept: bool,
}

/// By what a file is known to have changed. Editors and clusters replace it by another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
    /// That of the status, which also tells of its mode.
    changed: (i64, i64),
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
    /// There is no such token, or there are several.
    #[error("{0}")]
    NoToken(String),
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
        let mut state = State::default();
        if let Some(path) = &file {
            let (file, seen) = open(path).map_err(|source| AccessError::Unreadable {
                path: path.clone(),
                source,
            })?;
            state.book = Arc::new(Book::read(&file, path)?);
            state.seen = Some(seen);
        }
        Ok(Self(Arc::new(Shared {
            api_token,
            file,
            state: RwLock::new(state),
        })))
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// Nobody's, or its time is over.
    pub fn caller(&self, token: &str) -> Result<Principal, Denied> {
        let is_api_token = |expected: &SecretString| {
            let expected = expected.expose_secret().as_bytes();
            bool::from(token.as_bytes().ct_eq(expected))
        };
        if self.0.api_token.as_ref().is_some_and(is_api_token) {
            return Ok(Principal::of_token(token));
        }
        let book = Arc::clone(&self.0.state.read().book);
        match book.find(token) {
            None => Err(Denied::Unknown),
            Some(entry) if entry.is_expired() => Err(Denied::Expired(entry.name.clone())),
            Some(entry) => Ok(entry.principal.clone()),
        }
    }

    /// Whether what counts is what the file says now.
    pub fn is_current(&self) -> bool {
        !self.0.state.read().is_kept
    }

    /// Follows the file until `stop`.
    pub async fn follow(&self, stop: &CancellationToken) {
        let Some(path) = &self.0.file else {
            return;
        };
        while stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_some() {
            self.look(path);
        }
    }

    /// Reads the file again if it has changed. A bad one changes nothing but what is logged.
    fn look(&self, path: &Path) {
        let opened = open(path);
        let seen = opened.as_ref().ok().map(|(_, seen)| seen.clone());
        if self.0.state.read().seen == seen {
            return;
        }
        let book = match opened {
            Ok((file, _)) => Book::read(&file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::default()),
            Err(source) => Err(AccessError::Unreadable {
                path: path.to_owned(),
                source,
            }),
        };
        let mut state = self.0.state.write();
        state.seen = seen;
        state.is_kept = book.is_err();
        match book {
            Ok(book) => {
                info!("ACCESS_FILE has changed, and was read");
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

fn open(path: &Path) -> io::Result<(File, Seen)> {
    let file = File::open(path)?;
    let facts = file.metadata()?;
    let seen = Seen {
        inode: facts.ino(),
        size: facts.len(),
        modified: facts.modified().ok(),
        changed: (facts.ctime(), facts.ctime_nsec()),
    };
    Ok((file, seen))
}

#[cfg(test)]
mod tests;
