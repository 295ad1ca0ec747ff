//! How a file is announced: its type by its extension, and whether browsers show or save it.

use std::time::SystemTime;

use jiff::Timestamp;
use percent_encoding::utf8_percent_encode;

use crate::links::ENCODED;

/// What a browser is told about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something of this media type that is safe to show.
    Shown(&'static str),
    /// Anything else, above all what could carry scripts: only ever saved.
    Saved,
}

impl Kind {
    /// The value of `Content-Type`.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Shown(media_type) => media_type,
            Self::Saved => "application/octet-stream",
        }
    }
}

/// The kind of a file by its name. The list is short on purpose: what is not on it cannot do harm. A PDF would be safe,
/// but browsers do not show it under the policy.
pub(super) fn kind(name: &str) -> Kind {
    let Some((_, extension)) = name.rsplit_once('.') else {
        return Kind::Saved;
    };
    Kind::Shown(match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "csv" | "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "json" => "application/json",
        _ => return Kind::Saved,
    })
}

/// The value of `Content-Disposition`: the name once in plain ASCII, for old clients, and once as it is.
pub(super) fn disposition(kind: Kind, name: &str) -> String {
    let disposition = match kind {
        Kind::Shown(_) => "inline",
        Kind::Saved => "attachment",
    };
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || " -_.()".contains(character);
    let plain: String = name
        .chars()
        .map(|character| if is_plain(character) { character } else { '_' })
        .collect();
    let encoded = utf8_percent_encode(name, ENCODED);
    format!("{disposition}; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// A time as HTTP writes it, in GMT. `None` before 1970, and after 9999 when years have more than four digits.
pub(super) fn http_date(time: SystemTime) -> Option<String> {
    // Other formatters of HTTP dates panic outside that range, and programs do set such dates.
    let time = Timestamp::try_from(time).ok()?;
    let is_usual = time.as_second() >= 0;
    is_usual.then(|| time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn active_content_is_saved() {
        for name in [
            "x.html", "x.htm", "x.xhtml", "x.svg", "x.xml", "x.xsl", "noext", "x.js", "x.mjs",
            "x.mhtml", "x.shtml", "x.wasm", "x.HTML", "x.html.", "x.swf", "x.ics", "x.bin",
            ".hidden", "png", "x.pdf",
        ] {
            assert_eq!(kind(name), Kind::Saved, "{name}");
        }
    }

    #[test]
    fn pictures_and_text_are_shown() {
        for (name, media_type) in [
            ("x.png", "image/png"),
            ("x.JPG", "image/jpeg"),
            ("x.html.csv", "text/plain; charset=utf-8"),
            ("x.md", "text/plain; charset=utf-8"),
            ("x.json", "application/json"),
            (".png", "image/png"),
        ] {
            assert_eq!(kind(name), Kind::Shown(media_type), "{name}");
        }
    }

    #[test]
    fn names_are_given_twice() {
        insta::assert_snapshot!(disposition(Kind::Saved, "a b(1).html"), @r#"attachment; filename="a b(1).html"; filename*=UTF-8''a%20b%281%29.html"#);
        insta::assert_snapshot!(disposition(Kind::Shown("image/png"), "quo\"te\\ é\r\nX: 1.png"), @r#"inline; filename="quo_te_ ___X_ 1.png"; filename*=UTF-8''quo%22te%5C%20%C3%A9%0D%0AX%3A%201.png"#);
    }

    #[test]
    fn dates_have_four_digits_or_are_left_out() {
        let at = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0).as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(
            at(784_111_777).as_deref(),
            Some("Sun, 06 Nov 1994 08:49:37 GMT")
        );
        assert_eq!(
            at(253_402_207_200).as_deref(),
            Some("Thu, 30 Dec 9999 22:00:00 GMT")
        );
        assert_eq!(at(253_402_300_800), None);
        assert_eq!(http_date(UNIX_EPOCH - Duration::from_secs(1)), None);
    }

    proptest! {
        #[test]
        fn dispositions_are_one_plain_line(name in "(\\PC|[\0-\u{1f}\"\\\\;]){0,40}") {
            let line = disposition(kind(&name), &name);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            prop_assert_eq!(line.matches('"').count(), 2);
            prop_assert!(!line.contains('\\'));
        }
    }
}
