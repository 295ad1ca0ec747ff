//! What became of a run without a report: what the engine knows about its container.

use std::sync::OnceLock;
use std::time::Duration;

use sandbox_init::End;
use tokio::time::Instant;

use super::observed::Cause;
use crate::executor::{ContainerState, ErrorKind, ExecutorError, Outage};
use crate::sandbox::SandboxError;

/// How long the engine may take to report the state of a container: on a busy host, longer than a moment.
const STATE_WAIT: Duration = Duration::from_secs(2);

/// Explains why there was no report in time; the engine may report the container's state until `due`. Only if the
/// container is still running is it the program's doing. One that has ended may have done so long before, with its
/// report stuck in an engine that hangs, and one that is paused was paused with PID 1.
pub(super) async fn overdue(
    state: impl Future<Output = Result<ContainerState, ExecutorError>>,
    due: Instant,
) -> Cause {
    match answered(state, due).await {
        Ok(ContainerState::Paused) => Cause::EngineLost(Outage::passing(
            "the sandbox was paused by somebody else while the program ran",
        )),
        Ok(ContainerState::Running) => Cause::Overdue,
        Ok(ContainerState::Ended(end)) => Cause::Died(end),
        Err(lost) => lost,
    }
}

/// What is reported of a run. If its output ends without a report, only the engine knows why. Asking it is not part of
/// the run, whose end is noted in `ended`.
pub(super) async fn reported(
    run: impl Future<Output = Result<End, SandboxError>>,
    state: impl Future<Output = Result<ContainerState, ExecutorError>>,
    ended: &OnceLock<Instant>,
) -> Result<End, Cause> {
    let run = run.await;
    ended.get_or_init(Instant::now);
    let error = match run {
        Ok(end) => return Ok(end),
        Err(error) => error,
    };
    if !matches!(error, SandboxError::Silent) {
        return Err(Cause::EngineLost(error.outage()));
    }
    Err(match answered(state, Instant::now() + STATE_WAIT).await {
        Ok(ContainerState::Ended(end)) => Cause::Died(end),
        Ok(ContainerState::Running | ContainerState::Paused) => Cause::EngineLost(Outage::passing(
            "the container engine dropped the connection",
        )),
        Err(lost) => lost,
    })
}

/// What the engine reports about the container, or how the run ended if it reports nothing.
async fn answered(
    state: impl Future<Output = Result<ContainerState, ExecutorError>>,
    due: Instant,
) -> Result<ContainerState, Cause> {
    let reason = match tokio::time::timeout_at(due, state).await {
        Ok(Ok(state)) => return Ok(state),
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            "the sandbox was removed while the program ran"
        }
        Ok(Err(_)) | Err(_) => "the container engine stopped answering",
    };
    Err(Cause::EngineLost(Outage::passing(reason)))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::super::drive::AFTER_LIMIT;
    use super::*;
    use crate::executor::ContainerEnd;

    const ENDED: ContainerState = ContainerState::Ended(ContainerEnd::OutOfMemory);

    fn failed(kind: ErrorKind) -> Result<ContainerState, ExecutorError> {
        Err(ExecutorError {
            kind,
            operation: "inspect a container",
            source: "it was told to fail".into(),
        })
    }

    /// How an overdue run is said to have ended, when the engine takes this long to report its container's state.
    async fn ended_as(milliseconds: u64, state: Result<ContainerState, ExecutorError>) -> String {
        let answer = async {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            state
        };
        let due = Instant::now() + AFTER_LIMIT.decision - AFTER_LIMIT.report;
        match overdue(answer, due).await {
            Cause::Overdue => "overdue".to_owned(),
            Cause::Died(end) => format!("died, {end:?}"),
            Cause::EngineLost(outage) => outage.reason,
            other => format!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_runs_is_overdue() {
        assert_eq!(ended_as(0, Ok(ContainerState::Running)).await, "overdue");
        assert_eq!(ended_as(0, Ok(ENDED)).await, "died, OutOfMemory");
        let paused = ended_as(0, Ok(ContainerState::Paused)).await;
        assert!(paused.contains("was paused"), "{paused}");
        let removed = ended_as(0, failed(ErrorKind::NotFound)).await;
        assert!(removed.contains("was removed"), "{removed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_over_before_the_engine_is_asked_of_it() {
        let (begun, ended) = (Instant::now(), OnceLock::new());
        let second = tokio::time::sleep(Duration::from_secs(1));
        let run = second.map(|()| Err(SandboxError::Silent));
        let answer = tokio::time::sleep(Duration::from_secs(2)).then(|()| async { Ok(ENDED) });
        let ended_as = reported(run, answer, &ended).await;
        assert!(matches!(ended_as, Err(Cause::Died(_))), "{ended_as:?}");
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
        assert_eq!(*ended.get().unwrap() - begun, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_does_not_answer_is_no_programs_fault() {
        // One that is merely slow does answer.
        assert_eq!(
            ended_as(1_400, Ok(ContainerState::Running)).await,
            "overdue"
        );
        let lost = "the container engine stopped answering";
        assert_eq!(ended_as(60_000, Ok(ContainerState::Running)).await, lost);
        assert_eq!(ended_as(0, failed(ErrorKind::Unavailable)).await, lost);
        assert_eq!(ended_as(0, failed(ErrorKind::Refused)).await, lost);
    }
}
