//! Starts sandboxes, and makes sure that every container that was created is removed.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::Ipv4Net;
use parking_lot::Mutex;
use sandbox_init::{Held, Ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{info, warn};

use super::egress::{HatchOf, SandboxEgress};
use super::lanes::{HeldLane, Lanes};
use super::scale::Scale;
use super::{Input, Sandbox, SandboxError, drain};
use crate::executor::spec::{ContainerLimits, ContainerSpec};
use crate::executor::{
    ContainerId, ContainerInfo, ContainerState, ErrorKind, Executor, ExecutorError, LaneInfo,
    NetworkRules,
};

/// Label with the id of the directory that holds the workspaces.
const ROOT_LABEL: &str = "sandbox.root";
/// Label with the id of the server process.
const SERVER_LABEL: &str = "sandbox.server";
/// Label with the time at which the container was created, in seconds since 1970.
const CREATED_LABEL: &str = "sandbox.created";
/// Seconds for which an unknown container is left alone: it may belong to a request that is still being answered.
const UNKNOWN_GRACE: u64 = 120;
/// How often removing a container is tried, ever more slowly, before it is left to the reaper.
const REMOVE_TRIES: u32 = 30;
/// Longest pause between two tries.
const REMOVE_PAUSE: Duration = Duration::from_secs(5);
/// Containers that are created or removed at a time, for each core. More would only make each take longer.
const ENGINE_SLOTS_PER_CORE: usize = 4;
/// The minimum, for small hosts.
const MIN_ENGINE_SLOTS: usize = 16;

/// Who we are to other servers on the same engine.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The directory that holds the workspaces.
    pub root: String,
    /// This process.
    pub server: String,
}

impl Identity {
    /// The labels of all that is ours.
    fn labels(&self) -> BTreeMap<String, String> {
        [(ROOT_LABEL, &self.root), (SERVER_LABEL, &self.server)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .into()
    }
}

/// Starts sandboxes and removes them.
#[derive(Clone, Debug)]
pub struct Launcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    executor: Arc<dyn Executor>,
    identity: Identity,
    tasks: TaskTracker,
    /// Containers, from before the engine is asked to create them until they are removed.
    containers: TaskTracker,
    live: Mutex<HashSet<ContainerId>>,
    lanes: Lanes,
    /// How sandboxes reach listed hosts that have a hatch.
    egress: SandboxEgress,
    /// Fair, and shared by creation and removal: a client that starts and cancels in a loop waits for its own removals.
    engine_permits: Arc<Semaphore>,
}

impl Launcher {
    /// Starts containers on `executor`. Those with a network have addresses out of `subnets`; those with a hatch reach
    /// listed hosts by way of `egress`.
    pub fn new(
        executor: Arc<dyn Executor>,
        identity: Identity,
        subnets: Ipv4Net,
        egress: SandboxEgress,
        tasks: TaskTracker,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let engine_permits = MIN_ENGINE_SLOTS.max(ENGINE_SLOTS_PER_CORE * cores);
        let lanes = Lanes::new(Arc::clone(&executor), subnets, identity.labels());
        Self(Arc::new(Shared {
            executor,
            identity,
            lanes,
            egress,
            tasks,
            containers: TaskTracker::new(),
            live: Mutex::default(),
            engine_permits: Arc::new(Semaphore::new(engine_permits)),
        }))
    }

    /// The labels by which we find our containers again, and `more`.
    pub fn labels(&self, more: &[(&str, String)]) -> BTreeMap<String, String> {
        let created = (CREATED_LABEL, epoch_seconds().to_string());
        let more = more.iter().chain([&created]);
        let mut labels = self.0.identity.labels();
        labels.extend(more.map(|(name, value)| ((*name).to_owned(), value.clone())));
        labels
    }

    /// Creates and starts a container, in a lane if it `needs_lane`. A caller that goes away before it is started
    /// leaves nothing behind.
    ///
    /// # Errors
    /// What the engine said, or that the server is stopping.
    pub async fn start(
        &self,
        spec: ContainerSpec,
        needs_lane: bool,
    ) -> Result<Sandbox, SandboxError> {
        let making = self.0.containers.token();
        let (launcher, hand) = (self.clone(), self.hand().await);
        let (answer, answered) = oneshot::channel();
        // On a task of its own: a request to the engine that is dropped halfway may still create a container.
        self.0.tasks.spawn(async move {
            let _until_made = (hand, making);
            let is_wanted = || !answer.is_closed();
            let started = Box::pin(launcher.start_or_retry(spec, needs_lane, is_wanted)).await;
            if let Some(started) = started.transpose() {
                // A sandbox that nobody takes is dropped, and so removed.
                let _ = answer.send(started);
            }
        });
        answered
            .await
            .map_err(|_| SandboxError::Stopped)?
            .map_err(SandboxError::Start)
    }

