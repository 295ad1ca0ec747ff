//! Which of several servers on one root leads. The others stand by: they pass on what they are asked.
//!
//! ```text
//!            nobody leads, or the entry
//!            stayed as it is for the duration
//! standby ────────────────────────────────▶ leader ──▶ released, at SIGTERM
//!    ▲  │                                     │
//!    └──┘ another was faster                  └──▶ lost: another leads, or 70 % of the duration have passed
//!                                                  since the last renewal was sent. The process ends.
//! ```
//!
//! All times are by a clock of one's own that never goes back: those of two machines are not compared. A leader counts
//! from before it asked for the renewal, a standby from after it saw it. So the first has ended before the second begins.

mod deadline;
mod elector;
mod standing;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{error, warn};

use self::deadline::Deadline;
use self::elector::{Elector, End};
pub use self::standing::{Leader, Standing};
use crate::executor::leaders::LeaderStore;

/// `EX_TEMPFAIL` of sysexits: another server may lead now, and this one can stand by once it is started again.
pub const LOST: u8 = 75;
/// How long the last request may take, with which a leader says that it leads no more.
const RELEASE: Duration = Duration::from_secs(1);

/// This server as one of several. Dropping it ends its part in the election, and not its lead.
#[derive(Debug)]
pub struct Replica {
    standing: watch::Receiver<Standing>,
    stop: CancellationToken,
    deadline: Arc<Deadline>,
    election: AbortOnDropHandle<()>,
}

impl Replica {
    /// Takes part in the election. A lead that is lost ends the process, before it writes anything.
    pub fn join(store: Arc<dyn LeaderStore>, addr: SocketAddr, pod: &str, lead: Duration) -> Self {
        let (sender, standing) = watch::channel(Standing::Unknown);
        let (stop, deadline) = (CancellationToken::new(), Arc::new(Deadline::start(leave)));
        let extend = {
            let deadline = Arc::clone(&deadline);
            move |until| deadline.set(Some(until))
        };
        let elector = Elector::new(store, Leader::new(pod, addr), lead, sender);
        let election = elector.run(stop.clone(), extend);
        let election = TaskTracker::new().spawn(async {
            if let End::Lost(why) = election.await {
                error!(why, "does not lead any more: ending at once");
                leave();
            }
        });
        Self {
            standing,
            stop,
            deadline,
            election: AbortOnDropHandle::new(election),
        }
    }

    /// Whether it leads, or who does.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Resolves once it leads.
    pub async fn elected(&self) {
        let mut standing = self.standing.clone();
        let leads = |standing: &Standing| matches!(standing, Standing::Leading);
        if standing.wait_for(leads).await.is_err() {
            // It lost, so the process ends.
            std::future::pending::<()>().await;
        }
    }

    /// Gives the lead up, if it has it, so that another one need not wait. Nothing may be written after this.
    pub async fn release(self) {
        self.stop.cancel();
        if timeout(RELEASE, self.election).await.is_err() {
            warn!(
                "could not say that this server leads no more: another one waits until that is sure"
            );
        }
        self.deadline.set(None);
    }
}

/// Ends the process as it is: whatever it did now, another one may do too.
#[expect(
    clippy::exit,
    reason = "no task may do anything more, and there is no other way to stop those of other threads"
)]
fn leave() {
    process::exit(LOST.into());
}
