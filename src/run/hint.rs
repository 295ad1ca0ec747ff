//! What there is to say about the end of a run, as a value. [`Hint::text`] makes the sentences, once, for whoever shows
//! them.

use std::fmt;
use std::time::Duration;

use sandbox_init::{BUFFERS_MAX, Excess, SOCKETS_MAX, TERMINALS_MAX};

use super::excess::DiskExcess;
use super::observed::KernelFate;
use super::request::TimeArgument;
use crate::executor::Outage;
use crate::runner::hints::{Advice, Remedy, RemedyKind};
use crate::units::{mebibytes, size_as_set};

/// For a cell whose kernel lives on.
const KEPT: &str = "The kernel and its variables live on.";
/// For one whose kernel does not.
const LOST: &str = "The kernel has ended: its variables are lost, and the next stateful run begins with a new one.";
/// For a run whose files could not be listed.
const UNLISTED: &str =
    "The server failed to look at the files after the run: list_files tells what there is.";

/// What happened, and what to do about it.
#[derive(Clone, Debug, Default)]
pub struct Hint {
    /// What ended the program, if there is something to say about that.
    pub(super) what: Option<What>,
    /// For a cell: what became of its kernel.
    pub(super) kernel: Option<KernelFate>,
    /// Whether the program printed nothing to standard error.
    pub(super) is_stderr_empty: bool,
    /// What the runner's image says about what was printed there.
    pub(super) advice: Option<Advice>,
    /// A host that the program wanted to reach and that is not listed, and what is.
    pub(super) unlisted_hosts: Option<(String, String)>,
    /// Whether the files could not be listed.
    pub(super) is_unlisted: bool,
}

/// What ended a program, or what it did not get.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Its time.
    TimedOut(TimeLimit),
    /// The memory limit of so many bytes.
    OutOfMemory { limit: u64, peak: Option<u64> },
    /// A limit on what is not counted as memory.
    Uncounted(Excess),
    /// It ended well, but the memory limit killed a process that it had started.
    ChildOutOfMemory { limit: u64 },
    /// It ended well, but some of its processes or threads were refused.
    ProcessesRefused { limit: u32 },
    /// By itself, after processes or threads were refused if there is a limit.
    Exited { code: i32, limit: Option<u32> },
    /// A signal.
    Signalled { number: i32, file_size: u64 },
    /// It printed without end.
    Flooded { limit: u64 },
    /// A limit on files.
    Disk(DiskExcess),
    /// Its caller, or the end of the server.
    Cancelled,
    /// The engine.
    EngineLost(Outage),
}

/// How long a run was allowed to take, and how it could have been given longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimit {
    pub(super) length: Duration,
    pub(super) argument: Option<TimeArgument>,
}

impl Hint {
    /// The same as text, unless there is nothing to say.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let kernel = self.kernel_text();
        let advice = self.advice.as_ref().map(|advice| advice.sentence.clone());
        let what = self
            .what
            .as_ref()
            .and_then(|what| match (what, self.kernel) {
                (What::TimedOut(time), Some(KernelFate::Lives)) => {
                    Some(format!("The program was interrupted after {time}"))
                }
                // Status and exit code say as much.
                (What::Exited { limit: None, .. }, _) if advice.is_some() => None,
                _ => Some(what.text(self.is_stderr_empty)),
            });
        let unlisted = self.is_unlisted.then(|| UNLISTED.to_owned());
        let host = self.unlisted_hosts.as_ref().map(|(host, listed)| {
            format!("Its network has listed hosts only, and {host} is not one of them: {listed}.")
        });
        let sentences = [what, kernel, advice, host, unlisted];
        let sentences: Vec<_> = sentences.into_iter().flatten().collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// What helps, in a sentence, if the runner's image knows.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.advice.as_ref().map(|advice| &*advice.sentence)
    }

    /// What helps, unless that is nothing, or not known.
    pub(crate) fn remedy(&self) -> Option<Remedy> {
        let advised = self.advice.as_ref().map(|advice| advice.remedy.clone());
        advised.or_else(|| self.what.as_ref()?.remedy())
    }

    /// The limit on files that ended the program, if one did.
    pub(crate) fn disk_excess(&self) -> Option<DiskExcess> {
        match self.what {
            Some(What::Disk(excess)) => Some(excess),
            _ => None,
        }
    }

    /// Whether the kernel goes on, if there is one.
    pub(crate) fn is_kernel_alive(&self) -> Option<bool> {
        Some(self.kernel? == KernelFate::Lives)
    }

    fn kernel_text(&self) -> Option<String> {
        match self.kernel? {
            KernelFate::Lost(_) => Some(LOST.to_owned()),
            // Of a cell that ended as it should, nobody asks.
            KernelFate::Lives => self
                .what
                .as_ref()
                .filter(|what| !what.is_well())
                .map(|_| KEPT.to_owned()),
        }
    }
}

