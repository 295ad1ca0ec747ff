//! Whether runs may use the network, and why not.
//!
//! The answer is yes only when it was proved that the network closes the host and private ranges to programs, or when
//! the operator takes the responsibility (`ALLOW_NETWORK=1`).

mod firewall;
mod probe;

pub(crate) use self::probe::{Listener, host_targets};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

use self::probe::Doubt;
use crate::config::EngineConfig;
use crate::executor::outage::chain;
use crate::executor::spec::NetworkAccess;
use crate::executor::{ErrorKind, ExecutorError};
use crate::run::Runs;

/// How long a run waits for the check to end.
const WAIT: Duration = Duration::from_secs(15);

/// What runs may reach when they ask for the network; an error says why it is not known.
#[derive(Clone, Debug)]
pub struct NetworkPolicy(Arc<watch::Sender<Result<State, String>>>);

/// What is known about the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Runs may use it.
    Open {
        /// Their resolvers.
        dns: Vec<IpAddr>,
    },
    /// Runs may not use it, for this reason.
    Closed(String),
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        let unknown = Err("the network was not checked yet".to_owned());
        Self(Arc::new(watch::Sender::new(unknown)))
    }
}

impl NetworkPolicy {
    /// The network for a run that asks for it, or why there is none.
    ///
    /// # Errors
    /// The reason, for the model.
    pub fn access(&self) -> Result<NetworkAccess, String> {
        match &*self.0.borrow() {
            Ok(State::Open { dns }) => Ok(NetworkAccess::Bridge { dns: dns.clone() }),
            Ok(State::Closed(reason)) | Err(reason) => Err(reason.clone()),
        }
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.0.borrow().is_err()
    }

    /// Like [`Self::access`], but first waits if nothing is known.
    ///
    /// # Errors
    /// The reason, for the model.
    pub async fn wait(&self) -> Result<NetworkAccess, String> {
        let mut states = self.0.subscribe();
        let known = states.wait_for(Result::is_ok);
        // The sender lives in `self`, so only the time limit can end the wait without an answer.
        if tokio::time::timeout(WAIT, known).await.is_err() {
            return Err("it is still being checked, try again in a few seconds".to_owned());
        }
        self.access()
    }

    /// Sets what is known now.
    pub fn set(&self, state: State) {
        self.change(Ok(state));
    }

    /// Nothing is known any more, for this reason.
    pub fn forget(&self, reason: String) {
        self.change(Err(reason));
    }

    fn change(&self, state: Result<State, String>) {
        self.0.send_if_modified(|current| {
            let changed = *current != state;
            if changed {
                match &state {
                    Ok(State::Open { .. }) => info!("runs may use the network"),
                    Ok(State::Closed(reason)) | Err(reason) => {
                        warn!(reason, "runs may not use the network");
                    }
                }
                *current = state;
            }
            changed
        });
    }
}

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
pub async fn check(config: &EngineConfig, runs: &Runs) -> Result<State, CheckError> {
    let found = by_the_rules(config).await;
    let State::Open { dns } = &found else {
        return Ok(found);
    };
    // So the first run that asks for the network does not wait for one to be made.
    match runs.launcher.prepare_lane().await {
        Err(error) if error.kind == ErrorKind::Refused => {
            return Ok(State::Closed(chain(&error)));
        }
        prepared => prepared?,
    }
    if config.allow_network {
        return Ok(found);
    }
    let dns = dns.clone();
    match probe::host_is_closed(runs, &dns).await {
        Ok(()) => Ok(State::Open { dns }),
        // The rules that closed the host to an earlier probe are in place, so its result still holds on a server that
        // is too busy for another.
        Err(Doubt::NotTried(reason)) if runs.network.access().is_ok() => {
            Err(CheckError::NotTried(reason))
        }
        Err(Doubt::NotTried(reason)) => Ok(State::Closed(format!(
            "whether programs can reach the host was not found out: {reason}"
        ))),
        Err(Doubt::Open) => Ok(State::Closed(
            "a program on that network can reach the host: the firewall rules do not work"
                .to_owned(),
        )),
    }
}

/// The part of the check that needs neither an engine nor a program: the rules are read back.
pub async fn by_the_rules(config: &EngineConfig) -> State {
    if !config.allow_network
        && let Err(reason) = firewall::rules_are_in_place(config).await
    {
        // Whoever installs the rules does not have RUN_DNS in the environment.
        let resolvers = config.dns.iter().map(|address| format!(" {address}"));
        let resolvers: String = resolvers.collect();
        return State::Closed(format!(
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
    State::Open { dns }
}
