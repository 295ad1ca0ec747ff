//! Output as its program wrote it, with stream and colours, for a client that shows it to a person.
//!
//! A client asks for it in the `_meta` of its call, next to the progress token, and gets it in the `_meta` of the
//! progress notifications, instead of a message. Both are places that MCP leaves to such agreements; clients that do
//! not ask see no difference.

use rmcp::model::{JsonObject, MetaObject, NotificationMetaObject, RequestMetaObject};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::mcp::arguments::whole;
use crate::run::ledger::LiveRun;
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
    pub(super) fn next(&mut self, run: &LiveRun) -> Option<NotificationMetaObject> {
        let kept = run.live.capture.kept();
        if kept.saturating_sub(self.offset) > MAX_LAG {
            // Skips to the latest. The client sees by the offset that something is missing, and asks for it at the end.
            self.offset = kept - MAX_BYTES;
        }
        self.take(run, false)
    }

    /// What is left when the run has ended.
    pub(super) fn rest(&mut self, run: &LiveRun) -> Option<NotificationMetaObject> {
        self.take(run, true)
    }

    fn take(&mut self, run: &LiveRun, ended: bool) -> Option<NotificationMetaObject> {
        let (offset, mut end) = (self.offset, self.offset);
        let mut read = run.live.capture.read_apart(offset, MAX_BYTES, MAX_PIECES);
        if let Some((_, last)) = read.last_mut() {
            // The end of a character may still be on its way.
            let whole = render::whole(last);
            if whole > 0 || !ended {
                last.truncate(whole);
            }
        }
        let read = read.iter().filter(|(_, bytes)| !bytes.is_empty());
        let pieces: Vec<_> = read
            .map(|(stream, bytes)| {
                end += bytes.len();
                Piece {
                    stream: stream.as_str(),
                    text: String::from_utf8_lossy(bytes).into_owned(),
                }
            })
            .collect();
        self.behind = end > offset && end < run.live.capture.kept();
        if end == offset && self.named {
            return None;
        }
        (self.offset, self.named) = (end, true);
        let output = json!({ "runId": run.id, "offset": offset, "nextOffset": end, "total": run.live.capture.kept(), "pieces": pieces });
        let mut meta = JsonObject::new();
        meta.insert(KEY.to_owned(), output);
        Some(NotificationMetaObject(MetaObject(meta)))
    }
}
