//! The keys with which an issuer signs, and the one that a token is signed with.

use std::str::FromStr as _;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::refusal::{Flaw, shown};

/// Keys that are read of one issuer: more are none that anybody uses.
const MOST: usize = 64;
/// What keys of RSA are for when they do not say.
const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The keys of an issuer that its tokens can be signed with.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// What it may be used with, and nothing else: otherwise a token could choose how it is checked.
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl Keys {
    /// Reads a JWKS. Keys that are for something else, or of a kind that is not known here, are left out.
    pub(super) fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document = serde_json::from_slice(document)?;
        let keys = document.keys.into_iter().take(MOST);
        Ok(Self(keys.filter_map(Key::read).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that a token says it is signed with, or the only one if it does not say.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<&DecodingKey, Flaw> {
        let named: Vec<&Key> = match (id, self.0.as_slice()) {
            (Some(id), keys) => {
                let is_named = |key: &&Key| key.id.as_deref() == Some(id);
                keys.iter().filter(is_named).collect()
            }
            (None, [only]) => vec![only],
            (None, _) => return Err(Flaw::NoKeyId),
        };
        if named.is_empty() {
            return Err(Flaw::Key(id.map_or_else(String::new, shown)));
        }
        let fits = |key: &&&Key| key.algorithms.contains(&algorithm);
        let found = named.iter().find(fits).map(|key| &key.public);
        found.ok_or_else(|| Flaw::Algorithm(format!("{algorithm:?}")))
    }
}

impl Key {
    /// A key, if it checks signatures. One for HMAC is the secret itself: whoever reads it could sign.
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let common = &jwk.common;
        let of_kind: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &RSA,
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            _ => return None,
        };
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let algorithms = match &common.key_algorithm {
            None => of_kind.to_vec(),
            Some(own) => {
                let own = Algorithm::from_str(&own.to_string()).ok()?;
                vec![*of_kind.iter().find(|algorithm| **algorithm == own)?]
            }
        };
        Some(Self {
            public: DecodingKey::from_jwk(&jwk).ok()?,
            id: jwk.common.key_id,
            algorithms,
        })
    }
}
