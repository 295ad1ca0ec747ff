//! What the settings mean for the parts that the server is put together from.

#[cfg(feature = "kubernetes")]
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "kubernetes")]
use crate::config::KubernetesConfig;
use crate::config::{Config, StorageConfig};
use crate::control::Control;
use crate::egress::{Dialer, Hatches, Interception};
use crate::executor::EngineNeeds;
use crate::executor::docker::HostSetup;
use crate::executor::host_paths::{HostPaths, MountSource};
use crate::executor::installed::{INIT, SECCOMP};
#[cfg(feature = "kubernetes")]
use crate::executor::kubernetes::PodSetup;
use crate::executor::spec::{ContainerLimits, PRIVATE};
use crate::pool::Setup;
use crate::runner::catalog::Catalog;
use crate::sandbox::SandboxEgress;
use crate::workspace::WorkspaceLimits;

impl From<&StorageConfig> for WorkspaceLimits {
    fn from(config: &StorageConfig) -> Self {
        Self {
            quota_bytes: config.quota,
            free_space_floor: config.free_space_floor,
            max_entries: config.max_entries,
            storage_bytes: config.limit,
        }
    }
}

/// How sandboxes reach listed hosts, with whom in between for those that secrets are for.
pub(super) fn egress(config: &Config, interception: Option<Arc<Interception>>) -> SandboxEgress {
    SandboxEgress {
        hatches: Hatches::new(config.storage.root.join(PRIVATE)),
        dialer: Arc::new(Dialer::new(&config.network, interception)),
    }
}

impl From<&StorageConfig> for MountSource {
    fn from(config: &StorageConfig) -> Self {
        match &config.volume {
            Some(name) => Self::Volume {
                name: name.clone(),
                path: PathBuf::new(),
            },
            None => Self::Host(config.host_path.clone()),
        }
    }
}

impl From<&Config> for EngineNeeds {
    fn from(config: &Config) -> Self {
        Self {
            nano_cpus: config.limits.nano_cpus,
            uids: config.engine.uids,
            volume: config.storage.volume.clone(),
        }
    }
}

impl From<&Config> for HostPaths {
    fn from(config: &Config) -> Self {
        Self {
            root: (&config.storage).into(),
            init: INIT.path(),
            wheelhouse: config.packages.wheelhouse.clone(),
            ca_bundle: config.packages.ca_bundle.clone(),
        }
    }
}

impl From<&Config> for HostSetup {
    fn from(config: &Config) -> Self {
        Self {
            paths: config.into(),
            seccomp: config.storage.host_path.join(SECCOMP.path()),
            cgroup_parent: config.engine.cgroup_parent.clone(),
        }
    }
}

/// What all pods have in common.
#[cfg(feature = "kubernetes")]
pub(super) fn pod_setup(kubernetes: &KubernetesConfig, config: &Config) -> PodSetup {
    PodSetup {
        paths: HostPaths {
            root: MountSource::Volume {
                name: kubernetes.claim.clone(),
                path: kubernetes.claim_path.clone(),
            },
            ..config.into()
        },
        config: kubernetes.clone(),
        listener: listener(kubernetes, config),
        longest_life: config.longest_life(),
    }
}

/// Where the server itself listens in the cluster, as far as its settings say.
#[cfg(feature = "kubernetes")]
fn listener(kubernetes: &KubernetesConfig, config: &Config) -> Option<SocketAddr> {
    let (listens, pod_ip) = (config.http.addr, kubernetes.replicas.pod_ip);
    let is_elsewhere = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_loopback();
    let ip = pod_ip.or_else(|| Some(listens.ip()).filter(is_elsewhere))?;
    Some(SocketAddr::new(ip, listens.port()))
}

/// What all containers have in common.
pub(super) fn setup(config: &Config, catalog: Catalog, certificates: Option<String>) -> Setup {
    Setup {
        catalog,
        certificates,
        idle: config.longest_idle(),
        longest_use: config.longest_use(),
        limits: ContainerLimits {
            nano_cpus: config.limits.nano_cpus,
            memory: config.limits.memory,
            pids: config.limits.pids,
            file_size: config.limits.file_size,
        },
        runtime: config.engine.runtime.clone(),
        lists_hosts: config.network.allow.is_some(),
        may_see_network: config.engine.allow_weaker.contains(&Control::NetworkOff),
    }
}
