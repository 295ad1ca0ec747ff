//! A run as a stream of lines of JSON (NDJSON), from its first output to its outcome.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::DropGuard;
use utoipa::ToSchema;

use super::ApiError;
use crate::api::code::Code;
use crate::api::outcome::RunOutcome;
use crate::api::pictures;
use crate::executor::Stream;
use crate::http::HttpState;
use crate::ledger::{Fed, OutputFeed, RunHandle};
use crate::run::outcome::{Rendered, RunResult};
use crate::run::{render, traceback};

/// Bytes of output that are read at a time.
const MAX_BYTES: usize = 16 << 10;
/// How often a silent program shows that it is alive: proxies cut silent connections.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long what looks like the traceback of a program's end may wait for that end.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// What went wrong in the program.
    Error {
        /// What was wrong.
        error: String,
        /// The lines of its traceback, if there is one. They are not told as text too.
        traceback: Vec<String>,
        /// For a run that could not begin: why. Then no result follows.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        code: Option<Code>,
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
    run: Arc<RunHandle>,
    state: HttpState,
    output: OutputFeed,
    /// The beginning of a character whose rest has not arrived yet, for each stream.
    begun: [Vec<u8>; 2],
    /// The end of standard error from where a traceback may begin, and when it is told as text if the run goes on.
    held: Option<(String, Instant)>,
    ready: VecDeque<Event>,
    /// When the last line was sent.
    last: Instant,
    done: bool,
    /// A client that goes away ends the run.
    _guard: DropGuard,
}

impl Feed {
    pub(super) fn new(run: Arc<RunHandle>, state: HttpState) -> Self {
        Self {
            output: OutputFeed::of(Arc::clone(&run), MAX_BYTES, Duration::ZERO),
            _guard: run.cancel_on_drop(),
            run,
            state,
            begun: Default::default(),
            held: None,
            ready: VecDeque::new(),
            last: Instant::now(),
            done: false,
        }
    }

    /// The next line, with its line break.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let event = self.event().await?;
        // Strings and numbers always become JSON.
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        Some(line.into())
    }

    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = Instant::now();
                return Some(event);
            }
            if self.done {
                return None;
            }
            let patience = self.patience();
            tokio::select! {
                next = self.output.next() => match next {
                    Fed::Printed(pieces) => self.take(pieces),
                    Fed::Ended(result) => self.end(&result).await,
                },
                () = sleep_until(patience), if self.held.is_some() => self.let_go(),
                () = sleep_until(self.last + HEARTBEAT) => self.push(Stream::Stdout, String::new()),
            }
        }
    }

    async fn end(&mut self, result: &RunResult) {
        self.flush();
        match result.as_ref() {
            Ok(rendered) => self.conclude(rendered).await,
            Err(error) => {
                let sessions = &self.state.0.sessions;
                sessions.take_back(&self.run.owner, &self.run.conversation);
                self.ready.push_back(refused(error.into()));
            }
        }
        self.done = true;
    }

    /// Takes new output.
    fn take(&mut self, pieces: Vec<(Stream, Vec<u8>)>) {
        for (stream, bytes) in pieces {
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
        if stream == Stream::Stderr {
            self.push_errors(text);
        } else {
            self.queue(stream, text);
        }
    }

    /// Holds back what may be the traceback of the program's end, which is told as its error.
    fn push_errors(&mut self, mut text: String) {
        if let Some((held, _)) = &mut self.held {
            held.push_str(&text);
            // No traceback is as long.
            if held.len() > MAX_BYTES {
                self.let_go();
            }
        } else if let Some(begin) = traceback::begin(&text) {
            let rest = text.split_off(begin);
            self.held = Some((rest, Instant::now() + PATIENCE));
            if !text.is_empty() {
                self.queue(Stream::Stderr, text);
            }
        } else {
            self.queue(Stream::Stderr, text);
        }
    }

    /// When what is held back is told after all.
    fn patience(&self) -> Instant {
        self.held.as_ref().map_or(self.last, |(_, until)| *until)
    }

    /// Tells what was held back: it was no end.
    fn let_go(&mut self) {
        if let Some((text, _)) = self.held.take() {
            self.queue(Stream::Stderr, text);
        }
    }

    fn queue(&mut self, stream: Stream, text: String) {
        let stream = stream.as_str();
        self.ready.push_back(Event::Text { text, stream });
    }

    async fn conclude(&mut self, rendered: &Rendered) {
        let outcome = RunOutcome::ended(&self.run, rendered);
        let error = if outcome.success {
            self.let_go();
            None
        } else {
            // Next to long output, there would be no room for a traceback.
            Some(self.error(&RunOutcome::apart(&self.run, rendered).await))
        };
        let new: Vec<_> = outcome.files.iter().filter(|file| file.new).collect();
        let (files, id) = (&self.state.0.services.files, &self.run.conversation);
        let pictures = pictures::of_run(files, id, outcome.status, &new).await;
        let notes = pictures.scaled();
        for (_, shown) in pictures.shown {
            self.ready.push_back(Event::Image {
                image: shown.data,
                format: shown.mime_type.trim_start_matches("image/"),
            });
        }
        self.ready.extend(error);
        self.ready.push_back(Event::Result {
            result: Box::new(SessionOutcome {
                session_id: outcome.conversation_id.clone(),
                outcome: RunOutcome { notes, ..outcome },
            }),
        });
    }
}

