//! Which sandboxes are warm: those that were started ahead, and those that stay with their conversation between runs.
//!
//! ```text
//!             started, parked           claimed by a new conversation
//! (nothing) ─────────────────▶ Pooled ──────────────────────────────▶ Leased ◀── cold start
//!                                │                                   ▲ │ │
//!                                │           ┌─── claimed again ─────┘ │ │
//!                                │           │                         │ │ no report, deleted, no reuse,
//!                                │           │            any end that │ │ another one loads already
//!                                │           │            was reported │ │
//!                                │           │                         ▼ └────────┐
//!                                │         Owned ◀─── clean ──────── Cleaning     │
//!                                │           │                         │          │
//!     expired, image gone, dead  │           │ idle, dead, room needed │ not clean, not in time, deleted
//!                                ▼           ▼                         ▼          ▼
//!                             Retired ◀───────────────────────────────────────────┘
//! ```
//!
//! A pooled sandbox has a *slot* as its `/data`. A mount follows the directory and not its name: renamed to the
//! conversation's key, the slot *becomes* the workspace. A sandbox never serves two conversations. An owned one with large
//! libraries that its programs do not need any more is cleaned of them too, and comes back.
//!
//! [`shelf`] keeps the books and is pure; [`start`] says what a container is to be; [`keeper`] starts and retires
//! sandboxes in the background; [`unload`] has them give back what was loaded; [`nodes`] knows where none are started; [`Lease`] is the guard.

mod arrivals;
mod cut;
mod keeper;
mod lease;
mod nodes;
mod shelf;
mod start;
mod unload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use self::lease::{Lease, SandboxSource};
use self::nodes::Nodes;
pub use self::shelf::Depth;
use self::shelf::{Shelf, ShelfClaim};
pub use self::start::{Directory, UtilityContainer};
use crate::config::PoolConfig;
use crate::conversation::ConversationKey;
use crate::executor::spec::{ContainerLimits, HatchSpec, NetworkAccess, User};
use crate::runner::catalog::{Catalog, EngineView};
use crate::runner::{Load, Runner};
use crate::sandbox::{Launcher, Sandbox, Uncut};
use crate::workspace::{DirectoryId, Owner, Slot, WorkspaceError, Workspaces};

/// How long a run waits while its conversation's sandbox is being cleaned, before it starts another. Cleaning takes
/// milliseconds; if it takes longer, every core is busy, and a start would make everybody wait longer still.
const CLEANING_WAIT: Duration = Duration::from_secs(2);

/// All warm sandboxes.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    shelf: Mutex<Shelf<Warm>>,
    /// Which nodes keep sandboxes from the network.
    nodes: Mutex<Nodes>,
    /// Notified when no sandbox can be kept from it any more, whatever node it is on.
    doubts: Notify,
    /// Notified when something was taken or came back: wakes the keeper, and those that wait for cleaning.
    changed: Notify,
    launcher: Launcher,
    workspaces: Workspaces,
    setup: Setup,
    config: PoolConfig,
    tasks: TaskTracker,
    /// Starts that runs wait for.
    cold_starts: TaskTracker,
    /// Once cancelled, nothing is cleaned or started ahead any more.
    closed: CancellationToken,
    /// Whether containers still find their directory once it is renamed, without which none is started ahead.
    follows_renames: AtomicBool,
}

/// What all containers have in common.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How much they may use.
    pub limits: ContainerLimits,
    /// How long they may be idle, at most.
    pub idle: Duration,
    /// How old they may be when they are used again; `None` if the engine lets them live on.
    pub longest_use: Option<Duration>,
    /// The file of certificates that programs trust, by its name; `None` where there are no secrets.
    pub certificates: Option<String>,
    /// The engine's runtime; `None` means the engine's own.
    pub runtime: Option<String>,
    /// Whether hosts are listed for programs: then every sandbox can have them.
    pub lists_hosts: bool,
    /// Whether those that are to have no network may see one: the operator has allowed it (`ALLOW_WEAKER_SANDBOX`).
    pub may_see_network: bool,
    /// Tells whether the engine is rootless, and when it is lost.
    pub catalog: Catalog,
}

