//! One line of the log, and the chain that lines make: each has the SHA-256 of the one before.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::event::Event;

/// What the first line of a chain has in place of a hash.
pub(super) const NOTHING_BEFORE: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

/// An event and when it happened.
#[derive(Clone, Debug)]
pub(super) struct Dated {
    pub(super) at: Timestamp,
    pub(super) event: Event,
}

impl Dated {
    pub(super) fn now(event: Event) -> Self {
        let at = Timestamp::now();
        Self { at, event }
    }
}

/// Where a chain continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The number of the next line.
    pub(super) seq: u64,
    /// The hash of the line before it.
    pub(super) prev: String,
}

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    at: String,
    #[serde(flatten)]
    event: &'a Event,
    prev: &'a str,
}

impl Chain {
    /// One without lines.
    pub(super) fn new() -> Self {
        Self {
            seq: 1,
            prev: NOTHING_BEFORE.to_owned(),
        }
    }

    /// Behind a line with this number.
    pub(super) fn after(seq: u64, line: &[u8]) -> Self {
        Self {
            seq: seq.saturating_add(1),
            prev: hash(line),
        }
    }

    /// The next line, without its newline.
    pub(super) fn append(&mut self, dated: &Dated) -> String {
        let line = Line {
            seq: self.seq,
            at: format!("{:.3}", dated.at),
            event: &dated.event,
            prev: &self.prev,
        };
        let line = serde_json::to_string(&line).expect("strings and numbers become JSON");
        *self = Self::after(self.seq, line.as_bytes());
        line
    }
}

/// What every line has, and what one has that explains another.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) event: String,
    pub(super) prev: String,
    pub(super) torn_sha256: Option<String>,
    pub(super) count: Option<u64>,
}

impl Head {
    /// `None` if it is no line of an audit log.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(line).ok()?;
        head.at.parse::<Timestamp>().ok()?;
        Some(head)
    }
}

/// What was cut off: lines that did not get to their end, one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Torn {
    hasher: Sha256,
    pub(super) bytes: u64,
}

impl Torn {
    /// One more.
    pub(super) fn add(&mut self, text: &[u8]) {
        if self.bytes > 0 {
            self.hasher.update(b"\n");
            self.bytes += 1;
        }
        self.hasher.update(text);
        self.bytes += text.len() as u64;
    }

    pub(super) fn hash(&self) -> String {
        hex::encode(self.hasher.clone().finalize())
    }

    /// What explains it.
    pub(super) fn event(&self) -> Event {
        Event::LineTorn {
            torn_sha256: self.hash(),
            bytes: self.bytes,
        }
    }
}

pub(super) fn hash(line: &[u8]) -> String {
    hex::encode(Sha256::digest(line))
}
