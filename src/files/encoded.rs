//! Files in base64, in the forms in which callers write it: with line breaks, in the alphabet of URLs, without padding
//! at its end, or as a `data:` URI. Pure.

use std::borrow::Cow;

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};

use super::FilesError;

/// Padding is of no use where a text ends with its data, and many programs leave it out.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// What a `data:` URI begins with, and the end of its header when its data are base64.
const DATA: &str = "data:";
const BASE64: &str = ";base64";

/// The same in the standard alphabet and nothing else.
///
/// # Errors
/// A `data:` URI whose data are not base64.
pub(super) fn standard(content: &str) -> Result<Cow<'_, str>, FilesError> {
    let content = data_of(content)?;
    let differs = |c: char| c.is_ascii_whitespace() || matches!(c, '-' | '_');
    if !content.contains(differs) {
        return Ok(Cow::Borrowed(content));
    }
    let packed = content.chars().filter(|c| !c.is_ascii_whitespace());
    let standard = packed.map(|c| match c {
        '-' => '+',
        '_' => '/',
        c => c,
    });
    Ok(Cow::Owned(standard.collect()))
}

pub(super) fn decode(content: &str) -> Result<Vec<u8>, FilesError> {
    ENGINE.decode(content).map_err(FilesError::Base64)
}

/// What follows the header of a `data:` URI (RFC 2397). Base64 has no colon, so nothing else begins like one.
fn data_of(content: &str) -> Result<&str, FilesError> {
    let begins = |text: &str, with: &str| {
        let start = text.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    let uri = content.trim_start();
    if !begins(uri, DATA) {
        return Ok(content);
    }
    let (header, data) = uri.split_once(',').ok_or(FilesError::DataUri)?;
    let ending = header.trim_end().len().checked_sub(BASE64.len());
    let is_base64 = ending
        .and_then(|at| header.get(at..))
        .is_some_and(|end| begins(end, BASE64));
    is_base64.then_some(data).ok_or(FilesError::DataUri)
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;

    fn decoded(content: &str) -> Result<Vec<u8>, String> {
        let standard = standard(content).map_err(|error| error.to_string())?;
        decode(&standard).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_an_empty_file() {
        for content in ["", "\n", "data:;base64,", "data:text/plain;base64,\n"] {
            assert_eq!(decoded(content), Ok(Vec::new()), "{content:?}");
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for content in [
            "data:text/plain,hello",
            "data:;base64",
            "data:text/plain",
            "a,b\n1,2",
            "x",
            "YQ===",
            "Y=Q=",
            "ümlaut",
            "datä:",
        ] {
            assert!(decoded(content).is_err(), "{content:?}");
        }
    }

    proptest! {
        #[test]
        fn every_form_is_the_same_file(bytes: Vec<u8>, line in 1_usize..20) {
            let plain = STANDARD.encode(&bytes);
            let lines: Vec<_> = plain.as_bytes().chunks(line).map(String::from_utf8_lossy).collect();
            for form in [
                lines.join("\r\n"),
                STANDARD_NO_PAD.encode(&bytes),
                URL_SAFE.encode(&bytes),
                URL_SAFE_NO_PAD.encode(&bytes),
                format!("data:text/csv;charset=utf-8;base64,{plain}"),
                format!(" DATA:;BASE64,{plain}"),
                plain,
            ] {
                prop_assert_eq!(decoded(&form), Ok(bytes.clone()), "{}", form);
            }
        }

        #[test]
        fn any_text_has_an_answer(content in "(data:)?\\PC{0,20}(;base64)?,?\\PC{0,20}") {
            let _ = decoded(&content);
        }
    }
}
