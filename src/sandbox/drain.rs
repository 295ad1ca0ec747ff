//! The task that owns a container's output and reads it to its end, whatever becomes of its listeners.
//!
//! An engine hangs on a container whose output nobody reads, so this task is never cancelled: it ends when the
//! container does. Then everything that was still expected fails, which is how others learn of it.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use sandbox_init::{End, Held, Message, MessageReader, Ready, Record, Stream};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::debug;

use super::capture::Capture;
use crate::executor::{Chunk, ExecutorError};

/// What sandbox-init reports about its own work: done, or why not.
pub(super) type Report = Result<(), String>;

/// What waits for the answers to a frame that was, or is about to be, sent. There is one at a time.
pub(super) enum Expect {
    /// For a parked run process.
    Ready(oneshot::Sender<Result<Ready, String>>),
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
    held: watch::Sender<Held>,
) {
    let mut messages = Messages::default();
    let mut listening = Listening::default();
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
                Some(Ok(chunk)) => messages.feed(&chunk, |message| listening.hear(message, &held)),
                Some(Err(_)) | None => break,
            },
        }
    }
    listening.finish();
}

/// What sandbox-init writes.
#[derive(Default)]
struct Messages {
    reader: MessageReader,
    /// Something came that is no message. What follows is read, and means nothing.
    lost: bool,
}

impl Messages {
    fn feed(&mut self, chunk: &Chunk, mut hear: impl FnMut(Message<'_>)) {
        // No program has it. It is where sandbox-init says why it does not even begin.
        if chunk.stream == Stream::Stderr {
            let output = String::from_utf8_lossy(&chunk.bytes);
            debug!(output = output.trim(), "sandbox-init failed");
            return;
        }
        if self.lost {
            return;
        }
        self.reader.feed(&chunk.bytes);
        loop {
            match self.reader.next_message() {
                Ok(Some(message)) => hear(message),
                Ok(None) => return,
                Err(error) => {
                    debug!(
                        error = &error as &dyn std::error::Error,
                        "a sandbox sent what is no message"
                    );
                    self.lost = true;
                    return;
                }
            }
        }
    }
}

/// Who waits for what.
#[derive(Default)]
struct Listening {
    ready: Option<oneshot::Sender<Result<Ready, String>>>,
    /// Who receives the output of a run, until it has ended: after that, a sandbox may wait for long, and must not keep
    /// output.
    audience: Option<Audience>,
    clean: Option<oneshot::Sender<Report>>,
}

/// Where the output of a run goes, and its end.
struct Audience {
    capture: Arc<Capture>,
    end: oneshot::Sender<End>,
}

impl Listening {
    fn to(expect: Expect) -> Self {
        match expect {
            Expect::Ready(answer) => Self {
                ready: Some(answer),
                ..Self::default()
            },
            Expect::Run {
                capture,
                end,
                clean,
            } => Self {
                audience: Some(Audience { capture, end }),
                clean,
                ready: None,
            },
        }
    }

    fn hear(&mut self, message: Message<'_>, held: &watch::Sender<Held>) {
        // Nobody waits any more if the run was cancelled.
        match message {
            Message::Output(stream, bytes) => {
                if let Some(audience) = &self.audience {
                    audience.capture.push(stream, bytes);
                }
            }
            Message::Record(Record::End(end)) => {
                held.send_replace(end.held);
                if let Some(audience) = self.audience.take() {
                    audience.capture.finish();
                    let _ = audience.end.send(end);
                }
            }
            Message::Record(Record::Ready(report)) => {
                let _ = self.ready.take().map(|ready| ready.send(report));
            }
            Message::Record(Record::Clean(report)) => {
                let _ = self.clean.take().map(|clean| clean.send(report));
            }
            Message::Record(Record::Held(now)) => drop(held.send_replace(now)),
        }
    }

