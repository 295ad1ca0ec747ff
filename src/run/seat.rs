//! Where a run takes place: in a sandbox leased for this run, or in the conversation's kernel.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox_init::End;
use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::disk::Allowance;
use super::ending::{self, Ending, TimeLimit, Verdict, with_kernel};
use super::error::NotBegun;
use super::silence::{overdue, reported};
use super::watch::{Watched, watch};
use super::{DECISION, Job, Prepared, REPORT_GRACE, Runs};
use crate::config::RunLimits;
use crate::executor::spec::NetworkAccess;
use crate::kernels::{KernelError, Lost, Turn};
use crate::pool::{Lease, Way};
use crate::sandbox::SandboxError;
use crate::workspace::{Workspace, WorkspaceError};

/// Where a run takes place.
#[derive(Debug)]
pub(super) enum Seat {
    /// In a clean sandbox, which is cleaned afterwards or removed.
    Once(Lease),
    /// In the conversation's kernel.
    Kernel(Turn, Way),
}

impl Seat {
    pub(super) fn way(&self) -> Way {
        match self {
            Self::Once(lease) => lease.way(),
            Self::Kernel(_, way) => *way,
        }
    }

    /// What became of the kernel that the run would have had.
    pub(super) fn take_lost(&mut self) -> Option<Lost> {
        match self {
            Self::Once(_) => None,
            Self::Kernel(turn, _) => turn.take_lost(),
        }
    }
}

/// How a run ended, and what became of the kernel if it had one.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) ending: Ending,
    pub(super) wall: Duration,
    /// What was reported about its end, whatever caused it.
    pub(super) report: Option<End>,
    pub(super) kernel: Option<Result<(), Lost>>,
}

impl Ran {
    /// Explains it to the caller. `time` is what the run was allowed.
    pub(super) fn explain(&self, limits: &RunLimits, time: &TimeLimit) -> Verdict {
        let mut verdict = self.ending.explain(limits, time, self.wall);
        if let Some(end) = &self.report {
            verdict.usage = ending::usage(end);
        }
        match &self.kernel {
            Some(kernel) => with_kernel(verdict, kernel.is_ok(), time),
            None => verdict,
        }
    }

    /// A run that did not begin.
    pub(super) fn not(ending: Ending) -> Self {
        Self {
            ending,
            wall: Duration::ZERO,
            report: None,
            kernel: None,
        }
    }
}

/// Why there is no sandbox for a run.
#[derive(Debug, Error)]
pub(super) enum LeaseError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl From<LeaseError> for NotBegun {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Workspace(error) => error.into(),
            LeaseError::Kernel(error) => error.into(),
            LeaseError::Sandbox(error) => Ending::EngineLost(error.outage()).into(),
        }
    }
}

impl Runs {
    /// A place for a run, and the workspace that it has as `/data`.
    pub(super) async fn seat(
        &self,
        prepared: &Prepared,
        turn: Option<Turn>,
    ) -> Result<(Seat, Workspace), LeaseError> {
        if let Some(turn) = turn {
            // Boxed, because it is large and few runs need it.
            return Box::pin(self.kernel_seat(prepared, turn)).await;
        }
        let (lease, workspace) = self.lease(prepared).await?;
        Ok((Seat::Once(lease), workspace))
    }

    /// A sandbox for one run, warm if there is one that fits.
    async fn lease(&self, prepared: &Prepared) -> Result<(Lease, Workspace), LeaseError> {
        let Prepared {
            runner,
            key,
            network,
            program,
            ..
        } = prepared;
        let may_be_warm = prepared.may_be_warm
            && *network == NetworkAccess::None
            && runner.can_be_warm(program.env.keys());
        if may_be_warm && let Some(leased) = self.warm_lease(prepared).await? {
            return Ok(leased);
        }
        // The directory first, since the container mounts it.
        let workspace = self.files.workspaces.create(key).await?;
        let lease = self
            .pool
            .start_cold(&workspace, runner, network.clone(), may_be_warm)
            .await?;
        Ok((lease, workspace))
    }

    /// A sandbox that already exists.
    pub(super) async fn warm_lease(
        &self,
        prepared: &Prepared,
    ) -> Result<Option<(Lease, Workspace)>, LeaseError> {
        let Some(lease) = self.pool.claim(&prepared.key, &prepared.runner).await? else {
            return Ok(None);
        };
        let workspace = self.files.workspaces.create(&prepared.key).await?;
        Ok(lease.fits(&workspace).then_some((lease, workspace)))
    }

    /// Runs the program and watches it until it ends or is stopped.
    pub(super) async fn run_in(&self, seat: Seat, job: Job<'_>) -> Ran {
        let allowance = tokio::select! {
            allowance = Allowance::of(&self.files.workspaces, job.workspace) => allowance,
            () = job.stop.requested() => return Ran::not(Ending::Cancelled),
        };
        let allowance = match allowance {
            Ok(allowance) => allowance,
            Err(reason) => return Ran::not(Ending::DiskFull(reason)),
        };
        match seat {
            Seat::Once(lease) => self.run_once(lease, job, allowance).await,
            Seat::Kernel(turn, _) => Box::pin(self.run_cell(turn, job, allowance)).await,
        }
    }

    async fn run_once(&self, mut lease: Lease, job: Job<'_>, allowance: Allowance) -> Ran {
        let Job {
            prepared,
            workspace,
            capture,
            stop,
        } = job;
        let started = Instant::now();
        let limit = started + prepared.program.deadline;
        let (state, late_state) = (lease.state(), lease.state());
        let scale = lease.scale().clone();
        let interrupt = CancellationToken::new();
        let run = lease.run(
            &prepared.program,
            Arc::clone(capture),
            interrupt.cancelled(),
        );
        let ended = OnceLock::new();
        let run = reported(run, state, &ended);
        let full = allowance.exceeded(self, workspace, scale);
        let early = async {
            tokio::select! {
                () = capture.flooded() => Ending::Flooded,
                reason = full => Ending::DiskFull(reason),
                () = stop.cancel.cancelled() => Ending::Cancelled,
            }
        };
        let late = async {
            sleep_until(limit + REPORT_GRACE).await;
            overdue(late_state, limit + DECISION).await
        };
        let killed = async {
            stop.end.cancelled().await;
            Ending::Cancelled
        };
        let watch = watch(run, killed, early, late, &interrupt, REPORT_GRACE);
        // Boxed, because it is large and would be part of every caller's future.
        let watched = Box::pin(watch).await;
        let wall = *ended.get_or_init(Instant::now) - started;
        let report = watched.report();
        let ending = match watched {
            Watched::Over(Ok(end), None) => Ending::Reported(end),
            Watched::Over(_, Some(ending))
            | Watched::Over(Err(ending), None)
            | Watched::Overdue(ending)
            | Watched::Killed(ending) => ending,
        };
        // Any other ending removes the sandbox.
        if report.is_some() {
            lease.finish(workspace);
        }
        Ran {
            ending,
            wall,
            report,
            kernel: None,
        }
    }
}
