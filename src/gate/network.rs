//! Whether runs may use the network, and why not.
//!
//! A run reaches listed hosts, or the internet, as `NETWORK` and the limits of its tenant have it. Listed hosts need no
//! proof, since such a run has no network of its own. Those that packages come from are found out for the presets of a
//! list, and a run waits for them.
//! For the rest, the answer is yes only when it was proved that the network closes the host and private ranges to
//! programs, or when the operator takes the responsibility (`ALLOW_NETWORK=1`). [`crate::checks::network`] finds it out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::access::NetworkLimits;
use crate::allow_list::{AllowList, Entry, Listing, NotListed, PackagePreset};
use crate::config::{NetworkConfig, NetworkMode};
use crate::egress::HostAccess;
use crate::executor::spec::NetworkAccess;

/// How long a run waits for the check to end.
const WAIT: Duration = Duration::from_secs(15);

/// What runs may reach when they ask for the network.
#[derive(Clone, Debug)]
pub struct NetworkPolicy {
    /// What is known of the engine's network; an error says why it is not.
    state: Arc<watch::Sender<Result<NetworkState, String>>>,
    mode: NetworkMode,
    allow: Option<Arc<Listing>>,
    asks: bool,
    /// The presets that somebody's list has.
    presets: Arc<watch::Sender<PresetHosts>>,
}

/// The hosts of packages by their presets; `None` until they are found out.
pub type PresetHosts = BTreeMap<PackagePreset, Option<Arc<AllowList>>>;

/// Why a run does not get the network that it asks for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NetworkRefusal {
    /// It is closed, for this reason.
    #[error("{0}")]
    Closed(String),
    /// A host is not listed.
    #[error(transparent)]
    NotListed(#[from] NotListed),
}

/// What runs reach that ask for the network, when that is settled but for what has to be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    Nothing,
    /// These hosts.
    Listed(Arc<AllowList>),
    /// The internet.
    Internet,
}

/// What a run asks for that asks for the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The listed hosts that it wants; none means all of them.
    pub(crate) hosts: Vec<String>,
    /// Hosts that a person has allowed to it, beside the listed ones.
    pub(crate) granted: Vec<Entry>,
    /// The variables of the secrets that it wants to use.
    pub(crate) secrets: Vec<String>,
}

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

impl Reach {
    /// The same with hosts that a person has allowed, but for those of which the list has something itself. If that is
    /// too many, it is without them.
    fn with(self, granted: &[Entry]) -> Self {
        match self {
            Self::Listed(list) if !granted.is_empty() => {
                let new = granted.iter().filter(|host| !list.covers(&host.pattern));
                // The operator has written none of them, so they lead to public addresses only.
                let new = AllowList::new(new.cloned()).map(AllowList::unnamed);
                let both = new.and_then(|new| list.and(&new));
                Self::Listed(both.map_or(list, Arc::new))
            }
            other => other,
        }
    }
}

impl NetworkPolicy {
    /// As the settings have it, with nothing known.
    pub fn new(config: &NetworkConfig) -> Self {
        let unknown = Err("the network was not checked yet".to_owned());
        let presets = config.allow.iter().flat_map(|listing| listing.packages());
        let presets = presets.map(|preset| (preset, None)).collect();
        Self {
            presets: Arc::new(watch::Sender::new(presets)),
            state: Arc::new(watch::Sender::new(unknown)),
            mode: config.mode,
            allow: config.allow.clone(),
            asks: config.ask,
        }
    }

    /// What runs reach that have these limits.
    pub fn reach(&self, limits: &NetworkLimits) -> Reach {
        let own = limits.allow.as_ref().map(|_| NetworkMode::Listed);
        match limits.mode.or(own).unwrap_or(self.mode) {
            NetworkMode::Off => Reach::Nothing,
            NetworkMode::Open => Reach::Internet,
            NetworkMode::Listed => match self.listing(limits) {
                // Without one of the server's, sandboxes have no way to hosts.
                None => Reach::Nothing,
                Some(listing) => Reach::Listed(self.listed(listing)),
            },
        }
    }

    /// The list for runs with these limits.
    fn listing<'a>(&'a self, limits: &'a NetworkLimits) -> Option<&'a Arc<Listing>> {
        let allow = self.allow.as_ref()?;
        Some(limits.allow.as_ref().unwrap_or(allow))
    }

