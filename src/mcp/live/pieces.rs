//! Output as its program wrote it, with stream and colours, for a client that shows it to a person.
//!
//! A client asks for it in the `_meta` of its call, next to the progress token, and gets it in the `_meta` of the
//! progress notifications, instead of a message. Both are places that MCP leaves to such agreements; clients that do
//! not ask see no difference.

use rmcp::model::{JsonObject, MetaObject, NotificationMetaObject, RequestMetaObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::arguments::whole;
use crate::executor::Stream;
use crate::ledger::RunHandle;
use crate::run::render;

/// The name of the agreement in `_meta`.
const KEY: &str = "mcp-code-sandbox/output";
/// Bytes of output in one notification.
const MAX_BYTES: usize = 16 << 10;
/// Changes between the streams in one notification.
const MAX_PIECES: usize = 500;
/// A program that is further ahead is not followed word by word while it runs.
const MAX_LAG: usize = 256 << 10;

/// What a client has been sent.
#[derive(Debug, Deserialize)]
pub(super) struct Pieces {
    /// The first byte that is still to be sent, counted over both streams. A client that knows a part asks for the
    /// rest.
    #[serde(default, deserialize_with = "whole")]
    offset: usize,
    /// Whether there is already more to send.
    #[serde(skip)]
    pub(super) behind: bool,
    /// Whether it knows the run's id, with which it can be cancelled.
    #[serde(skip)]
    named: bool,
    /// Whether it was sent how an output ended that was longer than what is kept.
    #[serde(skip)]
    complete: bool,
}

#[derive(Debug, Serialize)]
struct Piece {
    stream: &'static str,
    text: String,
}

impl Pieces {
    /// What a request asks for, if it asks for pieces.
    pub(super) fn wanted(meta: &RequestMetaObject) -> Option<Self> {
        Self::deserialize(meta.get(KEY)?).ok()
    }

    /// What is new, without an incomplete character. The first time there is always something: the run's id.
    pub(super) fn next(&mut self, run: &RunHandle) -> Option<NotificationMetaObject> {
        let kept = run.progress.capture.kept();
        if kept.saturating_sub(self.offset) > MAX_LAG {
            // Skips to the latest. The client sees by the offset that something is missing, and asks for it at the end.
            self.offset = kept - MAX_BYTES;
        }
        self.take(run, false)
    }

    /// What is left when the run has ended.
    pub(super) fn rest(&mut self, run: &RunHandle) -> Option<NotificationMetaObject> {
        self.take(run, true).or_else(|| self.tail(run))
    }

    /// The end of what is not kept, and how much is missing before it.
    fn tail(&mut self, run: &RunHandle) -> Option<NotificationMetaObject> {
        let captured = run.progress.capture.snapshot();
        let dropped = captured.stdout.dropped + captured.stderr.dropped;
        if std::mem::replace(&mut self.complete, true) || dropped == 0 {
            return None;
        }
        let tail = captured.tail();
        let sent: usize = tail.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut output = self.output(run, self.offset, &[]);
        output["leftOut"] = json!(dropped - sent as u64);
        output["tail"] = json!(pieces(&tail));
        Some(meta(output))
    }

    /// What a notification says of pieces that begin at `offset`.
    fn output(&self, run: &RunHandle, offset: usize, pieces: &[Piece]) -> Value {
        json!({ "runId": run.id, "offset": offset, "nextOffset": self.offset, "total": run.progress.capture.kept(), "pieces": pieces })
    }

    fn take(&mut self, run: &RunHandle, ended: bool) -> Option<NotificationMetaObject> {
        let offset = self.offset;
        let mut read = run
            .progress
            .capture
            .read_apart(offset, MAX_BYTES, MAX_PIECES);
        if let Some((_, last)) = read.last_mut() {
            // The end of a character may still be on its way.
            let whole = render::whole(last);
            if whole > 0 || !ended {
                last.truncate(whole);
            }
        }
        let end = offset + read.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.behind = end > offset && end < run.progress.capture.kept();
        if end == offset && self.named {
            return None;
        }
        (self.offset, self.named) = (end, true);
        Some(meta(self.output(run, offset, &pieces(&read))))
    }
}

/// Bytes with their streams as text; what is empty is left out.
fn pieces(read: &[(Stream, Vec<u8>)]) -> Vec<Piece> {
    let read = read.iter().filter(|(_, bytes)| !bytes.is_empty());
    read.map(|(stream, bytes)| Piece {
        stream: stream.as_str(),
        text: String::from_utf8_lossy(bytes).into_owned(),
    })
    .collect()
}

fn meta(output: Value) -> NotificationMetaObject {
    let mut meta = JsonObject::new();
    meta.insert(KEY.to_owned(), output);
    NotificationMetaObject(MetaObject(meta))
}
