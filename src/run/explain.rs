//! What a run that was observed means: status, exit code and hint, never from an exit code alone. Pure.

use std::time::Duration;

use sandbox_init::{End, Status};

use super::hint::{Hint, TimeLimit, What};
use super::observed::{Cause, Observed};
use super::outcome::{Outcome, RunStatus, Usage};
use crate::config::RunLimits;
use crate::executor::{ContainerEnd, Outage};
use crate::sandbox::Captured;

/// What a run was allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed<'a> {
    pub(super) limits: &'a RunLimits,
    pub(super) time: TimeLimit,
}

/// From how many bytes of output a program may have filled a log, in which a line of one byte takes fifty.
const MUCH: u64 = 1 << 20;

/// How it ended, and what there is to say about that.
type Verdict = (RunStatus, Option<i32>, Option<What>);

impl Observed {
    /// The outcome of a run that was seen to end like this and printed this, without its files.
    pub(super) fn explain(&self, allowed: Allowed<'_>, captured: Captured) -> Outcome {
        let cause = self.cause.given(&captured);
        let (status, exit_code, what) = cause.explain(allowed);
        Outcome {
            status,
            exit_code,
            hint: Hint {
                what,
                kernel: self.kernel,
                is_stderr_empty: captured.stderr.kept == 0,
                ..Hint::default()
            },
            usage: self
                .report
                .as_ref()
                .map_or_else(|| Usage::unreported(self.wall), usage),
            wall: self.wall,
            captured,
            files: Vec::new(),
            files_truncated: false,
            files_left_out: 0,
            lost_kernel: None,
            network: None,
        }
    }
}

impl Cause {
    /// The cause, given what was printed: a log is full because of a program that has printed much, and not because of one
    /// that came after it into the same container.
    fn given(&self, captured: &Captured) -> &Self {
        let counters = [captured.stdout, captured.stderr];
        let printed = counters.map(|counter| counter.kept as u64 + counter.dropped);
        match self {
            Self::Died(ContainerEnd::LogFull(_)) if printed.iter().sum::<u64>() >= MUCH => {
                &Self::Flooded
            }
            _ => self,
        }
    }

    /// The outcome of a run that did not begin.
    pub(super) fn explain_not_begun(self, limits: &RunLimits, captured: Captured) -> Outcome {
        let time = TimeLimit {
            length: Duration::ZERO,
            argument: None,
        };
        Observed::not_begun(self).explain(Allowed { limits, time }, captured)
    }

    fn explain(&self, allowed: Allowed<'_>) -> Verdict {
        let Allowed { limits, time } = allowed;
        let (status, what) = match self {
            Self::Reported(end) => return explain_end(end, allowed),
            Self::Overdue => (RunStatus::Timeout, What::TimedOut(time)),
            Self::Flooded => (
                RunStatus::OutputLimit,
                What::Flooded {
                    limit: limits.output as u64,
                },
            ),
            Self::DiskFull(excess) => (RunStatus::DiskLimit, What::Disk(*excess)),
            Self::Cancelled => (RunStatus::Cancelled, What::Cancelled),
            Self::Died(ContainerEnd::OutOfMemory) => (
                RunStatus::OutOfMemory,
                What::OutOfMemory {
                    limit: limits.memory,
                    peak: None,
                },
            ),
            Self::Died(ContainerEnd::ByEngine(reason) | ContainerEnd::LogFull(reason)) => {
                let reason = format!("the container engine ended the sandbox: {reason}");
                let outage = Outage::passing(reason);
                (RunStatus::EngineLost, What::EngineLost(outage))
            }
            Self::Died(ContainerEnd::Exited(_)) => {
                let outage = Outage::passing("the sandbox ended before the program did");
                (RunStatus::EngineLost, What::EngineLost(outage))
            }
            Self::EngineLost(outage) => (RunStatus::EngineLost, What::EngineLost(outage.clone())),
        };
        (status, None, Some(what))
    }
}

fn explain_end(end: &End, Allowed { limits, time }: Allowed<'_>) -> Verdict {
    let code = Some(end.status.code());
    let of_memory = end.oom_kills > 0;
    // A process or thread was refused to the program.
    let refused = end
        .pids_denied
        .is_some_and(|denied| denied > 0)
        .then_some(limits.pids);
    match end.status {
        _ if end.timed_out => (RunStatus::Timeout, None, Some(What::TimedOut(time))),
        _ if let Some(excess) = end.excess => {
            (RunStatus::OutOfMemory, code, Some(What::Uncounted(excess)))
        }
        Status::Exit(0) if of_memory => {
            let limit = limits.memory;
            (RunStatus::Ok, code, Some(What::ChildOutOfMemory { limit }))
        }
        Status::Exit(0) => {
            let what = refused.map(|limit| What::ProcessesRefused { limit });
            (RunStatus::Ok, code, what)
        }
        _ if of_memory => {
            let what = What::OutOfMemory {
                limit: limits.memory,
                peak: end.peak_bytes,
            };
            (RunStatus::OutOfMemory, code, Some(what))
        }
        Status::Signal(number) => {
            let file_size = limits.file_size;
            let what = What::Signalled { number, file_size };
            (RunStatus::Error, code, Some(what))
        }
        Status::Exit(exit_code) => {
            let what = What::Exited {
                code: exit_code,
                limit: refused,
            };
            (RunStatus::Error, code, Some(what))
        }
    }
}