    /// The hosts of a list, as far as they are known. Presets that are too many are left out.
    fn listed(&self, listing: &Listing) -> Arc<AllowList> {
        let presets = self.presets.borrow();
        let with = listing.with(|preset| presets.get(&preset)?.clone());
        with.unwrap_or_else(|_| Arc::clone(listing.hosts()))
    }

    /// Waits until the hosts of a list are known, if it has presets.
    async fn wait_for_presets(&self, listing: &Listing) {
        let is_known = |presets: &PresetHosts| {
            let mut wanted = listing.packages();
            wanted.all(|preset| matches!(presets.get(&preset), Some(Some(_))))
        };
        self.presets.send_if_modified(|presets| {
            let before = presets.len();
            for preset in listing.packages() {
                presets.entry(preset).or_default();
            }
            presets.len() != before
        });
        let mut presets = self.presets.subscribe();
        // The sender lives in `self`. What is not known by then is not listed.
        let _ = tokio::time::timeout(WAIT, presets.wait_for(is_known)).await;
    }

    /// The presets that somebody's list has, with their hosts, and all changes.
    pub fn presets(&self) -> watch::Receiver<PresetHosts> {
        self.presets.subscribe()
    }

    /// Sets the hosts of a preset, if somebody's list has it.
    pub fn set_preset(&self, preset: PackagePreset, hosts: &Arc<AllowList>) {
        self.presets.send_if_modified(|presets| {
            let Some(known) = presets.get_mut(&preset) else {
                return false;
            };
            let is_new = known.as_ref() != Some(hosts);
            *known = Some(Arc::clone(hosts));
            is_new
        });
    }

    /// Whether the person at a client is asked for hosts that are not listed.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// The network for a run with these limits that asks for it, and for some hosts only if it names any. Waits if
    /// something has to be found out first.
    ///
    /// # Errors
    /// The reason, for the model.
    pub(crate) async fn for_run(
        &self,
        limits: &NetworkLimits,
        asked: &Asked,
    ) -> Result<NetworkAccess, NetworkRefusal> {
        let closed = |reason: &str| NetworkRefusal::Closed(reason.to_owned());
        if let (Reach::Listed(_), Some(listing)) = (self.reach(limits), self.listing(limits)) {
            self.wait_for_presets(listing).await;
        }
        let hosts = &asked.hosts;
        match self.reach(limits).with(&asked.granted) {
            Reach::Nothing if self.mode == NetworkMode::Off => Err(closed(
                "programs have none here, which the server's operator can change",
            )),
            Reach::Nothing => Err(closed(
                "programs of this tenant have none, which the server's operator can change",
            )),
            Reach::Listed(list) if list.is_empty() && hosts.is_empty() => Err(closed(
                "no host is listed that programs may reach, which the server's operator can change",
            )),
            Reach::Listed(list) if hosts.is_empty() => {
                Ok(NetworkAccess::Listed(HostAccess::to(list)))
            }
            Reach::Listed(list) => {
                let narrowed = Arc::new(list.narrowed(hosts)?);
                Ok(NetworkAccess::Listed(HostAccess::to(narrowed)))
            }
            Reach::Internet if hosts.is_empty() => {
                self.wait().await.map_err(NetworkRefusal::Closed)
            }
            Reach::Internet => Err(closed(
                "this server has no list of hosts, so none can be named: leave hosts out",
            )),
        }
    }

    /// Whether a run with these limits that asks for the network has to wait for what is being found out.
    pub fn is_being_checked(&self, limits: &NetworkLimits) -> bool {
        self.reach(limits) == Reach::Internet && self.is_unknown()
    }

    /// The engine's network, or why there is none.
    ///
    /// # Errors
    /// The reason, for the model.
    pub fn access(&self) -> Result<NetworkAccess, String> {
        match &*self.state.borrow() {
            Ok(NetworkState::Open { dns }) => Ok(NetworkAccess::Bridge { dns: dns.clone() }),
            Ok(NetworkState::Closed(reason)) | Err(reason) => Err(reason.clone()),
        }
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        self.state.borrow().is_err()
    }

    /// Like [`Self::access`], but first waits if nothing is known.
    ///
    /// # Errors
    /// The reason, for the model.
    pub async fn wait(&self) -> Result<NetworkAccess, String> {
        let mut states = self.state.subscribe();
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
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            if changed {
                match &state {
                    Ok(NetworkState::Open { .. }) => info!("runs may use the network"),
                    // Runs with a list do not need it.
                    Ok(NetworkState::Closed(reason)) | Err(reason)
                        if self.mode != NetworkMode::Open =>
                    {
                        info!(reason, "runs may not use the internet");
                    }
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
