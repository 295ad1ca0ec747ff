//! How much a container may use, in the engine's words.

use bollard::models::{ContainerUpdateBody, ResourcesUlimits};

use super::RUN_SHARES;
use crate::executor::spec::ContainerLimits;

/// The engine's request to give a container that was warmed up the share of a run. The memory limits are repeated
/// unchanged: without them in the request, runc under systemd lifts the swap limit.
pub(in crate::executor::docker) fn update_body(limits: ContainerLimits) -> ContainerUpdateBody {
    let memory = i64::try_from(limits.memory).unwrap_or(i64::MAX);
    ContainerUpdateBody {
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: limits.nano_cpus,
        cpu_shares: Some(RUN_SHARES),
        ..Default::default()
    }
}

/// Limits on each process, for the engine's request.
pub(super) fn ulimits(limits: ContainerLimits) -> Vec<ResourcesUlimits> {
    let limit = |name: &str, value: i64| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    };
    let file_size = i64::try_from(limits.file_size).unwrap_or(i64::MAX);
    vec![
        // PID 1 gives programs a quarter of it.
        limit("nofile", 4096),
        limit("fsize", file_size),
        // Of one byte nothing is written, and none is handed to a program of the host's either, as none would be.
        limit("core", 1),
    ]
}
