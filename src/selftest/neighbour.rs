//! While one conversation takes all that it may, another one must get its answer.

use std::time::Duration;

use super::Verdict;
use super::stage::{Act, Ended, Stage};
use crate::run::outcome::RunStatus;

const HOSTILE: &str = include_str!("programs/neighbour.py");
const HARMLESS: &str = "print('well')";
const SECONDS: u64 = 20;
/// How long a harmless program may take while the hostile one runs.
const NEIGHBOURLY: Duration = Duration::from_secs(5);
/// By then, the hostile one has begun and not ended.
const HEAD_START: Duration = Duration::from_secs(2);

pub(super) async fn holds(stage: &Stage<'_>) -> Verdict {
    let act = |program| Act {
        program,
        seconds: SECONDS,
        ..Act::default()
    };
    let neighbour = async {
        tokio::time::sleep(HEAD_START).await;
        stage.alone(act(HARMLESS)).await
    };
    let (hostile, neighbour) = tokio::join!(stage.alone(act(HOSTILE)), neighbour);
    match (hostile, neighbour) {
        (Ok(hostile), Ok(neighbour)) => judge(&hostile, &neighbour),
        (Err(verdict), _) | (_, Err(verdict)) => verdict,
    }
}

fn judge(hostile: &Ended, neighbour: &Ended) -> Verdict {
    let was_busy = hostile.outcome.status == RunStatus::Ok && hostile.last_line() == "done";
    if !was_busy || hostile.took < HEAD_START + neighbour.took.min(HEAD_START) {
        return Verdict::Fail(format!("it could not be tried: {}", hostile.ending()));
    }
    if neighbour.outcome.status != RunStatus::Ok || neighbour.last_line() != "well" {
        return Verdict::Fail(format!("the neighbour got: {}", neighbour.ending()));
    }
    Verdict::when(
        neighbour.took <= NEIGHBOURLY,
        format!("answered after {} ms", neighbour.took.as_millis()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::stage::ended;
    use super::*;

    #[test]
    fn the_neighbour_must_be_answered_soon_and_meanwhile() {
        let judge_as = |status, did, hostile, neighbour, said| {
            let mut busy = ended(status, did);
            busy.took = Duration::from_secs(hostile);
            let mut other = ended(RunStatus::Ok, said);
            other.took = Duration::from_secs(neighbour);
            judge(&busy, &other).as_str()
        };
        let judge =
            |hostile, neighbour, said| judge_as(RunStatus::Ok, "done", hostile, neighbour, said);
        assert_eq!(judge(6, 1, "well"), "pass");
        assert_eq!(judge(20, 6, "well"), "FAIL");
        assert_eq!(judge(6, 1, ""), "FAIL");
        assert_eq!(
            judge(1, 1, "well"),
            "FAIL",
            "the hostile one was over already"
        );
        for (status, did) in [(RunStatus::Error, ""), (RunStatus::DiskLimit, "done")] {
            assert_eq!(judge_as(status, did, 6, 1, "well"), "FAIL", "{status:?}");
        }
    }
}
