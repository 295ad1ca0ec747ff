//! A sandbox: one container that we started, with sandbox-init as its PID 1, and what can be asked of it.
//!
//! ```text
//!             start            park              run                clean
//! (nothing) ────────▶ Started ──────▶ Parked ──────────▶ Ran ──────────────▶ Parked, which can be parked anew
//!                        │                                │        (or, when it was never parked, Started)
//!                        └───────────── run ──────────────┘
//!
//!           cell
//! Parked ──────────▶ Kernel, which takes cells until its end
//! ```
//!
//! A *plain* sandbox goes from `Started` through one run to its end. A *warm* one is parked ahead, and cleaned after
//! each run that left it usable. Dropping a [`Sandbox`] in any state kills and removes its container in the background,
//! so that no path leaves one behind.

mod capture;
mod cut;
mod drain;
mod egress;
mod lanes;
mod launcher;
mod records;
mod scale;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use sandbox_init::{Cell, End, Frame, Interrupt, Park, Ready, Run, encode_frame};
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub(crate) use self::capture::whole_characters;
pub use self::capture::{Capture, Captured, Counter};
pub use self::cut::{Cut, Uncut};
use self::drain::{Expect, Report};
use self::egress::Egress;
pub use self::egress::SandboxEgress;
use self::launcher::Container;
pub use self::launcher::{Identity, Launcher};
pub use self::records::{Form, Forms, RecordMark};
pub(crate) use self::records::{Part, Record, RecordReader, VARIABLE as RECORDS_VARIABLE};
pub use self::scale::Scale;
use crate::egress::{HatchError, HostAccess, Proxy, Traffic, TrafficLimits};
use crate::executor::outage::chain;
use crate::executor::spec::ContainerLimits;
use crate::executor::{ContainerId, ContainerState, ErrorKind, ExecutorError, Outage};
use crate::workspace::WorkspaceError;

/// How long a cell may go on after an interrupt.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// A program to run, with everything that it sees.
#[derive(Clone, Debug)]
pub struct Program {
    /// Source code.
    pub code: String,
    /// What it reads from its standard input; `None` when that is empty.
    pub stdin: Option<String>,
    /// Environment, in addition to the image's own.
    pub env: BTreeMap<String, String>,
    /// Time after which sandbox-init kills it.
    pub deadline: Duration,
}

/// One running container. Dropping it removes it.
#[derive(Debug)]
pub struct Sandbox {
    /// The way of its programs to listed hosts. First, because it goes before the container does.
    egress: Option<Box<Egress>>,
    container: Container,
    started: Instant,
    input: Input,
    expectations: mpsc::UnboundedSender<Expect>,
    scale: Scale,
    /// Resolves when the sandbox is clean after a run.
    cleaning: Option<oneshot::Receiver<Report>>,
    /// Whether a driver was started in it.
    parked: bool,
    /// What it said when it was parked last.
    ready: Ready,
    /// Of the last run or cell.
    number: u64,
}

struct Input(Box<dyn AsyncWrite + Send + Unpin>);

impl Input {
    /// Writes a frame. A sandbox that has ended does not read: then its output has ended too, and that is the answer.
    async fn put(&mut self, frame: &[u8]) {
        let _ = self.0.write_all(frame).await;
        let _ = self.0.flush().await;
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Input")
    }
}

