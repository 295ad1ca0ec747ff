//! Finds out whether runs may use the network: the rules are read back, then a program tries to reach the host.

mod firewall;
mod probe;

pub(crate) use self::probe::{Listener, host_targets};

use thiserror::Error;

use self::probe::Doubt;
use crate::config::EngineConfig;
use crate::executor::outage::chain;
use crate::executor::{ErrorKind, ExecutorError};
use crate::gate::network::NetworkState;
use crate::parts::Parts;

/// Why nothing was found out about the network.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The engine does not answer.
    #[error(transparent)]
    Engine(#[from] ExecutorError),
    /// There was no run that could try it.
    #[error("no program could try to reach the host: {0}")]
    NotTried(String),
}

/// Finds out whether runs may use the network: the rules are read back, then a program tries to reach the host.
///
/// # Errors
/// Nothing was found out: what was known before still holds.
pub async fn check(config: &EngineConfig, parts: &Parts) -> Result<NetworkState, CheckError> {
    let found = by_the_rules(config).await;
    let NetworkState::Open { dns } = &found else {
        return Ok(found);
    };
    // So the first run that asks for the network does not wait for one to be made.
    if parts.gate.catalog.view().needs_lanes() {
        match parts.launcher.prepare_lane().await {
            Err(error) if error.kind == ErrorKind::Refused => {
                return Ok(NetworkState::Closed(chain(&error)));
            }
            prepared => prepared?,
        }
    }
    if config.allow_network {
        return Ok(found);
    }
    let dns = dns.clone();
    match probe::host_is_closed(parts, &dns).await {
        Ok(()) => Ok(NetworkState::Open { dns }),
        // The rules that closed the host to an earlier probe are in place, so its result still holds on a server that
        // is too busy for another.
        Err(Doubt::NotTried(reason)) if parts.gate.network.access().is_ok() => {
            Err(CheckError::NotTried(reason))
        }
        Err(Doubt::NotTried(reason)) => Ok(NetworkState::Closed(format!(
            "whether programs can reach the host was not found out: {reason}"
        ))),
        Err(Doubt::Open) => Ok(NetworkState::Closed(
            "a program on that network can reach the host: the firewall rules do not work"
                .to_owned(),
        )),
    }
}

/// The part of the check that needs neither an engine nor a program: the rules are read back.
pub async fn by_the_rules(config: &EngineConfig) -> NetworkState {
    if !config.allow_network
        && let Err(reason) = firewall::rules_are_in_place(config).await
    {
        // Whoever installs the rules does not have RUN_DNS in the environment.
        let resolvers = config.dns.iter().map(|address| format!(" {address}"));
        let resolvers: String = resolvers.collect();
        return NetworkState::Closed(format!(
            "the firewall rules that keep programs away from the host and from private networks are not proven to be \
             in place ({reason}). The operator can install them with `scripts/firewall.sh install{resolvers}` as root, in \
             Compose by the services `firewall` and `firewall-keeper`, or set ALLOW_NETWORK=1 to do without"
        ));
    }
    let dns = if config.dns.is_empty() {
        firewall::host_resolvers().await
    } else {
        config.dns.clone()
    };
    NetworkState::Open { dns }
}
