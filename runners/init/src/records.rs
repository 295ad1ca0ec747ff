//! Records: what PID 1 writes between the output of the programs it runs.
//!
//! ```text
//! 0x17  nonce (32 bytes)  one JSON object  0x0A
//! ```
//!
//! A record is written at once and shorter than what a pipe takes in one piece, so nothing comes between its bytes.

use serde::{Deserialize, Serialize};

use crate::Nonce;

/// A record with its marker and line end is shorter than this, the size a pipe keeps in one piece (`PIPE_BUF`).
pub const RECORD_MAX: usize = 4096;

/// The longest reason in a record. Escaped it is at most six times as long.
const REASON_MAX: usize = 512;

const MARK: u8 = 0x17;
const MARKER: usize = 1 + Nonce::LEN;

/// What PID 1 tells the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub enum Record {
    /// A run process is parked, or why there is none. Answers a `park` frame.
    Ready(Result<(), String>),
    /// The run process or the cell has ended. Answers a `run` or `cell` frame, on both streams.
    End(End),
    /// The sandbox is as good as new, or why it is not. Follows `end` when the run asked for reuse.
    Clean(Result<(), String>),
}

/// How a run ended and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Exit code or signal of the run process.
    #[serde(flatten)]
    pub status: Status,
    /// The deadline passed and everything was killed.
    pub timed_out: bool,
    /// From the frame to the end of the run process.
    pub wall_ms: u64,
    /// Processor time of the whole sandbox during the run.
    pub cpu_ms: u64,
    /// The most memory in use, when known; see the protocol for what it covers.
    pub peak_bytes: Option<u64>,
    /// Processes that the memory limit killed during the run.
    pub oom_kills: u64,
    /// Forks that the process limit refused during the run, when known.
    pub pids_denied: Option<u64>,
    /// Whether there is a kernel that waits for the next cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lives: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Status {
    /// The code a shell would give: 128 + number for a death by signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(number) => number.saturating_add(128),
        }
    }
}

/// The JSON object of a record.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clean: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<Record> for Wire {
    fn from(record: Record) -> Self {
        match record {
            Record::Ready(verdict) => Self {
                ready: Some(verdict.is_ok()),
                reason: verdict.err(),
                ..Self::default()
            },
            Record::End(end) => Self {
                end: Some(end),
                ..Self::default()
            },
            Record::Clean(verdict) => Self {
                clean: Some(verdict.is_ok()),
                reason: verdict.err(),
                ..Self::default()
            },
        }
    }
}

impl TryFrom<Wire> for Record {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        let reason = wire.reason.unwrap_or_default();
        let verdict = |yes| if yes { Ok(()) } else { Err(reason) };
        match (wire.ready, wire.end, wire.clean) {
            (Some(yes), None, None) => Ok(Self::Ready(verdict(yes))),
            (None, Some(end), None) => Ok(Self::End(end)),
            (None, None, Some(yes)) => Ok(Self::Clean(verdict(yes))),
            _ => Err("a record is one of ready, end and clean"),
        }
    }
}

/// The record as bytes to write, always shorter than [`RECORD_MAX`]: a long reason is cut.
pub fn encode_record(nonce: &Nonce, record: &Record) -> Vec<u8> {
    let mut record = record.clone();
    if let Record::Ready(Err(reason)) | Record::Clean(Err(reason)) = &mut record {
        let cut = (0..=REASON_MAX)
            .rev()
            .find(|&at| reason.is_char_boundary(at));
        reason.truncate(cut.unwrap_or(0));
    }
    let mut bytes = vec![MARK];
    bytes.extend_from_slice(nonce.as_bytes());
    // Numbers, booleans and text always have a JSON form.
    let _ = serde_json::to_writer(&mut bytes, &record);
    bytes.push(b'\n');
    bytes
}

/// What one chunk of a stream contained.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Bytes of the program, to be passed on.
    pub output: Vec<u8>,
    /// The record that followed them, if one did.
    pub record: Option<Record>,
    /// What came after the record, not scanned yet: push it again to find the next one.
    pub rest: Vec<u8>,
}

