//! Looks for secrets in what hosts answer, in the forms in which they can come back, and puts placeholders in their
//! place. What is put there is as long as what it replaces, so lengths that were announced stay true.

use std::fmt;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};
use bytes::Bytes;
use secrecy::ExposeSecret as _;

use super::forms::forms;
use crate::secrets::BoundSecret;

/// In place of a form that the placeholder has in another length.
const MASK: u8 = b'*';
/// No form has a byte below this one.
const FIRST_IN_FORMS: u8 = b' ';

/// The forms of some secrets, and what is to be in their place.
pub(in crate::egress) struct Search {
    forms: AhoCorasick,
    lower_case: AhoCorasick,
    replacements: Vec<Vec<u8>>,
    longest: usize,
}

/// Without the forms, from which the secrets could be read.
impl fmt::Debug for Search {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Search")
    }
}

impl Search {
    /// For these secrets.
    ///
    /// # Errors
    /// They are too many, or too long.
    pub(in crate::egress) fn new(secrets: &[BoundSecret]) -> Result<Self, BuildError> {
        let (mut needles, mut replacements) = (Vec::new(), Vec::new());
        for secret in secrets {
            let value = forms(secret.value.expose_secret());
            let placeholder = forms(&secret.placeholder);
            for (needle, fitting) in value.into_iter().zip(placeholder) {
                if needles.contains(&needle) {
                    continue;
                }
                let replacement = if needle.len() == fitting.len() {
                    fitting.into_bytes()
                } else {
                    vec![MASK; needle.len()]
                };
                needles.push(needle);
                replacements.push(replacement);
            }
        }
        let lower_case = needles.iter().map(|needle| needle.to_ascii_lowercase());
        Ok(Self {
            forms: automaton(&needles)?,
            lower_case: automaton(lower_case)?,
            longest: needles.iter().map(String::len).max().unwrap_or(0),
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
        self.lower_case.is_match(text)
    }

    /// How many bytes at the end wait for what comes next, since they could be the beginning of something. Whether they
    /// are makes no difference: programs see where an answer is cut, and could guess a secret from that bit by bit.
    fn held_back(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let end = &bytes[bytes.len() - most..];
        let ended = end.iter().rposition(|byte| *byte < FIRST_IN_FORMS);
        ended.map_or(most, |at| most - at - 1)
    }
}

/// With little memory for each state: secrets may be long.
fn automaton(
    needles: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<AhoCorasick, BuildError> {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .match_kind(MatchKind::LeftmostLongest)
        .build(needles)
}

/// A search in what comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Stream {
    held: Vec<u8>,
}

impl Stream {
    /// Takes a piece, and returns what can be passed on, and whether something was found.
    pub(super) fn push(&mut self, search: &Search, piece: &[u8]) -> (Bytes, bool) {
        self.held.extend_from_slice(piece);
        let found = search.replace(&mut self.held);
        let ready = self.held.len() - search.held_back(&self.held);
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
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
            Search::new(&[secret(r#"ghp_0123/456"89+abcd"#, "ghp_aaaaaaaaaaaaaaaa")]).unwrap();
        let texts = [
            r#"x ghp_0123/456"89+abcd y"#,
            r#"{"a":"ghp_0123/456\"89+abcd"}"#,
            r#"{"a":"ghp_0123\/456\"89+abcd"}"#,
            "a=ghp_0123%2F456%2289%2Babcd&b",
            "a=ghp_0123%2f456%2289%2babcd&b",
            r#"{"a":"ghp_0123/456\u002289\u002Babcd"}"#,
            "<p>ghp_0123/456&quot;89+abcd</p>",
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
        {"a":"******************************"}
        <p>*************************</p>
        6768705f61616161616161616161616161616161
        two ghp_aaaaaaaaaaaaaaaaghp_aaaaaaaaaaaaaaaa
        ghp_0123/456
        "#);
        assert!(search.is_in_lower_case("x-ghp_0123/456\"89+abcd"));
    }

    /// A program that has a host say its guesses must not see which of them is right.
    #[test]
    fn a_guess_is_cut_like_any_other_text() {
        let search =
            Search::new(&[secret("ghp_0123456789abcdef", "ghp_pppppppppppppppp")]).unwrap();
        let cuts = |guess: &str| {
            let mut stream = Stream::default();
            let text = format!("{}\n{guess}", "x".repeat(200));
            let mut cuts: Vec<_> = text
                .as_bytes()
                .chunks(7)
                .map(|piece| stream.push(&search, piece).0.len())
                .collect();
            cuts.push(stream.finish().len());
            cuts
        };
        for length in 1..20 {
            assert_eq!(
                cuts(&"ghp_0123456789abcdef"[..length]),
                cuts(&"x".repeat(length))
            );
        }
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
            let search = Search::new(&[secret(&value, &placeholder)]).unwrap();
            let whole = [&before[..], value.as_bytes(), &after].concat();
            let base64 = STANDARD_NO_PAD.encode(&whole);
            let escaped = base64.replace('/', r"\/");
            let encoded = base64.replace('/', "%2F").replace('+', "%2b").replace("%2b", "%2B");
            for text in [whole.clone(), base64.into(), escaped.into(), encoded.into(), URL_SAFE_NO_PAD.encode(&whole).into()] {
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
                for form in forms(&value) {
                    prop_assert!(!shown.contains(&form), "{} has {}", shown, form);
                }
            }
        }

        /// What has nothing of it comes through as it is, and none of it is kept for long.
        #[test]
        fn the_rest_comes_through_as_it_is(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9)) {
            let search = Search::new(&[secret("0123456789abcdef", "pppppppppppppppp")]).unwrap();
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
