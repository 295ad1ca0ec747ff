//! Reads a `.env`, the file that fills in what the environment does not set.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use thiserror::Error;

use super::variables::VARIABLES;

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
    /// Some lines are not settings.
    #[error("{}", lines.iter().map(|line| line.message(path)).collect::<Vec<_>>().join("\n"))]
    Lines {
        /// The file.
        path: PathBuf,
        /// Which lines.
        lines: Vec<BadLine>,
    },
}

/// A line that is not a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which one, from 1 on.
    number: usize,
    /// The setting that it seems to be meant for.
    name: Option<&'static str>,
}

impl BadLine {
    fn message(&self, path: &Path) -> String {
        let number = self.number;
        let path = path.display();
        let value = "a value that has spaces or signs in single quotes";
        match self.name {
            Some(name) => {
                format!(
                    "{name}, line {number} of {path}, is no setting: it must be {name}=value, with {value}"
                )
            }
            None => {
                format!(
                    "line {number} of {path} is no setting: it must be NAME=value, with {value}"
                )
            }
        }
    }
}

/// Reads the settings of a file, by name, and the lines that are none. A missing file has neither, nor has a directory.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(path: &Path) -> Result<(Settings, Vec<BadLine>), DotenvError> {
    use io::ErrorKind::{IsADirectory, NotFound};
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), NotFound | IsADirectory) => {
            return Ok(Default::default());
        }
        Err(source) => {
            return Err(DotenvError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    Ok(parse(&text))
}

/// The settings of a text, and the lines that are none.
fn parse(text: &str) -> (Settings, Vec<BadLine>) {
    // To dotenvy, a last line with trailing spaces is unfinished unless it ends with a newline.
    let text = format!("{}\n", text.trim_start_matches(BYTE_ORDER_MARK));
    let read = Cell::new(0);
    let lines = Lines {
        rest: text.as_bytes(),
        read: &read,
    };
    // If a name is repeated, the last value stays.
    let (mut settings, mut bad) = (Settings::new(), Vec::new());
    for setting in dotenvy::from_read_iter(lines) {
        match setting {
            Ok((name, value)) => {
                settings.insert(name, SecretString::from(value));
            }
            Err(error) => {
                let number = first_line(&error, read.get());
                let line = text.lines().nth(number - 1);
                let name = line.and_then(meant);
                bad.push(BadLine { number, name });
            }
        }
    }
    (settings, bad)
}

/// The setting that a line begins with.
fn meant(line: &str) -> Option<&'static str> {
    let (name, _) = line.split_once('=')?;
    let name = name.trim().trim_start_matches("export ").trim();
    let ours = VARIABLES.iter().map(|variable| variable.name);
    ours.into_iter().find(|ours| *ours == name)
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
            assert_eq!(parse(text).1[0].number, line, "{text:?}");
        }
    }

    #[test]
    fn what_editors_and_shells_write_is_understood() {
        let text = "\u{feff}A=x\r\n# B=1\nexport C='two words' # why\nD=\nE=x  ";
        let (settings, bad) = parse(text);
        assert_eq!(bad, []);
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
            for BadLine { number, .. } in parse(&text).1 {
                prop_assert!((1..=text.lines().count() + 1).contains(&number), "{number}");
            }
        }
    }
}
