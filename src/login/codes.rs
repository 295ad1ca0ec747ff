//! Codes that a browser brings to a client: each counts once, and for a minute.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::client::fingerprint;
use super::grants::GrantId;
use super::{Exchange, LoginError};
use crate::access::TokenHash;
use crate::recent::{Bounds, Recent};
use crate::scope::Scopes;

const BOUNDS: Bounds = Bounds {
    age: Duration::from_mins(1),
    count: 1000,
    bytes: usize::MAX,
};

/// What somebody has agreed to.
#[derive(Clone, Debug)]
pub(super) struct Approval {
    /// Whose code it is, as a fingerprint.
    pub(super) client: String,
    /// Where it was sent.
    pub(super) redirect_uri: String,
    /// The hash of what only that client knows (RFC 7636).
    pub(super) challenge: String,
    /// The address that the tokens will be for.
    pub(super) resource: String,
    /// What the client asked for.
    pub(super) scopes: Scopes,
    /// What was pasted.
    pub(super) token: TokenHash,
}

impl Approval {
    /// Whether a code is exchanged by whoever asked for it.
    pub(super) fn check(&self, exchange: &Exchange) -> Result<(), LoginError> {
        if self.client != fingerprint(&exchange.client_id) {
            return Err(LoginError::grant("the code is another client's"));
        }
        if self.redirect_uri != exchange.redirect_uri {
            return Err(LoginError::grant(
                "`redirect_uri` is not the one that the code was sent to",
            ));
        }
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&exchange.verifier));
        if bool::from(hash.as_bytes().ct_eq(self.challenge.as_bytes())) {
            Ok(())
        } else {
            Err(LoginError::grant(
                "`code_verifier` is not that of `code_challenge`",
            ))
        }
    }
}

/// What became of a code.
#[derive(Debug)]
enum Code {
    Fresh(Approval),
    /// It was exchanged for this.
    Used(GrantId),
}

/// What a code gives.
#[derive(Debug)]
pub(super) enum Spent {
    First(Approval),
    /// It gave this before.
    Again(GrantId),
    Unknown,
}

/// The codes of the last minute, by their hashes.
#[derive(Debug)]
pub(super) struct Codes(Mutex<Recent<[u8; 32], Code>>);

impl Default for Codes {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(BOUNDS)))
    }
}

impl Codes {
    pub(super) fn issue(&self, approval: Approval) -> String {
        let code = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let fresh = Code::Fresh(approval);
        self.0.lock().insert(hash(&code), fresh, 0);
        code
    }

    /// Takes a code, in exchange for the grant of this id.
    pub(super) fn spend(&self, code: &str, id: &GrantId) -> Spent {
        let mut codes = self.0.lock();
        match codes.get_mut(&hash(code)) {
            None => Spent::Unknown,
            Some(code) => match std::mem::replace(code, Code::Used(id.clone())) {
                Code::Fresh(approval) => Spent::First(approval),
                Code::Used(earlier) => {
                    *code = Code::Used(earlier.clone());
                    Spent::Again(earlier)
                }
            },
        }
    }
}

fn hash(code: &str) -> [u8; 32] {
    Sha256::digest(code).into()
}
