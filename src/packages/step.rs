//! One step of an install: a program of ours in a container that serves no conversation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_init::Status;

use super::Packages;
use super::client::{self, Script};
use super::error::PackagesError;
use super::reached::Reached;
use crate::egress::TrafficLimits;
use crate::executor::Stream;
use crate::executor::spec::{NetworkAccess, ReadOnlyMount};
use crate::gate::admission::AdmissionError;
use crate::gate::floor::Taker;
use crate::pool::UtilityContainer;
use crate::runner::Runner;
use crate::sandbox::{Capture, Program, Sandbox, SandboxError};
use crate::units::size_as_set;
use crate::workspace::{Scratch, Usage, WorkspaceError, Workspaces};

/// Bytes of output that are kept: the names of a few thousand packages.
const OUTPUT: usize = 1 << 20;
/// Time between two checks of what it has written.
const PAUSE: Duration = Duration::from_millis(50);
/// Pauses are at least this many times as long as a check takes.
const PAUSE_FACTOR: u32 = 4;
/// Connections that a package client may have at a time: several times as many as it makes.
const CONNECTIONS: usize = 256;
/// Bytes that it may fetch in any case, however little may be installed.
const MIN_TRAFFIC: u64 = 256 << 20;
/// How long a container may take to end before its directory is deleted anyway.
const END_WAIT: Duration = Duration::from_secs(10);

/// What is to be done, and where.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) script: Script,
    pub(super) environment: BTreeMap<String, String>,
    /// Becomes `/data`.
    pub(super) scratch: Arc<Scratch>,
    /// What else it sees.
    pub(super) read_only: Vec<ReadOnlyMount>,
    /// Directories that are deleted only after its end.
    pub(super) kept: Vec<Arc<Scratch>>,
    pub(super) network: NetworkAccess,
    /// Bytes that it may write.
    pub(super) max_bytes: u64,
    /// Time that it may take.
    pub(super) deadline: Duration,
}

/// What a step has done.
#[derive(Debug)]
pub(super) struct Performed {
    /// What it printed.
    pub(super) output: Vec<u8>,
    /// What it reached.
    pub(super) reached: Reached,
}

/// A container at work, and what it works on. Dropping it removes the container first.
struct Working {
    sandbox: Option<Sandbox>,
    directories: Vec<Arc<Scratch>>,
    workspaces: Workspaces,
}

impl Drop for Working {
    fn drop(&mut self) {
        let (sandbox, directories) = (self.sandbox.take(), std::mem::take(&mut self.directories));
        let Some(sandbox) = sandbox else { return };
        let ended = sandbox.ended();
        drop(sandbox);
        self.workspaces.tasks().spawn(async move {
            // It would go on writing while they are deleted.
            let _ = tokio::time::timeout(END_WAIT, ended).await;
            drop(directories);
        });
    }
}

impl Packages {
    /// Performs a step.
    ///
    /// # Errors
    /// It wrote too much, took too long, or failed.
    pub(super) async fn perform(
        &self,
        runner: &Runner,
        mut step: Step,
    ) -> Result<Performed, PackagesError> {
        self.gate.floor.make_room().await?;
        let program = Program {
            code: step.script.program.to_owned(),
            stdin: None,
            env: std::mem::take(&mut step.environment),
            deadline: step.deadline,
        };
        let (sandbox, reached) = Box::pin(self.start(runner, &step)).await?;
        let mut working = Working {
            sandbox: Some(sandbox),
            directories: step.kept,
            workspaces: self.files.workspaces.clone(),
        };
        working.directories.push(Arc::clone(&step.scratch));
        let sandbox = working.sandbox.as_mut().expect("it was just put there");
        let capture = Arc::new(Capture::new(OUTPUT));
        let taker = self
            .gate
            .floor
            .register(Usage::default(), sandbox.scale().clone());
        let end = tokio::select! {
            end = sandbox.run(&program, Arc::clone(&capture), false, std::future::pending()) => end,
            error = exceeded(&taker, &self.files.workspaces, &step.scratch, step.max_bytes) => return Err(error),
            () = taker.blamed() => return Err(WorkspaceError::DiskFull.into()),
            () = capture.flooded() => {
                return Err(PackagesError::TooLarge("the package client says too much".to_owned()));
            }
        };
        if let Reached::Hosts(traffic) = &reached {
            self.metrics.count_traffic(&traffic.report());
        }
        let end =
            end.map_err(|error| PackagesError::failed("run the package client")(error.into()))?;
        if end.timed_out {
            return Err(PackagesError::TimedOut(step.deadline));
        }
        if end.oom_kills > 0 {
            return Err(PackagesError::TooLarge(
                "the package client needs more memory than a run may have (RUN_MEMORY)".to_owned(),
            ));
        }
        let captured = capture.snapshot();
        if end.status != Status::Exit(0) {
            let stderr = captured.text(Stream::Stderr);
            return Err(failed(end.status, &stderr));
        }
        Ok(Performed {
            output: captured.text(Stream::Stdout).into_bytes(),
            reached,
        })
    }

