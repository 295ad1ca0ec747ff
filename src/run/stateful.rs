//! Runs in a kernel: cells, which are interrupted before anything is killed.
//!
//! ```text
//!            reported                                  lives
//! Watched ───────────────────────────────────────▶ Over ─────▶ the kernel is kept
//!    │ cancelled, flooded                           ▲  │
//!    ▼                       reported in time       │  └─────▶ it is lost
//! Interrupted ──────────────────────────────────────┘            ▲
//!    │ no report in time                                         │
//!    └───────────────────────────────────────────────────────────┤
//! disk full, conversation deleted, server stops, report overdue ─┘
//! ```
//!
//! At its deadline, a cell is interrupted by sandbox-init itself. Whatever the kernel says, what a cell has used and
//! written is observed from outside, as for any run.

use std::sync::{Arc, OnceLock};

use sandbox_init::End;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::disk::{Allowance, held_too_much};
use super::ending::Ending;
use super::seat::{LeaseError, Ran, Seat};
use super::silence::{overdue, reported};
use super::watch::{Watched, watch};
use super::{DECISION, Job, KernelWish, Prepared, REPORT_GRACE, RunError, Runs};
use crate::executor::ContainerEnd;
use crate::executor::spec::NetworkAccess;
use crate::gate::Stop;
use crate::kernels::{Kernel, Lost, Needs, Turn};
use crate::pool::Way;
use crate::sandbox::INTERRUPT_GRACE;
use crate::workspace::Workspace;

impl Prepared {
    fn needs(&self) -> Needs<'_> {
        Needs {
            runner: &self.runner,
            network: self.network != NetworkAccess::None,
            env: &self.program.env,
        }
    }
}

impl Runs {
    /// The turn of a stateful run: a kernel that fits it, or the place for one.
    pub(super) async fn turn(
        &self,
        prepared: &Prepared,
        wish: KernelWish,
    ) -> Result<Turn, RunError> {
        let Prepared { key, runner, .. } = prepared;
        let mut turn = self.kernels.turn(key, runner, wish.wait).await?;
        turn.fit(prepared.needs(), wish.restart)?;
        Ok(turn)
    }

    /// The kernel of a turn, or a new one, in a warm sandbox if there is one.
    pub(super) async fn kernel_seat(
        &self,
        prepared: &Prepared,
        mut turn: Turn,
    ) -> Result<(Seat, Workspace), LeaseError> {
        let Prepared { runner, key, .. } = prepared;
        let needs = prepared.needs();
        let found = self.files.workspaces.find(key).await?;
        if turn.has_kernel_for(found.as_ref())
            && let Some(workspace) = found
        {
            return Ok((Seat::Kernel(turn, Way::Kernel), workspace));
        }
        turn.make_room()?;
        let early = needs.early_env();
        let may_be_warm = !needs.network && early.is_empty();
        let warm = if may_be_warm {
            // A kernel needs everything loaded: the cell would wait for that, within its time limit and on half a core.
            let warm = self.warm_lease(prepared).await?;
            warm.filter(|(lease, _)| !lease.is_loading())
        } else {
            None
        };
        let (lease, workspace) = if let Some(leased) = warm {
            leased
        } else {
            let workspace = self.files.workspaces.create(key).await?;
            let network = prepared.network.clone();
            let parked = self.pool.start_parked(&workspace, runner, network, &early);
            (parked.await?, workspace)
        };
        let way = lease.way();
        turn.settle(Kernel::new(lease, needs));
        Ok((Seat::Kernel(turn, way), workspace))
    }

