//! A run as a stream of lines of JSON (NDJSON), from its first output to its outcome.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::DropGuard;
use utoipa::ToSchema;

use super::ApiError;
use super::error::public;
use crate::executor::Stream;
use crate::http::HttpState;
use crate::mcp::pictures;
use crate::run::ledger::LiveRun;
use crate::run::outcome::RunOutcome;
use crate::run::{render, traceback};

/// Bytes of output that are read at a time.
const MAX_BYTES: usize = 16 << 10;
/// Changes between the streams that are read at a time.
const MAX_PIECES: usize = 256;
/// How often a silent program shows that it is alive: proxies cut silent connections.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// One line.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Event {
    /// What the program printed. Empty when it was silent for a while.
    Text {
        text: String,
        /// `stdout` or `stderr`.
        stream: &'static str,
    },
    /// A picture that it made.
    Image {
        /// The picture in base64.
        image: String,
        /// `png`, `jpeg`, `gif` or `webp`.
        format: &'static str,
    },
    /// What went wrong in the program, which has been told as text too.
    Error {
        /// What was wrong.
        error: String,
        /// The lines of the last traceback, if there is one.
        traceback: Vec<String>,
        /// For a run that could not begin: why. Then no result follows.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'static str>,
    },
    /// The last line.
    Result { result: Box<SessionOutcome> },
}

/// How the program ended, and in which session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionOutcome {
    /// The session: give it again to find the same files.
    session_id: String,
    #[serde(flatten)]
    outcome: RunOutcome,
}

/// What is still to be sent of one run.
pub(super) struct Feed {
    run: Arc<LiveRun>,
    state: HttpState,
    seen: watch::Receiver<u64>,
    /// How much of the output was taken.
    offset: usize,
    /// The beginning of a character whose rest has not arrived yet, for each stream.
    begun: [Vec<u8>; 2],
    ready: VecDeque<Event>,
    /// When the last line was sent.
    last: Instant,
    done: bool,
    /// A client that goes away ends the run.
    _guard: DropGuard,
}

impl Feed {
    pub(super) fn new(run: Arc<LiveRun>, state: HttpState) -> Self {
        Self {
            seen: run.live.capture.watch(),
            _guard: run.cancel_on_drop(),
            run,
            state,
            offset: 0,
            begun: Default::default(),
            ready: VecDeque::new(),
            last: Instant::now(),
            done: false,
        }
    }

    /// The next line, with its line break.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                // Strings and numbers always become JSON.
                let mut line = serde_json::to_vec(&event).unwrap_or_default();
                line.push(b'\n');
                self.last = Instant::now();
                return Some(line.into());
            }
            if self.done {
                return None;
            }
            // Checked first: once a run has ended, all of its output is there.
            let ended = self.run.result();
            self.take();
            if !self.ready.is_empty() {
                continue;
            }
            if let Some(result) = ended {
                self.flush();
                match result.as_ref() {
                    Ok(outcome) => self.conclude(outcome).await,
                    Err(error) => {
                        let sessions = &self.state.0.sessions;
                        sessions.take_back(&self.run.owner, &self.run.conversation);
                        self.ready.push_back(refused(error.into()));
                    }
                }
                self.done = true;
                continue;
            }
            tokio::select! {
                _ = self.run.ended() => {}
                _ = self.seen.changed() => {}
                () = sleep_until(self.last + HEARTBEAT) => self.push(Stream::Stdout, String::new()),
            }
        }
    }

    /// Takes new output.
    fn take(&mut self) {
        let pieces = self
            .run
            .live
            .capture
            .read_apart(self.offset, MAX_BYTES, MAX_PIECES);
        for (stream, bytes) in pieces {
            self.offset += bytes.len();
            let begun = &mut self.begun[index(stream)];
            begun.extend_from_slice(&bytes);
            let rest = begun.split_off(render::whole(begun));
            let whole = std::mem::replace(begun, rest);
            if !whole.is_empty() {
                self.push(stream, String::from_utf8_lossy(&whole).into_owned());
            }
        }
    }

    /// Takes what never became a whole character.
    fn flush(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = std::mem::take(&mut self.begun[index(stream)]);
            if !rest.is_empty() {
                self.push(stream, String::from_utf8_lossy(&rest).into_owned());
            }
        }
    }

    fn push(&mut self, stream: Stream, text: String) {
        let stream = stream.as_str();
        self.ready.push_back(Event::Text { text, stream });
    }

    async fn conclude(&mut self, outcome: &RunOutcome) {
        let new: Vec<_> = outcome.files.iter().filter(|file| file.new).collect();
        let (runs, id) = (&self.state.0.runs, &self.run.conversation);
        let pictures = pictures::of_run(runs, id, outcome.status, &new).await;
        let notes = pictures.scaled();
        for (_, shown) in pictures.shown {
            self.ready.push_back(Event::Image {
                image: shown.data,
                format: shown.mime_type.trim_start_matches("image/"),
            });
        }
        if !outcome.success {
            // Next to long output, there would be no room for a traceback.
            self.ready
                .push_back(failure(&self.run.apart(outcome).await));
        }
        self.ready.push_back(Event::Result {
            result: Box::new(SessionOutcome {
                session_id: outcome.conversation_id.clone(),
                outcome: RunOutcome {
                    notes,
                    ..outcome.clone()
                },
            }),
        });
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// A run that could not begin after all.
fn refused(ApiError(error): ApiError) -> Event {
    Event::Error {
        error: error.message,
        traceback: Vec::new(),
        code: Some(public(error.code)),
    }
}

/// What went wrong in a program: its last words if it ended by itself, or else why it was stopped.
fn failure(outcome: &RunOutcome) -> Event {
    let lines: Vec<_> = outcome.stderr.trim_end().lines().collect();
    let (last, traceback) = traceback::last_words(&lines);
    let hint = outcome.hint.as_deref();
    let last = last.filter(|_| outcome.exit_code.is_some());
    Event::Error {
        error: last
            .or(hint)
            .unwrap_or("the program did not end well")
            .to_owned(),
        traceback: traceback.iter().map(|line| (*line).to_owned()).collect(),
        code: None,
    }
}