    /// The container ended first.
    fn finish(self) {
        if let Some(audience) = self.audience {
            audience.capture.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbox_init::{Network, Status, encode_output, encode_record};

    use super::*;

    const END: End = End {
        status: Status::Exit(0),
        timed_out: false,
        wall_ms: 1,
        cpu_ms: 1,
        peak_bytes: None,
        oom_kills: 0,
        pids_denied: None,
        excess: None,
        lives: false,
        held: Held {
            bytes: 7,
            mapped_bytes: 0,
            unseen: false,
        },
    };

    fn record(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_record(record, &mut bytes);
        bytes
    }

    fn output(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_output(Stream::Stdout, text.as_bytes(), &mut bytes);
        bytes
    }

    /// A run that is waited for, and the task that reads its output.
    struct Expected {
        capture: Arc<Capture>,
        ended: oneshot::Receiver<End>,
        cleaned: oneshot::Receiver<Report>,
        output: mpsc::UnboundedSender<Result<Chunk, ExecutorError>>,
        held: watch::Receiver<Held>,
        drained: tokio::task::JoinHandle<()>,
    }

    impl Expected {
        fn new() -> Self {
            let ((end, ended), (clean, cleaned)) = (oneshot::channel(), oneshot::channel());
            let (output, chunks) = mpsc::unbounded_channel();
            let (expect, expectations) = mpsc::unbounded_channel();
            let capture = Arc::new(Capture::new(10));
            let expected = Expect::Run {
                capture: Arc::clone(&capture),
                end,
                clean: Some(clean),
            };
            assert!(expect.send(expected).is_ok());
            let chunks = tokio_stream::wrappers::UnboundedReceiverStream::new(chunks);
            let tasks = tokio_util::task::TaskTracker::new();
            let (held_sender, held) = watch::channel(Held::default());
            Self {
                capture,
                ended,
                cleaned,
                output,
                held,
                drained: tasks.spawn(drain(chunks.boxed(), expectations, held_sender)),
            }
        }

        fn write(&self, stream: Stream, bytes: Vec<u8>) {
            let bytes = bytes.into();
            assert!(self.output.send(Ok(Chunk { stream, bytes })).is_ok());
        }
    }

    #[tokio::test]
    async fn a_sandbox_that_waits_keeps_no_output() {
        let mut run = Expected::new();
        run.write(Stream::Stdout, output("said"));
        run.write(Stream::Stdout, record(&Record::End(END)));
        (&mut run.ended).await.unwrap();
        assert_eq!(run.capture.snapshot().text(Stream::Stdout), "said");
        assert_eq!(Arc::strong_count(&run.capture), 1);
        run.write(Stream::Stdout, output("leftover"));
        run.write(Stream::Stdout, record(&Record::Clean(Ok(()))));
        (&mut run.cleaned).await.unwrap().unwrap();
        assert_eq!(run.capture.kept(), 4);
    }

    #[tokio::test]
    async fn what_is_parked_says_which_network_it_has_or_not() {
        for network in [None, Some(Network::None), Some(Network::Engine)] {
            let (answer, ready) = oneshot::channel();
            let mut listening = Listening::to(Expect::Ready(answer));
            let held = watch::channel(Held::default()).0;
            let reached = network.map(|_| vec!["192.0.2.1:443".parse().unwrap()]);
            let said = Ready { network, reached };
            listening.hear(Message::Record(Record::Ready(Ok(said.clone()))), &held);
            assert_eq!(ready.await, Ok(Ok(said)));
        }
    }

    #[tokio::test]
    async fn what_is_held_is_known_from_every_record_about_it() {
        let mut run = Expected::new();
        run.write(Stream::Stdout, record(&Record::End(END)));
        (&mut run.ended).await.unwrap();
        assert_eq!(*run.held.borrow_and_update(), END.held);
        let more = Held {
            bytes: 8,
            mapped_bytes: 1,
            unseen: true,
        };
        run.write(Stream::Stdout, record(&Record::Held(more)));
        run.held.changed().await.unwrap();
        assert_eq!(*run.held.borrow_and_update(), more);
    }

    #[tokio::test]
    async fn what_is_no_message_ends_nothing_and_is_read_to_its_end() {
        let mut run = Expected::new();
        run.write(Stream::Stdout, output("said"));
        run.write(Stream::Stdout, b"panicked".to_vec());
        run.write(Stream::Stdout, record(&Record::End(END)));
        run.write(Stream::Stderr, record(&Record::End(END)));
        drop(std::mem::replace(
            &mut run.output,
            mpsc::unbounded_channel().0,
        ));
        (&mut run.drained).await.unwrap();
        assert!((&mut run.ended).await.is_err());
        assert_eq!(run.capture.snapshot().text(Stream::Stdout), "said");
    }
}
