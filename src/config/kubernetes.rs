//! How sandboxes are run on a cluster of Kubernetes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::reader::{Reader, show_cpus};
use super::replicas::{ReplicaConfig, object_name};
use crate::units::show_size;

/// Settings of an engine on this host, which mean nothing to a cluster, and what takes their place there.
const OF_HOSTS: [(&str, &str); 6] = [
    ("DOCKER_HOST", "the cluster is that of KUBECONFIG"),
    (
        "SANDBOX_HOST_PATH",
        "sandboxes mount the claim KUBE_VOLUME_CLAIM, at KUBE_VOLUME_PATH",
    ),
    (
        "SANDBOX_VOLUME",
        "sandboxes mount the claim KUBE_VOLUME_CLAIM",
    ),
    (
        "SANDBOX_CGROUP_PARENT",
        "each node has its own group for pods",
    ),
    ("FIREWALL_REPORT", "NetworkPolicies keep sandboxes apart"),
    (
        "RUN_SUBNETS",
        "pods have the addresses that the cluster gives",
    ),
];

/// The form of `KUBE_VOLUME_CLAIM`, in words.
const CLAIM: &str = "the name of a PersistentVolumeClaim in the namespace of the sandboxes, such as `sandboxes`, whose \
                     files the server has at SANDBOX_ROOT";
/// The form of `KUBE_VOLUME_PATH`, in words.
const PATH: &str = "a path in the claim without `..`, such as `mcp/sandboxes`";
/// The form of `KUBE_NODE_SELECTOR`, in words.
const SELECTOR: &str = "labels of nodes separated by commas, such as `pool=sandboxes,disk=ssd`";
/// The form of `KUBE_TOLERATIONS`, in words.
const TOLERATIONS: &str = "taints as `kubectl taint` writes them, separated by commas, such as `for=sandboxes:NoSchedule`";
/// The form of `KUBE_PULL_SECRETS`, in words.
const SECRETS: &str = "names of secrets separated by commas, such as `registry`";

/// How sandboxes are run on a cluster of Kubernetes (`EXECUTOR=kubernetes`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Where the cluster is, and who the server is there; `None` means the account of its pod (`KUBECONFIG`).
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of all pods; `None` means the server's own (`KUBE_NAMESPACE`).
    pub namespace: Option<String>,
    /// The claim that all sandboxes mount parts of (`KUBE_VOLUME_CLAIM`).
    pub claim: String,
    /// Where `SANDBOX_ROOT` is in the claim; empty if it is the claim (`KUBE_VOLUME_PATH`).
    pub claim_path: PathBuf,
    /// The filter of system calls that nodes apply (`KUBE_SECCOMP`).
    pub seccomp: Seccomp,
    /// What is set aside of a node for each sandbox, in billionths of a core (`KUBE_CPU_REQUEST`).
    pub cpu_request: Option<i64>,
    /// Labels that a node must have (`KUBE_NODE_SELECTOR`).
    pub node_selector: BTreeMap<String, String>,
    /// Taints that a node may have (`KUBE_TOLERATIONS`).
    pub tolerations: Vec<Tolerated>,
    /// The priority of sandboxes among other pods (`KUBE_PRIORITY_CLASS`).
    pub priority_class: Option<String>,
    /// Secrets with which nodes pull images of runners (`KUBE_PULL_SECRETS`).
    pub pull_secrets: Vec<String>,
    /// Bytes of a node's disk that a sandbox may take by what it prints (`KUBE_LOG_LIMIT`).
    pub log_limit: u64,
    /// The pod that the server is in: with it, its sandboxes go (`POD_NAME`, `POD_UID`).
    pub server_pod: Option<ServerPod>,
    /// Whether it is one of several.
    pub replicas: ReplicaConfig,
}

/// The filter of system calls that nodes apply to sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// That of the node's container runtime.
    #[default]
    RuntimeDefault,
    /// A file on each node, below the kubelet's directory of profiles.
    Localhost(String),
}

/// A taint that nodes of sandboxes may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tolerated {
    /// Its key.
    pub key: String,
    /// Its value; `None` means any.
    pub value: Option<String>,
    /// Its effect; `None` means any.
    pub effect: Option<String>,
}

/// The pod that the server is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPod {
    /// Its name.
    pub name: String,
    /// Its id, which no other pod has had.
    pub uid: String,
}