    async fn hand(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.0.engine_permits)
            .acquire_owned()
            .await
            .expect("it is never closed")
    }

    /// Starts a container, in a lane if it needs one. Tries again with a new one if somebody removed the lane while
    /// nothing was on it, as `docker network prune` does, or if less is asked of the engine now. `None` when nobody
    /// waits for the container any more.
    async fn start_or_retry(
        &self,
        mut spec: ContainerSpec,
        needs_lane: bool,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        match self.start_wherever(&mut spec, needs_lane, &is_wanted).await {
            Err(error) if error.kind == ErrorKind::Again => {
                self.start_wherever(&mut spec, needs_lane, &is_wanted).await
            }
            Err(error) if error.kind == ErrorKind::NotFound && needs_lane => {
                self.0.lanes.forget_free();
                self.start_wherever(&mut spec, needs_lane, &is_wanted).await
            }
            started => started,
        }
    }

    async fn start_wherever(
        &self,
        spec: &mut ContainerSpec,
        needs_lane: bool,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        if needs_lane {
            self.start_in_some_lane(spec, is_wanted).await
        } else {
            self.start_now(spec, None, is_wanted).await
        }
    }

    async fn start_in_some_lane(
        &self,
        spec: &mut ContainerSpec,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        let lanes = &self.0.lanes;
        let lane = lanes.lease().await?;
        let number = lane.number();
        spec.lane = lane.id();
        let started = self.start_now(spec, Some(lane), is_wanted).await;
        started.inspect_err(|_| lanes.give_up(number))
    }

    /// Makes sure that there is a lane for the next container with a network.
    ///
    /// # Errors
    /// What the engine said, or that there are no addresses left.
    pub async fn prepare_lane(&self) -> Result<(), ExecutorError> {
        self.0.lanes.lease().await.map(drop)
    }

    /// What keeps containers with a network away from what they must not reach, but for these resolvers.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn network_rules(&self, dns: &[IpAddr]) -> Result<NetworkRules, ExecutorError> {
        self.0.executor.network_rules(dns).await
    }

    /// What containers without a network must not reach where the engine leaves them one.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn must_not_reach(&self) -> Result<Vec<SocketAddr>, ExecutorError> {
        self.0.executor.must_not_reach().await
    }

    /// What closes the network that the engine leaves them.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn closing_rules(&self) -> Result<NetworkRules, ExecutorError> {
        self.0.executor.closing_rules().await
    }

    /// The node that a container is on, where there are any.
    pub async fn node(&self, id: &ContainerId) -> Option<String> {
        self.0.executor.node(id).await
    }

    /// `None` when nobody waits for the container any more.
    async fn start_now(
        &self,
        spec: &ContainerSpec,
        lane: Option<HeldLane>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        let executor = &self.0.executor;
        let started = Instant::now();
        let (spec, hatch) = HatchOf::open(&self.0.egress, spec)?;
        let id = executor.create(&spec).await?;
        let container = Container::new(self.clone(), id, lane);
        if !is_wanted() {
            return Ok(None);
        }
        let attached = executor.start(container.id()).await?;
        let (expectations, expected) = mpsc::unbounded_channel();
        let (held_sender, held) = watch::channel(Held::default());
        let drained = drain::drain(attached.output, expected, held_sender);
        self.0.tasks.spawn(drained);
        let egress = match hatch {
            Some(hatch) => Some(Box::new(hatch.connected(self.0.tasks.clone()).await)),
            None => None,
        };
        Ok(Some(Sandbox {
            egress,
            container,
            started,
            input: Input(attached.input),
            expectations,
            scale: Scale::new(held),
            cleaning: None,
            parked: false,
            ready: Ready::default(),
            number: 0,
        }))
    }

    /// Removes a container in the background.
    fn remove_later(&self, id: ContainerId, lane: Option<HeldLane>, there: TaskTrackerToken) {
        let launcher = self.clone();
        self.0.tasks.spawn(async move {
            for attempt in 1..=REMOVE_TRIES {
                let hand = launcher.hand().await;
                let removed = launcher.0.executor.remove(&id).await;
                drop(hand);
                match removed {
                    Ok(()) => break,
                    Err(error) if attempt == REMOVE_TRIES => {
                        warn!(container.id = %id, error = &error as &dyn std::error::Error, "left a container to the reaper");
                        lane.iter().for_each(HeldLane::give_up);
                    }
                    Err(_) => tokio::time::sleep(REMOVE_PAUSE.min(Duration::from_millis(100) * attempt)).await,
                }
            }
            launcher.0.live.lock().remove(&id);
            // In this order: when no container is there any more, the lanes that are free are removed.
            drop(lane);
            drop(there);
        });
    }

    /// Removes containers of this root that belong to nobody, and then their networks: those of servers for which
    /// `is_dead` says so, and our own that no sandbox holds. Returns how many containers were removed; one that the
    /// engine cannot remove is logged and left for the next time.
    ///
    /// # Errors
    /// The engine does not answer, or cannot list them.
    pub async fn reap(&self, is_dead: impl Fn(&str) -> bool) -> Result<usize, ExecutorError> {
        let orphans = self.orphans(&is_dead).await?;
        let mut removed = 0;
        for orphan in &orphans {
            match self.0.executor.remove(&orphan.id).await {
                Ok(()) => {
                    info!(container.id = %orphan.id, "removed a leftover container");
                    removed += 1;
                }
                Err(error) => {
                    // If the engine still answers, it is only this one that cannot be removed.
                    self.0.executor.ping().await?;
                    let error = &error as &dyn std::error::Error;
                    warn!(container.id = %orphan.id, error, "failed to remove a leftover container");
                }
            }
        }
        let label =
            |lane: &LaneInfo, name: &str| lane.labels.get(name).cloned().unwrap_or_default();
        let is_left = |lane: &LaneInfo| {
            label(lane, ROOT_LABEL) == self.0.identity.root && is_dead(&label(lane, SERVER_LABEL))
        };
        self.0.lanes.reap(is_left).await?;
        Ok(removed)
    }

    /// Removes the containers of this root that other servers have, alive or not. Returns how many there were, some of
    /// which may be there still.
    ///
    /// # Errors
    /// The engine does not answer, or cannot list them.
    pub async fn remove_others(&self) -> Result<usize, ExecutorError> {
        let is_other = |server: &str| server != self.0.identity.server;
        let others = self.orphans(&is_other).await?.len();
        if others > 0 {
            self.reap(is_other).await?;
        }
        Ok(others)
    }

    /// Containers of this root that belong to nobody.
    async fn orphans(
        &self,
        is_dead: &impl Fn(&str) -> bool,
    ) -> Result<Vec<ContainerInfo>, ExecutorError> {
        let (executor, root) = (&self.0.executor, &self.0.identity.root);
        let mut containers = executor.containers(ROOT_LABEL, root).await?;
        containers.retain(|info| self.is_orphan(info, is_dead));
        Ok(containers)
    }

    fn is_orphan(&self, info: &ContainerInfo, is_dead: impl Fn(&str) -> bool) -> bool {
        let label = |name: &str| info.labels.get(name).map_or("", String::as_str);
        if label(SERVER_LABEL) != self.0.identity.server {
            return is_dead(label(SERVER_LABEL));
        }
        let created: u64 = label(CREATED_LABEL).parse().unwrap_or_default();
        !self.0.live.lock().contains(&info.id) && epoch_seconds() > created + UNKNOWN_GRACE
    }

    /// How many containers are alive or being removed.
    pub fn live_count(&self) -> usize {
        self.0.live.lock().len()
    }

    /// How many of them are on each node of a cluster.
    pub fn count_by_node(&self) -> BTreeMap<String, usize> {
        self.0.executor.containers_by_node()
    }

    /// Resolves when all our containers and networks are removed and none is being created.
    pub async fn emptied(&self) {
        self.0.containers.close();
        self.0.containers.wait().await;
        self.0.lanes.close().await;
    }
}

