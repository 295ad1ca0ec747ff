//! A cluster of Kubernetes, through its API: each container is a Pod. The only module that talks to a cluster.
//!
//! A pod begins to live when it is made, and its streams can be had as soon as its container runs, which the streams tell
//! sooner than the pod's own state. They also tell its end first: what the cluster says of it comes a second later.

mod cluster;
mod error;
mod follow;
mod lease;
#[cfg(test)]
mod manifests;
pub mod pod;
pub mod policies;
mod runners;
mod stream;
pub mod verdict;
mod watch;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use hyper::Request;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, PostParams, VersionMatch};
use kube::{Api, ResourceExt as _};
use sandbox_init::MUST_NOT_REACH_MAX;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use self::cluster::Cluster;
use self::error::ClusterError;
pub use self::lease::Lease;
pub use self::pod::PodSetup;
use self::pod::labels::all_labels;
use self::policies::PolicyError;
use self::stream::Streams;
use self::verdict::{Standing, Wait};
use super::spec::{ContainerLimits, ContainerSpec, LaneSpec};
use super::{
    Attached, Capabilities, ContainerEnd, ContainerId, ContainerInfo, ContainerState, Engine,
    ErrorKind, Executor, ExecutorError, LaneId, LaneInfo, NetworkRules,
};

/// Limit for requests that only read.
const QUICK: Duration = Duration::from_secs(5);
/// Limit for requests that change something: a cluster asks others before it does.
const SLOW: Duration = Duration::from_secs(30);
/// Pods that are started at a time. With more, nodes do what they do for each ever more slowly.
const STARTS_AT_A_TIME: usize = 8;
/// How long a start may take: a node may have to fetch the image first.
const LONGEST_START: Duration = Duration::from_mins(5);
/// Pauses between attempts to attach: at first, and to a pod that takes longer.
const ATTACH_PAUSE: Duration = Duration::from_millis(25);
const LATE_ATTACH_PAUSE: Duration = Duration::from_millis(250);
/// From when a pod takes longer.
const LATE: Duration = Duration::from_secs(3);
/// How long after the end of its streams a pod's own end is known, at most.
const STATE_LAG: Duration = Duration::from_millis(1500);
/// How long a node may take to answer, and the cluster at the end of that lag.
const ALIVE: Duration = Duration::from_secs(1);
const LAST_ANSWER: Duration = Duration::from_millis(400);
/// How long after a removal the streams may stay open.
const LAST_BREATH: Duration = Duration::from_secs(5);
/// The operation of a request that has no other purpose.
const REACH: &str = "reach the cluster";

/// Containers as pods of a cluster.
#[derive(Debug)]
pub struct KubernetesExecutor {
    setup: PodSetup,
    /// Tells its pods from those of others.
    id: String,
    cluster: OnceCell<Cluster>,
    streams: Streams,
}

impl KubernetesExecutor {
    /// An executor of pods that are set up like this. Does not connect yet.
    pub fn new(setup: PodSetup) -> Self {
        Self {
            setup,
            id: hex::encode(rand::random::<[u8; 8]>()),
            cluster: OnceCell::new(),
            streams: Streams::default(),
        }
    }

    /// The way to the cluster, which is kept once it is found.
    async fn cluster(&self, operation: &'static str) -> Result<&Cluster, ExecutorError> {
        let found = self
            .cluster
            .get_or_try_init(|| Cluster::find(&self.setup.config, &self.id));
        found.await.map_err(|error| error.during(operation))
    }

