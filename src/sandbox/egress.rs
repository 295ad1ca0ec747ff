//! How the programs of one sandbox reach listed hosts: its hatch, and the outlet of the run that has one.
//!
//! ```text
//!          PID 1 connects            open: before the run           the run ends
//! HatchOf ────────────────▶ Egress ───────────────────────▶ Egress ───────────────▶ Egress
//!                          no outlet                      with outlet              no outlet
//!                                                              └── a kernel keeps it, for cells with the same list
//! ```

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::allow_list::AllowList;
use crate::egress::{Hatch, HatchError, Hatches, OpenHatch, Outlet, Outside, Traffic};
use crate::executor::spec::{ContainerSpec, NetworkAccess};
use crate::executor::{ErrorKind, ExecutorError};

/// How sandboxes reach listed hosts.
#[derive(Clone, Debug)]
pub struct SandboxEgress {
    /// Where their hatches are.
    pub hatches: Hatches,
    /// The way to the hosts.
    pub outside: Arc<Outside>,
}

/// A hatch that waits for the PID 1 of a container.
pub(super) struct HatchOf {
    open: OpenHatch,
    outside: Arc<Outside>,
}

impl HatchOf {
    /// Opens one for a container without a network, and has the container see it.
    pub(super) fn open<'a>(
        egress: Option<&SandboxEgress>,
        spec: &'a ContainerSpec,
    ) -> Result<(Cow<'a, ContainerSpec>, Option<Self>), ExecutorError> {
        let Some(egress) = egress.filter(|_| spec.network == NetworkAccess::None) else {
            return Ok((Cow::Borrowed(spec), None));
        };
        let opened = egress.hatches.open(spec.user.uid, spec.user.gid);
        let open = opened.map_err(|error| ExecutorError {
            kind: ErrorKind::Refused,
            operation: "make a hatch for a container",
            source: error.into(),
        })?;
        let mut spec = spec.clone();
        spec.hatch = Some(open.name().to_owned());
        let outside = Arc::clone(&egress.outside);
        Ok((Cow::Owned(spec), Some(Self { open, outside })))
    }

    /// What the container has that was started just now.
    pub(super) async fn connected(self, tasks: TaskTracker) -> Egress {
        let hatch = self.open.connected().await;
        if let Err(error) = &hatch {
            let error: &dyn std::error::Error = error;
            warn!(
                error,
                "a sandbox did not connect: its programs cannot reach listed hosts"
            );
        }
        Egress {
            hatch,
            outside: self.outside,
            tasks,
            outlet: None,
        }
    }
}

/// The way of one sandbox to listed hosts.
#[derive(Debug)]
pub(super) struct Egress {
    hatch: io::Result<Hatch>,
    outside: Arc<Outside>,
    tasks: TaskTracker,
    outlet: Option<Outlet>,
}

impl Egress {
    /// What the outlet counts that there is for this list.
    pub(super) fn kept(&self, list: &AllowList) -> Option<Arc<Traffic>> {
        let outlet = self.outlet.as_ref().filter(|outlet| outlet.is_for(list))?;
        outlet.traffic().begin();
        Some(Arc::clone(outlet.traffic()))
    }

    /// Takes the sockets that a frame has asked for, and opens an outlet with them.
    pub(super) async fn receive(
        &mut self,
        frame: &sandbox_init::Listen,
        list: &Arc<AllowList>,
    ) -> Result<Arc<Traffic>, HatchError> {
        let hatch = self.hatch.as_ref().map_err(|_| HatchError::Shut)?;
        let doors = hatch.receive(frame).await?;
        let (list, outside) = (Arc::clone(list), Arc::clone(&self.outside));
        let outlet = Outlet::open(doors, list, outside, &self.tasks)?;
        let traffic = Arc::clone(outlet.traffic());
        self.outlet = Some(outlet);
        Ok(traffic)
    }

    /// Ends what the last run had, so that the next one finds nobody listening.
    pub(super) async fn close(&mut self) {
        if let Some(outlet) = self.outlet.take() {
            outlet.close().await;
        }
    }
}
