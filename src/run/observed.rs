//! What was seen of a run, before anybody explains it.

use std::time::Duration;

use sandbox_init::End;

use super::excess::DiskExcess;
use crate::executor::{ContainerEnd, Outage};
use crate::kernels::KernelLoss;

/// What ended a run.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// sandbox-init reported the end.
    Reported(End),
    /// The time limit passed without a report.
    Overdue,
    /// The program printed far more than the limit.
    Flooded,
    /// The files grew beyond what is allowed.
    DiskFull(DiskExcess),
    /// The caller went away or the server is stopping.
    Cancelled,
    /// The container ended without a report.
    Died(ContainerEnd),
    /// The engine failed.
    EngineLost(Outage),
}

/// What became of the kernel that a cell ran in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelFate {
    /// It goes on, with its variables.
    Lives,
    /// It does not, for this reason.
    Lost(KernelLoss),
}

/// How a run was seen to end.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) cause: Cause,
    /// What was reported about the end, whatever caused it.
    pub(super) report: Option<End>,
    /// From handing over the program to its end.
    pub(super) wall: Duration,
    /// For a cell: what became of its kernel.
    pub(super) kernel: Option<KernelFate>,
}

impl Observed {
    /// A program that was not handed over.
    pub(super) fn not_begun(cause: Cause) -> Self {
        Self {
            cause,
            report: None,
            wall: Duration::ZERO,
            kernel: None,
        }
    }
}