fn epoch_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// A container that exists. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Container {
    launcher: Launcher,
    id: ContainerId,
    /// The network that it has for itself until it is removed.
    lane: Option<HeldLane>,
    there: TaskTrackerToken,
}

impl Container {
    fn new(launcher: Launcher, id: ContainerId, lane: Option<HeldLane>) -> Self {
        launcher.0.live.lock().insert(id.clone());
        let there = launcher.0.containers.token();
        Self {
            launcher,
            id,
            lane,
            there,
        }
    }

    pub(super) fn id(&self) -> &ContainerId {
        &self.id
    }

    pub(super) fn end_warm_up(
        &self,
        limits: ContainerLimits,
    ) -> impl Future<Output = Result<(), ExecutorError>> + Send + use<> {
        let (executor, id) = (Arc::clone(&self.launcher.0.executor), self.id.clone());
        async move { executor.end_warm_up(&id, &limits).await }
    }

    pub(super) fn state(
        &self,
    ) -> impl Future<Output = Result<ContainerState, ExecutorError>> + Send + use<> {
        let (executor, id) = (Arc::clone(&self.launcher.0.executor), self.id.clone());
        async move { executor.state(&id).await }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let there = self.there.clone();
        let lane = self.lane.take();
        self.launcher.remove_later(self.id.clone(), lane, there);
    }
}
