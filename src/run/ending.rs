//! How a run ended, from what was observed; never from an exit code alone.

use std::time::Duration;

use sandbox_init::{BUFFERS_MAX, End, Excess, SOCKETS_MAX, Status, TERMINALS_MAX};

use super::TimeArgument;
use super::outcome::{RunStatus, Usage};
use crate::config::RunLimits;
use crate::executor::{ContainerEnd, Outage};

/// Points to what a program said about its end.
const SEE_STDERR: &str = ": see stderr.";
/// For a cell whose kernel lives on.
const KEPT: &str = "The kernel and its variables live on.";
/// For one whose kernel does not.
const LOST: &str = "The kernel has ended: its variables are lost, and the next stateful run begins with a new one.";

/// What ended a run.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// sandbox-init reported the end.
    Reported(End),
    /// The time limit passed without a report.
    Overdue,
    /// The program printed far more than the limit.
    Flooded,
    /// The files grew beyond what is allowed; the sentence says which limit.
    DiskFull(String),
    /// The caller went away or the server is stopping.
    Cancelled,
    /// The container ended without a report.
    Died(ContainerEnd),
    /// The engine failed.
    EngineLost(Outage),
}

/// An ending, explained.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) status: RunStatus,
    pub(crate) exit_code: Option<i32>,
    pub(crate) hint: Option<String>,
    pub(crate) usage: Usage,
}

impl Verdict {
    /// Adds a sentence to the hint.
    pub(super) fn add_hint(&mut self, sentence: Option<String>) {
        let sentences = [self.hint.take(), sentence];
        self.hint = sentences
            .into_iter()
            .flatten()
            .reduce(|said, more| format!("{said} {more}"));
    }
}

impl Ending {
    /// Explains the ending of a run that took `wall` and had `time`.
    pub(super) fn explain(&self, limits: &RunLimits, time: &TimeLimit, wall: Duration) -> Verdict {
        let stopped = |status, hint: String| Verdict {
            status,
            exit_code: None,
            hint: Some(hint),
            usage: Usage::unreported(wall),
        };
        match self {
            Self::Reported(end) => explain_end(end, limits, time),
            Self::Overdue => stopped(RunStatus::Timeout, timeout_hint(time)),
            Self::Flooded => stopped(RunStatus::OutputLimit, flood_hint(limits)),
            Self::DiskFull(reason) => stopped(RunStatus::DiskLimit, reason.clone()),
            Self::Cancelled => stopped(
                RunStatus::Cancelled,
                "The run was cancelled before its end.".to_owned(),
            ),
            Self::Died(ContainerEnd::OutOfMemory) => {
                stopped(RunStatus::OutOfMemory, memory_hint(limits, None))
            }
            Self::Died(ContainerEnd::ByEngine(reason)) => stopped(
                RunStatus::EngineLost,
                engine_hint(&Outage::passing(format!(
                    "the container engine ended the sandbox: {reason}"
                ))),
            ),
            Self::Died(ContainerEnd::Exited(_)) => stopped(
                RunStatus::EngineLost,
                engine_hint(&Outage::passing("the sandbox ended before the program did")),
            ),
            Self::EngineLost(outage) => stopped(RunStatus::EngineLost, engine_hint(outage)),
        }
    }
}

fn explain_end(end: &End, limits: &RunLimits, time: &TimeLimit) -> Verdict {
    let exit_code = Some(end.status.code());
    let of_memory = end.oom_kills > 0;
    let (status, exit_code, hint) = match end.status {
        _ if end.timed_out => (RunStatus::Timeout, None, Some(timeout_hint(time))),
        _ if let Some(excess) = end.excess => {
            (RunStatus::OutOfMemory, exit_code, Some(excess_hint(excess)))
        }
        Status::Exit(0) if of_memory => (RunStatus::Ok, exit_code, Some(child_hint(limits))),
        Status::Exit(0) if refused(end) => (RunStatus::Ok, exit_code, Some(refused_hint(limits))),
        Status::Exit(0) => (RunStatus::Ok, exit_code, None),
        _ if of_memory => (
            RunStatus::OutOfMemory,
            exit_code,
            Some(memory_hint(limits, end.peak_bytes)),
        ),
        Status::Signal(number) => (
            RunStatus::Error,
            exit_code,
            Some(signal_hint(number, limits)),
        ),
        Status::Exit(code) => (
            RunStatus::Error,
            exit_code,
            Some(exit_hint(code, end, limits)),
        ),
    };
    Verdict {
        status,
        exit_code,
        hint,
        usage: usage(end),
    }
}

