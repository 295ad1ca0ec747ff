//! The imitation of sandbox-init in a container of the fake engine: the same frames and messages, without processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sandbox_init::{
    Cell, Frame, FrameReader, Held, Network, Ready, Record, Run, Status, encode_output,
    encode_record,
};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;

use super::FakeExecutor;
use super::program::{self, DEAF, End, HELD, STDIN};
use crate::executor::{Chunk, Stream};

/// PID 1 of one container.
pub(super) struct Init {
    executor: FakeExecutor,
    input: Frames,
    output: mpsc::UnboundedSender<Chunk>,
    data: Option<File>,
    /// Whether it has a larger share of the processor than a program may have.
    warming_up: Arc<AtomicBool>,
    /// How long it waits for a frame, once it has been told.
    idle: Option<Duration>,
    /// Whether it reaches what it must not.
    reaches: bool,
    /// The environment that cells leave behind, once there was one.
    kernel: Option<BTreeMap<String, String>>,
}

struct Frames {
    stream: DuplexStream,
    reader: FrameReader,
}

impl Frames {
    /// The next frame, or the exit code of a sandbox that gets none.
    async fn next(&mut self) -> Result<Frame, i64> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return Err(0),
                    Ok(length) => self.reader.feed(&buffer[..length]),
                },
                Err(_) => return Err(70),
            }
        }
    }
}

impl Init {
    pub(super) fn new(
        executor: FakeExecutor,
        stream: DuplexStream,
        output: mpsc::UnboundedSender<Chunk>,
        data: Option<File>,
        warming_up: Arc<AtomicBool>,
    ) -> Self {
        let reader = FrameReader::new();
        Self {
            executor,
            input: Frames { stream, reader },
            output,
            data,
            warming_up,
            idle: None,
            reaches: false,
            kernel: None,
        }
    }

    /// The same, which reaches what it must not, or does not.
    pub(super) fn reaching(self, reaches: bool) -> Self {
        Self { reaches, ..self }
    }

    /// Handles frames until the input ends, and returns the exit code.
    pub(super) async fn live(mut self) -> i64 {
        loop {
            if let Err(exit_code) = self.turn().await {
                return exit_code;
            }
        }
    }

    async fn turn(&mut self) -> Result<(), i64> {
        let next = self.input.next();
        let frame = match self.idle {
            Some(idle) => tokio::time::timeout(idle, next).await.unwrap_or(Err(0))?,
            None => next.await?,
        };
        let is_warming_up = self.warming_up.load(Ordering::Relaxed);
        match frame {
            Frame::Run(_) | Frame::Cell(_) if is_warming_up => Err(70),
            Frame::Run(_) | Frame::Park(_) if self.kernel.is_some() => Err(70),
            Frame::Run(run) => {
                self.run(&run).await?;
                if !run.reuse {
                    return Err(0);
                }
                self.record(&Record::Clean(Ok(())));
                Ok(())
            }
            Frame::Park(park) => {
                self.idle = Some(Duration::from_millis(park.idle_ms));
                let network = self.executor.network();
                let tried = park.must_not_reach;
                let reached = match (network, self.reaches) {
                    (Some(Network::Engine), true) => Some(tried),
                    (Some(Network::Engine), false) if !tried.is_empty() => Some(Vec::new()),
                    _ => None,
                };
                self.record(&Record::Ready(Ok(Ready { network, reached })));
                Ok(())
            }
            Frame::Cell(cell) => self.cell(&cell).await,
            // There is no hatch.
            Frame::Listen(_) | Frame::Interrupt(_) => Ok(()),
            Frame::Weigh => {
                let bytes = self.kernel.as_ref().and_then(|env| env.get(HELD));
                let bytes = bytes.and_then(|bytes| bytes.parse().ok());
                self.record(&Record::Held(held(bytes.unwrap_or(0))));
                Ok(())
            }
        }
    }

    async fn run(&mut self, run: &Run) -> Result<(), i64> {
        let (data, mut env) = (self.data(), run.env.clone());
        env.extend(given(run.stdin.as_deref()));
        let output = self.output.clone();
        let print = move |stream, text: String| print(&output, stream, &text);
        let code = self.executor.shell(&run.code);
        let program = program::run(&code, &mut env, &data, &print);
        let deadline = Duration::from_millis(run.deadline_ms);
        let (status, timed_out) = tokio::select! {
            end = program => (end.status(), false),
            () = tokio::time::sleep(deadline) => (Status::Signal(9), true),
            asked = interrupt(&mut self.input, &self.output, run.number) => { asked?; (Status::Signal(9), false) }
        };
        self.end(status, timed_out, None);
        Ok(())
    }

