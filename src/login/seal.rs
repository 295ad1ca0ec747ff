//! Texts that nobody else can make: what they say, and a signature of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// Bytes of a signature.
const SIGNATURE: usize = 32;
/// Longer texts are not looked at.
const MAX_BYTES: usize = 8 << 10;

/// Makes and opens texts of one purpose.
pub(super) struct Seal {
    key: Hmac<Sha256>,
    prefix: &'static str,
}

impl Seal {
    /// With a key of its own for each purpose, so that a text of one counts for nothing as another.
    pub(super) fn new(secret: &SecretString, purpose: &str, prefix: &'static str) -> Self {
        let key = mac(secret.expose_secret().as_bytes())
            .chain_update("login\0")
            .chain_update(purpose);
        Self {
            key: mac(&key.finalize().into_bytes()),
            prefix,
        }
    }

    pub(super) fn seal(&self, content: &impl Serialize) -> String {
        let mut bytes = serde_json::to_vec(content).expect("texts and numbers have a form");
        let signature = self.key.clone().chain_update(&bytes).finalize();
        bytes.extend(signature.into_bytes());
        format!("{}{}", self.prefix, URL_SAFE_NO_PAD.encode(bytes))
    }

    /// What a text says, if it was made here.
    pub(super) fn open<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let encoded = text.strip_prefix(self.prefix)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (content, signature) = bytes.split_at_checked(bytes.len().checked_sub(SIGNATURE)?)?;
        let expected = self.key.clone().chain_update(content);
        expected.verify_slice(signature).ok()?;
        serde_json::from_slice(content).ok()
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes secrets of any length")
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seal(purpose: &str) -> Seal {
        let secret = SecretString::from("c0ffee5a9d1b48e7a2f36c8d04be917f");
        Seal::new(&secret, purpose, "mcs_")
    }

    proptest! {
        #[test]
        fn a_text_opens_to_what_was_sealed(content in ".*") {
            let text = seal("access").seal(&content);
            prop_assert!(!text.contains('.'));
            prop_assert_eq!(seal("access").open::<String>(&text), Some(content));
        }

        #[test]
        fn a_text_of_another_purpose_does_not_open(content in ".*") {
            prop_assert_eq!(seal("refresh").open::<String>(&seal("access").seal(&content)), None);
        }

        #[test]
        fn an_altered_text_does_not_open(content in ".{0,20}", at in any::<prop::sample::Index>(), sign in "[A-Za-z0-9_.=-]") {
            let text = seal("access").seal(&content);
            let at = at.index(text.len());
            let altered = format!("{}{sign}{}", &text[..at], &text[at + 1..]);
            prop_assume!(altered != text);
            prop_assert_eq!(seal("access").open::<String>(&altered), None);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(mcs_)?.*") {
            prop_assert_eq!(seal("access").open::<String>(&text), None);
        }
    }
}
