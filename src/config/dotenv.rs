//! Reads a `.env`, the file that fills in what the environment does not set.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use thiserror::Error;

/// What some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Values by name, which may be secret.
pub(super) type Settings = BTreeMap<String, SecretString>;

/// Why the settings of a file could not be read. It never includes what is in the file, since that may be a secret.
#[derive(Debug, Error)]
pub enum DotenvError {
    /// The file cannot be read, or is not text.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A line is not a setting.
    #[error(
        "line {line} of {} is no setting: it must be NAME=value, with a value that has spaces or signs in single \
         quotes",
        .path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1 on.
        line: usize,
    },
}

/// Reads the settings of a file, by name. A missing file has none, and neither has a directory.
///
/// # Errors
/// The file cannot be read, or a line of it is not a setting.
pub(super) fn read(path: &Path) -> Result<Settings, DotenvError> {
    use io::ErrorKind::{IsADirectory, NotFound};
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), NotFound | IsADirectory) => {
            return Ok(Settings::new());
        }
        Err(source) => {
            return Err(DotenvError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    parse(&text).map_err(|line| DotenvError::Line {
        path: path.to_owned(),
        line,
    })
}

/// The settings of a text, or the number of the first line that is not one.
fn parse(text: &str) -> Result<Settings, usize> {
    // To dotenvy, a last line with trailing spaces is unfinished unless it ends with a newline.
    let text = format!("{}\n", text.trim_start_matches(BYTE_ORDER_MARK));
    let read = Cell::new(0);
    let lines = Lines {
        rest: text.as_bytes(),
        read: &read,
    };
    let settings = dotenvy::from_read_iter(lines).map(|setting| {
        let (name, value) = setting.map_err(|error| first_line(&error, read.get()))?;
        Ok((name, SecretString::from(value)))
    });
    // If a name is repeated, the last value stays.
    settings.collect()
}

/// The line on which the text of an error begins; it ends with the last line that was read.
fn first_line(error: &dotenvy::Error, last: usize) -> usize {
    let lines = match error {
        dotenvy::Error::LineParse(text, _) => text.lines().count(),
        _ => 1,
    };
    last + 1 - lines.clamp(1, last.max(1))
}

/// Hands out one line at a time, so that it is known which one is being parsed: dotenvy does not say.
struct Lines<'a> {
    rest: &'a [u8],
    read: &'a Cell<usize>,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.rest.len(), |end| end + 1).min(buffer.len());
        let (piece, rest) = self.rest.split_at(length);
        buffer[..length].copy_from_slice(piece);
        self.rest = rest;
        self.read
            .set(self.read.get() + usize::from(piece.ends_with(b"\n")));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_line_that_is_no_setting_is_known_by_its_number() {
        for (text, line) in [
            ("TITLE=My App", 1),
            ("# one\n\nA=x\nTITLE=My App\nB=y", 4),
            ("nothing\n", 1),
            ("\n=x", 2),
            ("A='one\ntwo'\nB=a b\n", 3),
            ("A=x\nB='never\nclosed\n", 2),
            ("A=x\nB='two\nlines' more\n", 2),
            (&format!("A={}\nB=a b", "x".repeat(20_000)), 2),
        ] {
            assert_eq!(parse(text).unwrap_err(), line, "{text:?}");
        }
    }

    #[test]
    fn what_editors_and_shells_write_is_understood() {
        let text = "\u{feff}A=x\r\n# B=1\nexport C='two words' # why\nD=\nE=x  ";
        let settings = parse(text).unwrap();
        let shown = settings.iter();
        let shown = shown.map(|(name, value)| format!("{name}={}", value.expose_secret()));
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r"
        A=x
        C=two words
        D=
        E=x
        ");
    }

    proptest! {
        #[test]
        fn any_text_has_settings_or_a_line_that_is_none(text in "(\\PC|[-='\"\\\\$#{}A \n\r]){0,64}") {
            if let Err(line) = parse(&text) {
                prop_assert!((1..=text.lines().count() + 1).contains(&line), "{line}");
            }
        }
    }
}