    /// Like a run, but what it leaves in the environment stays, and it is interrupted before it is killed.
    async fn cell(&mut self, cell: &Cell) -> Result<(), i64> {
        let data = self.data();
        let mut env = self.kernel.take().unwrap_or_default();
        env.extend(cell.env.clone());
        env.extend(given(cell.stdin.as_deref()));
        let output = self.output.clone();
        let print = move |stream, text: String| print(&output, stream, &text);
        let (mut timed_out, mut interrupted) = (false, false);
        let end = {
            let program = program::run(&cell.code, &mut env, &data, &print);
            tokio::pin!(program);
            tokio::select! {
                end = &mut program => Some(end),
                () = tokio::time::sleep(Duration::from_millis(cell.deadline_ms)) => { timed_out = true; None }
                asked = interrupt(&mut self.input, &self.output, cell.number) => { asked?; interrupted = true; None }
            }
        };
        let end = match end {
            Some(end) => end,
            None if env.contains_key(DEAF) => {
                tokio::time::sleep(Duration::from_millis(cell.interrupt_ms)).await;
                End::Left(Status::Signal(9))
            }
            None => End::Failed(130),
        };
        let lives = !matches!(end, End::Left(_));
        let status = match end {
            End::Failed(_) if !timed_out && !interrupted => Status::Exit(1),
            end => end.status(),
        };
        let held = env.get(HELD).and_then(|held| held.parse().ok());
        self.end(status, timed_out, lives.then_some(held.unwrap_or(0)));
        env.remove(STDIN);
        self.kernel = Some(env);
        if lives { Ok(()) } else { Err(0) }
    }

    /// Reports an end; of a cell whose kernel lives on, with the bytes that it holds.
    fn end(&self, status: Status, timed_out: bool, lives: Option<u64>) {
        let end = sandbox_init::End {
            status,
            timed_out,
            wall_ms: 1,
            cpu_ms: 1,
            peak_bytes: None,
            oom_kills: 0,
            pids_denied: None,
            excess: None,
            lives: lives.is_some(),
            held: held(lives.unwrap_or(0)),
        };
        self.record(&Record::End(end));
    }

    /// The directory, wherever it was renamed to.
    fn data(&self) -> PathBuf {
        let descriptor = self.data.as_ref().map_or(-1, File::as_raw_fd);
        PathBuf::from(format!("/proc/self/fd/{descriptor}"))
    }

    fn record(&self, record: &Record) {
        write_record(&self.output, record);
    }
}

/// What a program is given to read, among its variables.
fn given(stdin: Option<&str>) -> Option<(String, String)> {
    Some((STDIN.to_owned(), stdin?.to_owned()))
}

fn write_record(output: &mpsc::UnboundedSender<Chunk>, record: &Record) {
    let mut bytes = Vec::new();
    encode_record(record, &mut bytes);
    send(output, bytes);
}

fn held(bytes: u64) -> Held {
    Held {
        bytes,
        ..Held::default()
    }
}

/// Resolves when this cell or run has to be interrupted.
async fn interrupt(
    frames: &mut Frames,
    output: &mpsc::UnboundedSender<Chunk>,
    number: u64,
) -> Result<(), i64> {
    loop {
        match frames.next().await? {
            Frame::Interrupt(frame) if frame.number == number => return Ok(()),
            Frame::Interrupt(_) => {}
            Frame::Weigh => write_record(output, &Record::Held(Held::default())),
            _ => return Err(70),
        }
    }
}

fn print(output: &mpsc::UnboundedSender<Chunk>, stream: Stream, text: &str) {
    let mut bytes = Vec::new();
    encode_output(stream, text.as_bytes(), &mut bytes);
    send(output, bytes);
}

fn send(output: &mpsc::UnboundedSender<Chunk>, bytes: Vec<u8>) {
    // A server that went away does not read.
    let _ = output.send(Chunk {
        stream: Stream::Stdout,
        bytes: Bytes::from(bytes),
    });
}
