//! What a cell shows, as records among its output: `\x1e`, the mark of the cell, JSON, `\x1e` (runners/PROTOCOL.md,
//! section 6). Programs that call tools write them, too: they have the one kind that no kernel has.
//!
//! A program can write such a record too, and lies about its own output then.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::capture::whole_characters;

/// The variable in which a kernel is told the mark of a cell.
pub(crate) const VARIABLE: &str = "SANDBOX_RECORDS";
/// What a record begins and ends with.
const EDGE: u8 = 0x1e;

/// What the records of one cell begin with, so that no output is taken for one by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMark([u8; 16]);

impl RecordMark {
    /// One that nothing has contained before.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for RecordMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

/// The media types of what is shown. A program makes up no others.
const KINDS: [&str; 12] = [
    "text/plain",
    "text/html",
    "text/markdown",
    "text/latex",
    "application/json",
    "application/javascript",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
];
/// Most files of one thing that is shown: each is read whole.
const MAX_FILES: usize = 2;

/// The forms of one thing that is shown, by their media types.
pub type Forms = BTreeMap<String, Form>;

/// One form of what is shown.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Form {
    /// Itself: a text, or for JSON anything.
    Data(Value),
    /// A file of this name below `/data`.
    File(String),
}

/// What a kernel says of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Record {
    /// Something is shown.
    Display(Forms),
    /// The value of the last expression is this.
    Result(Forms),
    /// An error, whose traceback comes next.
    Error {
        /// Its class.
        name: String,
        /// What it says.
        value: String,
    },
    /// The traceback is over.
    ErrorEnd(bool),
    /// The program calls for something of its client's, and says in this file of `/data` for what.
    Call(String),
}

impl Record {
    /// Without forms that nobody knows, and without files that are no pictures or too many.
    fn within_limits(mut self) -> Self {
        if let Self::Display(forms) | Self::Result(forms) = &mut self {
            let mut files = 0;
            forms.retain(|kind, form| {
                if !KINDS.contains(&&**kind) {
                    return false;
                }
                match form {
                    Form::Data(_) => true,
                    Form::File(_) if kind.starts_with("image/") => {
                        files += 1;
                        files <= MAX_FILES
                    }
                    Form::File(_) => false,
                }
            });
        }
        self
    }
}

/// A part of one stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What the program printed.
    Text(String),
    /// What its kernel says.
    Record(Record),
}

/// Tells the parts of one stream from each other while it comes.
#[derive(Debug)]
pub(crate) struct RecordReader {
    opening: Vec<u8>,
    /// What may be the beginning of a record, or of a character.
    held: Vec<u8>,
    /// How much of a record that has begun was looked through for its end.
    looked: usize,
}

impl RecordReader {
    pub(crate) fn new(mark: RecordMark) -> Self {
        let mut opening = vec![EDGE];
        opening.extend(mark.to_string().into_bytes());
        Self {
            opening,
            held: Vec::new(),
            looked: 0,
        }
    }

    /// The parts that are complete with these bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.held.extend_from_slice(bytes);
        // One that is long comes in many pieces, each of which is looked at once.
        if self.looked > 0 && memchr::memchr(EDGE, &self.held[self.looked..]).is_none() {
            self.looked = self.held.len();
            return Vec::new();
        }
        let mut parts = Vec::new();
        let mut rest = &self.held[..];
        while let Some((before, record, after)) = self.split(rest) {
            push_text(&mut parts, before);
            match serde_json::from_slice::<Record>(record) {
                Ok(record) => parts.push(Part::Record(record.within_limits())),
                Err(_) => push_text(&mut parts, &rest[before.len()..rest.len() - after.len()]),
            }
            rest = after;
        }
        let (text, held) = rest.split_at(self.certain(rest));
        push_text(&mut parts, text);
        let has_begun = held.starts_with(&self.opening);
        self.looked = if has_begun { held.len() } else { 0 };
        self.held = held.to_vec();
        parts
    }

    /// What is left when nothing more comes. A record that was cut off is nothing that anybody wants to read.
    pub(crate) fn finish(&mut self) -> Option<Part> {
        let held = std::mem::take(&mut self.held);
        let is_cut = held.starts_with(&self.opening);
        (!held.is_empty() && !is_cut)
            .then(|| Part::Text(String::from_utf8_lossy(&held).into_owned()))
    }

    /// What is before the first whole record, what is in it, and what is after it.
    fn split<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8], &'a [u8])> {
        let start = memchr::memmem::find(bytes, &self.opening)?;
        let inside = start + self.opening.len();
        let end = inside + memchr::memchr(EDGE, &bytes[inside..])?;
        Some((&bytes[..start], &bytes[inside..end], &bytes[end + 1..]))
    }

    /// How much of this is text, whatever comes next.
    fn certain(&self, bytes: &[u8]) -> usize {
        if let Some(start) = memchr::memmem::find(bytes, &self.opening) {
            return start;
        }
        let tail = bytes.len().saturating_sub(self.opening.len() - 1);
        let begun = (tail..bytes.len()).find(|at| self.opening.starts_with(&bytes[*at..]));
        begun.unwrap_or_else(|| whole_characters(bytes))
    }
}

