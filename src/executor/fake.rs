//! Containers that exist in memory only, for tests: the executor of every test that needs no real engine.
//!
//! Inside each lives a small imitation of sandbox-init that speaks the same frames and records, and runs the few
//! lines of shell that [`program`] knows. Tests inject trouble through [`FakeExecutor::trouble`].

mod images;
mod init;
mod lanes;
mod nodes;
mod program;
mod volumes;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use sandbox_init::Network;
use tokio::io::DuplexStream;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::init::Init;
use self::lanes::FakeLanes;
use self::nodes::FakeNodes;
use self::volumes::FakeVolumes;
use super::host_paths::HostPaths;
use super::spec::{ContainerLimits, ContainerSpec, LaneSpec, Priority};
use super::{
    Attached, Capabilities, Chunk, ContainerEnd, ContainerId, ContainerInfo, ContainerState,
    Engine, ErrorKind, Executor, ExecutorError, Image, LaneId, LaneInfo, NetworkRules,
};

/// An engine in memory.
#[derive(Clone, Debug)]
pub struct FakeExecutor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    image_events: broadcast::Sender<()>,
    hangs: watch::Sender<bool>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Inner {
    images: Vec<Image>,
    containers: HashMap<ContainerId, Container>,
    made: u64,
    /// How often the engine was restarted.
    restarts: u64,
    /// Whether its event streams end at once.
    ends_events: bool,
    /// Containers that cannot be removed, and the error that a try gets.
    stuck: HashMap<ContainerId, ErrorKind>,
    making_takes: Duration,
    /// What is run instead of programs that contain a word.
    imitations: Vec<(&'static str, String)>,
    lanes: FakeLanes,
    /// Where its host has the server's files.
    paths: HostPaths,
    volumes: FakeVolumes,
    trouble: Trouble,
    /// Whether it has no room for another container.
    full: bool,
    /// What PID 1 sees of a network, and whether it is the engine that keeps containers from it.
    network: Option<Network>,
    leaves_network: bool,
    nodes: FakeNodes,
}

/// What goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Every request fails as if the engine were not there.
    pub engine_down: bool,
    /// Requests with this operation fail, such as `start a container`.
    pub failing: Option<&'static str>,
}

#[derive(Debug)]
struct Container {
    spec: ContainerSpec,
    /// The node that it is on, if there are any.
    node: Option<String>,
    state: ContainerState,
    /// Why the engine ends it.
    evicted: Option<String>,
    kill: CancellationToken,
    warming_up: Arc<AtomicBool>,
}

impl Default for FakeExecutor {
    fn default() -> Self {
        Self(Arc::new(Shared {
            inner: Mutex::default(),
            image_events: broadcast::Sender::new(16),
            hangs: watch::Sender::new(false),
            tasks: TaskTracker::new(),
        }))
    }
}

impl FakeExecutor {
    /// An engine with one runner image for each language.
    pub fn with_languages(languages: &[&str]) -> Self {
        let executor = Self::default();
        for language in languages {
            executor.add_image(language, "", 1);
        }
        executor
    }

    /// Tells where the server has its files, so that programs see them.
    pub fn find_files(&self, paths: HostPaths) {
        self.0.inner.lock().paths = paths;
    }

    /// Where containers find the server's files.
    pub fn paths(&self) -> HostPaths {
        self.0.inner.lock().paths.clone()
    }

    /// Makes things go wrong from now on. An engine that goes down takes its containers with it.
    pub fn trouble(&self, trouble: Trouble) {
        let mut inner = self.0.inner.lock();
        if trouble.engine_down {
            inner
                .containers
                .values()
                .for_each(|container| container.kill.cancel());
        }
        inner.trouble = trouble;
        drop(inner);
        self.announce();
    }

    /// Ends what is being followed, like a restart that is over before anybody asks for anything.
    pub fn restart(&self) {
        self.0.inner.lock().restarts += 1;
        self.announce();
    }

    /// From now on, event streams end at once, as behind a proxy that does not let them through.
    pub fn end_events(&self) {
        self.0.inner.lock().ends_events = true;
    }

    /// Whether, from now on, the engine forwards no output of containers and does not report their state.
    pub fn hang(&self, hangs: bool) {
        self.0.hangs.send_replace(hangs);
    }

    async fn unless_it_hangs(&self) {
        // The sender is in `self`, so waiting cannot fail.
        let _ = self.0.hangs.subscribe().wait_for(|hangs| !hangs).await;
    }

    /// From now on, the engine takes this long to create a container.
    pub fn slow_down(&self, making_takes: Duration) {
        self.0.inner.lock().making_takes = making_takes;
    }

    /// From now on, the engine has no room for another container.
    pub fn fill_up(&self) {
        self.0.inner.lock().full = true;
    }

    /// From now on, it gives every container a network, of which PID 1 says this.
    pub fn leave_network(&self, network: Option<Network>) {
        let mut inner = self.0.inner.lock();
        (inner.network, inner.leaves_network) = (network, true);
    }

    /// What PID 1 says of the network.
    fn network(&self) -> Option<Network> {
        self.0.inner.lock().network
    }

