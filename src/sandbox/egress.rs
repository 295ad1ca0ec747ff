//! How the programs of one sandbox reach listed hosts: its hatch, and the proxy of the run that has one.
//!
//! ```text
//!          PID 1 connects            open: before the run           the run ends
//! HatchOf ────────────────▶ Egress ───────────────────────▶ Egress ───────────────▶ Egress
//!                          no proxy                      with proxy              no proxy
//!                                                              └── a kernel keeps it, for cells with the same hosts
//! ```

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::egress::{
    Dialer, Hatch, HatchError, Hatches, HostAccess, OpenHatch, Proxy, Traffic, TrafficLimits,
};
use crate::executor::spec::{ContainerSpec, HatchSpec};
use crate::executor::{ErrorKind, ExecutorError};

/// How sandboxes reach listed hosts.
#[derive(Clone, Debug)]
pub struct SandboxEgress {
    /// Where their hatches are.
    pub hatches: Hatches,
    /// The way to the hosts.
    pub dialer: Arc<Dialer>,
}

/// A hatch that waits for the PID 1 of a container.
pub(super) struct HatchOf {
    open: OpenHatch,
    dialer: Arc<Dialer>,
}

impl HatchOf {
    /// Opens one for a container that is to have it, and has the container see it.
    pub(super) fn open<'a>(
        egress: &SandboxEgress,
        spec: &'a ContainerSpec,
    ) -> Result<(Cow<'a, ContainerSpec>, Option<Self>), ExecutorError> {
        if spec.hatch != HatchSpec::Wanted {
            return Ok((Cow::Borrowed(spec), None));
        }
        let opened = egress.hatches.open(spec.user.uid, spec.user.gid);
        let open = opened.map_err(|error| ExecutorError {
            kind: ErrorKind::Refused,
            operation: "make a hatch for a container",
            source: error.into(),
        })?;
        let mut spec = spec.clone();
        spec.hatch = HatchSpec::Made(open.name().to_owned());
        let dialer = Arc::clone(&egress.dialer);
        Ok((Cow::Owned(spec), Some(Self { open, dialer })))
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
            dialer: self.dialer,
            tasks,
            proxy: None,
        }
    }
}

/// The way of one sandbox to listed hosts.
#[derive(Debug)]
pub(super) struct Egress {
    hatch: io::Result<Hatch>,
    dialer: Arc<Dialer>,
    tasks: TaskTracker,
    proxy: Option<Proxy>,
}

impl Egress {
    /// Sets how much may be copied, in place of what a run may, for what is opened from now on.
    pub(super) fn limit(&mut self, limits: TrafficLimits) {
        self.dialer = Arc::new(self.dialer.with_limits(limits));
    }

    /// What the proxy counts that there is for these hosts.
    pub(super) fn kept(&self, access: &HostAccess) -> Option<Arc<Traffic>> {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.is_for(access))?;
        proxy.traffic().begin();
        Some(Arc::clone(proxy.traffic()))
    }

    /// Takes the sockets that a frame has asked for, and opens a proxy with them.
    pub(super) async fn receive(
        &mut self,
        frame: &sandbox_init::Listen,
        access: &Arc<HostAccess>,
    ) -> Result<Arc<Traffic>, HatchError> {
        let hatch = self.hatch.as_ref().map_err(|_| HatchError::Shut)?;
        let listeners = hatch.receive(frame).await?;
        let dialer = Arc::clone(&self.dialer);
        let proxy = Proxy::open(listeners, Arc::clone(access), dialer, &self.tasks)?;
        let traffic = Arc::clone(proxy.traffic());
        self.proxy = Some(proxy);
        Ok(traffic)
    }

    /// Ends what the last run had, so that the next one finds nobody listening.
    pub(super) async fn close(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.close().await;
        }
    }
}
