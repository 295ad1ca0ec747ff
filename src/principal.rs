//! Who is calling, as far as the server needs to know: enough to keep callers apart.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A caller. Two requests come from the same one when they carry the same token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal([u8; 32]);

impl Principal {
    /// The holder of a bearer token, of which only the hash is kept.
    pub fn of_token(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// A word for this caller that does not reveal the token.
    pub fn tag(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"tag");
        hasher.update(self.0);
        hex::encode(&hasher.finalize()[..16])
    }

    /// The caller that started this process and talks to it on standard input.
    pub fn local() -> Self {
        Self([0; 32])
    }
}

/// A few digits of the hash, to distinguish callers in a log.
impl fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Principal({})", hex::encode(&self.0[..4]))
    }
}