impl Feed {
    /// What went wrong in a program: its last words if it ended by itself, or else why it was stopped. What is held
    /// back becomes its traceback, or is told if it is none.
    fn error(&mut self, outcome: &RunOutcome) -> Event {
        let held = self.held.take().map(|(text, _)| text);
        let own = outcome.exit_code.is_some();
        // When a program is stopped, a traceback that was told before is not that of its end.
        let stderr = if own { &*outcome.stderr } else { "" };
        let text = held.clone().unwrap_or_else(|| stderr.to_owned());
        let lines: Vec<_> = text.trim_end().lines().collect();
        let (last, mut traceback) = traceback::last_words(&lines);
        if let Some(held) = held {
            if own || !traceback.is_empty() {
                // With those that it was caused by.
                traceback = &lines;
            } else {
                self.queue(Stream::Stderr, held);
            }
        }
        let hint = outcome.hint.as_deref();
        let error = last.filter(|_| own).or(hint);
        Event::Error {
            error: error.unwrap_or("the program did not end well").to_owned(),
            traceback: traceback.iter().map(|line| (*line).to_owned()).collect(),
            code: None,
        }
    }

    /// Everything until the end of the run, by kind.
    ///
    /// # Errors
    /// The run could not begin.
    pub(super) async fn collect(mut self) -> Result<Collected, ApiError> {
        let mut collected = Collected::default();
        while let Some(event) = self.event().await {
            match event {
                Event::Text { text, .. } if text.is_empty() => {}
                Event::Text { text, .. } => collected.texts.push(text),
                Event::Image { image, .. } => collected.images.push(image),
                Event::Error {
                    error,
                    traceback,
                    code: None,
                } => collected.errors.push(Failed { error, traceback }),
                Event::Error {
                    error,
                    code: Some(code),
                    ..
                } => return Err(ApiError::new(code, error)),
                Event::Result { result } => collected.result = Some(result),
            }
        }
        Ok(collected)
    }
}

/// All that came of a run.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Collected {
    /// What it printed, in pieces.
    texts: Vec<String>,
    /// Pictures that it made, in base64.
    images: Vec<String>,
    /// What went wrong in it.
    errors: Vec<Failed>,
    /// How it ended, and in which session.
    result: Option<Box<SessionOutcome>>,
}

/// What went wrong in a program.
#[derive(Debug, Serialize, ToSchema)]
struct Failed {
    /// What was wrong.
    error: String,
    /// The lines of its traceback, if there is one.
    traceback: Vec<String>,
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
        code: Some(error.code),
    }
}