impl What {
    /// Whether the program ended well all the same.
    fn is_well(&self) -> bool {
        matches!(
            self,
            Self::ChildOutOfMemory { .. } | Self::ProcessesRefused { .. }
        )
    }

    /// What helps: for a program that chose how it ends, only it knows.
    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exited { limit: None, .. } | Self::Cancelled | Self::EngineLost(_) => None,
            Self::Exited { limit: Some(_), .. }
            | Self::TimedOut(_)
            | Self::OutOfMemory { .. }
            | Self::Uncounted(_)
            | Self::ChildOutOfMemory { .. }
            | Self::ProcessesRefused { .. }
            | Self::Signalled { .. }
            | Self::Flooded { .. }
            | Self::Disk(_) => Some(RemedyKind::Program.into()),
        }
    }

    fn text(&self, is_stderr_empty: bool) -> String {
        match self {
            Self::TimedOut(time) => format!("The program was stopped after {time}"),
            Self::OutOfMemory { limit, peak } => memory_text(*limit, *peak),
            Self::Uncounted(excess) => excess_text(*excess),
            Self::ChildOutOfMemory { limit } => format!(
                "The program ended well, but a process that it had started was killed by the memory limit of {}.",
                size_as_set(*limit)
            ),
            Self::ProcessesRefused { limit } => format!(
                "The program ended well, but had reached the limit of {limit} processes and threads: some were not \
                 started."
            ),
            Self::Exited {
                code,
                limit: Some(limit),
            } => format!(
                "The program ended with exit code {code} after it had reached the limit of {limit} processes and \
                 threads: start fewer at a time."
            ),
            Self::Exited { code, limit: None } => {
                let look = if is_stderr_empty {
                    " and printed nothing to stderr."
                } else {
                    ": see stderr."
                };
                format!("The program ended with exit code {code}{look}")
            }
            Self::Signalled { number, file_size } => signal_text(*number, *file_size),
            Self::Flooded { limit } => format!(
                "The program was stopped because it printed without end: at most {} of each stream are kept. Write \
                 large output to a file in /data instead.",
                size_as_set(*limit)
            ),
            Self::Disk(excess) => excess.to_string(),
            Self::Cancelled => "The run was cancelled before its end.".to_owned(),
            Self::EngineLost(outage) => engine_text(outage),
        }
    }
}

/// The limit, and what to do about it.
impl fmt::Display for TimeLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.length.as_secs_f64();
        write!(formatter, "its time limit of {length} s: make it faster")?;
        match self.argument {
            Some(TimeArgument { name, max }) if self.length < max => {
                write!(formatter, ", or give {name} up to {}.", max.as_secs_f64())
            }
            _ => formatter.write_str("."),
        }
    }
}