    /// Waits until a pod can be attached to, or says why that is in vain.
    async fn attach(
        &self,
        cluster: &Cluster,
        container: &ContainerId,
    ) -> Result<Attached, StartError> {
        let begun = Instant::now();
        loop {
            let standing = cluster.pods.standing(container);
            let wait = match standing {
                Some(Standing::Ended(end)) => return Err(StartError::Ended(end)),
                Some(Standing::Waiting(wait)) => Some(wait),
                Some(Standing::Running) | None => None,
            };
            if let Some(wait) = &wait
                && let Some(kind) = wait.is_in_vain(begun.elapsed())
            {
                return Err(StartError::InVain(kind, wait.clone()));
            }
            // Without a node there is nothing to attach to.
            if wait.as_ref().is_none_or(|wait| wait.has_node) {
                let (client, namespace) = (&cluster.stream_client.0, &cluster.namespace);
                match self.streams.attach(client, namespace, container).await {
                    Ok(attached) => return Ok(attached),
                    // It does not run yet: its node does not know it, or has not got its engine, or the cluster has not
                    // heard from that.
                    Err(
                        ClusterError::Refused(_) | ClusterError::Failed(_) | ClusterError::Away(_),
                    ) => {}
                    Err(ClusterError::NotFound(_)) => exists(cluster, container).await?,
                    Err(error) => return Err(error.into()),
                }
            }
            if begun.elapsed() > LONGEST_START {
                let (seconds, wait) = (LONGEST_START.as_secs(), wait.unwrap_or_default());
                return Err(StartError::Late { seconds, wait });
            }
            let pause = if begun.elapsed() < LATE {
                ATTACH_PAUSE
            } else {
                LATE_ATTACH_PAUSE
            };
            sleep(pause).await;
        }
    }

    /// All network policies of the namespace.
    async fn policies(&self) -> Result<Vec<NetworkPolicy>, ExecutorError> {
        let operation = "read the network policies";
        let cluster = self.cluster(operation).await?;
        let api: Api<NetworkPolicy> = Api::namespaced(cluster.client.0.clone(), &cluster.namespace);
        let listed = ClusterError::within(QUICK, api.list(&ListParams::default())).await;
        Ok(listed.map_err(|error| error.during(operation))?.items)
    }

    /// Asks a pod's node whether it is there: the cluster itself goes by what it has heard last. Logs come from the node,
    /// so an answer to this is one of the node.
    async fn is_heard_of(
        &self,
        cluster: &Cluster,
        container: &ContainerId,
    ) -> Result<(), ClusterError> {
        let (namespace, name) = (&cluster.namespace, &container.0);
        let uri = format!(
            "/api/v1/namespaces/{namespace}/pods/{name}/log?container={}&limitBytes=1&tailLines=0",
            pod::CONTAINER
        );
        let request = Request::get(uri).body(Vec::new());
        let request = request.map_err(|error| ClusterError::Lost(error.to_string()))?;
        let asked = cluster.client.0.request_text(request);
        match ClusterError::within(ALIVE, asked).await {
            // Nobody knows: the cluster has not heard yet that it runs, or does not let us ask.
            Ok(_) | Err(ClusterError::Refused(_) | ClusterError::Forbidden(_)) => Ok(()),
            Err(ClusterError::NotFound(_)) => exists(cluster, container).await,
            Err(error) => Err(ClusterError::Lost(format!(
                "its node does not answer: {error}"
            ))),
        }
    }

    /// The state of a pod whose streams have ended. What the cluster says of that comes later.
    async fn late_state(
        &self,
        cluster: &Cluster,
        container: &ContainerId,
    ) -> Result<ContainerState, ClusterError> {
        let is_over = |standing: Option<&Standing>| {
            !matches!(standing, Some(Standing::Running | Standing::Waiting(_)))
        };
        let over = cluster.pods.until(container, is_over);
        if let Ok(Some(Standing::Ended(end))) = timeout(STATE_LAG, over).await {
            return Ok(ContainerState::Ended(end));
        }
        let api = cluster.api();
        let pod = ClusterError::within(LAST_ANSWER, api.get(&container.0)).await?;
        Ok(match Standing::of(&pod) {
            Standing::Ended(end) => ContainerState::Ended(end),
            Standing::Running | Standing::Waiting(_) => ContainerState::Running,
        })
    }
}

/// Why a pod was not started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// It ended before it began.
    #[error("its pod ended before it was used: {}", why(.0))]
    Ended(ContainerEnd),
    /// It waits for something that does not come.
    #[error("its pod cannot run: {1}")]
    InVain(ErrorKind, Wait),
    /// It took too long.
    #[error("its pod did not run within {seconds} s: {wait}")]
    Late {
        /// How long that is.
        seconds: u64,
        /// What it still waits for.
        wait: Wait,
    },
    /// The cluster does not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// An end, in words.
fn why(end: &ContainerEnd) -> String {
    match end {
        ContainerEnd::OutOfMemory => "it had too little memory".to_owned(),
        ContainerEnd::ByEngine(reason) | ContainerEnd::LogFull(reason) => reason.clone(),
        ContainerEnd::Exited(Some(code)) => format!("exit code {code}"),
        ContainerEnd::Exited(None) => "nothing is known of its end".to_owned(),
    }
}