/// Finds the records of one nonce in a stream of output.
///
/// Everything else passes unchanged and at once: only what may be the beginning of a record is held back.
pub struct RecordScanner {
    marker: [u8; MARKER],
    /// Nothing, the beginning of a marker, or a marker and the beginning of its record.
    held: Vec<u8>,
}

impl RecordScanner {
    /// A scanner for the records that answer the frame with this nonce.
    pub fn new(nonce: &Nonce) -> Self {
        let mut marker = [MARK; MARKER];
        marker[1..].copy_from_slice(nonce.as_bytes());
        Self {
            marker,
            held: Vec::new(),
        }
    }

    /// Takes the next chunk of the stream, up to and including the first record in it.
    pub fn push(&mut self, chunk: &[u8]) -> Scanned {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let mut from = 0;
        while let Some(offset) = memchr::memchr(MARK, &bytes[from..]) {
            let start = from + offset;
            match self.look(&bytes[start..]) {
                Found::Nothing => from = start + 1,
                Found::Beginning => {
                    self.held = bytes.split_off(start);
                    break;
                }
                Found::Record(record, length) => {
                    let rest = bytes.split_off(start + length);
                    bytes.truncate(start);
                    return Scanned {
                        output: bytes,
                        record: Some(record),
                        rest,
                    };
                }
            }
        }
        Scanned {
            output: bytes,
            ..Scanned::default()
        }
    }

    /// Ends the stream: what was held back was not a record.
    pub fn finish(self) -> Vec<u8> {
        self.held
    }

    /// What the bytes from a mark on are.
    fn look(&self, bytes: &[u8]) -> Found {
        let known = bytes.len().min(MARKER);
        if bytes[..known] != self.marker[..known] {
            return Found::Nothing;
        }
        let line = &bytes[known..bytes.len().min(RECORD_MAX)];
        match memchr::memchr(b'\n', line) {
            Some(end) => match serde_json::from_slice(&line[..end]) {
                Ok(record) => Found::Record(record, known + end + 1),
                Err(_) => Found::Nothing,
            },
            None if bytes.len() < RECORD_MAX => Found::Beginning,
            None => Found::Nothing,
        }
    }
}

impl std::fmt::Debug for RecordScanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordScanner")
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

enum Found {
    Nothing,
    /// The beginning of a record, as far as it goes.
    Beginning,
    /// A whole record and its length.
    Record(Record, usize),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nonce() -> Nonce {
        Nonce::parse("00112233445566778899aabbccddeeff").unwrap()
    }

    fn end(status: Status) -> Record {
        Record::End(End {
            status,
            timed_out: false,
            wall_ms: 5,
            cpu_ms: 4,
            peak_bytes: Some(1 << 20),
            oom_kills: 0,
            pids_denied: None,
            lives: false,
        })
    }

