//! Addresses under which the world reads a conversation's files: `{base}/files/{key}/{path}`.
//!
//! A key is secret enough for most uses (256 bits that nobody can guess), so plain links are the default and never
//! expire. With a time to live, each link carries an expiry and a signature, and nothing is served without them.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use sha2::Sha256;
use utoipa::ToSchema;

use crate::conversation::ConversationKey;
use crate::workspace::path::RelativePath;

/// All characters except those that never mean anything in an address (RFC 3986, "unreserved").
pub(crate) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A file of the conversation.
#[derive(Clone, Debug, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileLink {
    /// Its name, with directories below `/data`.
    pub name: String,
    /// Where anyone who has this address can download it.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// Its type by its name.
    pub mime_type: String,
    /// Whether this run made or changed it.
    pub new: bool,
}

/// Makes links to files and checks them.
#[derive(Clone, Debug)]
pub struct FileLinks {
    base: String,
    signing: Option<(Duration, SecretString)>,
}

impl FileLinks {
    /// Links below `base`, which is `PUBLIC_BASE_URL`; with `signing`, they are valid for that long.
    pub fn new(base: impl Into<String>, signing: Option<(Duration, SecretString)>) -> Self {
        let base = base.into().trim_end_matches('/').to_owned();
        Self { base, signing }
    }

    /// Where the file `path` of a conversation can be downloaded from `now` on.
    pub fn url(&self, key: &ConversationKey, path: &RelativePath, now: SystemTime) -> String {
        let mut url = self.base_for(key);
        for part in path.parts() {
            url.push('/');
            url.extend(utf8_percent_encode(part, ENCODED));
        }
        if let Some((ttl, secret)) = &self.signing {
            let expiry = seconds(now).saturating_add(ttl.as_secs());
            let signature =
                hex::encode(signature(secret, key, path, expiry).finalize().into_bytes());
            // Writing to a string never fails.
            let _ = write!(url, "?exp={expiry}&sig={signature}");
        }
        url
    }

    /// What all links of a conversation begin with, without a slash at the end. Programs know it as `FILE_BASE_URL`.
    ///
    /// A link that a program makes from it carries no signature, so it only works while links are not signed.
    pub fn base_for(&self, key: &ConversationKey) -> String {
        format!("{}/files/{key}", self.base)
    }

    /// Whether the `query` of a link (everything after its `?`) allows reading the file `now`.
    ///
    /// Always true when links are not signed. The signature is compared in constant time.
    pub fn verify(
        &self,
        key: &ConversationKey,
        path: &RelativePath,
        query: &str,
        now: SystemTime,
    ) -> bool {
        let Some((_, secret)) = &self.signing else {
            return true;
        };
        let value = |name| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        let expiry = value("exp").and_then(|expiry| expiry.parse::<u64>().ok());
        let (Some(expiry), Some(Ok(given))) = (expiry, value("sig").map(hex::decode)) else {
            return false;
        };
        seconds(now) < expiry
            && signature(secret, key, path, expiry)
                .verify_slice(&given)
                .is_ok()
    }
}

/// The signature of one file until one time. NUL is the separator, since neither a key nor a path contains it.
fn signature(
    secret: &SecretString,
    key: &ConversationKey,
    path: &RelativePath,
    expiry: u64,
) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes())
        .expect("HMAC takes secrets of any length")
        .chain_update(key.as_str())
        .chain_update([0])
        .chain_update(path.as_str())
        .chain_update([0])
        .chain_update(expiry.to_string())
}

/// Whole seconds since 1970; 0 for clocks before that.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn key() -> ConversationKey {
        "0123456789abcdef".repeat(4).parse().unwrap()
    }

    fn path(name: &str) -> RelativePath {
        RelativePath::parse(name).unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn signed() -> FileLinks {
        let secret = SecretString::from("0123456789abcdef0123456789abcdef");
        FileLinks::new(
            "https://files.example/",
            Some((Duration::from_hours(1), secret)),
        )
    }

    fn query_of(url: &str) -> &str {
        url.split_once('?').unwrap().1
    }

    #[test]
    fn names_are_encoded_part_by_part() {
        let links = FileLinks::new("https://files.example", None);
        insta::assert_snapshot!(links.url(&key(), &path("sub dir/100%?#é\n.csv"), at(NOW)), @"https://files.example/files/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/sub%20dir/100%25%3F%23%C3%A9%0A.csv");
        insta::assert_snapshot!(links.base_for(&key()), @"https://files.example/files/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
        assert!(links.verify(&key(), &path("any"), "", at(NOW)));
    }

    #[test]
    fn a_signed_link_carries_expiry_and_signature() {
        // printf '%s\0a.csv\0001800003600' $KEY | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        insta::assert_snapshot!(query_of(&signed().url(&key(), &path("a.csv"), at(NOW))), @"exp=1800003600&sig=4dde8682933bbac26eadbef86b2bd3ae5794bddd25e25fd091b56dde54ac790f");
    }

    #[test]
    fn a_signature_is_good_for_its_file_until_its_expiry() {
        let links = signed();
        let url = links.url(&key(), &path("a.csv"), at(NOW));
        let query = query_of(&url);
        assert!(links.verify(&key(), &path("a.csv"), query, at(NOW + 3_599)));
        assert!(!links.verify(&key(), &path("a.csv"), query, at(NOW + 3_600)));
        assert!(!links.verify(&key(), &path("b.csv"), query, at(NOW)));
        let other = "f".repeat(64).parse().unwrap();
        assert!(!links.verify(&other, &path("a.csv"), query, at(NOW)));
        let later = query.replace("exp=1800003600", "exp=1900003600");
        assert!(!links.verify(&key(), &path("a.csv"), &later, at(NOW)));
    }

    #[test]
    fn links_without_a_whole_signature_are_refused() {
        for query in [
            "",
            "exp=1800003600",
            "sig=00",
            "exp=1800003600&sig=",
            "exp=x&sig=00",
            "exp=1800003600&sig=zz",
        ] {
            assert!(
                !signed().verify(&key(), &path("a.csv"), query, at(NOW)),
                "{query}"
            );
        }
    }

    proptest! {
        #[test]
        fn an_encoded_name_decodes_to_itself(name in "(\\PC|[/.\n%?#]){1,40}") {
            if let Ok(path) = RelativePath::parse(&name) {
                let links = FileLinks::new("http://h", None);
                let url = links.url(&key(), &path, at(NOW));
                let encoded = url.strip_prefix(&links.base_for(&key())).unwrap();
                let decoded: Vec<_> = encoded[1..].split('/').map(|part| percent_decode_str(part).decode_utf8().unwrap()).collect();
                prop_assert_eq!(decoded, path.parts().collect::<Vec<_>>());
                prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%/".contains(&byte)));
            }
        }
    }
}
