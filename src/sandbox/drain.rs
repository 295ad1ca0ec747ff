//! The task that owns a container's output and reads it to its end, whatever becomes of its listeners.
//!
//! An engine hangs on a container whose output nobody reads, so this task is never cancelled: it ends when the
//! container does. Then everything that was still expected fails, which is how others learn of it.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use sandbox_init::{End, Nonce, Record, RecordScanner};
use tokio::sync::{mpsc, oneshot};

use super::capture::Capture;
use crate::executor::{Chunk, ExecutorError, Stream};

/// How many bytes are kept of what a driver writes to standard error.
const LAST_WORDS: usize = 512;

/// What sandbox-init reports about its own work: done, or why not.
pub(super) type Report = Result<(), String>;

/// A frame that was, or is about to be, sent, and what waits for its records.
pub(super) struct Expect {
    pub(super) nonce: Nonce,
    pub(super) waiting: Waiting,
}

/// What is waited for.
pub(super) enum Waiting {
    /// For a parked run process.
    Ready(oneshot::Sender<Report>),
    /// For the end of a run or cell and, later, for the sandbox to be clean again.
    Run {
        capture: Arc<Capture>,
        end: oneshot::Sender<End>,
        /// `None` for a cell: nothing is cleaned after it.
        clean: Option<oneshot::Sender<Report>>,
    },
}

/// Reads `output` to its end. Output that belongs to no expected run is dropped.
pub(super) async fn drain(
    mut output: BoxStream<'static, Result<Chunk, ExecutorError>>,
    mut expectations: mpsc::UnboundedReceiver<Expect>,
) {
    let mut listening = Listening::Nobody;
    let mut may_expect = true;
    loop {
        tokio::select! {
            // A run is announced before its frame is sent. Since announcements are read first, output cannot overtake
            // them.
            biased;
            expect = expectations.recv(), if may_expect => match expect {
                Some(expect) => listening = Listening::to(expect),
                None => may_expect = false,
            },
            chunk = output.next() => match chunk {
                Some(Ok(chunk)) => listening.hear(&chunk),
                Some(Err(_)) | None => break,
            },
        }
    }
    listening.finish();
}

enum Listening {
    Nobody,
    Ready {
        scanner: RecordScanner,
        answer: Option<oneshot::Sender<Report>>,
        /// Why there is no interpreter. Sent when the output has ended, and with it everything that the driver said.
        refusal: Option<String>,
        /// The last of what the driver wrote to standard error.
        said: Vec<u8>,
    },
    Run(Box<Run>),
}

/// A run in progress, or its sandbox being cleaned.
struct Run {
    /// Who receives its output, until it has ended: after that, a sandbox may wait for long, and must not keep output.
    audience: Option<Audience>,
    stdout: RecordScanner,
    stderr: RecordScanner,
    /// The record on standard output, until it was seen on standard error too.
    stdout_end: Option<End>,
    stderr_ended: bool,
    clean: Option<oneshot::Sender<Report>>,
}

/// Where the output of a run goes, and its end.
struct Audience {
    capture: Arc<Capture>,
    end: oneshot::Sender<End>,
}

impl Listening {
    fn to(expect: Expect) -> Self {
        let scanner = || RecordScanner::new(&expect.nonce);
        match expect.waiting {
            Waiting::Ready(answer) => Self::Ready {
                scanner: scanner(),
                answer: Some(answer),
                refusal: None,
                said: Vec::new(),
            },
            Waiting::Run {
                capture,
                end,
                clean,
            } => Self::Run(Box::new(Run {
                audience: Some(Audience { capture, end }),
                stdout: scanner(),
                stderr: scanner(),
                stdout_end: None,
                stderr_ended: false,
                clean,
            })),
        }
    }

    fn hear(&mut self, chunk: &Chunk) {
        match self {
            Self::Nobody => {}
            // What a driver prints while it warms up belongs to no run, but it may say why the driver fails.
            Self::Ready {
                scanner,
                answer,
                refusal,
                said,
            } => match chunk.stream {
                Stream::Stderr => keep_last(said, &chunk.bytes),
                Stream::Stdout => match scanner.push(&chunk.bytes).record {
                    Some(Record::Ready(Ok(()))) => {
                        if let Some(answer) = answer.take() {
                            let _ = answer.send(Ok(()));
                        }
                    }
                    Some(Record::Ready(Err(reason))) => *refusal = Some(reason),
                    _ => {}
                },
            },
            Self::Run(run) => match chunk.stream {
                Stream::Stdout => run.hear_stdout(&chunk.bytes),
                Stream::Stderr => run.hear_stderr(&chunk.bytes),
            },
        }
    }

    fn finish(self) {
        match self {
            Self::Nobody => {}
            Self::Ready {
                answer: Some(answer),
                refusal: Some(reason),
                said,
                ..
            } => {
                let _ = answer.send(Err(with_words(reason, &said)));
            }
            Self::Ready { .. } => {}
            Self::Run(run) => run.finish(),
        }
    }
}

/// Adds to what was said, and keeps the last part of it.
fn keep_last(said: &mut Vec<u8>, bytes: &[u8]) {
    said.extend_from_slice(bytes);
    let excess = said.len().saturating_sub(LAST_WORDS);
    said.drain(..excess);
}

/// Why there is no interpreter, with what its driver said.
fn with_words(reason: String, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    // sandbox-init repeats the reason on standard error.
    let lines = said
        .lines()
        .filter(|line| !line.starts_with("sandbox-init: "));
    let words = lines.collect::<Vec<_>>().join("\n");
    match words.trim() {
        "" => reason,
        words => format!("{reason}, and wrote {words:?}"),
    }
}

