//! Who is calling, and to whom they belong, as far as the server needs to know: enough to keep callers apart.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Longest name of a tenant or a token, in bytes.
pub const MAX_NAME_BYTES: usize = 32;
/// The name of the tenant to whom `MCP_API_TOKEN` belongs.
pub const DEFAULT_TENANT: &str = "default";

/// What the names of tenants begin with that are one caller of OAuth each.
pub const SUBJECT_PREFIX: &str = "u-";
/// Digits of a hash after it. Callers may have chosen what is hashed, so it takes all the room that a name has.
const SUBJECT_DIGITS: usize = MAX_NAME_BYTES - SUBJECT_PREFIX.len();

/// A caller. Two requests come from the same one when they carry the same token, or
/// tokens of the same name or subject.
#[derive(Clone)]
pub struct Principal {
    id: [u8; 32],
    tenant: Tenant,
    token: Option<Name>,
    /// By which login it came, if by one of ours. Whoever comes another way is the same caller.
    login: Option<Arc<str>>,
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.tenant, &self.token) == (&other.id, &other.tenant, &other.token)
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.id, &self.tenant, &self.token).hash(state);
    }
}

impl Principal {
    /// The holder of `MCP_API_TOKEN`, of which only the hash is kept.
    pub fn of_token(token: &str) -> Self {
        Self {
            id: Sha256::digest(token.as_bytes()).into(),
            tenant: Tenant::Default,
            token: None,
            login: None,
        }
    }

    /// The holder of a token with a name: the same one when the token is replaced by another of that name.
    pub fn named(tenant: Tenant, name: &Name) -> Self {
        let mut hasher = Sha256::new();
        for part in ["token", tenant.name(), name.as_str()] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
        Self {
            id: hasher.finalize().into(),
            tenant,
            token: Some(name.clone()),
            login: None,
        }
    }

    /// The one whom an issuer knows by this subject, whatever token and client they come with.
    pub fn of_subject(tenant: Tenant, issuer: &str, subject: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(["oauth", issuer, subject].join("\0"));
        Self {
            id: hasher.finalize().into(),
            tenant,
            token: None,
            login: None,
        }
    }

    /// The same caller, who came by a login.
    #[must_use]
    pub fn by_login(self, id: &str) -> Self {
        Self {
            login: Some(id.into()),
            ..self
        }
    }

    /// By which login it came, if by one of ours.
    pub fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    /// To whom the caller belongs.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The name of its token, if that has one.
    pub fn token_name(&self) -> Option<&Name> {
        self.token.as_ref()
    }

    /// A word for this caller that does not reveal the token.
    pub fn tag(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"tag");
        hasher.update(self.id);
        hex::encode(&hasher.finalize()[..16])
    }

    /// The caller that started this process and talks to it on standard input.
    pub fn local() -> Self {
        Self {
            id: [0; 32],
            tenant: Tenant::Default,
            token: None,
            login: None,
        }
    }
}

/// A few digits of the hash, to distinguish callers in a log.
impl fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = hex::encode(&self.id[..4]);
        write!(formatter, "Principal({}, {digits})", self.tenant.name())
    }
}

/// Whose conversations are the same when their ids are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// To whom `MCP_API_TOKEN` and whoever uses standard input belong.
    #[default]
    Default,
    /// One of `ACCESS_FILE`, or one that an issuer of access tokens knows.
    Named(Name),
}

impl Tenant {
    /// The tenant of this name.
    pub fn of(name: Name) -> Self {
        if name.as_str() == DEFAULT_TENANT {
            Self::Default
        } else {
            Self::Named(name)
        }
    }

    /// The tenant that is this caller alone.
    pub fn of_subject(issuer: &str, subject: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update([issuer, subject].join("\0"));
        let digits = hex::encode(hasher.finalize());
        Self::Named(Name(
            format!("{SUBJECT_PREFIX}{}", &digits[..SUBJECT_DIGITS]).into(),
        ))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Default => DEFAULT_TENANT,
            Self::Named(name) => name.as_str(),
        }
    }
}

/// What the operator calls a tenant or a token: 1 to 32 lower-case letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// The error for a string that is no name.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "a name is 1 to {MAX_NAME_BYTES} lower-case letters, digits and `-`, with a letter or a digit first"
)]
pub struct NameError;

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(fits)
            && !name.starts_with('-');
        if is_name {
            Ok(Self(name.into()))
        } else {
            Err(NameError)
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}
