//! While one conversation takes all that it may, another one must get its answer.

use std::time::Duration;

use super::Verdict;
use super::harness::{Attempt, Ended, HARMLESS, Harness, prompt};
use crate::run::outcome::RunStatus;

const HOSTILE: &str = include_str!("programs/neighbour.py");
/// What is given to the hostile one: it ends with the harmless one.
const SECONDS: u64 = 50;

pub(super) async fn holds(harness: &Harness<'_>) -> Verdict {
    let attempt = |program| Attempt {
        program,
        seconds: SECONDS,
        ..Attempt::default()
    };
    let alone = match harness.run_alone(attempt(HARMLESS)).await {
        Ok(alone) => alone.took,
        Err(verdict) => return verdict,
    };
    match harness
        .run_beside(attempt(HOSTILE), attempt(HARMLESS))
        .await
    {
        Ok((hostile, neighbour)) => judge(&hostile, &neighbour, alone),
        Err(verdict) => verdict,
    }
}

fn judge(hostile: &Ended, neighbour: &Ended, alone: Duration) -> Verdict {
    let was_busy = hostile.outcome.status == RunStatus::Ok && hostile.last_line() == "done";
    if !was_busy || hostile.took <= neighbour.took {
        return Verdict::Fail(format!("it could not be tried: {}", hostile.ending()));
    }
    if neighbour.outcome.status != RunStatus::Ok || neighbour.last_line() != "well" {
        return Verdict::Fail(format!("the neighbour got: {}", neighbour.ending()));
    }
    let found = format!(
        "answered after {} ms, alone after {} ms",
        neighbour.took.as_millis(),
        alone.as_millis()
    );
    Verdict::when(neighbour.took <= prompt(alone), found)
}

#[cfg(test)]
mod tests {
    use super::super::harness::ended;
    use super::*;

    #[test]
    fn the_neighbour_must_be_answered_soon_and_meanwhile() {
        let judge_as = |status, did, hostile, neighbour, stdout, alone| {
            let mut busy = ended(status, did);
            busy.took = Duration::from_secs(hostile);
            let mut other = ended(RunStatus::Ok, stdout);
            other.took = Duration::from_secs(neighbour);
            judge(&busy, &other, Duration::from_secs(alone)).into_str()
        };
        let judge = |hostile, neighbour, stdout| {
            judge_as(RunStatus::Ok, "done", hostile, neighbour, stdout, 1)
        };
        assert_eq!(judge(6, 1, "well"), "pass");
        assert_eq!(judge(20, 6, "well"), "FAIL");
        assert_eq!(judge(6, 1, ""), "FAIL");
        assert_eq!(
            judge(1, 1, "well"),
            "FAIL",
            "the hostile one was over already"
        );
        let judge_slow = |neighbour| judge_as(RunStatus::Ok, "done", 20, neighbour, "well", 3);
        assert_eq!(judge_slow(12), "pass", "everything takes long there");
        assert_eq!(judge_slow(13), "FAIL");
        for (status, did) in [(RunStatus::Error, ""), (RunStatus::DiskLimit, "done")] {
            assert_eq!(judge_as(status, did, 6, 1, "well", 1), "FAIL", "{status:?}");
        }
    }
}
