//! The form of a JWT and its signature. What it says counts only after that.

use std::str::FromStr as _;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::claims::Claims;
use super::refusal::{Flaw, shown};

/// What access tokens call themselves, in lower case: RFC 9068, section 2.1, and those before it.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// A JWT whose form is right, and of which nothing else is known yet.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    token: &'a str,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// Who is said to have issued it.
    pub(super) issuer: String,
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Issued {
    iss: Option<Value>,
}

/// Whether a token has the three parts of a JWT.
pub(super) fn has_form(token: &str) -> bool {
    token.split('.').count() == 3
}

impl<'a> Jwt<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, Flaw> {
        let mut parts = token.split('.');
        let head: Head = part(parts.next(), "header")?;
        let typ = head.typ.as_deref().unwrap_or("JWT");
        if !TYPES.contains(&typ.to_ascii_lowercase().as_str()) {
            return Err(Flaw::Type(shown(typ)));
        }
        if head.crit.is_some() {
            return Err(Flaw::Critical);
        }
        let unknown = || Flaw::Algorithm(shown(&head.alg));
        let algorithm = Algorithm::from_str(&head.alg).map_err(|_| unknown())?;
        if [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512].contains(&algorithm) {
            return Err(unknown());
        }
        let issued: Issued = part(parts.next(), "payload")?;
        let Some(Value::String(issuer)) = issued.iss else {
            return Err(Flaw::Claim("iss".to_owned()));
        };
        Ok(Self {
            token,
            algorithm,
            key_id: head.kid,
            issuer,
        })
    }

    /// What it says, if its issuer has signed that with the key, and it is the time for it.
    pub(super) fn verified(&self, key: &DecodingKey) -> Result<Claims, Flaw> {
        let mut validation = Validation::new(self.algorithm);
        validation.validate_nbf = true;
        // Audiences are compared as addresses are.
        validation.validate_aud = false;
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        match decode(self.token, key, &validation) {
            Ok(data) => Ok(Claims(data.claims)),
            Err(error) => Err(self.flaw(error.into_kind())),
        }
    }

    fn flaw(&self, error: ErrorKind) -> Flaw {
        match error {
            ErrorKind::ExpiredSignature => Flaw::Expired,
            ErrorKind::ImmatureSignature => Flaw::Early,
            ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
                Flaw::Claim(claim)
            }
            ErrorKind::InvalidIssuer => Flaw::Claim("iss".to_owned()),
            ErrorKind::InvalidAlgorithm => Flaw::Algorithm(format!("{:?}", self.algorithm)),
            ErrorKind::Json(_) | ErrorKind::Utf8(_) => Flaw::Form("payload"),
            ErrorKind::Base64(_) => Flaw::Form("signature"),
            _ => Flaw::Signature,
        }
    }
}

fn part<T: DeserializeOwned>(encoded: Option<&str>, name: &'static str) -> Result<T, Flaw> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded.unwrap_or_default());
    let bytes = bytes.map_err(|_| Flaw::Form(name))?;
    serde_json::from_slice(&bytes).map_err(|_| Flaw::Form(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_refused(token in r"\PC{0,200}", head in any::<Vec<u8>>(), payload in any::<Vec<u8>>()) {
            let _ = Jwt::parse(&token);
            let [head, payload] = [head, payload].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part));
            let token = [&*head, &*payload, ""].join(".");
            prop_assert!(Jwt::parse(&token).is_err());
        }
    }
}
