//! What a cell of a kernel shows, piece by piece and in its order, while it runs: what it prints, the values and
//! pictures that it shows, and the error that it ended with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::RunHandle;
use super::output::{Fed, OutputFeed};
use crate::executor::Stream;
use crate::run::outcome::{Outcome, RunResult, RunStatus};
use crate::sandbox::{Forms, Part, Record, RecordMark, RecordReader};

/// What is printed is told at most this often, in larger pieces.
const GAP: Duration = Duration::from_millis(20);
/// Bytes that are looked at together.
const MAX_BYTES: usize = 256 << 10;

/// Something that happened in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellEvent {
    /// The program printed this.
    Printed(Stream, String),
    /// It shows this.
    Displayed(Forms),
    /// The value of its last expression.
    Returned(Forms),
    /// It calls for something of its client's, which this file of `/data` says.
    Called(String),
    /// It ended with this error, or could not run.
    Failed(CellFailure),
}

/// An error of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellFailure {
    /// The class of the error.
    pub name: String,
    /// What it says, whole.
    pub value: String,
    /// Where it was raised, as its kernel prints it.
    pub traceback: String,
}

/// Follows one cell. Its run must have been asked for with the mark.
#[derive(Debug)]
pub struct CellEvents {
    output: OutputFeed,
    readers: [RecordReader; 2],
    /// An error whose traceback is not complete.
    failing: Option<CellFailure>,
    has_failed: bool,
    waiting: VecDeque<CellEvent>,
    is_over: bool,
}

impl CellEvents {
    /// From the beginning of a run on.
    pub fn of(run: Arc<RunHandle>, mark: RecordMark) -> Self {
        Self {
            output: OutputFeed::of(run, MAX_BYTES, GAP),
            readers: [RecordReader::new(mark), RecordReader::new(mark)],
            failing: None,
            has_failed: false,
            waiting: VecDeque::new(),
            is_over: false,
        }
    }

    /// The next event; none when the run has ended and all was told. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<CellEvent> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            match self.output.next().await {
                Fed::Printed(pieces) => {
                    for (stream, bytes) in pieces {
                        for part in self.readers[stream as usize].read(&bytes) {
                            self.take(stream, part);
                        }
                    }
                }
                Fed::Ended(result) => self.finish(&result),
            }
        }
    }

    fn take(&mut self, stream: Stream, part: Part) {
        let event = match (part, &mut self.failing) {
            (Part::Text(text), Some(failing)) if stream == Stream::Stderr => {
                failing.traceback.push_str(&text);
                return;
            }
            (Part::Record(Record::Error { name, value }), _) => {
                self.failing = Some(CellFailure {
                    name,
                    value,
                    traceback: String::new(),
                });
                return;
            }
            (Part::Record(Record::ErrorEnd(_)), _) => return self.fail(),
            (Part::Record(Record::Display(forms)), _) => CellEvent::Displayed(forms),
            (Part::Record(Record::Result(forms)), _) => CellEvent::Returned(forms),
            (Part::Record(Record::Call(file)), _) => CellEvent::Called(file),
            (Part::Text(text), _) => CellEvent::Printed(stream, text),
        };
        self.waiting.push_back(event);
    }

    fn fail(&mut self) {
        if let Some(failure) = self.failing.take() {
            self.has_failed = true;
            self.waiting.push_back(CellEvent::Failed(failure));
        }
    }

    /// Adds what only the end shows.
    fn finish(&mut self, result: &RunResult) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(part) = self.readers[stream as usize].finish() {
                self.take(stream, part);
            }
        }
        self.fail();
        match result.as_ref() {
            Ok(rendered) => self.add_outcome(&rendered.outcome),
            Err(error) => self.waiting.push_back(CellEvent::Failed(CellFailure {
                name: "SandboxError".to_owned(),
                value: error.to_string(),
                traceback: String::new(),
            })),
        }
        self.is_over = true;
    }

    fn add_outcome(&mut self, outcome: &Outcome) {
        let dropped = outcome.captured.stdout.dropped + outcome.captured.stderr.dropped;
        let lost = (dropped > 0).then(|| format!("{dropped} bytes of output were left out."));
        let is_well = outcome.status == RunStatus::Ok;
        let hint = match outcome.status {
            RunStatus::Ok => None,
            // Its error says the rest.
            RunStatus::Error if self.has_failed => outcome.hint.advice().map(str::to_owned),
            _ => outcome.hint.text(),
        };
        // The value of an error that is not the program's own has all of it.
        let told = lost.iter().chain(hint.iter().filter(|_| self.has_failed));
        let notes: Vec<_> = told.map(|note| format!("[sandbox] {note}\n")).collect();
        if !notes.is_empty() {
            let printed = CellEvent::Printed(Stream::Stderr, notes.concat());
            self.waiting.push_back(printed);
        }
        if !is_well && !self.has_failed {
            self.waiting.push_back(CellEvent::Failed(CellFailure {
                name: name_of(outcome.status).to_owned(),
                value: hint.unwrap_or_default(),
                traceback: String::new(),
            }));
        }
    }
}

/// What the error of a cell is called that its kernel did not tell of.
fn name_of(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Timeout => "TimeoutError",
        RunStatus::OutOfMemory => "MemoryError",
        RunStatus::OutputLimit | RunStatus::DiskLimit => "LimitError",
        RunStatus::Cancelled => "KeyboardInterrupt",
        RunStatus::EngineLost => "SandboxError",
        RunStatus::Running | RunStatus::Ok | RunStatus::Error => "Error",
    }
}