impl Run {
    fn hear_stdout(&mut self, bytes: &[u8]) {
        let mut rest = bytes.to_vec();
        loop {
            let scanned = self.stdout.push(&rest);
            // What comes after the end record is from leftover processes.
            if let (Some(audience), None) = (&self.audience, &self.stdout_end) {
                audience.capture.push(Stream::Stdout, &scanned.output);
            }
            match scanned.record {
                Some(Record::End(end)) => self.stdout_end = Some(end),
                Some(Record::Clean(report)) => {
                    if let Some(clean) = self.clean.take() {
                        let _ = clean.send(report);
                    }
                }
                Some(_) => {}
                None => break,
            }
            rest = scanned.rest;
        }
        self.answer_when_ended();
    }

    fn hear_stderr(&mut self, bytes: &[u8]) {
        if self.stderr_ended {
            return;
        }
        let scanned = self.stderr.push(bytes);
        if let Some(audience) = &self.audience {
            audience.capture.push(Stream::Stderr, &scanned.output);
        }
        self.stderr_ended = matches!(scanned.record, Some(Record::End(_)));
        self.answer_when_ended();
    }

    /// Answers once the record was seen on both streams: then every byte of the program is in.
    fn answer_when_ended(&mut self) {
        if self.stderr_ended
            && let Some(end) = self.stdout_end.take()
            && let Some(audience) = self.audience.take()
        {
            audience.capture.finish();
            // Nobody waits any more if the run was cancelled.
            let _ = audience.end.send(end);
        }
    }

    /// The container ended first: a marker that never became a record was output after all.
    fn finish(self) {
        let Some(Audience { capture, .. }) = self.audience else {
            return;
        };
        if self.stdout_end.is_none() {
            capture.push(Stream::Stdout, &self.stdout.finish());
        }
        if !self.stderr_ended {
            capture.push(Stream::Stderr, &self.stderr.finish());
        }
        capture.finish();
    }
}

#[cfg(test)]
mod tests {
    use sandbox_init::{Status, encode_record};

    use super::*;

    fn chunk(stream: Stream, bytes: Vec<u8>) -> Chunk {
        Chunk {
            stream,
            bytes: bytes.into(),
        }
    }

    #[tokio::test]
    async fn a_driver_that_fails_has_the_last_word() {
        let refuse = |words: Vec<u8>| async {
            let nonce = Nonce::from_random(rand::random());
            let refusal = Record::Ready(Err("the driver ended".to_owned()));
            let (expect, expectations) = mpsc::unbounded_channel();
            let (answer, answered) = oneshot::channel();
            let output = [
                (Stream::Stdout, encode_record(&nonce, &refusal)),
                (Stream::Stderr, words),
                (Stream::Stderr, b"sandbox-init: not ready\n".to_vec()),
            ];
            let chunks = output.map(|(stream, bytes)| Ok(chunk(stream, bytes)));
            let waiting = Waiting::Ready(answer);
            assert!(expect.send(Expect { nonce, waiting }).is_ok());
            drain(futures::stream::iter(chunks).boxed(), expectations).await;
            answered.await.unwrap().unwrap_err()
        };
        assert_eq!(refuse(Vec::new()).await, "the driver ended");
        let words = b"no module\x1b \"x\"\n".to_vec();
        let said = r#"the driver ended, and wrote "no module\u{1b} \"x\"""#;
        assert_eq!(refuse(words).await, said);
        let long = refuse(vec![b'x'; 99_999]).await;
        assert!(long.len() < 2 * LAST_WORDS, "{}", long.len());
    }
    #[tokio::test]
    async fn a_sandbox_that_waits_keeps_no_output() {
        let nonce = Nonce::from_random(rand::random());
        let record = Record::End(End {
            status: Status::Exit(0),
            timed_out: false,
            wall_ms: 1,
            cpu_ms: 1,
            peak_bytes: None,
            oom_kills: 0,
            pids_denied: None,
            lives: false,
        });
        let ((end, ended), (clean, cleaned)) = (oneshot::channel(), oneshot::channel());
        let (output, chunks) = mpsc::unbounded_channel();
        let (expect, expectations) = mpsc::unbounded_channel();
        let capture = Arc::new(Capture::new(10));
        let waiting = Waiting::Run {
            capture: Arc::clone(&capture),
            end,
            clean: Some(clean),
        };
        let expected = Expect {
            nonce: nonce.clone(),
            waiting,
        };
        assert!(expect.send(expected).is_ok());
        let say = |stream, bytes| assert!(output.send(Ok(chunk(stream, bytes))).is_ok());
        say(Stream::Stdout, b"said".to_vec());
        for stream in [Stream::Stdout, Stream::Stderr] {
            say(stream, encode_record(&nonce, &record));
        }
        let told = async {
            ended.await.unwrap();
            assert_eq!(capture.snapshot().text(Stream::Stdout), "said");
            assert_eq!(Arc::strong_count(&capture), 1);
            say(Stream::Stdout, b"leftover".to_vec());
            say(
                Stream::Stdout,
                encode_record(&nonce, &Record::Clean(Ok(()))),
            );
            cleaned.await.unwrap().unwrap();
            assert_eq!(capture.kept(), 4);
        };
        let chunks = tokio_stream::wrappers::UnboundedReceiverStream::new(chunks);
        tokio::select! {
            () = drain(chunks.boxed(), expectations) => panic!("it has not ended"),
            () = told => {}
        }
    }
}
