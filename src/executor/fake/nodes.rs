//! The nodes of a fake engine: which of them leave a way to what containers without a network must not reach.

use std::net::SocketAddr;

use super::{FakeExecutor, error};
use crate::executor::{ErrorKind, ExecutorError, NetworkRules};

/// What must not be reached. Nothing is ever sent there.
const SERVER: &str = "192.0.2.1:443";

/// The nodes by name, and whether something can be reached from there.
#[derive(Debug, Default)]
pub(super) struct FakeNodes {
    all: Vec<(String, bool)>,
    /// Why nothing is to close them, if nothing is.
    missing: Option<String>,
}

impl FakeExecutor {
    /// From now on, containers are on these nodes, the first that they may be on. From some, something can be reached.
    pub fn set_nodes(&self, nodes: &[(&str, bool)]) {
        let all = nodes
            .iter()
            .map(|(node, reach)| ((*node).to_owned(), *reach));
        self.0.inner.lock().nodes.all = all.collect();
    }

    /// From now on, nothing is to close the network that it gives containers, for this reason.
    pub fn lose_rules(&self, reason: Option<&str>) {
        self.0.inner.lock().nodes.missing = reason.map(ToOwned::to_owned);
    }
}

impl FakeNodes {
    /// The first one that is not avoided, where there are any.
    pub(super) fn choose(&self, avoided: &[String]) -> Result<Option<String>, ExecutorError> {
        let mut allowed = self.all.iter().filter(|(node, _)| !avoided.contains(node));
        match allowed.next() {
            Some((node, _)) => Ok(Some(node.clone())),
            None if self.all.is_empty() => Ok(None),
            None => Err(error(
                ErrorKind::NoNode,
                "create a container",
                "no node is allowed",
            )),
        }
    }

    /// Whether something can be reached from there.
    pub(super) fn reach(&self, node: Option<&str>) -> bool {
        let mut all = self.all.iter();
        all.any(|(known, reach)| Some(known.as_str()) == node && *reach)
    }

    pub(super) fn must_not_reach(&self) -> Vec<SocketAddr> {
        let server = SERVER.parse().ok().filter(|_| !self.all.is_empty());
        server.into_iter().collect()
    }

    pub(super) fn rules(&self) -> NetworkRules {
        match &self.missing {
            None => NetworkRules::InPlace,
            Some(reason) => NetworkRules::Missing(reason.clone()),
        }
    }
}
