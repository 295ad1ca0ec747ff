//! The cluster that the tests are given: that of `tests/cluster`, or one elsewhere. What they need of it is in the
//! environment, which `tests/cluster/run.sh` sets.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

/// The user of all pods, to whom the files of the claim belong.
pub(super) const USER: u32 = 1000;

#[expect(
    clippy::disallowed_methods,
    reason = "no setting of the server's: where the tests find a cluster"
)]
fn if_given(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(super) fn given(name: &str) -> String {
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

    pub(super) fn own(&self, below: &str) -> PathBuf {
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

/// The namespace of all pods.
pub(crate) async fn namespace() -> String {
    let arguments = [
        "config",
        "view",
        "--minify",
        "--output",
        "jsonpath={..namespace}",
    ];
    kubectl(&arguments).await
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

/// The name of a filter of system calls that all nodes have, and that lets sandboxes leave the network of their pods.
pub(crate) fn own_network_profile() -> String {
    given("KUBE_TEST_PROFILE")
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
