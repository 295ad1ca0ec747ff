//! Where a run is in its life.
//!
//! ```text
//! WaitingForKernel
//!     ▲ ▼
//!   Entering ──▶ Waiting ──▶ Starting ──▶ Running ──▶ Ended
//!     └─────────────┴───────────┴── refused, cancelled ─▲
//! ```
//!
//! What a run does not need is left out: most enter, start and run. A wait for a kernel may end the run as well.

use tokio::time::Instant;

use super::outcome::RunResult;

/// Where a run is in its life.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Whether it may begin at all is found out.
    Entering,
    /// Runs before it have the kernel of its conversation.
    WaitingForKernel,
    /// All places are taken.
    Waiting {
        /// 1 for the run that gets the next place.
        position: usize,
    },
    /// It has a place, and gets its sandbox.
    Starting,
    /// Its program runs.
    Running {
        /// When the program was handed over.
        since: Instant,
    },
    /// It is over, or never began.
    Ended(RunResult),
}

impl Stage {
    /// Its result, if it has ended.
    pub fn result(&self) -> Option<&RunResult> {
        match self {
            Self::Ended(result) => Some(result),
            _ => None,
        }
    }

    /// Its position in the queue, while it waits for a place.
    pub fn position(&self) -> Option<usize> {
        match self {
            Self::Waiting { position } => Some(*position),
            _ => None,
        }
    }

    /// Whether its client may be answered: the program runs, the run has ended, or it waits for as long as those before
    /// it take.
    pub fn may_be_answered(&self) -> bool {
        match self {
            Self::Entering | Self::Waiting { .. } | Self::Starting => false,
            Self::WaitingForKernel | Self::Running { .. } | Self::Ended(_) => true,
        }
    }

    /// What a run does, for people, as the beginning of a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::Entering => "The run has not begun yet".to_owned(),
            Self::WaitingForKernel => {
                "The run waits for the kernel of its conversation, which another run has".to_owned()
            }
            Self::Waiting { position } => {
                format!("The run waits for a place: it is number {position} in the queue")
            }
            Self::Starting => "The sandbox of the run is being prepared".to_owned(),
            Self::Running { .. } => "The program is still running".to_owned(),
            Self::Ended(_) => "The run has ended".to_owned(),
        }
    }
}