/// What a program had used by its end, whatever caused that.
fn usage(end: &End) -> Usage {
    Usage {
        cpu_ms: Some(end.cpu_ms),
        peak_memory_bytes: end.peak_bytes,
        wall_ms: end.wall_ms,
    }
}

#[cfg(test)]
mod tests {
    use sandbox_init::{Excess, Held};

    use super::*;
    use crate::config::Config;
    use crate::run::request::TimeArgument;
    use crate::sandbox::Counter;

    fn explain(status: Status, change: impl FnOnce(&mut End)) -> String {
        let mut end = End {
            status,
            timed_out: false,
            wall_ms: 12,
            cpu_ms: 7,
            peak_bytes: Some(5 << 20),
            oom_kills: 0,
            pids_denied: Some(0),
            excess: None,
            lives: false,
            held: Held::default(),
        };
        change(&mut end);
        let secrets = |name: &str| {
            matches!(name, "MCP_API_TOKEN" | "FILE_SECRET").then(|| "0123456789abcdef".repeat(2))
        };
        let allowed = Allowed {
            limits: &Config::from_lookup(&secrets).unwrap().limits,
            time: TimeLimit {
                length: Duration::from_secs(2),
                argument: Some(TimeArgument {
                    name: "timeoutSeconds",
                    max: Duration::from_mins(5),
                }),
            },
        };
        let (status, exit_code, what) = Cause::Reported(end).explain(allowed);
        let hint = Hint {
            what,
            ..Hint::default()
        };
        let hint = hint.text().unwrap_or_default();
        format!("{} {exit_code:?} {hint}", status.into_str())
    }

    #[test]
    fn a_full_log_is_the_doing_of_a_program_that_printed_much() {
        let full = Cause::Died(ContainerEnd::LogFull("Evicted: Too much.".to_owned()));
        let after = |kept, dropped| {
            let mut captured = Captured::default();
            captured.stderr = Counter { kept, dropped };
            matches!(full.given(&captured), Cause::Flooded)
        };
        assert!(after(1 << 20, 0) && after(1000, 1 << 20));
        assert!(!after(1000, 0));
    }

    #[test]
    fn what_no_limit_on_memory_counts_is_a_limit_on_memory() {
        let killed = |excess| explain(Status::Signal(9), |end| end.excess = Some(excess));
        insta::assert_snapshot!(killed(Excess::Sockets), @"out_of_memory Some(137) The program was stopped because it had more than 8192 sockets, or their buffers held more than 128 MiB: read what was sent before sending more, and close sockets that are no longer needed.");
        insta::assert_snapshot!(killed(Excess::Terminals), @"out_of_memory Some(137) The program was stopped because it had more than 64 terminals: close those that are no longer needed.");
    }

    #[test]
    fn exit_137_is_an_error_and_not_the_memory_limit() {
        insta::assert_snapshot!(explain(Status::Exit(137), |_| ()), @"error Some(137) The program ended with exit code 137: see stderr.");
    }

    #[test]
    fn the_memory_limit_is_recognised_by_its_count() {
        insta::assert_snapshot!(explain(Status::Signal(9), |end| end.oom_kills = 1), @"out_of_memory Some(137) The program was killed by the memory limit of 256 MiB (peak 5 MiB): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory.");
        let beside_driver = explain(Status::Signal(9), |end| {
            (end.oom_kills, end.peak_bytes) = (1, Some(360 << 20));
        });
        insta::assert_snapshot!(beside_driver, @"out_of_memory Some(137) The program was killed by the memory limit of 256 MiB (peak 360 MiB, with the libraries that the runner keeps loaded): work on smaller pieces, for example read files in chunks. Files in /tmp count as memory.");
    }

    #[test]
    fn a_parent_that_survives_its_child_is_ok() {
        insta::assert_snapshot!(explain(Status::Exit(0), |end| end.oom_kills = 1), @"ok Some(0) The program ended well, but a process that it had started was killed by the memory limit of 256 MiB.");
    }

    #[test]
    fn a_timeout_goes_before_everything() {
        insta::assert_snapshot!(explain(Status::Signal(9), |end| end.timed_out = true), @"timeout None The program was stopped after its time limit of 2 s: make it faster, or give timeoutSeconds up to 300.");
    }

    #[test]
    fn the_process_limit_is_named() {
        insta::assert_snapshot!(explain(Status::Exit(0), |end| end.pids_denied = Some(3)), @"ok Some(0) The program ended well, but had reached the limit of 128 processes and threads: some were not started.");
        insta::assert_snapshot!(explain(Status::Exit(1), |end| end.pids_denied = Some(3)), @"error Some(1) The program ended with exit code 1 after it had reached the limit of 128 processes and threads: start fewer at a time.");
    }
}
