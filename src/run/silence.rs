//! What became of a run that was not reported: what the engine knows of its container.

use std::time::Duration;

use super::ending::Ending;
use crate::executor::{ContainerState, ErrorKind, ExecutorError};
use crate::sandbox::SandboxError;

/// How long the engine may take to say how a silent container ended.
const STATE_WAIT: Duration = Duration::from_secs(2);
/// How long it may take to say whether a container is paused.
const PAUSED_WAIT: Duration = Duration::from_millis(500);

/// There was no report in time. That is the program's doing, unless somebody has paused it together with PID 1.
pub(super) async fn overdue(
    state: impl Future<Output = Result<ContainerState, ExecutorError>>,
) -> Ending {
    match tokio::time::timeout(PAUSED_WAIT, state).await {
        Ok(Ok(state)) if state.paused => Ending::EngineLost(
            "the sandbox was paused by somebody else while the program ran".to_owned(),
        ),
        _ => Ending::Overdue,
    }
}

/// The output ended without a report: only the engine knows why.
pub(super) async fn silent(
    state: impl Future<Output = Result<ContainerState, ExecutorError>>,
    error: &SandboxError,
) -> Ending {
    if !matches!(error, SandboxError::Silent) {
        return Ending::EngineLost(chain(error));
    }
    match tokio::time::timeout(STATE_WAIT, state).await {
        Ok(Ok(state)) if !state.running => Ending::Died(state),
        Ok(Ok(_)) => Ending::EngineLost("the container engine dropped the connection".to_owned()),
        Ok(Err(error)) if error.kind == ErrorKind::NotFound => {
            Ending::EngineLost("the sandbox was removed while the program ran".to_owned())
        }
        Ok(Err(_)) | Err(_) => {
            Ending::EngineLost("the container engine stopped answering".to_owned())
        }
    }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
