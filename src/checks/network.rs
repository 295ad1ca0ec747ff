//! Finds out whether runs may use the network: the rules are read back, then a program tries to reach the host.

mod firewall;
mod probe;

pub(crate) use self::probe::{Listener, host_targets};

use thiserror::Error;

use self::probe::Doubt;
use crate::config::EngineConfig;
use crate::executor::outage::chain;
use crate::executor::{ErrorKind, ExecutorError, NetworkRules};
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
    let found = by_the_rules(config, parts).await?;
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

/// The part of the check that needs no program: the rules are read back.
///
/// # Errors
/// The engine that has rules of its own does not tell them.
pub async fn by_the_rules(
    config: &EngineConfig,
    parts: &Parts,
) -> Result<NetworkState, CheckError> {
    Ok(match parts.launcher.network_rules(&config.dns).await? {
        NetworkRules::OfTheHost => by_those_of_the_host(config).await,
        rules => by_those_of_the_engine(config, &rules),
    })
}

/// Those of an engine that has its own: a cluster, with its network policies.
fn by_those_of_the_engine(config: &EngineConfig, rules: &NetworkRules) -> NetworkState {
    let dns = config.dns.clone();
    match rules {
        _ if dns.is_empty() => {
            let reason = "there are no resolvers for it: its operator can set RUN_DNS";
            NetworkState::Closed(reason.to_owned())
        }
        NetworkRules::Missing(reason) if !config.allow_network => NetworkState::Closed(format!(
            "the network policies that keep programs away from the cluster and from private networks are not in place \
             ({reason}). The operator can apply those of docs/kubernetes.md, or set ALLOW_NETWORK=1 to do without"
        )),
        _ => NetworkState::Open { dns },
    }
}

async fn by_those_of_the_host(config: &EngineConfig) -> NetworkState {
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