impl KubernetesConfig {
    /// `None` where an engine on this host runs sandboxes.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        if !is_chosen(reader) {
            return None;
        }
        for (name, instead) in OF_HOSTS {
            if reader.is_set(name) {
                let expected = format!("left out with EXECUTOR=kubernetes: {instead}");
                reader.reject(name, &expected);
            }
        }
        if !reader.is_set("MAX_CONCURRENT_RUNS") {
            let expected = "how many runs the cluster has room for: it is not worked out with EXECUTOR=kubernetes";
            reader.reject("MAX_CONCURRENT_RUNS", expected);
        }
        let server_pod = (
            reader.word("POD_NAME", "server-0"),
            reader.word("POD_UID", "0a1b"),
        );
        Some(Self {
            kubeconfig: reader.path("KUBECONFIG"),
            namespace: reader.word("KUBE_NAMESPACE", "mcp-sandbox"),
            claim: reader.parse("KUBE_VOLUME_CLAIM", CLAIM, String::new(), object_name),
            claim_path: reader
                .text("KUBE_VOLUME_PATH")
                .map_or_else(PathBuf::new, |_| {
                    reader.parse("KUBE_VOLUME_PATH", PATH, PathBuf::new(), path_in_claim)
                }),
            seccomp: seccomp(reader),
            cpu_request: reader.nano_cpus("KUBE_CPU_REQUEST"),
            node_selector: reader
                .list("KUBE_NODE_SELECTOR", SELECTOR, label)
                .into_iter()
                .collect(),
            tolerations: reader.list("KUBE_TOLERATIONS", TOLERATIONS, Tolerated::parse),
            priority_class: reader.word("KUBE_PRIORITY_CLASS", "sandboxes"),
            pull_secrets: reader.list("KUBE_PULL_SECRETS", SECRETS, object_name),
            log_limit: reader.size("KUBE_LOG_LIMIT", 1 << 20),
            server_pod: match server_pod {
                (Some(name), Some(uid)) => Some(ServerPod { name, uid }),
                _ => None,
            },
            replicas: ReplicaConfig::read(reader),
        })
    }

    /// What `check-config` prints where these settings have no effect.
    pub(super) fn no_lines() -> Vec<(&'static str, String)> {
        let all = Self::default().lines().into_iter();
        all.map(|(name, _)| (name, String::new())).collect()
    }

    /// What `check-config` prints, in the order of the table.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        let selector = self.node_selector.iter();
        let selector = selector.map(|(name, value)| format!("{name}={value}"));
        let tolerations = self.tolerations.iter().map(ToString::to_string);
        let pod = self.server_pod.clone();
        let (pod_name, pod_uid) = pod.map(|pod| (pod.name, pod.uid)).unwrap_or_default();
        let mut lines = vec![
            (
                "KUBECONFIG",
                self.kubeconfig.as_deref().map_or_else(String::new, path),
            ),
            ("KUBE_NAMESPACE", self.namespace.clone().unwrap_or_default()),
            ("KUBE_VOLUME_CLAIM", self.claim.clone()),
            ("KUBE_VOLUME_PATH", path(&self.claim_path)),
            ("KUBE_SECCOMP", self.seccomp.to_string()),
            ("KUBE_CPU_REQUEST", show_cpus(self.cpu_request)),
            ("KUBE_NODE_SELECTOR", selector.collect::<Vec<_>>().join(",")),
            (
                "KUBE_TOLERATIONS",
                tolerations.collect::<Vec<_>>().join(","),
            ),
            (
                "KUBE_PRIORITY_CLASS",
                self.priority_class.clone().unwrap_or_default(),
            ),
            ("KUBE_PULL_SECRETS", self.pull_secrets.join(",")),
            ("KUBE_LOG_LIMIT", show_size(self.log_limit)),
            ("POD_NAME", pod_name),
            ("POD_UID", pod_uid),
        ];
        lines.extend(self.replicas.lines());
        lines
    }
}

fn is_chosen(reader: &mut Reader<'_>) -> bool {
    match reader.text("EXECUTOR").as_deref() {
        Some("kubernetes") if cfg!(feature = "kubernetes") => true,
        Some("kubernetes") => {
            reader.reject(
                "EXECUTOR",
                "`docker`: this server was built without Kubernetes",
            );
            false
        }
        Some("docker") => false,
        _ => {
            reader.reject("EXECUTOR", "`docker` or `kubernetes`");
            false
        }
    }
}

fn seccomp(reader: &mut Reader<'_>) -> Seccomp {
    match reader.word("KUBE_SECCOMP", "sandbox.json").as_deref() {
        None | Some("RuntimeDefault") => Seccomp::RuntimeDefault,
        Some(profile) => {
            if path_in_claim(profile).is_none() {
                let expected = "`RuntimeDefault`, or a file below the directory of profiles on every node, such as \
                                `sandbox.json`";
                reader.reject("KUBE_SECCOMP", expected);
            }
            Seccomp::Localhost(profile.to_owned())
        }
    }
}

/// A path that leads nowhere else.
fn path_in_claim(value: &str) -> Option<PathBuf> {
    let path = Path::new(value.trim_matches('/'));
    let is_plain = path
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    is_plain.then(|| path.to_owned())
}

fn label(entry: &str) -> Option<(String, String)> {
    let (name, value) = entry.split_once('=')?;
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

impl Tolerated {
    fn parse(entry: &str) -> Option<Self> {
        let (taint, effect) = match entry.split_once(':') {
            Some((taint, effect)) => (taint, Some(effect.to_owned())),
            None => (entry, None),
        };
        let (key, value) = match taint.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (taint, None),
        };
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let is_known = effect.as_deref().is_none_or(|it| known.contains(&it));
        (is_known && !key.is_empty()).then(|| Self {
            key: key.to_owned(),
            value,
            effect,
        })
    }
}

impl fmt::Display for Tolerated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.key)?;
        if let Some(value) = &self.value {
            write!(formatter, "={value}")?;
        }
        match &self.effect {
            Some(effect) => write!(formatter, ":{effect}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Seccomp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::RuntimeDefault => "RuntimeDefault",
            Self::Localhost(profile) => profile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_written_as_kubectl_does() {
        for taint in ["a", "a=b", "a:NoSchedule", "a=b:NoExecute"] {
            assert_eq!(Tolerated::parse(taint).unwrap().to_string(), taint);
        }
        for bad in ["", "=b", "a:Sometimes", ":NoSchedule"] {
            assert_eq!(Tolerated::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn paths_stay_in_the_claim() {
        for (given, path) in [
            ("a/b", Some("a/b")),
            ("/a/", Some("a")),
            ("..", None),
            ("a/../b", None),
        ] {
            assert_eq!(path_in_claim(given), path.map(PathBuf::from), "{given}");
        }
    }
}