impl StartError {
    fn during(self, operation: &'static str) -> ExecutorError {
        let kind = match self {
            Self::Cluster(error) => return error.during(operation),
            Self::InVain(kind, _) => kind,
            Self::Ended(_) | Self::Late { .. } => ErrorKind::Refused,
        };
        ExecutorError {
            kind,
            operation,
            source: self.into(),
        }
    }
}

/// What policies say.
fn in_words(checked: &Result<(), PolicyError>) -> NetworkRules {
    match checked {
        Ok(()) => NetworkRules::InPlace,
        Err(error) => NetworkRules::Missing(error.to_string()),
    }
}

/// Succeeds if there is such a pod. A node says that there is none if it does not know it yet, as after a restart.
async fn exists(cluster: &Cluster, container: &ContainerId) -> Result<(), ClusterError> {
    let api = cluster.api();
    let found = ClusterError::within(QUICK, api.get(&container.0)).await;
    found.map(drop)
}

/// Checks that the cluster uses the wanted runtime: what is meant to be safer must not be weaker unnoticed.
fn has_runtime(made: &Pod, wanted: Option<&str>) -> Result<(), ClusterError> {
    let runtime = made
        .spec
        .as_ref()
        .and_then(|spec| spec.runtime_class_name.as_deref());
    if wanted.is_none() || runtime == wanted {
        return Ok(());
    }
    let (runtime, wanted) = (runtime.unwrap_or_default(), wanted.unwrap_or_default());
    Err(ClusterError::Refused(format!(
        "the cluster uses the runtime class {runtime:?} in place of {wanted:?}"
    )))
}

#[async_trait]
impl Executor for KubernetesExecutor {
    async fn engine(&self) -> Result<Engine, ExecutorError> {
        let cluster = self.cluster(REACH).await?;
        let version = ClusterError::within(QUICK, cluster.client.0.apiserver_version()).await;
        let version = version.map_err(|error| error.during(REACH))?;
        // So the rights are there, too.
        self.ping().await?;
        Ok(Engine {
            name: format!("Kubernetes {}", version.git_version.trim_start_matches('v')),
            runc: None,
            rootless: false,
            cores: None,
            capabilities: Capabilities {
                max_starts_at_a_time: STARTS_AT_A_TIME,
                longest_start: LONGEST_START,
                // NetworkPolicies keep pods apart.
                needs_lanes: false,
                cuts_network: false,
                hands_over_sockets: false,
                limits: vec!["memory", "processor"],
                refuses_cpu_limit: false,
                has_nodes: true,
                mounts_parts: true,
            },
        })
    }

    async fn ping(&self) -> Result<(), ExecutorError> {
        let cluster = self.cluster(REACH).await?;
        // Out of what the API server has in memory.
        let one = ListParams::default()
            .limit(1)
            .at("0")
            .matching(VersionMatch::NotOlderThan);
        let api = cluster.api();
        let listed = ClusterError::within(QUICK, api.list(&one)).await;
        listed.map(drop).map_err(|error| error.during(REACH))
    }

