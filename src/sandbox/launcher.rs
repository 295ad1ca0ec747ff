//! Starts sandboxes, and makes sure that every container that was created is removed.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_init::Held;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{info, warn};

use super::scale::Scale;
use super::{Input, Sandbox, SandboxError, drain};
use crate::executor::spec::{ContainerLimits, ContainerSpec, NetworkAccess};
use crate::executor::{
    ContainerId, ContainerInfo, ContainerState, ErrorKind, Executor, ExecutorError,
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
const HANDS_PER_CORE: usize = 4;
/// The minimum, for small hosts.
const FEWEST_HANDS: usize = 16;

/// Who we are to other servers on the same engine.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The directory that holds the workspaces.
    pub root: String,
    /// This process.
    pub server: String,
}

/// Starts sandboxes and removes them.
#[derive(Clone, Debug)]
pub struct Launcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    executor: Arc<dyn Executor>,
    identity: Identity,
    init: PathBuf,
    tasks: TaskTracker,
    /// Containers, from before the engine is asked to create them until they are removed.
    containers: TaskTracker,
    live: Mutex<HashSet<ContainerId>>,
    /// Fair, and shared by creation and removal: a client that starts and cancels in a loop waits for its own removals.
    hands: Arc<Semaphore>,
}

impl Launcher {
    /// Starts containers on `executor` with the sandbox-init that is at `init` on the engine's host.
    pub fn new(
        executor: Arc<dyn Executor>,
        identity: Identity,
        init: PathBuf,
        tasks: TaskTracker,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let hands = FEWEST_HANDS.max(HANDS_PER_CORE * cores);
        Self(Arc::new(Shared {
            executor,
            identity,
            init,
            tasks,
            containers: TaskTracker::new(),
            live: Mutex::default(),
            hands: Arc::new(Semaphore::new(hands)),
        }))
    }

    /// sandbox-init as the engine's host sees it.
    pub fn init(&self) -> PathBuf {
        self.0.init.clone()
    }

    /// The labels by which we find our containers again, and `more`.
    pub fn labels(&self, more: &[(&str, String)]) -> BTreeMap<String, String> {
        let identity = &self.0.identity;
        let own = [
            (ROOT_LABEL, identity.root.clone()),
            (SERVER_LABEL, identity.server.clone()),
            (CREATED_LABEL, epoch_seconds().to_string()),
        ];
        own.iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    }

    /// Creates, attaches and starts a container. A caller that goes away before it is started leaves nothing behind.
    ///
    /// # Errors
    /// What the engine said, or that the server is stopping.
    pub async fn start(&self, spec: ContainerSpec) -> Result<Sandbox, SandboxError> {
        let making = self.0.containers.token();
        let (launcher, hand) = (self.clone(), self.hand().await);
        let (answer, answered) = oneshot::channel();
        // On a task of its own: a request to the engine that is dropped halfway may still create a container.
        self.0.tasks.spawn(async move {
            let _until_made = (hand, making);
            let started = launcher.start_on_network(&spec, || !answer.is_closed());
            let started = started.await;
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
        Arc::clone(&self.0.hands)
            .acquire_owned()
            .await
            .expect("it is never closed")
    }

    /// Starts a container. Recreates its network if somebody removed that while nothing was on it, as `docker network
    /// prune` does. `None` when nobody waits for the container any more.
    async fn start_on_network(
        &self,
        spec: &ContainerSpec,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        let started = self.start_now(spec, &is_wanted).await;
        match started {
            Err(error)
                if error.kind == ErrorKind::NotFound && spec.network != NetworkAccess::None =>
            {
                self.0.executor.ensure_network().await?;
                self.start_now(spec, &is_wanted).await
            }
            started => started,
        }
    }

    /// `None` when nobody waits for the container any more.
    async fn start_now(
        &self,
        spec: &ContainerSpec,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Sandbox>, ExecutorError> {
        let executor = &self.0.executor;
        let id = executor.create(spec).await?;
        let container = Container::new(self.clone(), id);
        if !is_wanted() {
            return Ok(None);
        }
        let attached = executor.attach(container.id()).await?;
        let (expectations, expected) = mpsc::unbounded_channel();
        let (tell, held) = watch::channel(Held::default());
        let drained = drain::drain(attached.output, expected, tell);
        self.0.tasks.spawn(drained);
        executor.start(container.id()).await?;
        Ok(Some(Sandbox {
            container,
            input: Input(attached.input),
            expectations,
            scale: Scale::new(held),
            cleaning: None,
            parked: false,
            number: 0,
            loads_until: None,
        }))
    }

    /// Removes a container in the background.
    fn remove_later(&self, id: ContainerId, there: TaskTrackerToken) {
        let launcher = self.clone();
        self.0.tasks.spawn(async move {
            let _until_removed = there;
            for attempt in 1..=REMOVE_TRIES {
                let hand = launcher.hand().await;
                let removed = launcher.0.executor.remove(&id).await;
                drop(hand);
                match removed {
                    Ok(()) => break,
                    Err(error) if attempt == REMOVE_TRIES => {
                        warn!(container.id = %id, error = &error as &dyn std::error::Error, "left a container to the reaper");
                    }
                    Err(_) => tokio::time::sleep(REMOVE_PAUSE.min(Duration::from_millis(100) * attempt)).await,
                }
            }
            launcher.live().remove(&id);
        });
    }

    /// Removes containers of this root that belong to nobody: those of servers for which `is_dead` says so, and our own
    /// that no sandbox holds. Returns how many were removed; one that the engine cannot remove is logged and left for
    /// the next time.
    ///
    /// # Errors
    /// The engine does not answer, or cannot list them.
    pub async fn reap(&self, is_dead: impl Fn(&str) -> bool) -> Result<usize, ExecutorError> {
        let containers = self
            .0
            .executor
            .containers(ROOT_LABEL, &self.0.identity.root)
            .await?;
        let orphans: Vec<_> = containers
            .into_iter()
            .filter(|info| self.is_orphan(info, &is_dead))
            .collect();
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
        Ok(removed)
    }

    fn is_orphan(&self, info: &ContainerInfo, is_dead: impl Fn(&str) -> bool) -> bool {
        let label = |name: &str| info.labels.get(name).map_or("", String::as_str);
        if label(SERVER_LABEL) != self.0.identity.server {
            return is_dead(label(SERVER_LABEL));
        }
        let created: u64 = label(CREATED_LABEL).parse().unwrap_or_default();
        !self.live().contains(&info.id) && epoch_seconds() > created + UNKNOWN_GRACE
    }

    /// How many containers are alive or being removed.
    pub fn live_count(&self) -> usize {
        self.live().len()
    }

    /// Resolves when all our containers are removed and none is being created.
    pub async fn emptied(&self) {
        self.0.containers.close();
        self.0.containers.wait().await;
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashSet<ContainerId>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
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
    there: TaskTrackerToken,
}

impl Container {
    fn new(launcher: Launcher, id: ContainerId) -> Self {
        launcher.live().insert(id.clone());
        let there = launcher.0.containers.token();
        Self {
            launcher,
            id,
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
        self.launcher.remove_later(self.id.clone(), there);
    }
}
