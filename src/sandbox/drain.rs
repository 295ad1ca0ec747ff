//! The task that owns a container's output and reads it to its end, whatever happens to those who listen.
//!
//! An engine hangs on a container whose output nobody reads, so this task is never cancelled: it ends when the
//! container does.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use sandbox_init::{End, Nonce, Record, RecordScanner};
use tokio::sync::{mpsc, oneshot};

use super::capture::Capture;
use crate::executor::{Chunk, ExecutorError, Stream};

/// A run whose output and end are waited for.
pub(super) struct Expect {
    pub(super) nonce: Nonce,
    pub(super) capture: Arc<Capture>,
    pub(super) answer: oneshot::Sender<End>,
}

/// Reads `output` to its end. Output that belongs to no expected run is dropped.
pub(super) async fn drain(
    mut output: BoxStream<'static, Result<Chunk, ExecutorError>>,
    mut expectations: mpsc::UnboundedReceiver<Expect>,
) {
    let mut listening: Option<Listening> = None;
    let mut may_expect = true;
    loop {
        tokio::select! {
            // A run is announced before its frame is sent: looking here first, its output cannot overtake it.
            biased;
            expect = expectations.recv(), if may_expect => match expect {
                Some(expect) => listening = Some(Listening::new(expect)),
                None => may_expect = false,
            },
            chunk = output.next() => match chunk {
                Some(Ok(chunk)) => listening = listening.and_then(|listening| listening.hear(chunk)),
                Some(Err(_)) | None => break,
            },
        }
    }
    // A marker that never became a record was output.
    if let Some(listening) = listening {
        listening.finish();
    }
}

/// A run in progress: what it prints, until its record was seen on both streams.
struct Listening {
    capture: Arc<Capture>,
    answer: oneshot::Sender<End>,
    /// `None` once the record was seen there.
    stdout: Option<RecordScanner>,
    stderr: Option<RecordScanner>,
    end: Option<End>,
}

impl Listening {
    fn new(expect: Expect) -> Self {
        let scanner = RecordScanner::new(&expect.nonce);
        Self {
            stdout: Some(scanner),
            stderr: Some(RecordScanner::new(&expect.nonce)),
            capture: expect.capture,
            answer: expect.answer,
            end: None,
        }
    }

    /// Takes a chunk; gives itself back as long as the run goes on.
    fn hear(mut self, chunk: Chunk) -> Option<Self> {
        let slot = match chunk.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        // After the record, leftovers speak.
        let Some(scanner) = slot else {
            return Some(self);
        };
        let scanned = scanner.push(&chunk.bytes);
        self.capture.push(&Chunk {
            stream: chunk.stream,
            bytes: Bytes::from(scanned.output),
        });
        if let Some(Record::End(end)) = scanned.record {
            *slot = None;
            // Standard output is written last and its numbers are the later ones; they are the same record.
            self.end = Some(end);
        }
        if self.stdout.is_some() || self.stderr.is_some() {
            return Some(self);
        }
        if let Some(end) = self.end.take() {
            // Nobody waits any more when the run was cancelled.
            let _ = self.answer.send(end);
        }
        None
    }

    fn finish(self) {
        for (stream, scanner) in [(Stream::Stdout, self.stdout), (Stream::Stderr, self.stderr)] {
            let rest = scanner.map(RecordScanner::finish).unwrap_or_default();
            self.capture.push(&Chunk {
                stream,
                bytes: Bytes::from(rest),
            });
        }
    }
}