/// Why a sandbox gave no answer.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The engine failed.
    #[error("failed to start a sandbox")]
    Start(#[source] ExecutorError),
    /// It was not ready in time, or the engine is lost.
    #[error("failed to start a sandbox: {0}")]
    NotStarted(Outage),
    /// The task that was starting it ended first: the server is shutting down.
    #[error("failed to start a sandbox before the server stopped")]
    Stopped,
    /// The output ended without a record. The container's own state says why.
    #[error("failed to hear from the sandbox: its output ended without a record")]
    Silent,
    /// There is no directory for it.
    #[error("failed to make a directory for a sandbox")]
    Data(#[source] WorkspaceError),
    /// The driver did not park an interpreter, for the reason given.
    #[error("failed to park an interpreter: {0}")]
    NotReady(String),
    /// It has a network that it is to be without.
    #[error("failed to keep the sandbox from the network: {0}")]
    NotCut(Uncut),
    /// What a run left behind cannot be undone; in the words of sandbox-init.
    #[error("failed to clean the sandbox: {0}")]
    NotClean(String),
    /// No sandbox of this engine can have listed hosts.
    #[error("failed to open the network: {}", HatchError::Shut)]
    Shut,
    /// Its programs cannot reach listed hosts.
    #[error("failed to open the network: {0}")]
    NoProxy(String),
    /// The program does not fit into a frame.
    #[error("failed to hand over the program")]
    Frame(#[source] sandbox_init::FrameError),
}

impl SandboxError {
    /// Why there is no room for another sandbox, if that is why it was not started.
    pub fn lack_of_room(&self) -> Option<String> {
        match self {
            Self::Start(error) if matches!(error.kind, ErrorKind::Full | ErrorKind::NoNode) => {
                Some(chain(error))
            }
            _ => None,
        }
    }

    /// What it means for a run.
    pub fn outage(&self) -> Outage {
        let lasts = match self {
            Self::Start(error) => Outage::of(error, true).lasts,
            Self::NotStarted(outage) => outage.lasts,
            _ => false,
        };
        Outage {
            reason: chain(self),
            lasts,
        }
    }
}

impl Sandbox {
    /// The container's id.
    pub fn id(&self) -> &ContainerId {
        self.container.id()
    }

    /// What it holds of the disk that no name shows.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Whether a driver was started in it.
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    /// Whether the container lives, judging by its output.
    pub fn is_alive(&self) -> bool {
        !self.expectations.is_closed()
    }

    /// For how long it has been there.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Resolves when the container has ended.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let expectations = self.expectations.clone();
        async move { expectations.closed().await }
    }

    /// Has `driver`, in the image's environment and `env`, park an interpreter, so that the next run starts at once.
    /// Without a driver the sandbox just waits. It ends by itself when it is not used for `idle`. If it has the engine's
    /// network, it first tries `must_not_reach`.
    ///
    /// # Errors
    /// The driver failed, or the container ended.
    pub async fn park(
        &mut self,
        driver: &[String],
        env: &BTreeMap<String, String>,
        idle: Duration,
        must_not_reach: &[SocketAddr],
    ) -> Result<(), SandboxError> {
        let (answer, ready) = oneshot::channel();
        let frame = Frame::Park(Park {
            driver: driver.to_vec(),
            env: env.clone(),
            idle_ms: milliseconds(idle),
            must_not_reach: must_not_reach.to_vec(),
        });
        self.parked = !driver.is_empty();
        let ready = self
            .send(Expect::Ready(answer), &frame, ready, std::future::pending())
            .await?;
        self.ready = ready.map_err(SandboxError::NotReady)?;
        Ok(())
    }

    /// How programs are kept from the network, by what sandbox-init saw and tried when it was parked.
    ///
    /// # Errors
    /// They are not, or, if that `is_known` has to be, it did not say.
    pub fn cut(&self, is_known: bool) -> Result<Cut, Uncut> {
        cut::cut(&self.ready, is_known)
    }

    /// Gives a sandbox that was started with [`Priority::WarmUp`](crate::executor::spec::Priority) a run's share of
    /// the processor. Only then may it get a program.
    ///
    /// # Errors
    /// The engine failed.
    pub fn end_warm_up(
        &self,
        limits: ContainerLimits,
    ) -> impl Future<Output = Result<(), SandboxError>> + Send + use<> {
        let ended = self.container.end_warm_up(limits);
        async move { ended.await.map_err(SandboxError::Start) }
    }

    /// Sets how much of listed hosts its programs may have, in place of what a run may.
    pub fn limit_traffic(&mut self, limits: TrafficLimits) {
        if let Some(egress) = &mut self.egress {
            egress.limit(limits);
        }
    }

    /// Opens the way to listed hosts for the next program, and for later cells of a kernel, and returns what counts its
    /// traffic.
    ///
    /// # Errors
    /// [`SandboxError::Shut`], or [`SandboxError::NoProxy`] with the reason.
    pub async fn open_proxy(
        &mut self,
        access: &Arc<HostAccess>,
    ) -> Result<Arc<Traffic>, SandboxError> {
        let Some(egress) = &mut self.egress else {
            let reason = "the sandbox was started without a way to listed hosts";
            return Err(SandboxError::NoProxy(reason.to_owned()));
        };
        if let Some(traffic) = egress.kept(access) {
            return Ok(traffic);
        }
        let frame = Proxy::frame(self.number + 1, &access.list);
        let sent = encode_frame(&Frame::Listen(frame.clone())).map_err(SandboxError::Frame)?;
        self.input.put(&sent).await;
        let opened = egress.receive(&frame, access).await;
        opened.map_err(|error| match error {
            HatchError::Shut => SandboxError::Shut,
            error => SandboxError::NoProxy(chain(&error)),
        })
    }

    /// Runs a program to its end, which comes at once when `interrupt` resolves. Its output goes to `capture` as it
    /// comes. With `reuse`, the sandbox then cleans itself: wait for that with [`Sandbox::clean`].
    ///
    /// # Errors
    /// [`SandboxError::Silent`] when the container ended, or the engine went away, before the program's end was
    /// reported: ask [`Sandbox::state`].
    pub async fn run(
        &mut self,
        program: &Program,
        capture: Arc<Capture>,
        reuse: bool,
        interrupt: impl Future<Output = ()>,
    ) -> Result<End, SandboxError> {
        self.number += 1;
        let number = self.number;
        let frame = Frame::Run(Run {
            number,
            code: program.code.clone(),
            stdin: program.stdin.clone(),
            env: program.env.clone(),
            deadline_ms: milliseconds(program.deadline),
            reuse,
        });
        let ((end, answer), (clean, cleaned)) = (oneshot::channel(), oneshot::channel());
        self.cleaning = reuse.then_some(cleaned);
        let expect = Expect::Run {
            capture,
            end,
            clean: Some(clean),
        };
        let ended = self
            .send(expect, &frame, answer, interrupted(interrupt, number))
            .await;
        if let Some(egress) = &mut self.egress {
            egress.close().await;
        }
        ended
    }

    /// Runs a cell: a program in the parked interpreter, which stays with everything in it. The cell is interrupted at
    /// its deadline, or when `interrupt` resolves, and may then go on for [`INTERRUPT_GRACE`].
    ///
    /// # Errors
    /// Those of [`Sandbox::run`].
    pub async fn cell(
        &mut self,
        program: &Program,
        capture: Arc<Capture>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<End, SandboxError> {
        self.number += 1;
        let number = self.number;
        let frame = Frame::Cell(Cell {
            number,
            code: program.code.clone(),
            stdin: program.stdin.clone(),
            env: program.env.clone(),
            deadline_ms: milliseconds(program.deadline),
            interrupt_ms: milliseconds(INTERRUPT_GRACE),
        });
        let (end, answer) = oneshot::channel();
        let expect = Expect::Run {
            capture,
            end,
            clean: None,
        };
        self.send(expect, &frame, answer, interrupted(interrupt, number))
            .await
    }

    /// Waits until the sandbox is as good as new after a run with `reuse`.
    ///
    /// # Errors
    /// It cannot be made clean, or it has ended: drop it.
    pub async fn clean(&mut self) -> Result<(), SandboxError> {
        let cleaning = self.cleaning.take().ok_or(SandboxError::Silent)?;
        cleaning
            .await
            .map_err(|_| SandboxError::Silent)?
            .map_err(SandboxError::NotClean)
    }

    /// Sends a frame, and the one that `then` resolves to, and waits for the answer to the first. Meanwhile the sandbox
    /// can be asked what it holds.
    async fn send<T>(
        &mut self,
        expect: Expect,
        frame: &Frame,
        answer: oneshot::Receiver<T>,
        then: impl Future<Output = Frame>,
    ) -> Result<T, SandboxError> {
        let frame = encode_frame(frame).map_err(SandboxError::Frame)?;
        // Before the frame is sent, so that its record is always expected.
        self.expectations
            .send(expect)
            .map_err(|_| SandboxError::Silent)?;
        let send = async {
            self.input.put(&frame).await;
            let mut then = pin!(then.fuse());
            loop {
                let next = tokio::select! {
                    then = &mut then => then,
                    () = self.scale.asked() => Frame::Weigh,
                };
                if let Ok(next) = encode_frame(&next) {
                    self.input.put(&next).await;
                }
            }
        };
        tokio::select! {
            answer = answer => answer.map_err(|_| SandboxError::Silent),
            never = send => never,
        }
    }

    /// The container's state, from the engine.
    ///
    /// # Errors
    /// Those of the executor; `Unavailable` means that the engine itself is lost.
    pub fn state(
        &self,
    ) -> impl Future<Output = Result<ContainerState, ExecutorError>> + Send + use<> {
        self.container.state()
    }
}

/// The frame that interrupts the program with this number, when it is time.
async fn interrupted(interrupt: impl Future<Output = ()>, number: u64) -> Frame {
    interrupt.await;
    Frame::Interrupt(Interrupt { number })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