/// What a program had used by its end, whatever caused that.
pub(super) fn usage(end: &End) -> Usage {
    Usage {
        cpu_ms: Some(end.cpu_ms),
        peak_memory_bytes: end.peak_bytes,
        wall_ms: end.wall_ms,
    }
}

/// Whether a process or thread was refused to the program.
fn refused(end: &End) -> bool {
    end.pids_denied.is_some_and(|denied| denied > 0)
}

fn exit_hint(code: i32, end: &End, limits: &RunLimits) -> String {
    if refused(end) {
        let pids = limits.pids;
        return format!(
            "The program ended with exit code {code} after it had reached the limit of {pids} processes and threads: \
             start fewer at a time."
        );
    }
    format!("The program ended with exit code {code}{SEE_STDERR}")
}

/// The hint for a program that printed nothing to standard error.
pub(super) fn nothing_to_see(hint: &str) -> String {
    // More may follow, such as that the kernel has ended.
    hint.replacen(SEE_STDERR, " and printed nothing to stderr.", 1)
}

fn signal_hint(number: i32, limits: &RunLimits) -> String {
    let what = match number {
        4 => " (SIGILL: illegal instruction)".to_owned(),
        6 => " (SIGABRT: it aborted)".to_owned(),
        8 => " (SIGFPE: arithmetic error)".to_owned(),
        9 => " (SIGKILL, by itself or one of its own processes)".to_owned(),
        11 => " (SIGSEGV: invalid memory access)".to_owned(),
        15 => " (SIGTERM)".to_owned(),
        25 => format!(
            " (SIGXFSZ: a file grew over the limit of {})",
            size_as_set(limits.file_size)
        ),
        _ => String::new(),
    };
    format!("The program was ended by signal {number}{what}.")
}

fn timeout_hint(time: &TimeLimit) -> String {
    format!("The program was stopped after {}", time.way_out())
}

fn memory_hint(limits: &RunLimits, peak: Option<u64>) -> String {
    // The sandbox has room for the runner's driver on top of the program's limit, and the peak covers both.
    let with = match peak {
        Some(peak) if peak > limits.memory => ", with the libraries that the runner keeps loaded",
        _ => "",
    };
    let peak = peak.map_or_else(String::new, |peak| {
        format!(" (peak {}{with})", mebibytes(peak))
    });
    format!(
        "The program was killed by the memory limit of {}{peak}: work on smaller pieces, for example read files in \
         chunks. Files in /tmp count as memory.",
        size_as_set(limits.memory)
    )
}

fn excess_hint(excess: Excess) -> String {
    let what = match excess {
        Excess::Sockets => format!(
            "it had more than {SOCKETS_MAX} sockets, or their buffers held more than {}: read what was sent before \
             sending more, and close sockets that are no longer needed",
            size_as_set(BUFFERS_MAX)
        ),
        Excess::Terminals => format!(
            "it had more than {TERMINALS_MAX} terminals: close those that are no longer needed"
        ),
    };
    format!("The program was stopped because {what}.")
}

fn child_hint(limits: &RunLimits) -> String {
    format!(
        "The program ended well, but a process that it had started was killed by the memory limit of {}.",
        size_as_set(limits.memory)
    )
}

fn refused_hint(limits: &RunLimits) -> String {
    format!(
        "The program ended well, but had reached the limit of {} processes and threads: some were not started.",
        limits.pids
    )
}

fn flood_hint(limits: &RunLimits) -> String {
    format!(
        "The program was stopped because it printed without end: at most {} of each stream are kept. Write large \
         output to a file in /data instead.",
        size_as_set(limits.output as u64)
    )
}

fn engine_hint(outage: &Outage) -> String {
    let next = if outage.lasts {
        "Trying again does not help: the server's operator has to mend this"
    } else {
        "Try again in a few seconds"
    };
    format!("The server could not run the program, through no fault of it: {outage}. {next}.")
}

