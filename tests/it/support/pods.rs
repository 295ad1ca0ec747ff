//! Pods of the cluster that the tests are given, by the executor alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::config::KubernetesConfig;
use mcp_code_sandbox::executor::host_paths::{HostPaths, MountSource};
use mcp_code_sandbox::executor::installed::INIT;
use mcp_code_sandbox::executor::kubernetes::{KubernetesExecutor, PodSetup};
use mcp_code_sandbox::executor::spec::{
    ContainerLimits, ContainerSpec, HatchSpec, NetworkAccess, Place, Priority, User,
};

use super::cluster::{Share, USER, given};

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
            hatch: HatchSpec::None,
            certificates: None,
            lane: None,
            priority: Priority::Run,
            avoided_nodes: Vec::new(),
            runtime: None,
            labels: [("sandbox.root".to_owned(), self.share.in_claim())].into(),
        }
    }
}
