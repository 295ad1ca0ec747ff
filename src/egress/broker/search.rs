//! Looks for secrets in what hosts answer, in the forms in which they can come back, and puts placeholders in their
//! place. What is put there is as long as what it replaces, so lengths that were announced stay true.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use secrecy::{ExposeSecret as _, SecretSlice};

use crate::secrets::BoundSecret;

/// What is left as it is in addresses (RFC 3986, 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// In place of a form that the placeholder has in another length.
const MASK: u8 = b'*';

/// The forms of some secrets, and what is to be in their place.
#[derive(Debug)]
pub(super) struct Search {
    forms: AhoCorasick,
    needles: Vec<SecretSlice<u8>>,
    replacements: Vec<Vec<u8>>,
    longest: usize,
}

impl Search {
    /// For these secrets.
    ///
    /// # Errors
    /// They are too many, or too long.
    pub(super) fn new<'a>(
        secrets: impl IntoIterator<Item = &'a BoundSecret>,
    ) -> Result<Self, BuildError> {
        let (mut needles, mut replacements) = (Vec::new(), Vec::new());
        for secret in secrets {
            let value = forms(secret.value.expose_secret().as_bytes());
            let placeholder = forms(secret.placeholder.as_bytes());
            for (needle, fitting) in value.into_iter().zip(placeholder) {
                let replacement = if needle.len() == fitting.len() {
                    fitting
                } else {
                    vec![MASK; needle.len()]
                };
                needles.push(SecretSlice::from(needle));
                replacements.push(replacement);
            }
        }
        let patterns = needles.iter().map(|needle| needle.expose_secret());
        let forms = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns)?;
        let longest = needles.iter().map(|needle| needle.expose_secret().len());
        Ok(Self {
            longest: longest.max().unwrap_or(0),
            forms,
            needles,
            replacements,
        })
    }

    /// Replaces whatever is found, and says whether there was something.
    pub(super) fn replace(&self, bytes: &mut [u8]) -> bool {
        let found: Vec<_> = self.forms.find_iter(&*bytes).collect();
        for one in &found {
            bytes[one.range()].copy_from_slice(&self.replacements[one.pattern()]);
        }
        !found.is_empty()
    }

    /// Whether something is in a text whose case is lost.
    pub(super) fn is_in_lower_case(&self, text: &str) -> bool {
        let lower = self.needles.iter().map(|needle| needle.expose_secret());
        lower.map(<[u8]>::to_ascii_lowercase).any(|needle| {
            text.as_bytes()
                .windows(needle.len())
                .any(|part| part == needle)
        })
    }

    /// How many bytes at the end could be the beginning of something.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let is_beginning = |length: &usize| {
            let end = &bytes[bytes.len() - length..];
            let needles = self.needles.iter().map(|needle| needle.expose_secret());
            needles
                .filter(|needle| needle.len() > *length)
                .any(|needle| needle.starts_with(end))
        };
        (1..=most).rev().find(is_beginning).unwrap_or(0)
    }
}

/// A search in what comes in pieces. It holds back only what could be the beginning of something.
#[derive(Debug, Default)]
pub(super) struct Stream {
    held: Vec<u8>,
}

impl Stream {
    /// Takes a piece, and returns what can be passed on, and whether something was found.
    pub(super) fn push(&mut self, search: &Search, piece: &[u8]) -> (Bytes, bool) {
        self.held.extend_from_slice(piece);
        let found = search.replace(&mut self.held);
        let ready = self.held.len() - search.unfinished(&self.held);
        let rest = self.held.split_off(ready);
        (Bytes::from(std::mem::replace(&mut self.held, rest)), found)
    }

    /// How many bytes are held back.
    pub(super) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// What was held back, at the end.
    pub(super) fn finish(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.held))
    }
}

