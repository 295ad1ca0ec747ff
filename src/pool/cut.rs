//! Starts sandboxes whose programs are to have no network where the engine leaves every container one. None is used before
//! it has said that it is kept from it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::time::Instant;
use tracing::warn;

use super::Pool;
use super::start::Interpreter;
use crate::executor::outage::chain;
use crate::executor::spec::ContainerSpec;
use crate::executor::{ContainerId, ErrorKind, NetworkRules};
use crate::sandbox::{Cut, Sandbox, SandboxError, Uncut};

/// How many nodes a start may find to be open, one after the other, before it fails.
const NODES_TRIED: usize = 2;

impl Pool {
    /// Starts a container, and has an interpreter parked in it, if there is one. If it reaches something it is not used, and
    /// no other one is started on its node; then this one is started again.
    pub(super) async fn start_cut(
        &self,
        mut spec: ContainerSpec,
        interpreter: Option<Interpreter<'_>>,
    ) -> Result<Sandbox, SandboxError> {
        let must_not_reach = self.0.launcher.must_not_reach().await;
        let must_not_reach = must_not_reach.map_err(SandboxError::Start)?;
        let mut tries = 0;
        loop {
            let avoided = self.avoided_nodes();
            spec.avoided_nodes = avoided.keys().cloned().collect();
            let started = self.0.launcher.start(spec.clone(), false).await;
            let sandbox = started.map_err(|error| self.or_no_node(error, &avoided))?;
            let sandbox = match interpreter {
                Some(interpreter) => self.parked(sandbox, interpreter, &must_not_reach).await?,
                None => self.asked(sandbox, &must_not_reach).await?,
            };
            let Err(uncut) = self.is_cut(sandbox.cut(true), sandbox.id()).await? else {
                return Ok(sandbox);
            };
            tries += 1;
            self.note(&uncut);
            // Somebody else may have found that out meanwhile.
            let may_be_elsewhere = uncut.node().is_some_and(|node| !avoided.contains_key(node));
            if !may_be_elsewhere || tries == NODES_TRIED {
                return Err(SandboxError::NotCut(uncut));
            }
        }
    }

    /// Has PID 1 say how it is, with nothing parked.
    async fn asked(
        &self,
        mut sandbox: Sandbox,
        must_not_reach: &[SocketAddr],
    ) -> Result<Sandbox, SandboxError> {
        let nothing = BTreeMap::new();
        let idle = self.parked_for();
        sandbox.park(&[], &nothing, idle, must_not_reach).await?;
        Ok(sandbox)
    }

    /// Whether programs are kept from the network, by what PID 1 `said`: there is none, or nothing was reached, and rules
    /// of the engine say that they close it.
    async fn is_cut(
        &self,
        said: Result<Cut, Uncut>,
        id: &ContainerId,
    ) -> Result<Result<(), Uncut>, SandboxError> {
        let by_rules = match said {
            Ok(cut) => cut == Cut::Shut,
            Err(Uncut::Open { addresses, .. }) => {
                let node = self.0.launcher.node(id).await;
                return Ok(Err(Uncut::Open { addresses, node }));
            }
            Err(uncut) => return Ok(Err(uncut)),
        };
        if by_rules {
            let rules = self.0.launcher.closing_rules().await;
            match rules.map_err(SandboxError::Start)? {
                NetworkRules::InPlace => {}
                NetworkRules::Missing(reason) => return Ok(Err(Uncut::NoRules(reason))),
                NetworkRules::OfTheHost => return Ok(Err(Uncut::Untried)),
            }
        }
        self.0.nodes.lock().held(by_rules);
        Ok(Ok(()))
    }

    /// The failure of a start: if nodes are avoided, and there are no others, that is the reason.
    fn or_no_node(&self, error: SandboxError, avoided: &BTreeMap<String, String>) -> SandboxError {
        let SandboxError::Start(error) = error else {
            return error;
        };
        if error.kind != ErrorKind::NoNode || avoided.is_empty() {
            return SandboxError::Start(error);
        }
        let avoided = avoided.iter();
        let avoided = avoided.map(|(node, reached)| format!("{reached} answered on {node}"));
        let uncut = Uncut::NoNode {
            avoided: avoided.collect::<Vec<_>>().join(", "),
            reason: chain(&error),
        };
        self.note(&uncut);
        SandboxError::NotCut(uncut)
    }

    /// Notes why a sandbox is not kept from the network.
    fn note(&self, uncut: &Uncut) {
        if self.0.nodes.lock().failed(uncut, Instant::now()) {
            warn!(
                reason = %uncut,
                "a node is avoided for some minutes: sandboxes there are not kept from the network"
            );
        }
        if matches!(uncut, Uncut::NoRules(_) | Uncut::NoNode { .. }) {
            self.0.doubts.notify_waiters();
        }
    }
}
