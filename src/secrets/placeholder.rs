//! What programs find in place of a secret: as long as it is, the same for a conversation as long as the server lives and
//! the secret stays the same, and of no use to anybody else.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use sha2::Sha256;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What makes placeholders another one's than those of other servers.
pub(super) struct PlaceholderKey(SecretBox<[u8; 32]>);

impl PlaceholderKey {
    pub(super) fn new() -> Self {
        Self(SecretBox::new(Box::new(rand::random())))
    }

    /// The placeholder of a secret for a conversation, which begins with `prefix` as its value does.
    pub(super) fn placeholder(
        &self,
        conversation: &str,
        name: &str,
        value: &SecretString,
        prefix: &str,
    ) -> String {
        let value = value.expose_secret();
        let rest = value.len().saturating_sub(prefix.len());
        let mut digits = String::with_capacity(value.len());
        digits.push_str(prefix);
        let blocks = (0_u32..).flat_map(|block| self.block(block, [conversation, name, value]));
        // Those that would make some digits more likely are left out.
        let fair = blocks.filter(|byte| usize::from(*byte) < 256 - 256 % DIGITS.len());
        let chosen = fair.map(|byte| char::from(DIGITS[usize::from(byte) % DIGITS.len()]));
        digits.extend(chosen.take(rest));
        digits
    }

    fn block(&self, number: u32, parts: [&str; 3]) -> [u8; 32] {
        let key = self.0.expose_secret();
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key's");
        mac.update(&number.to_be_bytes());
        for part in parts {
            // With its length, so that no two lists of parts are the same.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for PlaceholderKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PlaceholderKey")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_that_is_different_has_another_placeholder() {
        let (key, other) = (PlaceholderKey::new(), PlaceholderKey::new());
        let of = |key: &PlaceholderKey, conversation, name, value: &str| {
            key.placeholder(conversation, name, &value.to_owned().into(), "ghp_")
        };
        let first = "ghp_0123456789abcdef";
        let all: BTreeSet<_> = [
            of(&key, "demo", "github", first),
            of(&key, "demo2", "github", first),
            of(&key, "demo", "2github", first),
            of(&key, "demo", "github", "ghp_1123456789abcdef"),
            of(&other, "demo", "github", first),
        ]
        .into();
        assert_eq!(all.len(), 5);
        assert_eq!(
            of(&key, "demo", "github", first),
            of(&key, "demo", "github", first)
        );
        let shown = format!("{key:?}");
        assert_eq!(shown, "PlaceholderKey");
    }

    proptest! {
        #[test]
        fn a_placeholder_is_as_long_as_its_secret(value in "[!-~]{16,9000}") {
            let key = PlaceholderKey::new();
            let placeholder = key.placeholder("demo", "name", &value.clone().into(), &value[..3]);
            prop_assert_eq!(placeholder.len(), value.len());
            prop_assert_eq!(&placeholder[..3], &value[..3]);
            prop_assert!(placeholder[3..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        }
    }
}
