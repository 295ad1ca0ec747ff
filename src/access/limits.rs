//! What a tenant may use of the server, as its table in `ACCESS_FILE` says.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::allow_list::Listing;
use crate::config::{NetworkMode, RateLimit};

/// What a tenant's programs reach with the network, in place of what those of others do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkLimits {
    /// What they reach (`network`).
    pub mode: Option<NetworkMode>,
    /// The hosts that are listed for them (`network_allow`).
    pub allow: Option<Arc<Listing>>,
}

impl NetworkLimits {
    /// Whether these limits leave programs any network.
    pub fn may_be_used(&self) -> bool {
        self.mode != Some(NetworkMode::Off)
    }
}

/// What a tenant may use of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Runs at the same time (`max_runs`); half of `MAX_CONCURRENT_RUNS` without.
    pub max_runs: Option<usize>,
    /// Kernels at the same time (`max_kernels`); half of `MAX_KERNELS` without.
    pub max_kernels: Option<usize>,
    /// Requests of all of its callers together (`rate_limit`); no limit without.
    pub rate: Option<RateLimit>,
    /// Bytes that its conversations may take (`storage_limit`); no limit but that of the server without.
    pub storage: Option<u64>,
    /// Bytes that one of its conversations may take (`workspace_quota`); `WORKSPACE_QUOTA` without, and at most.
    pub quota: Option<u64>,
    /// The languages that it may use (`languages`); all without.
    pub languages: Option<BTreeSet<String>>,
    /// What its programs reach with the network (`network`, `network_allow`); what those of others do without.
    pub network: NetworkLimits,
}
