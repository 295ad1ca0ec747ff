//! Hands a program over, and watches it until it ends or has to be stopped.
//!
//! ```text
//!              reported, or the sandbox falls silent
//! Watched ──────────────────────────────────────────▶ over
//!  │   │ cancelled, flooded, disk full                  ▲
//!  │   ▼             reported in time                   │
//!  │  Interrupted ──────────────────────────────────────┘
//!  │   │
//!  ├───┴─ no report in time ────────────────────────▶ overdue
//!  └───┴─ conversation deleted, server stops ───────▶ killed
//! ```
//!
//! A cell of a kernel has longer to end than a program in a sandbox of its own, and a full disk kills it at once, since
//! it could go on writing. At its time limit, a cell is interrupted by sandbox-init itself. Whatever a kernel says,
//! what a cell has used and written is observed from outside, as for any run.

use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox_init::End;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::disk::{Allowance, held_too_much};
use super::excess::DiskExcess;
use super::observed::{Cause, KernelFate, Observed};
use super::seat::Seat;
use super::silence::{overdue, reported};
use super::{Job, Runs};
use crate::executor::ContainerEnd;
use crate::kernels::KernelLoss;
use crate::sandbox::INTERRUPT_GRACE;
use crate::workspace::Usage;

/// What may pass between a time limit and the answer, which is due three seconds after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AfterLimit {
    /// sandbox-init reports until then: after the limit, and after we interrupt. Then the engine is asked.
    pub(super) report: Duration,
    /// The ending is decided by then, from whatever is known. What is left is for listing the files.
    pub(super) decision: Duration,
}

/// The same for all runs.
pub(super) const AFTER_LIMIT: AfterLimit = AfterLimit {
    report: Duration::from_secs(1),
    decision: Duration::from_millis(2_500),
};

/// How a program is stopped.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Whether it is a cell of a kernel, which is worth waiting for.
    is_cell: bool,
    /// How long it has to end after it was interrupted.
    grace: Duration,
}

impl Policy {
    fn of(seat: &Seat) -> Self {
        let is_cell = matches!(seat, Seat::Kernel(..));
        let grace = if is_cell {
            INTERRUPT_GRACE + AFTER_LIMIT.report
        } else {
            AFTER_LIMIT.report
        };
        Self { is_cell, grace }
    }
}

/// How the watch ended.
struct WatchEnd {
    cause: Cause,
    report: Option<End>,
    /// Why a kernel would be lost by it, if it would be.
    lost: Option<KernelLoss>,
}

impl WatchEnd {
    /// The end was reported of a program that had been interrupted or not.
    fn reported(end: End, interrupted: Option<Cause>) -> Self {
        let lost = (!end.lives).then(|| match interrupted {
            Some(_) => KernelLoss::IgnoredInterrupt,
            None => why_ended(&end),
        });
        Self {
            cause: interrupted.unwrap_or_else(|| Cause::Reported(end.clone())),
            report: Some(end),
            lost,
        }
    }

    /// It was not, or not in time.
    fn unreported(cause: Cause, interrupted: Option<Cause>) -> Self {
        Self {
            lost: Some(why_silent(&cause)),
            cause: interrupted.unwrap_or(cause),
            report: None,
        }
    }

    /// Nobody waits for it.
    fn killed(cause: Cause, lost: KernelLoss) -> Self {
        Self {
            cause,
            report: None,
            lost: Some(lost),
        }
    }
}

impl Runs {
    /// Runs a program to its end, in a workspace that takes what was `found`, if that could be read. Afterwards its sandbox is left for the next
    /// run, kept as a kernel, or removed.
    pub(super) async fn drive(&self, seat: Seat, job: Job<'_>, found: Option<Usage>) -> Observed {
        let allowance = tokio::select! {
            allowance = Allowance::of(&self.files.workspaces, job.workspace, found) => allowance,
            () = job.stop.requested() => return Observed::not_begun(Cause::Cancelled),
        };
        match allowance {
            // Boxed, because it is large and would be part of every caller's future.
            Ok(allowance) => Box::pin(self.watch(seat, job, allowance)).await,
            Err(excess) => Observed::not_begun(Cause::DiskFull(excess)),
        }
    }

    async fn watch(&self, mut seat: Seat, job: Job<'_>, allowance: Allowance) -> Observed {
        let policy = Policy::of(&seat);
        let Some(lease) = seat.begin() else {
            return Observed::not_begun(Cause::Cancelled);
        };
        let (state, late_state) = (lease.state(), lease.state());
        let full = allowance.exceeded(self, job.workspace, lease.scale().clone());
        let interrupt = CancellationToken::new();
        let started = Instant::now();
        job.progress.set_running(started);
        let program = async {
            let program = &job.prepared.program;
            let capture = Arc::clone(&job.progress.capture);
            if policy.is_cell {
                lease.cell(program, capture, interrupt.cancelled()).await
            } else {
                lease.run(program, capture, interrupt.cancelled()).await
            }
        };
        let ended = OnceLock::new();
        let program = reported(program, state, &ended);
        let limit = started + job.prepared.program.deadline;
        let late = async {
            sleep_until(limit + AFTER_LIMIT.report).await;
            let decision = limit + AFTER_LIMIT.decision;
            let cause = overdue(late_state, decision).await;
            if policy.is_cell {
                // One that was interrupted can report until then.
                sleep_until(decision).await;
            }
            cause
        };
        let seen = see(policy, job, &interrupt, program, full, late).await;
        let wall = *ended.get_or_init(Instant::now) - started;
        self.settle(seat, job, seen, wall).await
    }

