//! The forms in which a value can come back: as it is, as hexadecimal digits, and in base64 at each of the three places
//! that it can begin; and each of these as it is written in JSON, in addresses and in HTML.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// What is left as it is in addresses (RFC 3986, 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The same where whole paths are written.
const PATHS: &AsciiSet = &UNRESERVED.remove(b'/');
/// The same by `encodeURIComponent`.
const COMPONENTS: &AsciiSet = &UNRESERVED
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');
/// What writers of JSON write by its number: those that think of HTML, and those that think of more.
const ESCAPED: [&str; 2] = ["<>&", "\"&'+<>`"];

/// All forms of a value, always in the same order.
pub(super) fn forms(value: &str) -> Vec<String> {
    let mut plain = vec![
        value.to_owned(),
        hex::encode(value),
        hex::encode_upper(value),
    ];
    plain.extend(in_base64(value.as_bytes()));
    plain.iter().flat_map(|text| written(text)).collect()
}

fn in_base64(value: &[u8]) -> impl Iterator<Item = String> {
    (0..3).flat_map(move |before| {
        let all = [&vec![0; before][..], value].concat();
        // What has bits of a neighbour in it can be anything.
        let (begin, end) = ((before * 8).div_ceil(6), all.len() * 8 / 6);
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
            .map(|alphabet| alphabet.encode(&all)[begin..end].to_owned())
    })
}

/// A text in the notations that it can be part of.
fn written(text: &str) -> Vec<String> {
    let json = serde_json::Value::from(text).to_string();
    let json = json[1..json.len() - 1].to_owned();
    let html = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let mut written = vec![
        text.to_owned(),
        json.replace('/', r"\/"),
        json,
        html.replace('"', "&quot;").replace('\'', "&#39;"),
        html.replace('"', "&#34;").replace('\'', "&#x27;"),
    ];
    for escaped in ESCAPED {
        written.extend([escape(text, escaped, false), escape(text, escaped, true)]);
    }
    for set in [UNRESERVED, PATHS, COMPONENTS] {
        let encoded = percent_encode(text.as_bytes(), set).to_string();
        written.extend([with_small_digits(&encoded), encoded]);
    }
    written
}

/// As a string of JSON, with some characters by their numbers.
fn escape(text: &str, escaped: &str, large_digits: bool) -> String {
    let one = |one: char| match one {
        _ if escaped.contains(one) && large_digits => format!("\\u{:04X}", u32::from(one)),
        _ if escaped.contains(one) => format!("\\u{:04x}", u32::from(one)),
        '"' | '\\' => format!("\\{one}"),
        _ => one.to_string(),
    };
    text.chars().map(one).collect()
}

/// The same with the digits after `%` in lower case.
fn with_small_digits(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (digits, rest) = part.split_at(2.min(part.len()));
        text + "%" + &digits.to_ascii_lowercase() + rest
    })
}
