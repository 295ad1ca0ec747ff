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
use crate::run::render;

/// Bytes of output that are looked at together.
const MAX_BYTES: usize = 16 << 10;
/// Changes between the streams that are looked at together.
const MAX_PIECES: usize = 256;
/// A silent program shows that often that it lives: what stands between cuts silent connections.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How Python's tracebacks begin, and in a kernel those of its shell, with the name of the error before it.
const TRACEBACK: [&str; 2] = [
    "Traceback (most recent call last):",
    "Traceback (most recent call last)",
];
/// How those of code that is no Python begin, which have no such line.
const NO_PYTHON: [&str; 2] = ["  File \"", "  Cell In["];

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

/// What is to be sent of one run.
pub(super) struct Feed {
    run: Arc<LiveRun>,
    state: HttpState,
    seen: watch::Receiver<u64>,
    /// How much of the output was taken.
    offset: usize,
    /// Bytes that a character began with whose rest is not there yet, for each stream.
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

    /// The next line, with its end.
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
            // Asked first: all output of a run that has ended is there.
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

    /// Takes what is new.
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

    /// What never became whole.
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
        for (_, shown) in pictures.shown {
            self.ready.push_back(Event::Image {
                image: shown.data,
                format: shown.mime_type.trim_start_matches("image/"),
            });
        }
        if !outcome.success {
            // Beside long output there is no room for a traceback.
            self.ready
                .push_back(failure(&self.run.apart(outcome).await));
        }
        self.ready.push_back(Event::Result {
            result: Box::new(SessionOutcome {
                session_id: outcome.conversation_id.clone(),
                outcome: outcome.clone(),
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

/// What went wrong in a program: of one that ended by itself its last words, else why it was stopped.
fn failure(outcome: &RunOutcome) -> Event {
    let lines: Vec<_> = outcome.stderr.trim_end().lines().collect();
    let (last, traceback) = last_words(&lines);
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

/// What went wrong, and the lines of the last traceback.
fn last_words<'a, 'b>(lines: &'a [&'b str]) -> (Option<&'b str>, &'a [&'b str]) {
    if let Some(begin) = python_traceback(lines) {
        return (lines.last().copied(), &lines[begin..]);
    }
    let Some(last) = lines.iter().rposition(|line| !is_below_error(line)) else {
        return (lines.last().copied(), &[]);
    };
    let stack = &lines[last..];
    (
        stack.first().copied(),
        if stack.len() > 1 { stack } else { &[] },
    )
}

fn python_traceback(lines: &[&str]) -> Option<usize> {
    let begins = |line: &&str| TRACEBACK.iter().any(|end| line.ends_with(end));
    let no_python = |line: &&str| NO_PYTHON.iter().any(|begin| line.starts_with(begin));
    let begin = lines.iter().rposition(begins);
    let begin = begin.or_else(|| lines.iter().rposition(no_python))?;
    // A kernel's shell draws a line above.
    let is_rule = |line: &str| line.len() > 40 && line.bytes().all(|byte| byte == b'-');
    let has_rule = begin > 0 && is_rule(lines[begin - 1]);
    Some(begin - usize::from(has_rule))
}

/// What Bun prints below an error: where it was, and its own version.
fn is_below_error(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("    at ")
        || line.starts_with("      at ")
        || line.starts_with("Bun v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracebacks_are_found_however_they_begin() {
        let rule = "-".repeat(75);
        for (text, error, begin) in [
            (
                "careful\nTraceback (most recent call last):\n  File \"/tmp/main.py\", line 1\nNameError: x",
                "NameError: x",
                Some(1),
            ),
            (
                "  File \"/tmp/main.py\", line 1\n    def f(:\nSyntaxError: bad",
                "SyntaxError: bad",
                Some(0),
            ),
            (
                "  Cell In[2], line 1\n    def f(:\nSyntaxError: bad",
                "SyntaxError: bad",
                Some(0),
            ),
            (
                &format!(
                    "careful\n{rule}\nKeyError      Traceback (most recent call last)\nCell In[1], line 1\n\nKeyError: 1"
                ),
                "KeyError: 1",
                Some(1),
            ),
            (
                "A      Traceback (most recent call last)\nA: 1\n\nB      Traceback (most recent call last)\nB: 2",
                "B: 2",
                Some(3),
            ),
            (
                "TypeError: boom\n      at cell 7",
                "TypeError: boom",
                Some(0),
            ),
            (
                "1 | x\n    ^\nTypeError: boom\n      at /tmp/main.ts:1:7\n\nBun v1.3.0 (Linux x64)",
                "TypeError: boom",
                Some(2),
            ),
            ("careful\nsh: no such command", "sh: no such command", None),
        ] {
            let lines: Vec<_> = text.lines().collect();
            let traceback = begin.map_or(&[][..], |begin| &lines[begin..]);
            assert_eq!(last_words(&lines), (Some(error), traceback), "{text}");
        }
        assert_eq!(last_words(&[]), (None, &[][..]));
    }
}