    /// Lets go of the sandbox as the end of its program has it.
    async fn settle(&self, seat: Seat, job: Job<'_>, seen: WatchEnd, wall: Duration) -> Observed {
        let WatchEnd {
            mut cause,
            report,
            mut lost,
        } = seen;
        let kernel = match seat {
            Seat::Sandbox(lease) => {
                // Any other ending removes the sandbox.
                if report.is_some() {
                    lease.finish(job.workspace);
                }
                None
            }
            Seat::Kernel(mut turn, _) => {
                if let (None, Some(end)) = (lost, &report) {
                    let held = held_too_much(job.workspace, end.held);
                    if let Some(excess) = held.await {
                        (cause, lost) = (Cause::DiskFull(excess), Some(KernelLoss::Held));
                    }
                }
                match lost {
                    Some(why) => turn.lose(why),
                    None => turn.keep(job.workspace),
                }
                Some(lost.map_or(KernelFate::Lives, KernelFate::Lost))
            }
        };
        Observed {
            cause,
            report,
            wall,
            kernel,
        }
    }
}

/// Waits for the end of a program, and has it interrupted when there is a reason. `late` resolves when there was no
/// report in time, `full` when its files are too much.
async fn see(
    policy: Policy,
    job: Job<'_>,
    interrupt: &CancellationToken,
    program: impl Future<Output = Result<End, Cause>>,
    full: impl Future<Output = DiskExcess>,
    late: impl Future<Output = Cause>,
) -> WatchEnd {
    let (mut program, mut late) = (pin!(program), pin!(late));
    // Dropped when it has nothing to say any more: until then the run counts among those that fill the disk.
    let mut full = Some(Box::pin(full));
    let mut interrupted: Option<(Cause, Instant)> = None;
    loop {
        let is_first = interrupted.is_none();
        let cause = tokio::select! {
            end = &mut program => {
                let interrupted = interrupted.map(|(cause, _)| cause);
                return match end {
                    Ok(end) => WatchEnd::reported(end, interrupted),
                    Err(cause) => WatchEnd::unreported(cause, interrupted),
                };
            }
            // However a cell responds to an interrupt, it could go on writing meanwhile.
            excess = until_full(full.as_mut()) => {
                let cause = Cause::DiskFull(excess);
                if policy.is_cell {
                    return WatchEnd::killed(cause, KernelLoss::Disk);
                }
                cause
            }
            () = job.progress.capture.flooded(), if is_first => Cause::Flooded,
            () = job.stop.cancel.cancelled(), if is_first => Cause::Cancelled,
            () = job.stop.end.cancelled() => return WatchEnd::killed(Cause::Cancelled, KernelLoss::Deleted),
            cause = &mut late => {
                let cause = interrupted.map_or(cause, |(cause, _)| cause);
                return WatchEnd::unreported(cause, None);
            }
            cause = until_due(interrupted.as_ref()) => return WatchEnd::unreported(cause, None),
        };
        interrupt.cancel();
        if !policy.is_cell {
            full = None;
        }
        interrupted = Some((cause, Instant::now() + policy.grace));
    }
}

/// Never resolves without a watch.
async fn until_full(full: Option<&mut Pin<Box<impl Future<Output = DiskExcess>>>>) -> DiskExcess {
    match full {
        Some(full) => full.await,
        None => std::future::pending().await,
    }
}

/// Resolves with why the program was interrupted, once it has had its time to end. Never if it was not.
async fn until_due(interrupted: Option<&(Cause, Instant)>) -> Cause {
    match interrupted {
        Some((cause, due)) => {
            sleep_until(*due).await;
            cause.clone()
        }
        None => std::future::pending().await,
    }
}

/// Why a kernel is lost whose cell ended like this without a report.
fn why_silent(cause: &Cause) -> KernelLoss {
    match cause {
        Cause::Overdue => KernelLoss::Timeout,
        Cause::Died(ContainerEnd::OutOfMemory) => KernelLoss::Memory,
        Cause::Flooded | Cause::Cancelled => KernelLoss::IgnoredInterrupt,
        _ => KernelLoss::Gone,
    }
}

/// Why a kernel was lost, if its end was reported.
fn why_ended(end: &End) -> KernelLoss {
    if end.timed_out {
        KernelLoss::Timeout
    } else if end.oom_kills > 0 {
        KernelLoss::Memory
    } else {
        KernelLoss::Ended(end.status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Outage;

    #[test]
    fn a_kernel_is_lost_for_the_reason_of_its_cell() {
        let lost = [
            Cause::Overdue,
            Cause::Died(ContainerEnd::OutOfMemory),
            Cause::Died(ContainerEnd::Exited(Some(0))),
            Cause::EngineLost(Outage::passing("")),
            Cause::Cancelled,
        ]
        .map(|cause| WatchEnd::unreported(cause, None).lost.unwrap());
        let expected = [
            KernelLoss::Timeout,
            KernelLoss::Memory,
            KernelLoss::Gone,
            KernelLoss::Gone,
            KernelLoss::IgnoredInterrupt,
        ];
        assert_eq!(lost, expected);
    }
}