impl Setup {
    /// Whether a container with this access to the network gets a lane.
    fn needs_lane(&self, network: &NetworkAccess) -> bool {
        let has_network = *network != NetworkAccess::None;
        has_network && self.catalog.view().needs_lanes()
    }

    /// Whether a container is asked about the network before it has a program: the engine may have left it one.
    fn asks_about_network(&self, network: &NetworkAccess) -> bool {
        *network == NetworkAccess::None
            && !self.may_see_network
            && !self.catalog.view().cuts_network()
    }

    /// Whether what is parked in a container must see no network.
    fn must_see_none(&self, network: &NetworkAccess) -> bool {
        *network == NetworkAccess::None && !self.may_see_network
    }

    /// The hatch of a container for programs with this access to the network.
    fn hatch(&self, network: &NetworkAccess) -> HatchSpec {
        match network {
            NetworkAccess::Listed(_) => HatchSpec::Wanted,
            NetworkAccess::None if self.lists_hosts => HatchSpec::Wanted,
            NetworkAccess::None | NetworkAccess::Bridge { .. } => HatchSpec::None,
        }
    }

    /// The user that programs run as at this engine, so that they share their owner's files with the server.
    ///
    /// A rootless engine maps root in a container to its own user, which is ours, and every other user to one that
    /// nobody else on the host has. There, only root can share files; it has no capabilities at all.
    fn user(&self, owner: Owner) -> User {
        let (uid, gid) = match &self.catalog.view().engine {
            EngineView::Up(engine) if engine.rootless => (0, 0),
            _ => (owner.uid, owner.gid),
        };
        User { uid, gid }
    }
}

/// A warm sandbox, with its slot until it belongs to a conversation.
#[derive(Debug)]
struct Warm {
    sandbox: Sandbox,
    slot: Option<Slot>,
    /// The directory that it has as `/data`, once it belongs to a conversation.
    data: Option<DirectoryId>,
    /// What was loaded when its interpreter was parked. Programs may have had more loaded since.
    load: Load,
    /// When one last used what may be loaded, if anything is.
    used: Option<Instant>,
}

impl Warm {
    /// With an interpreter that was parked just now.
    fn used_when_parked(load: Load) -> Option<Instant> {
        (load == Load::Full).then(Instant::now)
    }
}

/// Whether large libraries are loaded in a sandbox: ahead, or since a program `used` them.
fn is_loaded(load: Load, used: Option<Instant>) -> bool {
    load == Load::Full || used.is_some()
}

/// Which runs may share a sandbox: those of one image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Kind(String);

impl Kind {
    fn of(runner: &Runner) -> Self {
        Self(runner.image_id.clone())
    }
}

impl Pool {
    /// An empty pool. [`Pool::maintain`] fills it.
    pub fn new(
        config: PoolConfig,
        setup: Setup,
        launcher: Launcher,
        workspaces: Workspaces,
        tasks: TaskTracker,
    ) -> Self {
        Self(Arc::new(Shared {
            shelf: Mutex::new(Shelf::new(config.max_warm, config.idle_ttl)),
            nodes: Mutex::default(),
            doubts: Notify::new(),
            changed: Notify::new(),
            launcher,
            workspaces,
            setup,
            config,
            tasks,
            cold_starts: TaskTracker::new(),
            closed: CancellationToken::new(),
            follows_renames: AtomicBool::new(true),
        }))
    }