    pub(super) async fn run_cell(&self, mut turn: Turn, job: Job<'_>, allowance: Allowance) -> Ran {
        let Job {
            prepared,
            workspace,
            capture,
            stop,
        } = job;
        let started = Instant::now();
        let limit = started + prepared.program.deadline;
        let Some(lease) = turn.begin() else {
            return Ran::not(Ending::Cancelled);
        };
        let (state, late_state) = (lease.state(), lease.state());
        let scale = lease.scale().clone();
        let interrupt = CancellationToken::new();
        let cell = lease.cell(
            &prepared.program,
            Arc::clone(capture),
            interrupt.cancelled(),
        );
        let ended = OnceLock::new();
        let cell = reported(cell, state, &ended);
        let full = allowance.exceeded(self, workspace, scale);
        let early = async {
            tokio::select! {
                () = capture.flooded() => Ending::Flooded,
                () = stop.cancel.cancelled() => Ending::Cancelled,
            }
        };
        let late = async {
            sleep_until(limit + REPORT_GRACE).await;
            let decision = limit + DECISION;
            // A kernel that was interrupted can report until then, while the engine is asked.
            let (ending, ()) = tokio::join!(overdue(late_state, decision), sleep_until(decision));
            ending
        };
        let grace = INTERRUPT_GRACE + REPORT_GRACE;
        let watch = watch(cell, killed(full, stop), early, late, &interrupt, grace);
        let watched = watch.await;
        let wall = *ended.get_or_init(Instant::now) - started;
        let report = watched.report();
        let (mut ending, mut lost) = judge(watched);
        if let (None, Some(end)) = (lost, &report) {
            let held = held_too_much(&self.files.workspaces, workspace, end.held);
            if let Some(reason) = held.await {
                (ending, lost) = (Ending::DiskFull(reason), Some(Lost::Held));
            }
        }
        match lost {
            Some(why) => turn.lose(why),
            None => turn.keep(workspace),
        }
        Ran {
            ending,
            wall,
            report,
            kernel: Some(lost.map_or(Ok(()), Err)),
        }
    }
}

/// How the cell ended, and why its kernel is lost if it is.
fn judge(watched: Watched<(Ending, Lost)>) -> (Ending, Option<Lost>) {
    match watched {
        Watched::Killed((ending, why)) => (ending, Some(why)),
        Watched::Over(Ok(end), Some(ending)) => (ending, (!end.lives).then_some(Lost::Deaf)),
        Watched::Over(Ok(end), None) => {
            let lost = (!end.lives).then(|| lost(&end));
            (Ending::Reported(end), lost)
        }
        Watched::Over(Err(ending), interrupted) => {
            let why = unreported(&ending);
            (interrupted.unwrap_or(ending), Some(why))
        }
        Watched::Overdue(ending) => {
            let why = unreported(&ending);
            (ending, Some(why))
        }
    }
}

/// Why a kernel is lost whose cell ended like this without a report.
fn unreported(ending: &Ending) -> Lost {
    match ending {
        Ending::Overdue => Lost::Timeout,
        Ending::Died(ContainerEnd::OutOfMemory) => Lost::Memory,
        Ending::Flooded | Ending::Cancelled => Lost::Deaf,
        _ => Lost::Gone,
    }
}

/// What removes the sandbox, however the cell responds to an interrupt.
async fn killed(full: impl Future<Output = String>, stop: &Stop) -> (Ending, Lost) {
    tokio::select! {
        reason = full => (Ending::DiskFull(reason), Lost::Disk),
        () = stop.end.cancelled() => (Ending::Cancelled, Lost::Deleted),
    }
}

/// Why a kernel was lost, if its end was reported.
fn lost(end: &End) -> Lost {
    if end.timed_out {
        Lost::Timeout
    } else if end.oom_kills > 0 {
        Lost::Memory
    } else {
        Lost::Ended(end.status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Outage;

    #[test]
    fn a_kernel_is_lost_for_the_reason_that_its_cell_is_told() {
        let lost = [
            Ending::Overdue,
            Ending::Died(ContainerEnd::OutOfMemory),
            Ending::Died(ContainerEnd::Exited(Some(0))),
            Ending::EngineLost(Outage::passing("")),
            Ending::Cancelled,
        ]
        .map(|ending| judge(Watched::Overdue(ending)).1.unwrap());
        let expected = [
            Lost::Timeout,
            Lost::Memory,
            Lost::Gone,
            Lost::Gone,
            Lost::Deaf,
        ];
        assert_eq!(lost, expected);
    }
}
