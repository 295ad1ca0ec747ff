//! How much a pod may use. What a Pod has no field for, sandbox-init sets itself, as its environment says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use sandbox_init::variables;

use crate::config::KubernetesConfig;
use crate::executor::spec::{ContainerLimits, ContainerSpec, NetworkAccess};

/// The resources of a sandbox. All of its memory is set aside: so none of it is ever swapped, and no program is ended
/// because another one uses what it was promised.
pub(super) fn resources(
    limits: ContainerLimits,
    config: &KubernetesConfig,
) -> ResourceRequirements {
    let cpu_request = match limits.nano_cpus {
        Some(limit) => config.cpu_request.map(|request| request.min(limit)),
        None => config.cpu_request,
    };
    let both = [
        ("memory", limits.memory.to_string()),
        ("ephemeral-storage", config.log_limit.to_string()),
    ];
    let list = |nano_cpus: Option<i64>| -> BTreeMap<String, Quantity> {
        let cpu = nano_cpus.map(|nano_cpus| ("cpu", millicores(nano_cpus)));
        let all = both.clone().into_iter().chain(cpu);
        all.map(|(name, value)| (name.to_owned(), Quantity(value)))
            .collect()
    };
    ResourceRequirements {
        limits: Some(list(limits.nano_cpus)),
        // Without a value of its own, a request would be as high as the limit.
        requests: Some(list(Some(cpu_request.unwrap_or(0)))),
        claims: None,
    }
}

/// Thousandths of a core, at least as many as asked for: Kubernetes knows no smaller ones.
fn millicores(nano_cpus: i64) -> String {
    format!(
        "{}m",
        u64::try_from(nano_cpus)
            .unwrap_or_default()
            .div_ceil(1_000_000)
    )
}

/// What sandbox-init is told in its environment: limits of each process, and to leave the network of the pod.
///
/// It limits the number of processes only where it has left the network: elsewhere, the kernel counts those of all
/// sandboxes of a node together.
pub(super) fn for_init(spec: &ContainerSpec) -> Vec<String> {
    let each = spec.limits.variable();
    match &spec.network {
        NetworkAccess::Bridge { .. } => vec![each],
        NetworkAccess::None | NetworkAccess::Listed(_) => vec![
            format!("{each},nproc={}", spec.limits.pids),
            format!("{}=try", variables::NO_NETWORK),
        ],
    }
}
