//! The seam to what runs containers: one trait in our words, so that everything above it can be tested on
//! [`fake::FakeExecutor`] and runs on [`docker::DockerExecutor`].
//!
//! An executor knows containers, images and networks. It knows nothing of conversations, runs, MCP or HTTP.

pub mod docker;
mod engine;
pub mod fake;
pub mod host_paths;
pub mod installed;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod leaders;
pub mod outage;
pub mod spec;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
pub use sandbox_init::Stream;
use thiserror::Error;
use tokio::io::AsyncWrite;

pub use self::engine::{Capabilities, Engine, EngineNeeds, UnfitError};
pub use self::outage::Outage;
use self::spec::{ContainerLimits, ContainerSpec, LaneSpec};

/// Something that runs containers.
#[async_trait]
pub trait Executor: fmt::Debug + Send + Sync {
    /// Asks the engine what it is, and speaks to it accordingly from then on.
    async fn engine(&self) -> Result<Engine, ExecutorError>;

    /// The same, and whether it can do what settings need of it.
    async fn fitting(
        &self,
        needs: &EngineNeeds,
    ) -> Result<Result<Engine, UnfitError>, ExecutorError> {
        let engine = self.engine().await?;
        if let Err(unfit) = engine.check(needs) {
            return Ok(Err(unfit));
        }
        match &needs.volume {
            Some(volume) if !self.has_volume(volume).await? => {
                let volume = volume.clone();
                Ok(Err(UnfitError::NoVolume { volume }))
            }
            _ => Ok(Ok(engine)),
        }
    }

    /// Asks the engine whether it is there, which costs it almost nothing.
    async fn ping(&self) -> Result<(), ExecutorError>;

    /// Whether there is a volume of that name.
    async fn has_volume(&self, name: &str) -> Result<bool, ExecutorError>;

    /// Creates a container. Its PID 1 may live from now on, or only once it is started.
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, ExecutorError>;

    /// Starts a container and connects to its standard streams, of which nothing is missed.
    ///
    /// The output must be read to its end at all times: an engine hangs on a container whose output nobody reads.
    async fn start(&self, container: &ContainerId) -> Result<Attached, ExecutorError>;

    /// Gives a container that was created with [`Priority::WarmUp`](spec::Priority::WarmUp) the share of a run.
    async fn end_warm_up(
        &self,
        container: &ContainerId,
        limits: &ContainerLimits,
    ) -> Result<(), ExecutorError>;

    /// The state of a container.
    async fn state(&self, container: &ContainerId) -> Result<ContainerState, ExecutorError>;

    /// Kills and removes a container. One that is already gone counts as removed.
    async fn remove(&self, container: &ContainerId) -> Result<(), ExecutorError>;

    /// Containers that carry the label with this value, running or not.
    async fn containers(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<ContainerInfo>, ExecutorError>;

    /// How many of its containers are on each node, as far as is known without asking; empty where there are no nodes.
    fn containers_by_node(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }

    /// The node that a container is on, where there are any.
    async fn node(&self, _container: &ContainerId) -> Option<String> {
        None
    }

    /// What containers without a network must not reach where the engine leaves them one: what answers whoever is not
    /// kept from it. At most [`MUST_NOT_REACH_MAX`](sandbox_init::MUST_NOT_REACH_MAX).
    async fn must_not_reach(&self) -> Result<Vec<SocketAddr>, ExecutorError> {
        Ok(Vec::new())
    }

    /// What closes the network that the engine leaves containers without one.
    async fn closing_rules(&self) -> Result<NetworkRules, ExecutorError> {
        Ok(NetworkRules::Missing("the engine has none".to_owned()))
    }

    /// The lanes that there are, whoever made them.
    async fn lanes(&self) -> Result<Vec<LaneInfo>, ExecutorError>;

    /// Makes a lane, and makes sure that it is as described.
    async fn make_lane(&self, lane: &LaneSpec) -> Result<LaneId, ExecutorError>;

    /// What keeps containers with a network away from what they must not reach, but for the resolvers `dns`.
    async fn network_rules(&self, _dns: &[IpAddr]) -> Result<NetworkRules, ExecutorError> {
        Ok(NetworkRules::OfTheHost)
    }

    /// Removes a lane that no container is on. One that is already gone counts as removed.
    async fn remove_lane(&self, lane: &LaneId) -> Result<(), ExecutorError>;
}

/// A container's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerId(pub String);

impl fmt::Display for ContainerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As short as `docker ps` shows it.
        formatter.write_str(self.0.get(..12).unwrap_or(&self.0))
    }
}

/// A local image that is labelled as a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Content-addressed id.
    pub id: String,
    /// A name that people know it by, or else the id.
    pub name: String,
    /// Seconds since 1970 when it was built.
    pub created: i64,
    /// All its labels.
    pub labels: HashMap<String, String>,
    /// `ENTRYPOINT` followed by `CMD`.
    pub command: Vec<String>,
    /// `ENV` as `NAME=value`.
    pub env: Vec<String>,
}

/// The standard streams of a container.
pub struct Attached {
    /// Standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard output and error in the order in which they came. Ends when the container does.
    pub output: BoxStream<'static, Result<Chunk, ExecutorError>>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Attached")
    }
}

/// Some bytes of a container's output. Not a line: it may be split anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where they were written.
    pub stream: Stream,
    /// What was written.
    pub bytes: Bytes,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Its PID 1 lives.
    Running,
    /// Somebody has suspended everything in it.
    Paused,
    /// Its PID 1 does not live.
    Ended(ContainerEnd),
}

/// Why a container has ended, as far as the engine knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerEnd {
    /// The memory limit killed something in it.
    OutOfMemory,
    /// The engine ended it, for this reason of its own.
    ByEngine(String),
    /// The engine ended it, for this reason: what was printed in it took too much of a disk.
    LogFull(String),
    /// PID 1 ended, with this exit code if it is known.
    Exited(Option<i64>),
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its id.
    pub id: ContainerId,
    /// All its labels.
    pub labels: HashMap<String, String>,
}

/// The engine's id of a lane, which is a network for one container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(pub String);

/// A lane in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneInfo {
    /// Its id.
    pub id: LaneId,
    /// The number in its name.
    pub number: u32,
    /// All its labels.
    pub labels: HashMap<String, String>,
}

/// What keeps containers away from what they must not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkRules {
    /// The packet filter of the engine's host.
    OfTheHost,
    /// What the engine was told, which is right.
    InPlace,
    /// Nothing, for this reason.
    Missing(String),
}

/// Why an executor did not do what it was asked to.
#[derive(Debug, Error)]
#[error("failed to {operation}")]
pub struct ExecutorError {
    /// What callers may act on.
    pub kind: ErrorKind,
    /// What was being done, such as `start a container`.
    pub operation: &'static str,
    /// The engine's own words.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The kinds of failure that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The engine did not answer, or not in time.
    Unavailable,
    /// Nothing listens at the engine's address.
    Absent,
    /// What is at the address is no engine, or it does not let us in, or it cannot do what we need of it.
    Unusable,
    /// There is no such container, image or network.
    NotFound,
    /// It is in another state than the operation needs.
    Conflict,
    /// The engine refused or failed.
    Refused,
    /// It failed over something that is not asked of it any more: the next try may succeed.
    Again,
    /// It has no room for another container now.
    Full,
    /// It has no node that this container may be on.
    NoNode,
}
