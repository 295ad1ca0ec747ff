//! A conversation: what its client calls it, whose it is, and the key that identifies it on disk and in links.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::Rng as _;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::argument::Argument;
use crate::principal::{Name, Tenant};

/// Digits of a key.
const KEY_DIGITS: usize = 64;
/// Digits of a key of `mcp-code-runner`.
const OLDER_DIGITS: usize = 16;
/// Longest conversation id, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// A conversation id as the client wrote it: 1 to 256 bytes, compared byte by byte.
///
/// It is never trimmed or normalised, since two spellings must not share a directory.
/// `Debug` hides it: raw ids do not belong in logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ConversationId(String);

/// Why a string is not a conversation id.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConversationIdError {
    /// The id has no characters.
    #[error("{name} is empty: give the one that the conversation began with", name = Argument::ConversationId)]
    Empty,
    /// The id is longer than [`MAX_ID_BYTES`].
    #[error("{name} has {0} bytes, the limit is {MAX_ID_BYTES}: use a shorter one", name = Argument::ConversationId)]
    TooLong(usize),
    /// The id has a NUL character.
    #[error("{name} contains a NUL character: remove it", name = Argument::ConversationId)]
    Nul,
}

impl ConversationId {
    /// A new id that nobody can guess: `conv_` and 128 random bits.
    pub fn mint() -> Self {
        let mut bits = [0_u8; 16];
        rand::rng().fill_bytes(&mut bits);
        Self(format!("conv_{}", hex::encode(bits)))
    }

    /// The id as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key under `secret`: `hex(SHA256(id + secret))`.
    fn key(&self, secret: &SecretString) -> ConversationKey {
        let mut hasher = Sha256::new();
        hasher.update(self.0.as_bytes());
        hasher.update(secret.expose_secret().as_bytes());
        ConversationKey(hex::encode(hasher.finalize()))
    }
}

impl FromStr for ConversationId {
    type Err = ConversationIdError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        match id.len() {
            0 => Err(ConversationIdError::Empty),
            length if length > MAX_ID_BYTES => Err(ConversationIdError::TooLong(length)),
            _ if id.contains('\0') => Err(ConversationIdError::Nul),
            _ => Ok(Self(id.to_owned())),
        }
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ConversationId(…)")
    }
}

/// A conversation as everything behind the edges knows it: parsed once, with whose it is.
///
/// `Debug` shows the tenant and the first digits of the key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Conversation {
    tenant: Tenant,
    id: ConversationId,
    key: ConversationKey,
}

impl Conversation {
    /// The conversation that a tenant calls `id`, under the secret behind all keys.
    pub fn new(tenant: Tenant, id: ConversationId, secret: &SecretString) -> Self {
        let key = match &tenant {
            Tenant::Default => id.key(secret),
            Tenant::Named(name) => id.key(&secret_of(name, secret)),
        };
        Self { tenant, id, key }
    }

    /// Whose it is.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The id as the client wrote it.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// What identifies it on disk and in links.
    pub fn key(&self) -> &ConversationKey {
        &self.key
    }
}

/// The secret behind the keys of a tenant's conversations: another for each, and none tells of another.
fn secret_of(tenant: &Name, secret: &SecretString) -> SecretString {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC takes secrets of any length");
    mac.update(b"tenant\0");
    mac.update(tenant.as_str().as_bytes());
    hex::encode(mac.finalize().into_bytes()).into()
}

impl fmt::Debug for Conversation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Conversation({}, {}…)",
            self.tenant.name(),
            self.key.short()
        )
    }
}

/// The name of a conversation's directory and of its place under `/files/`: 64 lower-case hexadecimal digits, or the
/// first 16 of them for a directory that came from `mcp-code-runner` and that no caller has named since.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationKey(String);

/// The error for a string that is not a conversation key.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a conversation key is 64 lower-case hexadecimal digits, or the first 16 of them")]
pub struct ConversationKeyError;

impl ConversationKey {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that `mcp-code-runner` has for the conversation, unless this is one already.
    pub(crate) fn older(&self) -> Option<Self> {
        (self.0.len() == KEY_DIGITS).then(|| Self(self.0[..OLDER_DIGITS].to_owned()))
    }

    /// The first 12 digits: enough to distinguish conversations in logs and labels, too few to find the files.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl FromStr for ConversationKey {
    type Err = ConversationKeyError;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if matches!(key.len(), KEY_DIGITS | OLDER_DIGITS) && key.bytes().all(is_digit) {
            Ok(Self(key.to_owned()))
        } else {
            Err(ConversationKeyError)
        }
    }
}

impl fmt::Display for ConversationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(id: &str) -> String {
        let secret = SecretString::from("0123456789abcdef0123456789abcdef");
        id.parse::<ConversationId>()
            .unwrap()
            .key(&secret)
            .to_string()
    }

    #[test]
    fn a_key_is_the_sha256_of_id_and_secret() {
        // printf 'demo0123456789abcdef0123456789abcdef' | sha256sum
        insta::assert_snapshot!(key_of("demo"), @"e58155ab0fec49d90b93bc1442f30c74fa7c3cb5de6d3240d563d816591a88f0");
    }

    #[test]
    fn each_tenant_has_keys_of_its_own() {
        let secret = SecretString::from("0123456789abcdef0123456789abcdef");
        let key = |tenant: &str| {
            let tenant = Tenant::of(tenant.parse().unwrap());
            Conversation::new(tenant, "demo".parse().unwrap(), &secret).key
        };
        assert_eq!(key("default").to_string(), key_of("demo"));
        // SECRET=$(printf 'tenant\0research' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef -r | cut -c1-64)
        // printf "demo$SECRET" | sha256sum
        insta::assert_snapshot!(key("research"), @"d238b55b107ece91f98900acdd8d1565ca48dd77666308ad0ca5520128a7d148");
        assert_ne!(key("research"), key("sales"));
    }

    #[test]
    fn ids_are_taken_byte_by_byte() {
        assert_ne!(key_of("demo"), key_of("demo "));
        assert_ne!(key_of("\u{c5}"), key_of("A\u{30a}"));
    }

    #[test]
    fn minted_ids_differ() {
        assert_ne!(ConversationId::mint(), ConversationId::mint());
    }

    #[test]
    fn keys_are_lower_case_only() {
        assert!("A".repeat(64).parse::<ConversationKey>().is_err());
        assert!("a".repeat(64).parse::<ConversationKey>().is_ok());
        assert!("a".repeat(63).parse::<ConversationKey>().is_err());
        assert!("a".repeat(16).parse::<ConversationKey>().is_ok());
        let key: ConversationKey = "0123456789abcdef".repeat(4).parse().unwrap();
        let older = key.older().unwrap();
        assert_eq!((older.as_str(), older.older()), ("0123456789abcdef", None));
    }
}
