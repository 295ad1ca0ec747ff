//! A sandbox: one container that we started, with sandbox-init as its PID 1, and what one can ask of it.
//!
//! ```text
//!            start            park                 run                    clean
//! (nothing) ───────▶ Started ───────▶ Parked ───────────▶ Running ──┬──────────▶ Parked
//!                       │                                           │
//!                       └──────────────────── run ──────────────────┴─▶ Spent
//! ```
//!
//! A *plain* sandbox goes from `Started` through one run to `Spent`. A *warm* one is parked first and may be parked
//! again after a run. Dropping a [`Sandbox`] in any state kills and removes its container behind the caller's back,
//! so that no path leaves one.

mod capture;
mod drain;
mod launcher;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_init::{End, Frame, Nonce, Run, encode_frame};
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};

pub use self::capture::{Capture, Captured, Segment};
use self::drain::Expect;
use self::launcher::Container;
pub use self::launcher::{Identity, Launcher};
use crate::executor::{ContainerId, ContainerState, ExecutorError};

/// A program to run, with all that it sees.
#[derive(Clone, Debug)]
pub struct Program {
    /// Source code.
    pub code: String,
    /// Environment beside the image's own.
    pub env: BTreeMap<String, String>,
    /// After this time sandbox-init kills it.
    pub deadline: Duration,
}

/// One running container. Dropping it removes it.
#[derive(Debug)]
pub struct Sandbox {
    container: Container,
    input: Input,
    expectations: mpsc::UnboundedSender<Expect>,
}

struct Input(Box<dyn AsyncWrite + Send + Unpin>);

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
    /// The task that was starting it ended first: the server is shutting down.
    #[error("failed to start a sandbox before the server stopped")]
    Stopped,
    /// The output ended without a record. The container's own state says why.
    #[error("failed to hear from the sandbox: its output ended without a record")]
    Silent,
    /// The program does not fit into a frame.
    #[error("failed to hand over the program")]
    Frame(#[source] sandbox_init::FrameError),
}

impl Sandbox {
    /// The container's id.
    pub fn id(&self) -> &ContainerId {
        self.container.id()
    }

    /// Runs a program to its end. Its output goes to `capture` as it comes.
    ///
    /// # Errors
    /// [`SandboxError::Silent`] when the container ended, or the engine went away, before the program's end was
    /// reported: ask [`Sandbox::state`].
    pub async fn run(
        &mut self,
        program: &Program,
        capture: Arc<Capture>,
    ) -> Result<End, SandboxError> {
        let nonce = Nonce::from_random(rand::random());
        let frame = encode_frame(&Frame::Run(Run {
            nonce: nonce.clone(),
            code: program.code.clone(),
            env: program.env.clone(),
            deadline_ms: u64::try_from(program.deadline.as_millis()).unwrap_or(u64::MAX),
            reuse: false,
        }))
        .map_err(SandboxError::Frame)?;
        let (answer, end) = oneshot::channel();
        // Before the frame is sent, so that the record cannot come unexpected.
        self.expectations
            .send(Expect {
                nonce,
                capture,
                answer,
            })
            .map_err(|_| SandboxError::Silent)?;
        let send = async {
            // A sandbox that ended does not read: then the output has ended too, and that is the answer.
            let _ = self.input.0.write_all(&frame).await;
            let _ = self.input.0.flush().await;
            std::future::pending().await
        };
        tokio::select! {
            end = end => end.map_err(|_| SandboxError::Silent),
            () = send => Err(SandboxError::Silent),
        }
    }

    /// How the container is, from the engine.
    ///
    /// # Errors
    /// Those of the executor; `Unavailable` means that the engine itself is lost.
    pub fn state(
        &self,
    ) -> impl Future<Output = Result<ContainerState, ExecutorError>> + Send + use<> {
        self.container.state()
    }
}
