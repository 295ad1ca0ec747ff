//! A command as a stream of messages, from its start to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::envelope;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::executor::Stream;
use crate::ledger::{Fed, OutputFeed, RunHandle};
use crate::run::outcome::{Outcome, RunStatus};

/// Bytes of output that are read at a time.
const MAX_BYTES: usize = 16 << 10;

/// What is still to be sent of one command.
pub(super) struct Feed {
    output: OutputFeed,
    ready: VecDeque<Bytes>,
    /// When the last message was sent, and how long after that its client wants another one.
    last: Instant,
    beat: Duration,
    done: bool,
}

impl Feed {
    /// All that a command prints, from the beginning, with a sign of life at least as often as `beat`.
    pub(super) fn new(run: Arc<RunHandle>, pid: u32, beat: Duration) -> Self {
        let mut feed = Self {
            output: OutputFeed::of(run, MAX_BYTES, Duration::ZERO),
            ready: VecDeque::new(),
            last: Instant::now(),
            beat,
            done: false,
        };
        feed.push(&json!({ "start": { "pid": pid } }));
        feed
    }

    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                self.last = Instant::now();
                return Some(message);
            }
            if self.done {
                return None;
            }
            let beat = self.last + self.beat;
            match timeout_at(beat, self.output.next()).await {
                Ok(Fed::Printed(pieces)) => {
                    for (stream, bytes) in pieces {
                        self.print(stream, &bytes);
                    }
                }
                Ok(Fed::Ended(result)) => {
                    match result.as_ref() {
                        Ok(rendered) => self.conclude(&rendered.outcome),
                        Err(error) => self.ready.push_back(envelope::last(Some(&error.into()))),
                    }
                    self.done = true;
                }
                Err(_) => self.push(&json!({ "keepalive": {} })),
            }
        }
    }

    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        let data = BASE64_STANDARD.encode(bytes);
        self.push(&json!({ "data": { stream.as_str(): data } }));
    }

    fn push(&mut self, event: &Value) {
        self.ready
            .push_back(envelope::of(&json!({ "event": event })));
    }

    fn conclude(&mut self, outcome: &Outcome) {
        let captured = &outcome.captured;
        let lost = captured.stdout.dropped + captured.stderr.dropped;
        if lost > 0 {
            let note = format!("\n[sandbox] {lost} more bytes were printed than are kept\n");
            self.print(Stream::Stderr, note.as_bytes());
        }
        let hint = outcome.hint.text();
        let error = match outcome.status {
            RunStatus::Timeout => {
                let message = hint.unwrap_or_else(|| "the command took too long".to_owned());
                Some(CallError::new(Code::TooSlow, message))
            }
            RunStatus::EngineLost => {
                let message = hint.unwrap_or_else(|| "the sandbox failed".to_owned());
                Some(CallError::new(Code::Internal, message))
            }
            _ => {
                self.push(&json!({ "end": end(outcome, hint) }));
                None
            }
        };
        self.ready.push_back(envelope::last(error.as_ref()));
    }
}

/// How a command ended: by itself, or stopped.
fn end(outcome: &Outcome, hint: Option<String>) -> Value {
    match (outcome.status, outcome.exit_code) {
        (RunStatus::Ok, _) => json!({ "exitCode": 0, "exited": true, "status": "exit status 0" }),
        (RunStatus::Error, Some(code)) => {
            let status = format!("exit status {code}");
            json!({ "exitCode": code, "exited": true, "status": status, "error": status })
        }
        (RunStatus::Cancelled, _) => {
            let status = "signal: killed";
            json!({ "exitCode": -1, "exited": false, "status": status, "error": status })
        }
        (status, code) => json!({
            "exitCode": code.unwrap_or(137),
            "exited": false,
            "status": "signal: killed",
            "error": hint.unwrap_or_else(|| <&str>::from(status).to_owned()),
        }),
    }
}