fn push_text(parts: &mut Vec<Part>, text: &[u8]) {
    if text.is_empty() {
        return;
    }
    let text = String::from_utf8_lossy(text);
    match parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(&text),
        _ => parts.push(Part::Text(text.into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const MARK: RecordMark = RecordMark([7; 16]);

    fn all(chunks: &[&[u8]]) -> Vec<Part> {
        let mut reader = RecordReader::new(MARK);
        let mut parts: Vec<_> = chunks.iter().flat_map(|bytes| reader.read(bytes)).collect();
        parts.extend(reader.finish());
        parts.into_iter().fold(Vec::new(), |mut merged, part| {
            match (merged.last_mut(), part) {
                (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
                (_, part) => merged.push(part),
            }
            merged
        })
    }

    fn stream() -> String {
        format!(
            "é\n\x1e{MARK}{{\"result\":{{\"text/plain\":{{\"data\":\"2\"}},\"image/png\":{{\"file\":\"figure-1.png\"}}}}}}\x1e\
             \x1e07 is text\x1e{MARK}{{\"error\":{{\"name\":\"E\",\"value\":\"v\"}}}}\x1etrace\x1e{MARK}{{\"errorEnd\":true}}\x1e\
             \x1e{MARK}no record\x1eü\x1e{MARK}{{\"cut"
        )
    }

    #[test]
    fn records_are_told_from_text() {
        let forms = Forms::from([
            ("text/plain".to_owned(), Form::Data("2".into())),
            ("image/png".to_owned(), Form::File("figure-1.png".into())),
        ]);
        let text = |text: &str| Part::Text(text.to_owned());
        let expected = [
            text("é\n"),
            Part::Record(Record::Result(forms)),
            text("\x1e07 is text"),
            Part::Record(Record::Error {
                name: "E".into(),
                value: "v".into(),
            }),
            text("trace"),
            Part::Record(Record::ErrorEnd(true)),
            Part::Text(format!("\x1e{MARK}no record\x1eü")),
        ];
        assert_eq!(all(&[stream().as_bytes()]), expected);
    }

    #[test]
    fn a_record_has_few_forms_whatever_a_program_writes() {
        let forms: BTreeMap<_, _> = (0..1000)
            .map(|number| (format!("x/{number}"), json!({ "file": "f" })))
            .chain(KINDS.map(|kind| (kind.to_owned(), json!({ "file": "f" }))))
            .collect();
        let record = json!({ "display": forms });
        let parts = all(&[format!("\x1e{MARK}{record}\x1e").as_bytes()]);
        let file = || Form::File("f".to_owned());
        let kept = Forms::from([
            ("image/gif".to_owned(), file()),
            ("image/jpeg".to_owned(), file()),
        ]);
        assert_eq!(parts, [Part::Record(Record::Display(kept))]);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_a_stream_is_cut(cuts in proptest::collection::vec(0_usize..260, 0..6)) {
            let stream = stream();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(all(&chunks), all(&[bytes]));
        }
    }
}