    /// From now on, a program with this word in it is replaced by these few lines of shell.
    pub fn imitate(&self, word: &'static str, shell: &str) {
        let mut inner = self.0.inner.lock();
        inner.imitations.retain(|(known, _)| *known != word);
        inner.imitations.push((word, shell.to_owned()));
    }

    /// The shell that a program is replaced by.
    fn shell(&self, code: &str) -> String {
        let inner = self.0.inner.lock();
        let mut imitations = inner.imitations.iter();
        let found = imitations.find(|(word, _)| code.contains(word));
        found.map_or_else(|| code.to_owned(), |(_, shell)| shell.clone())
    }

    /// How many containers there are, running or not.
    pub fn container_count(&self) -> usize {
        self.0.inner.lock().containers.len()
    }

    /// How many containers were ever created.
    pub fn made(&self) -> u64 {
        self.0.inner.lock().made
    }

    /// Makes every try to remove this container fail, as when something on its host holds on to it.
    pub fn hold_on_to(&self, id: &ContainerId, error: ErrorKind) {
        self.0.inner.lock().stuck.insert(id.clone(), error);
    }

    /// Removes all containers, as somebody else on the same engine might.
    pub fn remove_all(&self) {
        for (_, container) in self.0.inner.lock().containers.drain() {
            container.kill.cancel();
        }
    }

    /// Ends all containers, as an engine does for a reason of its own.
    pub fn evict_all(&self, reason: &str) {
        for container in self.0.inner.lock().containers.values_mut() {
            container.evicted = Some(reason.to_owned());
            container.kill.cancel();
        }
    }

    /// The descriptions of all containers.
    pub fn specs(&self) -> Vec<ContainerSpec> {
        self.0
            .inner
            .lock()
            .containers
            .values()
            .map(|container| container.spec.clone())
            .collect()
    }

    fn announce(&self) {
        // Nobody may be listening.
        let _ = self.0.image_events.send(());
    }

    /// The state, unless the request has to fail.
    fn request(&self, operation: &'static str) -> Result<MutexGuard<'_, Inner>, ExecutorError> {
        let inner = self.0.inner.lock();
        if inner.trouble.engine_down {
            return Err(error(
                ErrorKind::Unavailable,
                operation,
                "the fake engine is down",
            ));
        }
        if inner.trouble.failing == Some(operation) {
            return Err(error(
                ErrorKind::Refused,
                operation,
                "the fake engine was told to fail",
            ));
        }
        Ok(inner)
    }

    /// Makes a container that is there at once, and returns how long it takes to say so.
    fn make(&self, spec: &ContainerSpec) -> Result<(ContainerId, Duration), ExecutorError> {
        let operation = "create a container";
        let mut inner = self.request(operation)?;
        if inner.full {
            return Err(error(ErrorKind::Full, operation, "there is no room"));
        }
        if !inner.images.iter().any(|image| image.id == spec.image) {
            return Err(error(ErrorKind::NotFound, operation, "no such image"));
        }
        if let Some(lane) = &spec.lane {
            if !inner.lanes.has(lane) {
                return Err(error(ErrorKind::NotFound, operation, "no such network"));
            }
            if inner.is_on(lane) {
                return Err(error(ErrorKind::Refused, operation, "no address is left"));
            }
        }
        let node = inner.nodes.choose(&spec.avoided_nodes)?;
        inner.made += 1;
        let id = ContainerId(format!("{:012x}", inner.made));
        let container = Container {
            spec: spec.clone(),
            node,
            state: ContainerState::Ended(ContainerEnd::Exited(None)),
            evicted: None,
            kill: CancellationToken::new(),
            warming_up: Arc::new(AtomicBool::new(spec.priority != Priority::Run)),
        };
        inner.containers.insert(id.clone(), container);
        Ok((id, inner.making_takes))
    }

    /// Both ends of a container's standard streams: ours, and its input and output.
    fn streams(&self) -> (Attached, DuplexStream, mpsc::UnboundedSender<Chunk>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (sender, receiver) = mpsc::unbounded_channel();
        let executor = self.clone();
        let output = UnboundedReceiverStream::new(receiver).then(move |chunk| {
            let executor = executor.clone();
            async move {
                executor.unless_it_hangs().await;
                Ok(chunk)
            }
        });
        let attached = Attached {
            input: Box::new(ours),
            output: output.boxed(),
        };
        (attached, theirs, sender)
    }

    fn ended(&self, id: &ContainerId, exit_code: i64) {
        if let Some(container) = self.0.inner.lock().containers.get_mut(id) {
            let evicted = container.evicted.take().map(ContainerEnd::ByEngine);
            let end = evicted.unwrap_or(ContainerEnd::Exited(Some(exit_code)));
            container.state = ContainerState::Ended(end);
        }
    }
}

fn error(kind: ErrorKind, operation: &'static str, message: &str) -> ExecutorError {
    ExecutorError {
        kind,
        operation,
        source: message.into(),
    }
}

fn no_such_container(operation: &'static str) -> ExecutorError {
    error(ErrorKind::NotFound, operation, "no such container")
}

#[async_trait]
impl Executor for FakeExecutor {
    async fn engine(&self) -> Result<Engine, ExecutorError> {
        let inner = self.request("reach the container engine")?;
        let needs_lanes = inner.lanes.are_needed();
        let cuts_network = !inner.leaves_network;
        Ok(Engine {
            name: "Fake 1".to_owned(),
            runc: None,
            rootless: false,
            cores: None,
            capabilities: Capabilities {
                max_starts_at_a_time: 2,
                longest_start: Duration::from_mins(1),
                needs_lanes,
                cuts_network,
                hands_over_sockets: false,
                limits: Vec::new(),
                refuses_cpu_limit: false,
                has_nodes: false,
                mounts_parts: true,
            },
        })
    }

