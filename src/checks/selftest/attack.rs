//! Controls that one program and its outcome can test: each program takes more of something than it may.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Verdict;
use super::harness::{Attempt, Ended, Harness};
use crate::control::Control;
use crate::run::DiskExcess;
use crate::run::outcome::RunStatus;

/// Factor over the processor limit that imprecise timing explains.
const CPU_TOLERANCE: f64 = 1.3;

/// What is said of a limit that is not set.
pub(super) const NO_CPU_LIMIT: &str = "RUN_CPUS=0: the processor time of runs has no limit";

/// A program, what it is given, and how its outcome is judged.
struct Attack {
    control: Control,
    program: &'static str,
    seconds: u64,
    /// What it may take, from the settings.
    limit: fn(&Harness<'_>) -> u64,
    judge: fn(&Ended, u64) -> Verdict,
}

const ATTACKS: &[Attack] = &[
    Attack {
        control: Control::ForkBomb,
        program: include_str!("programs/fork_bomb.py"),
        seconds: 20,
        limit: |harness| harness.limits().pids.into(),
        judge: |ended, limit| stopped(ended, 1..=limit, "EAGAIN"),
    },
    Attack {
        control: Control::Memory,
        program: include_str!("programs/memory.py"),
        seconds: 30,
        limit: |harness| harness.memory(),
        judge: |ended, _| ended_by(ended, RunStatus::OutOfMemory),
    },
    Attack {
        control: Control::SocketMemory,
        program: include_str!("programs/socket_memory.py"),
        seconds: 30,
        limit: |harness| harness.memory(),
        judge: |ended, _| ended_by(ended, RunStatus::OutOfMemory),
    },
    Attack {
        control: Control::Processor,
        program: include_str!("programs/processor.py"),
        seconds: 20,
        limit: |harness| {
            harness
                .limits()
                .nano_cpus
                .unwrap_or_default()
                .unsigned_abs()
        },
        judge: share,
    },
    Attack {
        control: Control::FileSize,
        program: include_str!("programs/file_size.py"),
        seconds: 20,
        limit: |harness| harness.limits().file_size,
        judge: |ended, limit| stopped(ended, 0..=limit, "EFBIG"),
    },
    Attack {
        control: Control::Disk,
        program: include_str!("programs/disk.py"),
        seconds: 30,
        limit: |harness| harness.parts.files.workspaces.limits().quota_bytes,
        judge: |ended, _| over(ended, |excess| matches!(excess, DiskExcess::Bytes { .. })),
    },
    Attack {
        control: Control::Inodes,
        program: include_str!("programs/inodes.py"),
        seconds: 30,
        limit: |harness| harness.parts.files.workspaces.limits().max_entries,
        judge: |ended, _| over(ended, |excess| matches!(excess, DiskExcess::Files { .. })),
    },
    Attack {
        control: Control::OutputFlood,
        program: include_str!("programs/output_flood.py"),
        seconds: 20,
        limit: |harness| harness.limits().output as u64,
        judge: flood,
    },
];

/// Tries the control with its program.
pub(super) async fn holds(harness: &Harness<'_>, control: Control) -> Verdict {
    let Some(attack) = ATTACKS.iter().find(|attack| attack.control == control) else {
        return Verdict::Skipped("there is no program for it".to_owned());
    };
    if control == Control::Processor && harness.limits().nano_cpus.is_none() {
        return Verdict::Skipped(NO_CPU_LIMIT.to_owned());
    }
    let limit = (attack.limit)(harness);
    let attempt = Attempt {
        program: attack.program,
        environment: &[("LIMIT", limit.to_string())],
        seconds: attack.seconds,
        ..Attempt::default()
    };
    match harness.run_alone(attempt).await {
        Ok(ended) => {
            let due = Duration::from_secs(attack.seconds);
            let by = due + harness.lateness(ended.took, due).await;
            judge(attack, &ended, limit, by)
        }
        Err(verdict) => verdict,
    }
}

fn judge(attack: &Attack, ended: &Ended, limit: u64, by: Duration) -> Verdict {
    if !ended.was_run() {
        return Verdict::Fail(format!("there was no run: {}", ended.ending()));
    }
    if ended.took > by {
        return Verdict::Fail(format!(
            "the answer came after {} ms",
            ended.took.as_millis()
        ));
    }
    (attack.judge)(ended, limit)
}

/// The program says how far it got, which must be within the limit, and which error stopped it, which must be that of
/// the limit.
fn stopped(ended: &Ended, within: RangeInclusive<u64>, by: &str) -> Verdict {
    let words: Vec<_> = ended.last_line().split(' ').collect();
    let number = words.get(1).and_then(|number| number.parse().ok());
    let limit = within.end();
    match (words.as_slice(), number) {
        (["stopped", _, error], Some(number)) => Verdict::when(
            within.contains(&number) && *error == by,
            format!("stopped at {number} of {limit}: {error}"),
        ),
        (["past", ..], Some(number)) => {
            Verdict::Fail(format!("got {number}, the limit is {limit}"))
        }
        _ => Verdict::Fail(format!("it did not say: {}", ended.ending())),
    }
}

/// The server must have ended the program for this.
fn ended_by(ended: &Ended, status: RunStatus) -> Verdict {
    if ended.outcome.status == status {
        return Verdict::Pass(format!("ended as {}", status.into_str()));
    }
    let last_line = ended.last_line();
    Verdict::Fail(format!("{} {last_line}", ended.ending()))
}

/// The same for a limit on files.
fn over(ended: &Ended, is_meant: impl Fn(DiskExcess) -> bool) -> Verdict {
    if ended.outcome.disk_excess.is_some_and(is_meant) {
        return ended_by(ended, RunStatus::DiskLimit);
    }
    Verdict::Fail(format!("{} {}", ended.ending(), ended.last_line()))
}

fn share(ended: &Ended, nano_cpus: u64) -> Verdict {
    let usage = &ended.outcome.usage;
    let (Some(cpu_ms), RunStatus::Ok) = (usage.cpu_ms, ended.outcome.status) else {
        return Verdict::Fail(format!("it did not say: {}", ended.ending()));
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds of a few cores")]
    let (used, may) = (
        cpu_ms as f64 / usage.wall_ms.max(1) as f64,
        nano_cpus as f64 / 1e9,
    );
    Verdict::when(
        cpu_ms > 0 && used <= may * CPU_TOLERANCE,
        format!("{used:.2} cores of {may}"),
    )
}

fn flood(ended: &Ended, kept: u64) -> Verdict {
    let dropped = ended.outcome.dropped;
    let verdict = ended_by(ended, RunStatus::OutputLimit);
    match verdict {
        Verdict::Pass(_) => Verdict::when(
            dropped > kept,
            format!("ended as output_limit, {} MiB left out", dropped >> 20),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;
    use crate::run::outcome::Usage;

    fn verdict(control: Control, ended: &Ended, limit: u64) -> &'static str {
        let attack = ATTACKS
            .iter()
            .find(|attack| attack.control == control)
            .unwrap();
        judge(attack, ended, limit, Duration::from_secs(25)).into_str()
    }

    #[test]
    fn a_program_must_say_that_it_was_stopped_within_the_limit() {
        for (stdout, processes, bytes) in [
            ("stopped 126 EAGAIN\n", "pass", "FAIL"),
            ("stopped 126 EFBIG\n", "FAIL", "pass"),
            ("stopped 0 EAGAIN\n", "FAIL", "FAIL"),
            ("stopped 0 EFBIG\n", "FAIL", "pass"),
            ("stopped 129 EAGAIN\n", "FAIL", "FAIL"),
            ("stopped 129 EFBIG\n", "FAIL", "FAIL"),
            ("stopped 0 ENOENT\n", "FAIL", "FAIL"),
            ("past 192\n", "FAIL", "FAIL"),
            ("", "FAIL", "FAIL"),
            ("Traceback\n", "FAIL", "FAIL"),
        ] {
            let ended = ended(RunStatus::Ok, stdout);
            let found = [Control::ForkBomb, Control::FileSize].map(|one| verdict(one, &ended, 128));
            assert_eq!(found, [processes, bytes], "{stdout}");
        }
    }

    #[test]
    fn the_server_must_have_stopped_it_for_the_right_reason() {
        let mut full = ended(RunStatus::DiskLimit, "");
        full.outcome.disk_excess = Some(DiskExcess::Bytes {
            taken: 70 << 20,
            deleted: 0,
            quota: 64 << 20,
        });
        assert_eq!(verdict(Control::Disk, &full, 64 << 20), "pass");
        assert_eq!(verdict(Control::Inodes, &full, 5000), "FAIL");
        full.outcome.disk_excess = Some(DiskExcess::ServerDisk);
        assert_eq!(verdict(Control::Disk, &full, 64 << 20), "FAIL");
        assert_eq!(verdict(Control::Inodes, &full, 5_000), "FAIL");
        full.outcome.disk_excess = Some(DiskExcess::Files { limit: 5_000 });
        assert_eq!(verdict(Control::Inodes, &full, 5_000), "pass");
        for control in [Control::Memory, Control::SocketMemory] {
            let memory = |status| verdict(control, &ended(status, "past 1"), 0);
            assert_eq!(memory(RunStatus::OutOfMemory), "pass");
            for status in [
                RunStatus::Ok,
                RunStatus::Error,
                RunStatus::EngineLost,
                RunStatus::Timeout,
            ] {
                assert_eq!(memory(status), "FAIL");
            }
        }
    }

    #[test]
    fn a_flood_must_have_been_cut() {
        let mut flood = ended(RunStatus::OutputLimit, "");
        assert_eq!(verdict(Control::OutputFlood, &flood, 1 << 20), "FAIL");
        flood.outcome.dropped = 15 << 20;
        assert_eq!(verdict(Control::OutputFlood, &flood, 1 << 20), "pass");
        flood.took = Duration::from_secs(26);
        assert_eq!(verdict(Control::OutputFlood, &flood, 1 << 20), "FAIL");
    }

    #[test]
    fn processor_time_counts_against_the_clock() {
        let share = |cpu_ms, wall_ms| {
            let mut busy = ended(RunStatus::Ok, "done");
            busy.outcome.usage = Usage {
                cpu_ms,
                peak_memory_bytes: None,
                wall_ms,
            };
            verdict(Control::Processor, &busy, 500_000_000)
        };
        assert_eq!(share(Some(1000), 2000), "pass");
        assert_eq!(share(Some(2000), 2000), "FAIL");
        assert_eq!(share(Some(0), 2000), "FAIL");
        assert_eq!(share(None, 2000), "FAIL");
    }
}
