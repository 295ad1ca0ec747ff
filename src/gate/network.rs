//! Whether runs may use the network, and why not.
//!
//! The answer is yes only when it was proved that the network closes the host and private ranges to programs, or when
//! the operator takes the responsibility (`ALLOW_NETWORK=1`). [`crate::checks::network`] finds it out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::executor::spec::NetworkAccess;

/// How long a run waits for the check to end.
const WAIT: Duration = Duration::from_secs(15);

/// What runs may reach when they ask for the network; an error says why it is not known.
#[derive(Clone, Debug)]
pub struct NetworkPolicy(Arc<watch::Sender<Result<NetworkState, String>>>);

/// What is known about the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkState {
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
            Ok(NetworkState::Open { dns }) => Ok(NetworkAccess::Bridge { dns: dns.clone() }),
            Ok(NetworkState::Closed(reason)) | Err(reason) => Err(reason.clone()),
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
    pub fn set(&self, state: NetworkState) {
        self.change(Ok(state));
    }

    /// Nothing is known any more, for this reason.
    pub fn forget(&self, reason: String) {
        self.change(Err(reason));
    }

    fn change(&self, state: Result<NetworkState, String>) {
        self.0.send_if_modified(|current| {
            let changed = *current != state;
            if changed {
                match &state {
                    Ok(NetworkState::Open { .. }) => info!("runs may use the network"),
                    Ok(NetworkState::Closed(reason)) | Err(reason) => {
                        warn!(reason, "runs may not use the network");
                    }
                }
                *current = state;
            }
            changed
        });
    }
}
