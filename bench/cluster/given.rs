//! The cluster that is measured, as `tests/cluster/bench.sh` gives it.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::server::Server;

/// What there is.
pub(crate) struct Given {
    admin: String,
    server: String,
    claim: String,
    files: tempfile::TempDir,
    profile: String,
}

impl Given {
    /// Nothing where there is no cluster.
    #[expect(clippy::disallowed_methods, reason = "no setting of the server's")]
    pub(crate) fn read() -> Option<Self> {
        let given = |name: &str| std::env::var(name).ok();
        let files = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(given("KUBE_TEST_FILES")?)
            .unwrap();
        std::os::unix::fs::chown(files.path(), Some(1000), Some(1000)).unwrap();
        Some(Self {
            admin: given("KUBE_TEST_CONFIG")?,
            server: given("KUBE_TEST_SERVER_CONFIG")?,
            claim: given("KUBE_TEST_CLAIM")?,
            profile: given("KUBE_TEST_PROFILE")?,
            files,
        })
    }

    /// A server whose sandboxes are pods.
    pub(crate) async fn server(&self, settings: &[(&str, &str)]) -> Server {
        let path = self.files.path();
        let common = [
            ("EXECUTOR", "kubernetes"),
            ("KUBECONFIG", &self.server),
            ("KUBE_VOLUME_CLAIM", &self.claim),
            (
                "KUBE_VOLUME_PATH",
                path.file_name().unwrap().to_str().unwrap(),
            ),
            ("SANDBOX_ROOT", path.to_str().unwrap()),
            ("KUBE_SECCOMP", &self.profile),
            ("MAX_CONCURRENT_RUNS", "40"),
            ("MAX_WARM_SANDBOXES", "60"),
            ("SANDBOX_REUSE", "conversation"),
            ("RUN_MEMORY", "64m"),
            ("KUBE_CPU_REQUEST", "0.02"),
            // Only the Python image has the programs that try them.
            ("ALLOW_WEAKER_SANDBOX", "limits,network-off"),
        ];
        Server::start(&[&common[..], settings].concat()).await
    }

    /// How many requests about pods the API server was asked by whoever makes them: their creation, attachment and
    /// deletion.
    pub(crate) fn requests(&self) -> u32 {
        let metrics = self.kubectl(&["get", "--raw", "/metrics"]);
        let is_counted = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains("resource=\"pods\"")
                && (line.contains("subresource=\"attach\"")
                    || line.contains("subresource=\"\"")
                        && (line.contains("verb=\"POST\"") || line.contains("verb=\"DELETE\"")))
        };
        let counts = metrics.lines().filter(is_counted);
        let counts = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
        format!("{:.0}", counts.sum::<f64>()).parse().unwrap()
    }

    pub(crate) fn nodes(&self) -> usize {
        self.items(&["get", "nodes"]).len()
    }

    /// Waits until there are so many sandboxes, all of which run.
    pub(crate) async fn until_pods(&self, count: u32) {
        loop {
            let mut pods = self.pods();
            // Those of servers that are gone may be left.
            pods.retain(|pod| !has_ended(pod));
            let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
            if pods.len() == usize::try_from(count).unwrap()
                && pods.iter().filter(runs).count() == pods.len()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) fn pods_by_node(&self) -> Vec<usize> {
        let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.pods() {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            *nodes.entry(node.to_owned()).or_default() += 1;
        }
        nodes.into_values().collect()
    }

    fn pods(&self) -> Vec<Value> {
        self.items(&["get", "pods", "--selector", "sandbox.server"])
    }

    fn items(&self, arguments: &[&str]) -> Vec<Value> {
        let answer = self.kubectl(&[arguments, &["--output", "json"]].concat());
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        answer["items"].take().as_array().unwrap().clone()
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(["--kubeconfig", &self.admin, "--request-timeout", "30s"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"]
        .map(Some)
        .contains(&pod["status"]["phase"].as_str())
}
