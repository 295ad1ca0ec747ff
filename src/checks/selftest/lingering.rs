//! Controls on what goes on after the end: a tree that ignores every signal, and a daemon that is left behind. Both
//! write to `/data` without end, so that the server sees whether they are alive.

use std::time::Duration;

use super::Verdict;
use super::harness::{Attempt, Ended, Harness};
use crate::control::Control;
use crate::run::outcome::RunStatus;

/// Long enough for several of their beats.
const LISTEN: Duration = Duration::from_millis(400);
/// How long after the answer what is left may take to be killed.
const SETTLE: Duration = Duration::from_millis(500);

/// What was seen.
struct Seen {
    ended: Ended,
    /// Bytes that each process wrote before the answer and while the server listened for more.
    beats: Vec<(&'static str, u64, u64)>,
}

/// Tries one of the two controls.
pub(super) async fn holds(harness: &Harness<'_>, control: Control) -> Verdict {
    let (program, seconds, names, due): (_, _, &[&str], _) = match control {
        Control::Timeout => (
            include_str!("programs/timeout.py"),
            2,
            &["main", "child", "grandchild"],
            (RunStatus::Timeout, Duration::from_secs(2)),
        ),
        _ => (
            include_str!("programs/background.py"),
            20,
            &["daemon"],
            (RunStatus::Ok, Duration::ZERO),
        ),
    };
    let conversation = harness.conversation();
    let attempt = Attempt {
        program,
        seconds,
        ..Attempt::default()
    };
    let ended = harness.run(&conversation, attempt).await;
    tokio::time::sleep(SETTLE).await;
    let mut beats = Vec::new();
    for name in names {
        beats.push((*name, harness.size(&conversation, name).await, 0));
    }
    tokio::time::sleep(LISTEN).await;
    for (name, before, after) in &mut beats {
        *after = harness.size(&conversation, name).await - *before;
    }
    harness.forget(&conversation).await;
    match ended {
        Ok(ended) => {
            let (status, due) = due;
            let late = harness.lateness(ended.took, due).await;
            judge(&Seen { ended, beats }, status, due + late)
        }
        Err(verdict) => verdict,
    }
}

fn judge(seen: &Seen, status: RunStatus, by: Duration) -> Verdict {
    let took = seen.ended.took;
    if seen.ended.outcome.status != status {
        return Verdict::Fail(seen.ended.ending());
    }
    if took > by {
        return Verdict::Fail(format!("the answer came after {} ms", took.as_millis()));
    }
    for (name, before, after) in &seen.beats {
        if *before == 0 {
            return Verdict::Fail(format!("the {name} process wrote nothing"));
        }
        if *after > 0 {
            return Verdict::Fail(format!("the {name} process lives on"));
        }
    }
    Verdict::Pass(format!(
        "answered after {} ms, none of {} processes lives on",
        took.as_millis(),
        seen.beats.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;

    #[test]
    fn a_process_that_still_writes_was_not_killed() {
        let judge = |status, beats: &[(&'static str, u64, u64)], took| {
            let mut ended = ended(status, "");
            ended.took = Duration::from_secs(took);
            let beats = beats.to_vec();
            judge(
                &Seen { ended, beats },
                RunStatus::Timeout,
                Duration::from_secs(7),
            )
            .into_str()
        };
        let all_gone = [("main", 90, 0), ("child", 80, 0)];
        assert_eq!(judge(RunStatus::Timeout, &all_gone, 2), "pass");
        assert_eq!(judge(RunStatus::Timeout, &all_gone, 8), "FAIL");
        assert_eq!(judge(RunStatus::Ok, &all_gone, 2), "FAIL");
        assert_eq!(
            judge(RunStatus::Timeout, &[("main", 90, 0), ("child", 80, 20)], 2),
            "FAIL"
        );
        assert_eq!(
            judge(RunStatus::Timeout, &[("main", 90, 0), ("child", 0, 0)], 2),
            "FAIL"
        );
    }
}