fn signal_text(number: i32, file_size: u64) -> String {
    let what = match number {
        4 => " (SIGILL: illegal instruction)".to_owned(),
        6 => " (SIGABRT: it aborted)".to_owned(),
        8 => " (SIGFPE: arithmetic error)".to_owned(),
        9 => " (SIGKILL, by itself or one of its own processes)".to_owned(),
        11 => " (SIGSEGV: invalid memory access)".to_owned(),
        15 => " (SIGTERM)".to_owned(),
        25 => format!(
            " (SIGXFSZ: a file grew over the limit of {})",
            size_as_set(file_size)
        ),
        _ => String::new(),
    };
    format!("The program was ended by signal {number}{what}.")
}

fn memory_text(limit: u64, peak: Option<u64>) -> String {
    // The sandbox has room for the runner's driver on top of the program's limit, and the peak covers both.
    let with = match peak {
        Some(peak) if peak > limit => ", with the libraries that the runner keeps loaded",
        _ => "",
    };
    let peak = peak.map_or_else(String::new, |peak| {
        format!(" (peak {}{with})", mebibytes(peak))
    });
    format!(
        "The program was killed by the memory limit of {}{peak}: work on smaller pieces, for example read files in \
         chunks. Files in /tmp count as memory.",
        size_as_set(limit)
    )
}

fn excess_text(excess: Excess) -> String {
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

fn engine_text(outage: &Outage) -> String {
    let next = if outage.lasts {
        "Trying again does not help: the server's operator has to mend this"
    } else {
        "Try again in a few seconds"
    };
    format!("The server could not run the program, through no fault of it: {outage}. {next}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time_limit(seconds: f64, argument: Option<(&'static str, f64)>) -> TimeLimit {
        TimeLimit {
            length: Duration::from_secs_f64(seconds),
            argument: argument.map(|(name, max)| TimeArgument {
                name,
                max: Duration::from_secs_f64(max),
            }),
        }
    }

    #[test]
    fn no_hint_points_to_an_empty_stream() {
        let what = Some(What::Exited {
            code: 3,
            limit: None,
        });
        let printed = Hint {
            what,
            kernel: Some(KernelFate::Lost(crate::kernels::KernelLoss::Ended(3))),
            ..Hint::default()
        };
        insta::assert_snapshot!(printed.text().unwrap(), @"The program ended with exit code 3: see stderr. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.");
        let silent = Hint {
            is_stderr_empty: true,
            ..printed
        };
        insta::assert_snapshot!(silent.text().unwrap(), @"The program ended with exit code 3 and printed nothing to stderr. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.");
    }

    #[test]
    fn a_kernel_that_lives_is_mentioned_only_when_its_cell_did_not_end_well() {
        let text = |what| {
            let kernel = Some(KernelFate::Lives);
            let hint = Hint {
                what,
                kernel,
                ..Hint::default()
            };
            hint.text().unwrap_or_default()
        };
        insta::assert_snapshot!(text(None), @"");
        insta::assert_snapshot!(text(Some(What::ProcessesRefused { limit: 8 })), @"The program ended well, but had reached the limit of 8 processes and threads: some were not started.");
        insta::assert_snapshot!(text(Some(What::Cancelled)), @"The run was cancelled before its end. The kernel and its variables live on.");
        insta::assert_snapshot!(text(Some(What::TimedOut(time_limit(2.0, None)))), @"The program was interrupted after its time limit of 2 s: make it faster. The kernel and its variables live on.");
    }

    #[test]
    fn a_longer_time_is_advised_only_where_there_is_one() {
        let texts = [
            (0.5, Some(("timeoutSeconds", 2.5))),
            (2.4, Some(("timeout", 2.5))),
            (2.5, Some(("timeout", 2.5))),
            (0.5, None),
        ]
        .map(|(seconds, argument)| time_limit(seconds, argument).to_string());
        insta::assert_snapshot!(texts.join("\n"), @"
        its time limit of 0.5 s: make it faster, or give timeoutSeconds up to 2.5.
        its time limit of 2.4 s: make it faster, or give timeout up to 2.5.
        its time limit of 2.5 s: make it faster.
        its time limit of 0.5 s: make it faster.
        ");
    }
}
