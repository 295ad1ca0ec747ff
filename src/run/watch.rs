//! Waits for the end of a program, and has it interrupted when there is a reason.
//!
//! ```text
//!              reported
//! Watched ─────────────────────────────▶ Over
//!  │   │ reason to interrupt               ▲
//!  │   ▼            reported              │
//!  │  Interrupted ────────────────────────┘
//!  │   │
//!  ├───┴─ no report in time ────────────▶ Overdue
//!  └───┴─ reason to kill ───────────────▶ Killed
//! ```

use std::pin::pin;
use std::time::Duration;

use sandbox_init::End;
use tokio_util::sync::CancellationToken;

use super::ending::Ending;
use crate::sandbox::SandboxError;

/// What a watch came to.
pub(super) enum Watched<K> {
    /// The end was reported, or the sandbox is silent.
    Over(Result<End, SandboxError>),
    /// There was no report in time.
    Overdue,
    /// The sandbox is to go, whatever the program says to an interrupt.
    Killed(K),
}

impl<K> Watched<K> {
    /// What was reported of the end, whatever brought that about.
    pub(super) fn report(&self) -> Option<End> {
        match self {
            Self::Over(Ok(end)) => Some(end.clone()),
            _ => None,
        }
    }
}

/// How long to wait for a report.
pub(super) struct Patience {
    pub(super) in_all: Duration,
    pub(super) after_interrupt: Duration,
}

/// Waits for the end of a program, which is interrupted when `early` says so. Says why it was, if it was.
pub(super) async fn watch<K>(
    program: impl Future<Output = Result<End, SandboxError>>,
    killed: impl Future<Output = K>,
    early: impl Future<Output = Ending>,
    interrupt: &CancellationToken,
    patience: Patience,
) -> (Watched<K>, Option<Ending>) {
    let (mut program, mut killed) = (pin!(program), pin!(killed));
    let ending = tokio::select! {
        end = &mut program => return (Watched::Over(end), None),
        why = &mut killed => return (Watched::Killed(why), None),
        () = tokio::time::sleep(patience.in_all) => return (Watched::Overdue, None),
        ending = early => ending,
    };
    interrupt.cancel();
    let watched = tokio::select! {
        end = &mut program => Watched::Over(end),
        why = &mut killed => Watched::Killed(why),
        () = tokio::time::sleep(patience.after_interrupt) => Watched::Overdue,
    };
    (watched, Some(ending))
}
