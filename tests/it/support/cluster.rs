//! The cluster that the tests are given: that of `tests/cluster`, or one elsewhere. What they need of it is in the
//! environment, which `tests/cluster/run.sh` sets.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::config::KubernetesConfig;
use mcp_code_sandbox::executor::docker::request::SECCOMP_PROFILE;
use mcp_code_sandbox::executor::host_paths::{HostPaths, MountSource};
use mcp_code_sandbox::executor::installed::INIT;
use mcp_code_sandbox::executor::kubernetes::{KubernetesExecutor, PodSetup};
use mcp_code_sandbox::executor::spec::{
    ContainerLimits, ContainerSpec, NetworkAccess, Place, Priority, User,
};
use serde_json::Value;
use tempfile::TempDir;

/// The user of all pods, to whom the files of the claim belong.
const USER: u32 = 1000;

#[expect(
    clippy::disallowed_methods,
    reason = "no setting of the server's: where the tests find a cluster"
)]
fn if_given(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn given(name: &str) -> String {
    if_given(name).unwrap_or_else(|| {
        panic!("{name} is not set: these tests need a cluster, as ./test.sh cluster makes it")
    })
}

/// A part of the claim that a test has for itself.
pub(crate) struct Share {
    directory: TempDir,
}

impl Share {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("test-")
            .tempdir_in(given("KUBE_TEST_FILES"))
            .unwrap();
        let share = Self { directory };
        share.own("");
        share
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Its path in the claim.
    pub(crate) fn in_claim(&self) -> String {
        let name = self.path().file_name().unwrap();
        name.to_str().unwrap().to_owned()
    }

    fn own(&self, below: &str) -> PathBuf {
        let path = self.path().join(below);
        fs::create_dir_all(&path).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The directory, which is its server's now.
    pub(crate) fn into_root(self) -> Arc<TempDir> {
        Arc::new(self.directory)
    }

    /// What a server needs to be told whose files are here, or in this directory below.
    pub(crate) fn settings(&self, below: &str) -> Vec<(&'static str, String)> {
        vec![
            ("EXECUTOR", "kubernetes".to_owned()),
            ("KUBECONFIG", given("KUBE_TEST_SERVER_CONFIG")),
            ("KUBE_VOLUME_CLAIM", given("KUBE_TEST_CLAIM")),
            ("KUBE_VOLUME_PATH", format!("{}/{below}", self.in_claim())),
            ("KUBE_SECCOMP", own_network_profile()),
            ("MAX_CONCURRENT_RUNS", "8".to_owned()),
            // Not with a cluster.
            ("FIREWALL_REPORT", String::new()),
        ]
    }
}

/// An executor on the cluster, and what its containers need.
pub(crate) struct OnCluster {
    pub(crate) executor: Arc<KubernetesExecutor>,
    pub(crate) share: Share,
}

impl OnCluster {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// With all pods on one node.
    pub(crate) fn on_node(node: &str) -> Self {
        let name = "kubernetes.io/hostname".to_owned();
        Self::with(|config| config.node_selector = [(name, node.to_owned())].into())
    }

    pub(crate) fn with(change: impl FnOnce(&mut KubernetesConfig)) -> Self {
        let share = Share::new();
        share.own(".tmp/slot");
        let init = share.path().join(INIT.path());
        fs::create_dir_all(init.parent().unwrap()).unwrap();
        fs::write(&init, INIT.content).unwrap();
        fs::set_permissions(&init, Permissions::from_mode(INIT.mode)).unwrap();
        let claim = given("KUBE_TEST_CLAIM");
        let mut config = KubernetesConfig {
            kubeconfig: Some(given("KUBE_TEST_SERVER_CONFIG").into()),
            claim: claim.clone(),
            log_limit: 64 << 20,
            ..Default::default()
        };
        change(&mut config);
        let setup = PodSetup {
            paths: HostPaths {
                root: MountSource::Volume {
                    name: claim,
                    path: share.in_claim().into(),
                },
                init: INIT.path(),
                ..Default::default()
            },
            config,
            listener: None,
            longest_life: Duration::from_hours(25),
        };
        Self {
            executor: Arc::new(KubernetesExecutor::new(setup)),
            share,
        }
    }

    /// What a container of the shell runner is to be.
    pub(crate) async fn shell(&self) -> ContainerSpec {
        let images = self.executor.runner_images().await.unwrap();
        let shell = images
            .into_iter()
            .find(|image| image.labels["sandbox.language"] == "shell")
            .expect("the cluster has the runner of shell");
        ContainerSpec {
            image: shell.id,
            command: shell.command,
            env: vec!["HOME=/tmp".to_owned()],
            data: Place::Slot("slot".to_owned()),
            read_only: Vec::new(),
            data_alias: None,
            user: User {
                uid: USER,
                gid: USER,
            },
            limits: ContainerLimits {
                nano_cpus: Some(500_000_000),
                memory: 64 << 20,
                pids: 64,
                file_size: 64 << 20,
            },
            network: NetworkAccess::None,
            lane: None,
            priority: Priority::Run,
            avoided_nodes: Vec::new(),
            runtime: None,
            labels: [("sandbox.root".to_owned(), self.share.in_claim())].into(),
        }
    }
}

/// Asks the cluster as its administrator. What is asked for must work.
pub(crate) async fn kubectl(arguments: &[&str]) -> String {
    let output = tokio::process::Command::new("kubectl")
        .args(["--kubeconfig", &given("KUBE_TEST_CONFIG")])
        .args(["--request-timeout", "30s"])
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// An object of the cluster.
pub(crate) async fn object(arguments: &[&str]) -> Value {
    let json = kubectl(&[arguments, &["--output", "json"]].concat()).await;
    serde_json::from_str(&json).unwrap()
}

/// The ready nodes of the cluster, by name.
pub(crate) async fn nodes() -> Vec<String> {
    let nodes = object(&["get", "nodes"]).await;
    let names = nodes["items"].as_array().unwrap().iter();
    names
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The name of a filter of system calls that all nodes have, and that lets sandboxes leave the network of their pods. The
/// cluster that is made of containers gets it here.
pub(crate) fn own_network_profile() -> String {
    let Some(directory) = if_given("KUBE_TEST_SECCOMP") else {
        return given("KUBE_TEST_PROFILE");
    };
    let mut profile: Value = serde_json::from_str(SECCOMP_PROFILE).unwrap();
    for rule in profile["syscalls"].as_array_mut().unwrap() {
        let names = rule["names"].as_array_mut().unwrap();
        names.retain(|name| name != "unshare");
    }
    let name = "own-network.json";
    // Others may be reading it.
    let file = tempfile::NamedTempFile::new_in(&directory).unwrap();
    fs::write(file.path(), profile.to_string()).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    file.persist(Path::new(&directory).join(name)).unwrap();
    name.to_owned()
}

/// Freezes a node of the cluster that is made of containers, or lets it go on: `pause` or `unpause`.
pub(crate) async fn freeze(node: &str, command: &str) {
    let container = format!("{}-{node}", given("KUBE_TEST_NODES"));
    let status = tokio::process::Command::new("docker")
        .args([command, &container])
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{command} {node}");
}

/// Runs a command in a node of the cluster that is made of containers.
pub(crate) async fn on_node(node: &str, command: &[&str]) {
    let container = format!("{}-{node}", given("KUBE_TEST_NODES"));
    let status = tokio::process::Command::new("docker")
        .args(["exec", &container])
        .args(command)
        .status()
        .await
        .unwrap();
    assert!(status.success(), "{command:?} on {node}");
}