    /// A warm sandbox for a run of this conversation: its own, or one from the pool if the conversation is new, with this
    /// load if there is one. `None` when there is neither.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn claim(
        &self,
        key: &ConversationKey,
        runner: &Runner,
        load: Load,
    ) -> Result<Option<Lease>, WorkspaceError> {
        let kind = Kind::of(runner);
        let lease = |warm: Warm, way| {
            let (pool, key) = (self.clone(), key.clone());
            Lease::new(pool, warm.sandbox, key, runner, way, warm.data)
                .with_load(warm.load, warm.used)
                .for_program(load)
        };
        if let Some((warm, reserved)) = self.claim_own(key, &kind).await {
            let lease = lease(warm, SandboxSource::Own);
            return Ok(Some(lease.with_reservation(reserved)));
        }
        if self.0.workspaces.find(key).await?.is_some() {
            return Ok(None);
        }
        let claimed = self.claim_pooled(key, &kind, load).await?;
        Ok(claimed
            .map(|(warm, reserved)| lease(warm, SandboxSource::Pool).with_reservation(reserved)))
    }

    /// Whether large libraries are loaded in the conversation's own sandbox. What waits in the pool may be another's by the
    /// time that it is claimed.
    pub fn has_loaded(&self, key: &ConversationKey, runner: &Runner) -> bool {
        let is_loaded =
            |warm: &Warm| is_loaded(warm.load, warm.used) && self.is_usable(&warm.sandbox);
        let shelf = self.0.shelf.lock();
        shelf.own_passes(key, &Kind::of(runner), is_loaded)
    }

    /// Gives a new conversation a pooled sandbox before it is known what it will run, so that its first run is warm.
    /// Does nothing when the conversation is not new or nothing is warm.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn prewarm(&self, key: &ConversationKey) -> Result<(), WorkspaceError> {
        if self.0.workspaces.find(key).await?.is_some() {
            return Ok(());
        }
        let Some(kind) = self.0.shelf.lock().likeliest_kind() else {
            return Ok(());
        };
        // Who sends files or installs packages is likely to use large libraries.
        if let Some((warm, reserved)) = self.claim_pooled(key, &kind, Load::Full).await? {
            let mut shelf = self.0.shelf.lock();
            drop(reserved);
            let retired = shelf.give_back(key, &kind, warm, Instant::now());
            drop(shelf);
            drop(retired);
        }
        Ok(())
    }

    /// The conversation's own sandbox, after a short wait if it is just being cleaned.
    async fn claim_own(
        &self,
        key: &ConversationKey,
        kind: &Kind,
    ) -> Option<(Warm, TaskTrackerToken)> {
        let deadline = Instant::now() + CLEANING_WAIT;
        loop {
            let changed = self.0.changed.notified();
            let claim = {
                let mut shelf = self.0.shelf.lock();
                let claim = shelf.claim_own(key, kind);
                claim.map(|warm| (warm, shelf.lend()))
            };
            match claim {
                ShelfClaim::Granted(own) if self.is_usable(&own.0.sandbox) => return Some(own),
                ShelfClaim::Granted(_dead_or_old) => {}
                ShelfClaim::Nothing => return None,
                ShelfClaim::Cleaning => {
                    tokio::time::timeout_at(deadline, changed).await.ok()?;
                }
            }
        }
    }

    /// A pooled sandbox with the directory of its slot, which has become the conversation's.
    async fn claim_pooled(
        &self,
        key: &ConversationKey,
        kind: &Kind,
        load: Load,
    ) -> Result<Option<(Warm, TaskTrackerToken)>, WorkspaceError> {
        loop {
            let claimed = {
                let mut shelf = self.0.shelf.lock();
                let claimed = shelf.claim_pooled(kind, load, Instant::now());
                claimed.map(|warm| (warm, shelf.lend()))
            };
            let Some((
                Warm {
                    sandbox,
                    slot: Some(slot),
                    load,
                    ..
                },
                reserved,
            )) = claimed
            else {
                return Ok(None);
            };
            self.0.changed.notify_waiters();
            if !sandbox.is_alive() {
                continue;
            }
            return match self.0.workspaces.adopt(slot, key).await? {
                Ok(data) => {
                    let warm = Warm {
                        sandbox,
                        slot: None,
                        data: Some(data),
                        load,
                        used: Warm::used_when_parked(load),
                    };
                    Ok(Some((warm, reserved)))
                }
                // Somebody else has made the conversation's directory in the meantime: the sandbox can still serve
                // another.
                Err(slot) => {
                    let warm = Warm {
                        sandbox,
                        slot: Some(slot),
                        data: None,
                        load,
                        used: Warm::used_when_parked(load),
                    };
                    let mut shelf = self.0.shelf.lock();
                    let unwanted = shelf.put_back(&(kind.clone(), load), warm, Instant::now());
                    drop(shelf);
                    drop(unwanted);
                    Ok(None)
                }
            };
        }
    }

    /// Whether a sandbox can have another run.
    fn is_usable(&self, sandbox: &Sandbox) -> bool {
        sandbox.is_alive() && !self.is_old(sandbox)
    }

    /// Whether the engine would end it in another run.
    fn is_old(&self, sandbox: &Sandbox) -> bool {
        let longest_use = self.0.setup.longest_use;
        longest_use.is_some_and(|longest_use| sandbox.age() >= longest_use)
    }

    /// Removes all sandboxes of a conversation that are not running anything.
    pub fn retire(&self, key: &ConversationKey) {
        let retired = self.0.shelf.lock().retire(key);
        drop(retired);
    }

    /// Whether containers still find their directory once it is renamed.
    pub fn follows_renames(&self) -> bool {
        self.0.follows_renames.load(Ordering::Relaxed)
    }

    /// Notes whether they do. If not, no sandbox is started ahead from now on.
    pub fn set_follows_renames(&self, follows: bool) {
        self.0.follows_renames.store(follows, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Removes all warm sandboxes, and keeps none from now on.
    pub fn close(&self) {
        self.0.closed.cancel();
        let retired = self.0.shelf.lock().close();
        drop(retired);
        self.0.changed.notify_waiters();
    }

    /// The nodes on which sandboxes without a network reached something, and what: no new ones are started there for a
    /// while.
    pub fn avoided_nodes(&self) -> BTreeMap<String, String> {
        self.0.nodes.lock().avoided(Instant::now())
    }

    /// Why the sandbox that was started last is not kept from the network, if it is not.
    pub fn uncut(&self) -> Option<Uncut> {
        self.0.nodes.lock().last().cloned()
    }

    /// Resolves when a start has shown that no sandbox can be kept from the network any more.
    pub async fn doubted(&self) {
        self.0.doubts.notified().await;
    }

    /// Whether sandboxes are kept from the network by nothing but rules of the engine.
    pub fn relies_on_rules(&self) -> bool {
        self.0.nodes.lock().rely_on_rules()
    }

    /// How many sandboxes wait in the pool, and how many with a conversation.
    pub fn count(&self) -> (usize, usize) {
        self.0.shelf.lock().count()
    }

    /// Whether a sandbox of this conversation is being cleaned after a run.
    pub fn is_cleaning(&self, key: &ConversationKey) -> bool {
        self.0.shelf.lock().is_cleaning(key)
    }

    /// Whether a sandbox waits for this conversation's next run.
    pub fn keeps(&self, key: &ConversationKey) -> bool {
        self.0.shelf.lock().keeps(key)
    }

    /// How many sandboxes stay with each conversation for its next run, those included that are being cleaned for it.
    pub fn kept(&self) -> HashMap<ConversationKey, usize> {
        self.0.shelf.lock().kept()
    }

    /// How many sandboxes wait in the pool for runs of this runner.
    pub fn ready(&self, runner: &Runner) -> usize {
        self.0.shelf.lock().ready(&Kind::of(runner))
    }

    /// How many warm sandboxes of this runner there are.
    pub fn depth(&self, runner: &Runner) -> Depth {
        self.0.shelf.lock().depth(&Kind::of(runner))
    }
}
