//! What has to hold before a run begins: the engine, the proof of the sandbox, the network, room for files, and a place
//! among all runs.

use super::ending::Ending;
use super::error::NotBegun;
use super::seat::Stops;
use super::{Live, Place, RunError, RunRequest, Runs};
use crate::admission::Permit;
use crate::conversation::ConversationKey;
use crate::executor::spec::NetworkAccess;
use crate::runner::catalog::EngineView;

/// What is checked each time that a run could begin.
#[derive(Clone, Copy)]
pub(super) enum Gate<'a> {
    /// Whether the sandbox was proved to hold, and what the run may reach.
    Proved,
    /// Nothing: the run itself finds this out, in the place that it was given.
    Unproved(&'a Place),
}

impl Runs {
    /// Why there can be no runs at the moment.
    pub fn problem(&self) -> Option<String> {
        let view = self.catalog.view();
        match &view.engine {
            EngineView::Down(outage) => Some(outage.reason.clone()),
            EngineView::Up(_) if view.runners.is_empty() => {
                Some("there is no runner image: run ./build.sh".to_owned())
            }
            EngineView::Up(_) => match self.proof.now() {
                Err(unproved) => Some(unproved.to_string()),
                Ok(()) => (self.files.workspaces.check_space().err()).map(|full| full.to_string()),
            },
        }
    }

    /// Where a run may take place as things are now.
    pub(super) async fn place(
        &self,
        gate: Gate<'_>,
        request: &RunRequest,
    ) -> Result<Place, NotBegun> {
        match gate {
            Gate::Proved => self.proved_place(request).await,
            Gate::Unproved(place) => Ok(place.clone()),
        }
    }

    /// Where a run may take place if the sandbox has to be proved. Waits while the sandbox or its network is being
    /// checked.
    async fn proved_place(&self, request: &RunRequest) -> Result<Place, NotBegun> {
        // First: without an engine nothing counts as proved, but it is the engine that the caller should hear about.
        if let EngineView::Down(outage) = self.engine() {
            return Err(Ending::EngineLost(outage).into());
        }
        self.proof.wait().await?;
        let network = if request.network {
            self.network.wait().await.map_err(RunError::Network)?
        } else {
            NetworkAccess::None
        };
        self.files.workspaces.check_storage()?;
        self.floor.make_room().await?;
        Ok(Place {
            network,
            warm: true,
        })
    }

    /// Whether something is being checked that a run has to wait for.
    fn is_being_checked(&self, request: &RunRequest) -> bool {
        self.proof.is_pending() || (request.network && self.network.is_unknown())
    }

    /// Waits until it is the run's turn among all. What held before may no longer hold by then, so it is checked again.
    pub(super) async fn admitted(
        &self,
        gate: Gate<'_>,
        request: &RunRequest,
        key: &ConversationKey,
        live: &Live,
        stops: Stops<'_>,
    ) -> Result<(Permit, Place), NotBegun> {
        let tell = |position| live.set_position(position);
        loop {
            let permit = stops.unless(self.admission.enter(key, tell)).await?;
            let waits = matches!(gate, Gate::Proved) && self.is_being_checked(request);
            // The check is a run too, and needs a place.
            let permit = (!waits).then_some(permit);
            let place = stops.unless(self.place(gate, request)).await?;
            if let Some(permit) = permit {
                return Ok((permit, place));
            }
        }
    }
}
