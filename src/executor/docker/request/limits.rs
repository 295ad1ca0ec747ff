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
    let limits = limits.of_a_process().into_iter();
    limits
        .map(|(name, number)| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(number),
                hard: Some(number),
            }
        })
        .collect()
}
