//! What the settings mean for the parts that the server is put together from.

use std::path::PathBuf;

use super::instance::Instance;
use crate::config::{Config, StorageConfig, Toolset};
use crate::executor::EngineNeeds;
use crate::executor::spec::{ContainerLimits, DATA_ALIAS, Source};
use crate::pool::Setup;
use crate::runner::catalog::Catalog;
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

impl From<&StorageConfig> for Source {
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

/// What all containers have in common.
pub(super) fn setup(config: &Config, instance: &Instance, catalog: Catalog) -> Setup {
    Setup {
        catalog,
        root: (&config.storage).into(),
        seccomp: config.storage.host_path.join(&instance.seccomp_name),
        data_alias: (config.toolset == Toolset::Artifacts).then_some(DATA_ALIAS),
        idle: config.longest_idle(),
        limits: ContainerLimits {
            nano_cpus: config.limits.nano_cpus,
            memory: config.limits.memory,
            pids: config.limits.pids,
            file_size: config.limits.file_size,
        },
        runtime: config.engine.runtime.clone(),
        cgroup_parent: config.engine.cgroup_parent.clone(),
    }
}
