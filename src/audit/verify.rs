//! Checks that each line of a log follows on the one before.
//!
//! Text that is no line is explained by the line behind it, `line_torn`, which has its hash. Everything else between two
//! lines was not written by a server.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::line::{Chain, Head, NOTHING_BEFORE, Torn, hash};

/// Longest line that is read, in bytes. Those of a server are much shorter.
const LONGEST: u64 = 1 << 20;

/// What a log says that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    lines: u64,
    first: (u64, String),
    last: (u64, String),
    last_sha256: String,
    /// Lines that were cut off, as a later line says.
    torn: u64,
    /// Events that were lost, as lines say.
    lost: u64,
}

/// Why a log does not hold.
#[derive(Debug, Error)]
pub enum Broken {
    /// A file cannot be read.
    #[error("{path} cannot be read", path = path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to check.
    #[error("there is no line: name files of an audit log, the oldest first")]
    Empty,
    /// A line does not fit.
    #[error("{place}: {what}")]
    Line {
        /// Which one.
        place: Place,
        /// What was expected.
        what: String,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, line {}", self.path.display(), self.line)
    }
}

/// Checks files that follow on each other, the oldest first.
///
/// # Errors
/// The first line that does not fit.
pub(super) fn verify(paths: &[PathBuf]) -> Result<Verified, Broken> {
    let mut check = Check::default();
    for path in paths {
        read(path, &mut check)?;
    }
    check.end()
}

fn read(path: &Path, check: &mut Check) -> Result<(), Broken> {
    let unreadable = |source| Broken::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let limited = &mut (&mut file).take(LONGEST);
        if limited.read_until(b'\n', &mut text).map_err(unreadable)? == 0 {
            break;
        }
        let path = path.to_owned();
        let whole = text.strip_suffix(b"\n").unwrap_or(&text);
        check.line(Place { path, line }, whole)?;
    }
    Ok(())
}

/// What is known of the lines so far.
#[derive(Debug, Default)]
struct Check {
    /// Where the next line has to follow on; `None` before the first.
    chain: Option<Chain>,
    /// Text that is still to be explained, and where it begins.
    torn: Option<(Torn, Place)>,
    found: Option<Verified>,
}

impl Check {
    fn line(&mut self, place: Place, line: &[u8]) -> Result<(), Broken> {
        let Some(head) = Head::parse(line) else {
            let (torn, _) = self.torn.get_or_insert_with(|| (Torn::default(), place));
            torn.add(line);
            return Ok(());
        };
        self.explain(&head, &place)?;
        self.follow(&head, &place)?;
        self.chain = Some(Chain::after(head.seq, line));
        self.note(head, line);
        Ok(())
    }

    /// Checks that a line explains what was cut off before it, and nothing else.
    fn explain(&mut self, head: &Head, place: &Place) -> Result<(), Broken> {
        match (self.torn.take(), &head.torn_sha256) {
            (None, None) => Ok(()),
            // It was in a file that is not given.
            (None, Some(_)) if self.chain.is_none() && head.seq > 1 => Ok(()),
            (None, Some(_)) => Err(broken(
                place,
                "it explains text that was cut off before it, and there is none",
            )),
            (Some((torn, _)), Some(sha256)) if torn.hash() == *sha256 => Ok(()),
            (Some((torn, place)), Some(sha256)) => {
                let found = torn.hash();
                let what = format!(
                    "expected text with the SHA-256 {sha256}, which the line behind it has, found {found}"
                );
                Err(broken(&place, &what))
            }
            (Some((_, place)), None) => Err(broken(&place, "expected a line of an audit log")),
        }
    }

    /// Checks that a line has the number and the hash that follow on the one before.
    fn follow(&self, head: &Head, place: &Place) -> Result<(), Broken> {
        let (seq, prev) = match &self.chain {
            Some(chain) => (chain.seq, chain.prev.as_str()),
            None if head.seq == 1 => (1, NOTHING_BEFORE),
            None => return Ok(()),
        };
        if head.seq != seq {
            let what = format!("expected seq {seq}, found {}", head.seq);
            return Err(broken(place, &what));
        }
        if head.prev != prev {
            let what = format!(
                "expected prev {prev}, the SHA-256 of the line before, found {}: that line was changed, or this one",
                head.prev
            );
            return Err(broken(place, &what));
        }
        Ok(())
    }

    fn note(&mut self, head: Head, line: &[u8]) {
        let last = (head.seq, head.at);
        let found = self.found.get_or_insert_with(|| Verified {
            lines: 0,
            first: last.clone(),
            last: last.clone(),
            last_sha256: String::new(),
            torn: 0,
            lost: 0,
        });
        found.lines += 1;
        found.last = last;
        found.last_sha256 = hash(line);
        found.torn += u64::from(head.torn_sha256.is_some());
        if head.event == "events_lost" {
            found.lost += head.count.unwrap_or_default();
        }
    }

    fn end(self) -> Result<Verified, Broken> {
        if let Some((_, place)) = self.torn {
            return Err(broken(
                &place,
                "expected a line of an audit log: if it was cut off, the next start of the server explains it",
            ));
        }
        self.found.ok_or(Broken::Empty)
    }
}

fn broken(place: &Place, what: &str) -> Broken {
    Broken::Line {
        place: place.clone(),
        what: what.to_owned(),
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((first, begin), (last, end)) = (&self.first, &self.last);
        writeln!(
            formatter,
            "{} lines, each follows on the one before: seq {first} to {last}, {begin} to {end}",
            self.lines
        )?;
        if *first > 1 {
            writeln!(formatter, "what was before seq {first} was not checked")?;
        }
        if self.torn > 0 {
            writeln!(formatter, "cut off and explained: {}", self.torn)?;
        }
        if self.lost > 0 {
            writeln!(formatter, "events that could not be written: {}", self.lost)?;
        }
        write!(formatter, "SHA-256 of the last line: {}", self.last_sha256)
    }
}

#[cfg(test)]
mod tests;
