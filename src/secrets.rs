//! Secrets that programs can use and not read: which there are, who may use them, and for which requests.
//!
//! ```text
//! SECRETS_FILE ─ at the start ─▶ DeclaredSecret ─ for each run that asks ─▶ BoundSecret ─▶ egress
//!                                  │    who may have it, and where             placeholder, value
//!                                  └─▶ from_file, from_env: read for each run
//! ```
//!
//! A program has a placeholder in its environment. [`crate::egress`] puts the secret in its place, in requests that its
//! rules are for, and knows nothing else of secrets than [`BoundSecret`].

mod bound;
pub mod certificates;
mod declared;
mod file;
mod placeholder;
mod rules;
mod value;

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tracing::{error, warn};

pub use self::bound::{BoundSecret, PathPattern, PathPatternError};
pub use self::declared::DeclaredSecret;
pub use self::file::SecretsFileError;
use self::placeholder::PlaceholderKey;
use crate::allow_list::{AllowList, HostName};
use crate::principal::Tenant;

/// All secrets. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    declared: Vec<Arc<DeclaredSecret>>,
    key: PlaceholderKey,
}

/// Why a run does not get the secrets that it asks for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SecretError {
    /// It may use none of this name, or there is none.
    #[error(
        "secrets: {name:?} is none that programs may use here: {}",
        granted_in_words(granted)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The variables of those that there are.
        granted: Vec<String>,
    },
    /// It leaves out all hosts that one is for.
    #[error(
        "hosts leaves out all hosts of the secret {variable}, {hosts}: add one, or leave hosts out for all of them"
    )]
    NoHost {
        /// Its variable.
        variable: String,
        /// Its hosts, in words.
        hosts: String,
    },
    /// Its value is not there, or is none. Only the log says why.
    #[error(
        "the secret {0} cannot be used now, which the server's operator has to see to: its log says why. Run without it"
    )]
    Unavailable(String),
    /// They could not be looked at.
    #[error("the server failed to read its secrets: try again, and tell its operator if it stays")]
    Failed,
}

fn granted_in_words(granted: &[String]) -> String {
    match granted {
        [] => "there are none, so leave secrets out".to_owned(),
        granted => format!("name one of {}", granted.join(", ")),
    }
}

impl Secrets {
    /// Those that a file declares; none without one. What is wrong with their values is logged: it may be mended while
    /// the server runs.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong with it.
    pub fn open(path: Option<PathBuf>) -> Result<Self, SecretsFileError> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let declared = file::read(&path)?;
        Ok(Self(Some(Arc::new(Shared {
            declared: declared.into_iter().map(Arc::new).collect(),
            key: PlaceholderKey::new(),
        }))))
    }

    /// Whether there is a file of secrets.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// All of them, in the order of the file.
    pub fn declared(&self) -> impl Iterator<Item = &Arc<DeclaredSecret>> {
        self.0.iter().flat_map(|shared| &shared.declared)
    }

    /// All hosts that they are for.
    pub fn hosts(&self) -> impl Iterator<Item = &HostName> {
        self.declared().flat_map(|secret| &secret.hosts)
    }

    /// Logs those whose values are not there now.
    pub fn warn_of_unavailable(&self) {
        for secret in self.declared() {
            if let Err(flaw) = secret.value() {
                let flaw = &flaw as &dyn std::error::Error;
                warn!(secret.name = %secret.name, error = flaw, "a secret cannot be used");
            }
        }
    }

    /// Checks that each can be used by one of its tenants at least, whose lists are what `list_of` says.
    ///
    /// # Errors
    /// A host is on none of them.
    pub fn check_hosts(
        &self,
        list_of: impl Fn(&Tenant) -> Option<Arc<AllowList>>,
    ) -> Result<(), SecretsFileError> {
        for secret in self.declared() {
            let lists: Vec<_> = secret.tenants.iter().filter_map(&list_of).collect();
            for host in &secret.hosts {
                if !lists.iter().any(|list| list.has_tls(host)) {
                    return Err(SecretsFileError::not_listed(secret, host));
                }
            }
        }
        Ok(())
    }

    /// Those that the programs of a tenant may use which reach these hosts.
    pub fn granted(&self, tenant: &Tenant, list: &AllowList) -> Vec<Arc<DeclaredSecret>> {
        let granted = self.declared().filter(|secret| {
            secret.tenants.contains(tenant) && secret.hosts_in(list).next().is_some()
        });
        granted.cloned().collect()
    }

    /// The secrets as the programs of a conversation have them that reach these hosts. Their values are read now, so
    /// it may take as long as the file system does.
    ///
    /// # Errors
    /// None of a secret's hosts is listed, or its value is not there.
    pub fn bind(
        &self,
        conversation: &str,
        secrets: &[Arc<DeclaredSecret>],
        list: &AllowList,
    ) -> Result<Arc<[BoundSecret]>, SecretError> {
        let Some(shared) = &self.0 else {
            return Ok(Arc::default());
        };
        let bind = |secret: &Arc<DeclaredSecret>| {
            let hosts: Vec<_> = secret.hosts_in(list).cloned().collect();
            if hosts.is_empty() {
                return Err(SecretError::NoHost {
                    variable: secret.variable.clone(),
                    hosts: secret.hosts_in_words(),
                });
            }
            let value = secret.value().map_err(|flaw| {
                let flaw = &flaw as &dyn std::error::Error;
                error!(secret.name = %secret.name, error = flaw, "a secret cannot be used");
                SecretError::Unavailable(secret.variable.clone())
            })?;
            Ok(secret.bound(&shared.key, conversation, value, hosts))
        };
        secrets.iter().map(bind).collect()
    }
}

/// The secrets of these variables, each once, out of those that are granted.
///
/// # Errors
/// There is none of that name among them.
pub fn chosen(
    granted: &[Arc<DeclaredSecret>],
    names: &[String],
) -> Result<Vec<Arc<DeclaredSecret>>, SecretError> {
    let is_known = |name: &String| granted.iter().any(|secret| secret.variable == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(SecretError::Unknown {
            name: unknown.chars().take(128).collect(),
            granted: granted.iter().map(|it| it.variable.clone()).collect(),
        });
    }
    let chosen = granted.iter();
    let chosen = chosen.filter(|secret| names.contains(&secret.variable));
    Ok(chosen.cloned().collect())
}