    /// Pushes all chunks and everything that is left after each record.
    fn scan<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<Record>) {
        let mut scanner = RecordScanner::new(&nonce());
        let (mut output, mut records) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let mut chunk = chunk.to_vec();
            loop {
                let scanned = scanner.push(&chunk);
                output.extend(scanned.output);
                let Some(record) = scanned.record else { break };
                records.push(record);
                chunk = scanned.rest;
            }
        }
        output.extend(scanner.finish());
        (output, records)
    }

    #[test]
    fn the_wire_form_is_the_one_of_the_protocol() {
        let text = |record: &Record| serde_json::to_string(record).unwrap();
        assert_eq!(text(&Record::Ready(Ok(()))), r#"{"ready":true}"#);
        assert_eq!(
            text(&Record::Clean(Err("why".to_owned()))),
            r#"{"clean":false,"reason":"why"}"#
        );
        let rest = r#""timedOut":false,"wallMs":5,"cpuMs":4,"peakBytes":1048576,"oomKills":0,"pidsDenied":null}}"#;
        assert_eq!(
            text(&end(Status::Exit(3))),
            format!(r#"{{"end":{{"exit":3,{rest}"#)
        );
        assert_eq!(
            text(&end(Status::Signal(9))),
            format!(r#"{{"end":{{"signal":9,{rest}"#)
        );
        assert_eq!(Status::Signal(9).code(), 137);
    }

    #[test]
    fn records_are_found_between_output() {
        let mut bytes = b"a\x17b".to_vec();
        bytes.extend(encode_record(&nonce(), &end(Status::Exit(0))));
        bytes.extend_from_slice(b"left over");
        bytes.extend(encode_record(&nonce(), &Record::Clean(Ok(()))));
        let (output, records) = scan([&bytes[..]]);
        assert_eq!(output, b"a\x17bleft over");
        assert_eq!(records, [end(Status::Exit(0)), Record::Clean(Ok(()))]);
    }

    #[test]
    fn only_what_may_be_a_record_is_held_back() {
        let record = encode_record(&nonce(), &end(Status::Exit(0)));
        let mut scanner = RecordScanner::new(&nonce());
        assert_eq!(scanner.push(b"text\n").output, b"text\n");
        assert_eq!(scanner.push(b"\x17\x17001").output, b"\x17");
        assert_eq!(scanner.push(b"x").output, b"\x17001x");
        assert_eq!(scanner.push(&record[..50]), Scanned::default());
        let scanned = scanner.push(&record[50..]);
        assert_eq!(scanned.record, Some(end(Status::Exit(0))));
        assert!(scanner.finish().is_empty());
    }

    #[test]
    fn a_marker_without_a_record_is_output() {
        let mut marker = vec![MARK];
        marker.extend_from_slice(nonce().as_bytes());
        let endless = [&marker[..], &[b'x'; 2 * RECORD_MAX]].concat();
        let malformed = [&marker[..], b"{\"end\":{}}\n"].concat();
        let twice = [
            &marker[..],
            &encode_record(&nonce(), &Record::Ready(Ok(())))[..],
        ]
        .concat();
        assert_eq!(scan([&endless[..]]), (endless.clone(), vec![]));
        assert_eq!(scan([&malformed[..]]), (malformed.clone(), vec![]));
        assert_eq!(scan([&twice[..]]), (marker, vec![Record::Ready(Ok(()))]));
    }

    #[test]
    fn other_nonces_are_output() {
        let other = encode_record(&Nonce::from_random([7; 16]), &end(Status::Exit(0)));
        assert_eq!(scan([&other[..]]), (other.clone(), vec![]));
    }

    /// Output in which marks, markers and records, whole and cut, are likely.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let marker = [&[MARK], &nonce().as_bytes()[..]].concat();
        let record = encode_record(&nonce(), &end(Status::Signal(9)));
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            Just(marker),
            Just(record.clone()),
            Just(b"\n".to_vec()),
            (0..record.len()).prop_map(move |length| record[..length].to_vec()),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(bytes in output(), sizes in prop::collection::vec(1_usize..50, 1..60)) {
            let whole = scan([&bytes[..]]);
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for size in sizes {
                let (chunk, after) = rest.split_at(size.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(scan(chunks), whole);
        }

        #[test]
        fn random_bytes_pass_unharmed(bytes in prop::collection::vec(any::<u8>(), 0..2000), size in 1_usize..100) {
            prop_assert_eq!(scan(bytes.chunks(size)), (bytes, vec![]));
        }

        #[test]
        fn every_record_is_short_and_comes_back(
            reason in prop::option::of("(?s).{0,3000}"), clean: bool, code: i32, numbers: [u64; 4], oom: u64, signal: bool,
        ) {
            let verdict = reason.map_or(Ok(()), Err);
            let end = Record::End(End {
                status: if signal { Status::Signal(code) } else { Status::Exit(code) },
                timed_out: clean,
                wall_ms: numbers[0],
                cpu_ms: numbers[1],
                peak_bytes: Some(numbers[2]),
                oom_kills: oom,
                pids_denied: Some(numbers[3]),
                lives: clean,
            });
            let verdict = if clean { Record::Clean(verdict) } else { Record::Ready(verdict) };
            for record in [verdict, end] {
                let bytes = encode_record(&nonce(), &record);
                prop_assert!(bytes.len() < RECORD_MAX);
                let (output, records) = scan([&bytes[..]]);
                prop_assert!(output.is_empty());
                match (&records[0], &record) {
                    (Record::Ready(Err(cut)), Record::Ready(Err(reason)))
                    | (Record::Clean(Err(cut)), Record::Clean(Err(reason))) => {
                        prop_assert!(reason.starts_with(cut.as_str()));
                    }
                    (seen, record) => prop_assert_eq!(seen, record),
                }
            }
        }
    }
}
