//! The form of tokens that the server makes, and what is kept of them.

use std::str::FromStr;

use rand::RngExt as _;
use rand::distr::Alphanumeric;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// What tokens begin with, by which scanners for secrets know them.
pub(super) const PREFIX: &str = "mcs_";
/// Letters and digits after it, some 256 bits.
const LENGTH: usize = 43;
/// Digits of a hash that people tell tokens apart by.
const ID_DIGITS: usize = 8;

/// A new token.
pub(super) fn mint() -> String {
    let random = rand::rng().sample_iter(Alphanumeric);
    let random: String = random.take(LENGTH).map(char::from).collect();
    format!("{PREFIX}{random}")
}

/// All that is kept of a token. Its own randomness makes a plain hash enough: there is nothing to guess from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

/// The error for a string that is no hash.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a hash is 64 hexadecimal digits")]
pub struct TokenHashError;

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// The digits that lists show.
    pub(super) fn id(self) -> String {
        let mut digits = self.to_string();
        digits.truncate(ID_DIGITS);
        digits
    }
}

impl FromStr for TokenHash {
    type Err = TokenHashError;

    fn from_str(digits: &str) -> Result<Self, Self::Err> {
        let mut hash = [0; 32];
        hex::decode_to_slice(digits.trim(), &mut hash).map_err(|_| TokenHashError)?;
        Ok(Self(hash))
    }
}

impl TryFrom<String> for TokenHash {
    type Error = TokenHashError;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        digits.parse()
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hash.to_string()
    }
}

impl std::fmt::Display for TokenHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}
