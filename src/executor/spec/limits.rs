//! How much a container may use, in our words and in the engine's.

use bollard::models::{ContainerUpdateBody, ResourcesUlimits};

use super::RUN_SHARES;

/// How much a container may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerLimits {
    /// Cores, in billionths; `None` means no limit.
    pub nano_cpus: Option<i64>,
    /// Bytes of memory; nothing is swapped.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes of one file.
    pub file_size: u64,
}

impl ContainerLimits {
    /// The engine's request to give a container that was warmed up the share of a run. The memory limits are repeated
    /// unchanged: without them in the request, runc under systemd lifts the swap limit.
    pub(in crate::executor) fn to_update_body(self) -> ContainerUpdateBody {
        let memory = i64::try_from(self.memory).unwrap_or(i64::MAX);
        ContainerUpdateBody {
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: self.nano_cpus,
            cpu_shares: Some(RUN_SHARES),
            ..Default::default()
        }
    }

    /// Limits on each process, for the engine's request.
    pub(super) fn ulimits(self) -> Vec<ResourcesUlimits> {
        let limit = |name: &str, value: i64| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(value),
            hard: Some(value),
        };
        let file_size = i64::try_from(self.file_size).unwrap_or(i64::MAX);
        vec![
            // PID 1 gives programs a quarter of it.
            limit("nofile", 4096),
            limit("fsize", file_size),
            // Of one byte nothing is written, and none is handed to a program of the host's either, as none would be.
            limit("core", 1),
        ]
    }
}
