//! What a container has to be, as a Pod. Pure: a snapshot pins the whole of it, so that no safety setting can get lost
//! unnoticed, and a test holds it to what `PodSecurity` calls *restricted*.

pub mod labels;
mod limits;
mod volumes;

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, EnvVar, LocalObjectReference, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, Pod, PodDNSConfig, PodSecurityContext, PodSpec,
    SeccompProfile, SecurityContext, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use crate::config::{KubernetesConfig, Seccomp, Tolerated};
use crate::executor::host_paths::{HostPaths, UnplacedError};
use crate::executor::spec::{ContainerSpec, DATA_PATH, INIT_PATH, NetworkAccess};

/// The name of the one container in each pod.
pub const CONTAINER: &str = "r";
/// How long a pod stays on a node that is not heard of.
const LOST_NODE_WAIT: i64 = 20;
/// Where the kubelet lets the container leave a message: it mounts a file that any user may write to. Not below `/dev`,
/// as by default, where programs may write.
const TERMINATION_MESSAGE: &str = "/.sandbox-termination";

/// What all pods of a server have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSetup {
    /// Where in the claim is what containers see. What the operator provides is a path in the claim, too.
    pub paths: HostPaths,
    /// How pods are run.
    pub config: KubernetesConfig,
    /// Where the server itself listens in the cluster, if that is known.
    pub listener: Option<SocketAddr>,
    /// How long they live at most, which is for when nobody is left to remove them.
    pub longest_life: Duration,
}

/// The pod for a container. `name` is new, and `executor` tells who makes it.
///
/// # Errors
/// The container is to see what the operator does not provide.
pub fn pod(
    spec: &ContainerSpec,
    setup: &PodSetup,
    name: &str,
    executor: &str,
) -> Result<Pod, UnplacedError> {
    Ok(Pod {
        metadata: metadata(spec, setup, name, executor),
        spec: Some(pod_spec(spec, setup)?),
        status: None,
    })
}

fn metadata(spec: &ContainerSpec, setup: &PodSetup, name: &str, executor: &str) -> ObjectMeta {
    let (labels, annotations) = labels::of(spec, executor);
    let owner = setup.config.server_pod.as_ref().map(|pod| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        ..Default::default()
    });
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: owner.map(|owner| vec![owner]),
        ..Default::default()
    }
}

fn pod_spec(spec: &ContainerSpec, setup: &PodSetup) -> Result<PodSpec, UnplacedError> {
    let KubernetesConfig {
        node_selector,
        tolerations,
        priority_class,
        pull_secrets,
        ..
    } = &setup.config;
    let secrets = pull_secrets
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() });
    Ok(PodSpec {
        containers: vec![container(spec, setup)?],
        volumes: Some(volumes::volumes(&setup.config)),
        restart_policy: Some("Never".to_owned()),
        // Removal asks for none at all. This is for whoever else deletes the pod.
        termination_grace_period_seconds: Some(1),
        active_deadline_seconds: Some(whole_seconds(setup.longest_life)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        hostname: Some("sandbox".to_owned()),
        dns_policy: Some("None".to_owned()),
        dns_config: Some(resolvers(&spec.network)),
        runtime_class_name: spec.runtime.clone(),
        priority_class_name: priority_class.clone(),
        node_selector: (!node_selector.is_empty()).then(|| node_selector.clone()),
        affinity: affinity(&spec.avoided_nodes),
        tolerations: Some(all_tolerations(tolerations)),
        image_pull_secrets: (!pull_secrets.is_empty()).then(|| secrets.collect()),
        topology_spread_constraints: Some(vec![spread()]),
        security_context: Some(security(spec, &setup.config.seccomp)),
        ..Default::default()
    })
}

/// As the cluster counts, which knows no longer time than fits into 32 bits.
fn whole_seconds(time: Duration) -> i64 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX).into()
}

fn container(spec: &ContainerSpec, setup: &PodSetup) -> Result<Container, UnplacedError> {
    let mut env = spec.env.clone();
    env.extend(limits::for_init(spec));
    let env = env.iter().map(|variable| {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        EnvVar {
            name: name.to_owned(),
            value: Some(literal(value)),
            value_from: None,
        }
    });
    Ok(Container {
        name: CONTAINER.to_owned(),
        image: Some(spec.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec![INIT_PATH.to_owned()]),
        args: Some(spec.command.iter().map(|word| literal(word)).collect()),
        env: Some(env.collect()),
        working_dir: Some(DATA_PATH.to_owned()),
        // Standard input is closed when we go away: sandbox-init then ends everything.
        stdin: Some(true),
        stdin_once: Some(true),
        tty: Some(false),
        termination_message_path: Some(TERMINATION_MESSAGE.to_owned()),
        resources: Some(limits::resources(spec.limits, &setup.config)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                add: None,
                drop: Some(vec!["ALL".to_owned()]),
            }),
            ..Default::default()
        }),
        volume_mounts: Some(volumes::mounts(spec, &setup.paths)?),
        ..Default::default()
    })
}

/// A text in which Kubernetes expands no `$(NAME)`.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn security(spec: &ContainerSpec, seccomp: &Seccomp) -> PodSecurityContext {
    let (type_, localhost_profile) = match seccomp {
        Seccomp::RuntimeDefault => ("RuntimeDefault", None),
        Seccomp::Localhost(profile) => ("Localhost", Some(profile.clone())),
    };
    PodSecurityContext {
        run_as_user: Some(spec.user.uid.into()),
        run_as_group: Some(spec.user.gid.into()),
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            localhost_profile,
            type_: type_.to_owned(),
        }),
        ..Default::default()
    }
}

/// The cluster's own resolver would tell programs the names of its services.
fn resolvers(network: &NetworkAccess) -> PodDNSConfig {
    let nameservers = match network {
        NetworkAccess::Bridge { dns } if !dns.is_empty() => {
            dns.iter().map(ToString::to_string).collect()
        }
        // Where no resolver can be reached, looking up a name fails at once instead of after a wait.
        NetworkAccess::Bridge { .. } | NetworkAccess::None | NetworkAccess::Listed(_) => {
            vec!["127.0.0.1".to_owned()]
        }
    };
    PodDNSConfig {
        nameservers: Some(nameservers),
        ..Default::default()
    }
}

fn all_tolerations(configured: &[Tolerated]) -> Vec<Toleration> {
    // Without these, a pod stays on such a node for five minutes.
    let lost = ["not-ready", "unreachable"].map(|condition| Toleration {
        key: Some(format!("node.kubernetes.io/{condition}")),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(LOST_NODE_WAIT),
        value: None,
    });
    let configured = configured.iter().map(|taint| Toleration {
        key: Some(taint.key.clone()),
        operator: Some(
            if taint.value.is_some() {
                "Equal"
            } else {
                "Exists"
            }
            .to_owned(),
        ),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        toleration_seconds: None,
    });
    lost.into_iter().chain(configured).collect()
}

/// Any node but these. Each has a rule of its own, since one about names of nodes can have only one.
fn affinity(avoided_nodes: &[String]) -> Option<Affinity> {
    let rules = avoided_nodes.iter().map(|node| NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![node.clone()]),
    });
    let term = NodeSelectorTerm {
        match_expressions: None,
        match_fields: Some(rules.collect()),
    };
    let required = NodeSelector {
        node_selector_terms: vec![term],
    };
    (!avoided_nodes.is_empty()).then(|| Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// As many sandboxes on each node as on the next, as far as there is room.
fn spread() -> TopologySpreadConstraint {
    let role = labels::role();
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some([role].into()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[cfg(test)]
pub(super) mod tests;