/// A value as it can come back, always in the same order: as it is, in JSON, in addresses, as hexadecimal digits, and
/// in base64 at each of the three places that it can begin.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(value);
    let json = serde_json::Value::from(&*text).to_string();
    let json = &json[1..json.len() - 1];
    let encoded = percent_encode(value, ENCODED).to_string();
    let mut forms = vec![
        value.to_vec(),
        json.into(),
        json.replace('/', r"\/").into(),
        encoded.to_ascii_lowercase().into(),
        encoded.into(),
        hex::encode(value).into(),
        hex::encode_upper(value).into(),
    ];
    for before in 0..3 {
        forms.extend([STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|alphabet| {
            let all = [&vec![0; before][..], value].concat();
            let end = all.len() * 8 / 6;
            // What has bits of a neighbour in it can be anything.
            let begin = (before * 8).div_ceil(6);
            alphabet.encode(all).as_bytes()[begin..end].to_vec()
        }));
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(value: &str, placeholder: &str) -> BoundSecret {
        BoundSecret {
            variable: "TOKEN".to_owned(),
            placeholder: placeholder.to_owned(),
            value: value.into(),
            hosts: Vec::new(),
            header: hyper::header::AUTHORIZATION,
            methods: Vec::new(),
            paths: Vec::new(),
        }
    }

    fn replaced(search: &Search, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        search.replace(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_value_is_found_in_all_its_forms() {
        let search =
            Search::new([&secret(r#"ghp_0123/456"89+abcd"#, "ghp_aaaaaaaaaaaaaaaa")]).unwrap();
        let texts = [
            r#"x ghp_0123/456"89+abcd y"#,
            r#"{"a":"ghp_0123/456\"89+abcd"}"#,
            r#"{"a":"ghp_0123\/456\"89+abcd"}"#,
            "a=ghp_0123%2F456%2289%2Babcd&b",
            "a=ghp_0123%2f456%2289%2babcd&b",
            &hex::encode(r#"ghp_0123/456"89+abcd"#),
            "two ghp_0123/456\"89+abcdghp_0123/456\"89+abcd",
            "ghp_0123/456",
        ];
        insta::assert_snapshot!(texts.map(|text| replaced(&search, text)).join("\n"), @r#"
        x ghp_aaaaaaaaaaaaaaaa y
        {"a":"*********************"}
        {"a":"**********************"}
        a=**************************&b
        a=**************************&b
        6768705f61616161616161616161616161616161
        two ghp_aaaaaaaaaaaaaaaaghp_aaaaaaaaaaaaaaaa
        ghp_0123/456
        "#);
        assert!(search.is_in_lower_case("x-ghp_0123/456\"89+abcd"));
    }

    proptest! {
        /// Wherever it begins in a text that is encoded, and however the answer is cut, no form of it comes through.
        #[test]
        fn no_form_comes_through(
            value in "[!-~]{16,40}",
            before in prop::collection::vec(any::<u8>(), 0..9),
            after in prop::collection::vec(any::<u8>(), 0..9),
            size in 1..50_usize,
        ) {
            let placeholder = "p".repeat(value.len());
            prop_assume!(value != placeholder);
            let search = Search::new([&secret(&value, &placeholder)]).unwrap();
            let whole = [&before[..], value.as_bytes(), &after].concat();
            for text in [whole.clone(), STANDARD_NO_PAD.encode(&whole).into(), URL_SAFE_NO_PAD.encode(&whole).into()] {
                let (mut stream, mut passed, mut found) = (Stream::default(), Vec::new(), false);
                for piece in text.chunks(size) {
                    let (ready, here) = stream.push(&search, piece);
                    passed.extend_from_slice(&ready);
                    found |= here;
                }
                passed.extend_from_slice(&stream.finish());
                prop_assert_eq!(passed.len(), text.len());
                prop_assert!(found);
                let shown = String::from_utf8_lossy(&passed).into_owned();
                for form in forms(value.as_bytes()) {
                    let form = String::from_utf8(form).unwrap();
                    prop_assert!(!shown.contains(&form), "{} has {}", shown, form);
                }
            }
        }

        /// What has nothing of it comes through as it is, and none of it is kept for long.
        #[test]
        fn the_rest_comes_through_as_it_is(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9)) {
            let search = Search::new([&secret("0123456789abcdef", "pppppppppppppppp")]).unwrap();
            let mut stream = Stream::default();
            let mut passed = Vec::new();
            for piece in &pieces {
                let (ready, found) = stream.push(&search, piece);
                prop_assert!(!found);
                passed.extend_from_slice(&ready);
                prop_assert!(stream.held.len() < search.longest);
            }
            passed.extend_from_slice(&stream.finish());
            prop_assert_eq!(passed, pieces.concat());
        }
    }
}
