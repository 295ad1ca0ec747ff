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

    /// To whom the caller belongs.
    pub fn tenant(&self) -> Tenant {
        Tenant::Default
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

/// Whose conversations are the same when their ids are. There is one, to whom all callers belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tenant {
    /// The only one.
    #[default]
    Default,
}

/// A few digits of the hash, to distinguish callers in a log.
impl fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Principal({})", hex::encode(&self.0[..4]))
    }
}