    async fn ping(&self) -> Result<(), ExecutorError> {
        self.request("reach the container engine").map(drop)
    }

    async fn has_volume(&self, name: &str) -> Result<bool, ExecutorError> {
        Ok(self.request("look for a volume")?.volumes.has(name))
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, ExecutorError> {
        let (id, time) = self.make(spec)?;
        tokio::time::sleep(time).await;
        Ok(id)
    }

    async fn start(&self, id: &ContainerId) -> Result<Attached, ExecutorError> {
        self.request("attach to a container").map(drop)?;
        let operation = "start a container";
        let mut guard = self.request(operation)?;
        let inner = &mut *guard;
        let container = inner
            .containers
            .get_mut(id)
            .ok_or_else(|| no_such_container(operation))?;
        let (attached, input, output) = self.streams();
        // Like a mount, this follows the directory wherever it is renamed to.
        let data = inner.paths.find(&container.spec.data);
        let data = data.map_err(|none| error(ErrorKind::Refused, operation, &none.to_string()))?;
        let data = inner.volumes.open(&data)?;
        container.state = ContainerState::Running;
        let reaches = inner.nodes.reach(container.node.as_deref());
        let (executor, id, kill, warming_up) = (
            self.clone(),
            id.clone(),
            container.kill.clone(),
            Arc::clone(&container.warming_up),
        );
        self.0.tasks.spawn(async move {
            let live = Init::new(executor.clone(), input, output, data, warming_up);
            let live = live.reaching(reaches).live();
            let exit_code = kill.run_until_cancelled(live).await.unwrap_or(137);
            executor.ended(&id, exit_code);
        });
        Ok(attached)
    }

    async fn node(&self, id: &ContainerId) -> Option<String> {
        self.0.inner.lock().containers.get(id)?.node.clone()
    }

    async fn must_not_reach(&self) -> Result<Vec<SocketAddr>, ExecutorError> {
        let inner = self.request("look for what must not be reached")?;
        Ok(inner.nodes.must_not_reach())
    }

    async fn closing_rules(&self) -> Result<NetworkRules, ExecutorError> {
        Ok(self.request("read the rules of the network")?.nodes.rules())
    }

    async fn end_warm_up(
        &self,
        id: &ContainerId,
        limits: &ContainerLimits,
    ) -> Result<(), ExecutorError> {
        let operation = "limit a container's processor time";
        let mut inner = self.request(operation)?;
        let container = inner
            .containers
            .get_mut(id)
            .ok_or_else(|| no_such_container(operation))?;
        container.spec.limits = *limits;
        container.warming_up.store(false, Ordering::Relaxed);
        Ok(())
    }

    async fn state(&self, id: &ContainerId) -> Result<ContainerState, ExecutorError> {
        self.unless_it_hangs().await;
        let operation = "inspect a container";
        let inner = self.request(operation)?;
        inner
            .containers
            .get(id)
            .map(|container| container.state.clone())
            .ok_or_else(|| no_such_container(operation))
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), ExecutorError> {
        let mut inner = self.request("remove a container")?;
        if let Some(kind) = inner.stuck.get(id) {
            return Err(error(*kind, "remove a container", "it is held on to"));
        }
        if let Some(container) = inner.containers.remove(id) {
            container.kill.cancel();
        }
        Ok(())
    }

    async fn containers(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<ContainerInfo>, ExecutorError> {
        let inner = self.request("list containers")?;
        let all = inner.containers.iter();
        let with_label = all.filter(|(_, c)| c.spec.labels.get(label).is_some_and(|v| v == value));
        let info = |(id, of): (&ContainerId, &Container)| ContainerInfo {
            id: id.clone(),
            labels: of.spec.labels.clone().into_iter().collect(),
        };
        Ok(with_label.map(info).collect())
    }

    async fn lanes(&self) -> Result<Vec<LaneInfo>, ExecutorError> {
        Ok(self.request("list networks of runs")?.lanes.there())
    }

    async fn make_lane(&self, lane: &LaneSpec) -> Result<LaneId, ExecutorError> {
        self.request("make a network for a run")?.lanes.make(lane)
    }

    async fn remove_lane(&self, lane: &LaneId) -> Result<(), ExecutorError> {
        let mut inner = self.request("remove a network of a run")?;
        let is_used = inner.is_on(lane);
        inner.lanes.remove(lane, is_used)
    }
}
