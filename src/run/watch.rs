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

/// The result of a watch.
pub(super) enum Watched<K> {
    /// The end was reported, or the sandbox fell silent; and why the program had been interrupted, if it had been.
    Over(Result<End, Ending>, Option<Ending>),
    /// There was no report in time: why the program was interrupted, or what is known of its end.
    Overdue(Ending),
    /// The sandbox has to go, however the program responds to an interrupt.
    Killed(K),
}

impl<K> Watched<K> {
    /// What was reported about the end, whatever caused it.
    pub(super) fn report(&self) -> Option<End> {
        match self {
            Self::Over(Ok(end), _) => Some(end.clone()),
            _ => None,
        }
    }
}

/// Waits for the end of a program until `late` resolves. The program is interrupted when `early` resolves, and then has
/// `grace` to end.
pub(super) async fn watch<K>(
    program: impl Future<Output = Result<End, Ending>>,
    killed: impl Future<Output = K>,
    early: impl Future<Output = Ending>,
    late: impl Future<Output = Ending>,
    interrupt: &CancellationToken,
    grace: Duration,
) -> Watched<K> {
    let (mut program, mut killed, mut late) = (pin!(program), pin!(killed), pin!(late));
    let ending = tokio::select! {
        end = &mut program => return Watched::Over(end, None),
        why = &mut killed => return Watched::Killed(why),
        ending = &mut late => return Watched::Overdue(ending),
        ending = early => ending,
    };
    interrupt.cancel();
    tokio::select! {
        end = program => Watched::Over(end, Some(ending)),
        why = killed => Watched::Killed(why),
        _ = tokio::time::timeout(grace, late) => Watched::Overdue(ending),
    }
}