/// A size in the unit that people think in.
pub(super) fn mebibytes(bytes: u64) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// A limit as it was set: in the largest unit that divides it evenly, so that it is never rounded down.
pub fn size_as_set(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        20..64 => format!("{} MiB", bytes >> 20),
        10..20 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// How long a run was allowed to take, and how it could have been given longer.
pub(super) struct TimeLimit {
    pub(super) length: Duration,
    pub(super) argument: Option<TimeArgument>,
}

impl TimeLimit {
    /// What to do about it.
    fn way_out(&self) -> String {
        let longer = match self.argument {
            Some(TimeArgument { name, most }) if self.length < most => {
                format!(", or give {name} up to {}", most.as_secs_f64())
            }
            _ => String::new(),
        };
        let length = self.length.as_secs_f64();
        format!("its time limit of {length} s: make it faster{longer}.")
    }
}

/// Adds what became of a kernel to what became of its cell.
pub(super) fn with_kernel(mut verdict: Verdict, lives: bool, time: &TimeLimit) -> Verdict {
    verdict.hint = match (verdict.hint.take(), verdict.status) {
        (hint, RunStatus::Ok) if lives => hint,
        (_, RunStatus::Timeout) if lives => Some(format!(
            "The program was interrupted after {} {KEPT}",
            time.way_out()
        )),
        (Some(hint), _) if lives => Some(format!("{hint} {KEPT}")),
        (hint, _) if lives => hint,
        (hint, _) => {
            let hint = hint.map_or_else(String::new, |hint| hint + " ");
            Some(format!("{hint}{LOST}"))
        }
    };
    verdict
}

#[cfg(test)]
mod tests {
    use sandbox_init::Held;

    use super::*;
    use crate::config::Config;

    fn time_limit(seconds: f64, argument: Option<(&'static str, f64)>) -> TimeLimit {
        TimeLimit {
            length: Duration::from_secs_f64(seconds),
            argument: argument.map(|(name, most)| TimeArgument {
                name,
                most: Duration::from_secs_f64(most),
            }),
        }
    }

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
        let limits = Config::from_lookup(&secrets).unwrap().limits;
        let time = time_limit(2.0, Some(("timeoutSeconds", 300.0)));
        let verdict = Ending::Reported(end).explain(&limits, &time, Duration::from_millis(13));
        let hint = verdict.hint.unwrap_or_default();
        format!(
            "{} {:?} {hint}",
            verdict.status.into_str(),
            verdict.exit_code
        )
    }

    #[test]
    fn a_limit_is_told_as_it_was_set() {
        let told = [0, 1_000, 1_536, 512 << 10, 1_536 << 10, 1 << 20, 3 << 30].map(size_as_set);
        insta::assert_snapshot!(told.join(", "), @"0 bytes, 1000 bytes, 1536 bytes, 512 KiB, 1536 KiB, 1 MiB, 3072 MiB");
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
    fn nobody_is_sent_to_an_empty_stream() {
        let ended = "The program ended with exit code 3: see stderr. The kernel has ended.";
        insta::assert_snapshot!(nothing_to_see(ended), @"The program ended with exit code 3 and printed nothing to stderr. The kernel has ended.");
        insta::assert_snapshot!(nothing_to_see("The program was cancelled."), @"The program was cancelled.");
    }

    #[test]
    fn the_memory_limit_is_told_by_its_count() {
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
    fn a_longer_time_is_advised_only_where_there_is_one() {
        let told = |(seconds, argument)| time_limit(seconds, argument).way_out();
        let texts = [
            (0.5, Some(("timeoutSeconds", 2.5))),
            (2.4, Some(("timeout", 2.5))),
            (2.5, Some(("timeout", 2.5))),
            (0.5, None),
        ]
        .map(told);
        insta::assert_snapshot!(texts.join("\n"), @"
        its time limit of 0.5 s: make it faster, or give timeoutSeconds up to 2.5.
        its time limit of 2.4 s: make it faster, or give timeout up to 2.5.
        its time limit of 2.5 s: make it faster.
        its time limit of 0.5 s: make it faster.
        ");
    }

    #[test]
    fn the_process_limit_is_named() {
        insta::assert_snapshot!(explain(Status::Exit(0), |end| end.pids_denied = Some(3)), @"ok Some(0) The program ended well, but had reached the limit of 128 processes and threads: some were not started.");
        insta::assert_snapshot!(explain(Status::Exit(1), |end| end.pids_denied = Some(3)), @"error Some(1) The program ended with exit code 1 after it had reached the limit of 128 processes and threads: start fewer at a time.");
    }
}