    async fn has_volume(&self, name: &str) -> Result<bool, ExecutorError> {
        Ok(self.setup.config.claim == name)
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, ExecutorError> {
        let operation = "create a container";
        let cluster = self.cluster(operation).await?;
        let name = format!("sbx-{}", hex::encode(rand::random::<[u8; 8]>()));
        let pod = pod::pod(spec, &self.setup, &name, &self.id).map_err(|source| ExecutorError {
            kind: ErrorKind::Unusable,
            operation,
            source: source.into(),
        })?;
        let api = cluster.api();
        let made = ClusterError::within(SLOW, api.create(&PostParams::default(), &pod)).await;
        let made = made.map_err(|error| error.during(operation))?;
        let container = ContainerId(name);
        if let Err(error) = has_runtime(&made, spec.runtime.as_deref()) {
            self.remove(&container).await?;
            return Err(error.during(operation));
        }
        Ok(container)
    }

    async fn start(&self, container: &ContainerId) -> Result<Attached, ExecutorError> {
        let operation = "start a container";
        let cluster = self.cluster(operation).await?;
        let attached = self.attach(cluster, container).await;
        attached.map_err(|error| error.during(operation))
    }

    /// Pods keep the share that they were made with.
    async fn end_warm_up(
        &self,
        _container: &ContainerId,
        _limits: &ContainerLimits,
    ) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn state(&self, container: &ContainerId) -> Result<ContainerState, ExecutorError> {
        let operation = "look at a container";
        let cluster = self.cluster(operation).await?;
        if let Some(Standing::Ended(end)) = cluster.pods.standing(container) {
            return Ok(ContainerState::Ended(end));
        }
        let state = if self.streams.are_open(container) {
            let heard = self.is_heard_of(cluster, container).await;
            heard.map(|()| ContainerState::Running)
        } else {
            self.late_state(cluster, container).await
        };
        state.map_err(|error| error.during(operation))
    }

    /// A pod that is removed at once is no object any more when the request is answered, whether its container still
    /// lives or not. That it does not, the end of its streams tells.
    async fn remove(&self, container: &ContainerId) -> Result<(), ExecutorError> {
        let operation = "remove a container";
        let cluster = self.cluster(operation).await?;
        let ended = self.streams.ended(container);
        let at_once = DeleteParams::default().grace_period(0);
        let api = cluster.api();
        let delete = ClusterError::within(SLOW, api.delete(&container.0, &at_once));
        match delete.await {
            Ok(_) | Err(ClusterError::NotFound(_)) => {}
            Err(error) => return Err(error.during(operation)),
        }
        let ended = timeout(LAST_BREATH, ended).await;
        ended.map_err(|_| {
            let lost = "its streams are still open, so its node may not have been told".to_owned();
            ClusterError::Lost(lost).during(operation)
        })
    }

    async fn containers(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<ContainerInfo>, ExecutorError> {
        let operation = "list containers";
        let cluster = self.cluster(operation).await?;
        let labelled = ListParams::default().labels(&format!("{label}={value}"));
        let api = cluster.api();
        let pods = ClusterError::within(SLOW, api.list(&labelled)).await;
        let pods = pods.map_err(|error| error.during(operation))?;
        let info = pods.into_iter().map(|pod| ContainerInfo {
            id: ContainerId(pod.name_any()),
            labels: all_labels(pod.metadata),
        });
        Ok(info.collect())
    }

    fn containers_by_node(&self) -> BTreeMap<String, usize> {
        let cluster = self.cluster.get();
        cluster.map_or_else(BTreeMap::new, |cluster| cluster.pods.by_node())
    }

    async fn node(&self, container: &ContainerId) -> Option<String> {
        let cluster = self.cluster.get()?;
        if let Some(node) = cluster.pods.node(container) {
            return Some(node);
        }
        let api = cluster.api();
        let pod = ClusterError::within(QUICK, api.get(&container.0)).await;
        pod.ok()?.spec?.node_name
    }

    /// The server itself, and the API server, both of which this process has reached.
    async fn must_not_reach(&self) -> Result<Vec<SocketAddr>, ExecutorError> {
        let operation = "look up the API server";
        let cluster = self.cluster(operation).await?;
        let api_server = cluster.api_server().await;
        let api_server = api_server.map_err(|error| error.during(operation))?;
        let all = self.setup.listener.into_iter().chain(api_server);
        Ok(all.take(MUST_NOT_REACH_MAX).collect())
    }

    async fn closing_rules(&self) -> Result<NetworkRules, ExecutorError> {
        Ok(in_words(&policies::check_closed(&self.policies().await?)))
    }

    async fn lanes(&self) -> Result<Vec<LaneInfo>, ExecutorError> {
        Ok(Vec::new())
    }

    async fn make_lane(&self, _lane: &LaneSpec) -> Result<LaneId, ExecutorError> {
        let none = "pods have no networks of their own: NetworkPolicies keep them apart".to_owned();
        Err(ClusterError::Refused(none).during("make a network for a run"))
    }

    /// Whether the policies are enforced is up to the cluster's network.
    async fn network_rules(&self, dns: &[IpAddr]) -> Result<NetworkRules, ExecutorError> {
        Ok(in_words(&policies::check(&self.policies().await?, dns)))
    }

    async fn remove_lane(&self, _lane: &LaneId) -> Result<(), ExecutorError> {
        Ok(())
    }
}