    /// Starts a container for a step. Where it is to reach listed hosts, and none of this engine's can, it has the
    /// engine's network, if that is open.
    async fn start(
        &self,
        runner: &Runner,
        step: &Step,
    ) -> Result<(Sandbox, Reached), PackagesError> {
        let mut sandbox = self.start_with(runner, step, step.network.clone()).await?;
        let NetworkAccess::Listed(list) = &step.network else {
            return Ok((sandbox, Reached::Unseen));
        };
        sandbox.limit_traffic(TrafficLimits {
            // Some of what comes is not written, such as lists of versions.
            bytes: step.max_bytes.saturating_mul(2).max(MIN_TRAFFIC),
            connections: CONNECTIONS,
        });
        match sandbox.open_proxy(list).await {
            Ok(traffic) => Ok((sandbox, Reached::Hosts(traffic))),
            Err(SandboxError::Shut) => {
                drop(sandbox);
                let (network, reached) = match self.gate.network.access() {
                    Ok(network) => (network, Reached::Unseen),
                    Err(reason) => (NetworkAccess::None, Reached::Nothing(reason)),
                };
                Ok((self.start_with(runner, step, network).await?, reached))
            }
            Err(error) => Err(not_started(error)),
        }
    }

    async fn start_with(
        &self,
        runner: &Runner,
        step: &Step,
        network: NetworkAccess,
    ) -> Result<Sandbox, PackagesError> {
        let command = step.script.command.iter();
        let utility = UtilityContainer {
            command: command.map(|&word| word.to_owned()).collect(),
            read_only: step.read_only.clone(),
            network,
        };
        let started = self.pool.start_utility(runner, &step.scratch, utility);
        started.await.map_err(not_started)
    }
}

/// The error for a client that there is no container for.
fn not_started(error: SandboxError) -> PackagesError {
    match error.lack_of_room() {
        Some(reason) => AdmissionError::no_room(reason).into(),
        None => PackagesError::failed("start the package client")(error.into()),
    }
}

/// The error for a client that failed, most often because a file does not fit.
fn failed(status: Status, stderr: &str) -> PackagesError {
    if status == Status::Exit(client::REFUSED) {
        return PackagesError::Incompatible(format!(
            "what was downloaded cannot be unpacked: {}. Ask for another version",
            client::printable(stderr.trim_end())
        ));
    }
    if ["No space left", "File too large", "Disk quota exceeded"]
        .iter()
        .any(|words| stderr.contains(words))
    {
        return PackagesError::TooLarge(
            "a file is larger than one may be (RUN_FILE_SIZE), or the server's disk is full"
                .to_owned(),
        );
    }
    let tail: Vec<_> = stderr.lines().rev().take(5).collect();
    let tail: Vec<_> = tail.into_iter().rev().collect();
    let words = format!("it ended with {}: {}", status.code(), tail.join(" / "));
    PackagesError::failed("run the package client")(words.into())
}

/// Resolves when the step has written more than it may.
async fn exceeded(
    taker: &Taker,
    workspaces: &Workspaces,
    scratch: &Scratch,
    max_bytes: u64,
) -> PackagesError {
    let entries = workspaces.limits().max_entries;
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let started = tokio::time::Instant::now();
        // A tree that cannot be read right now is checked again.
        if let Ok(usage) = scratch.usage(entries).await {
            if usage.bytes > max_bytes || !usage.complete {
                return PackagesError::TooLarge(format!(
                    "what is downloaded and unpacked takes more than {} or {entries} files",
                    size_as_set(max_bytes)
                ));
            }
            taker.measured(&usage);
        }
        if workspaces.check_space().is_err() {
            taker.is_short();
        }
        pause = PAUSE.max(started.elapsed() * PAUSE_FACTOR);
    }
}
