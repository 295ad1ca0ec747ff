//! Exclusive use of a sandbox for one run. Dropping it removes the sandbox; [`Lease::finish`] gives it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_init::End;
use strum::IntoStaticStr;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::debug;

use super::shelf::{ReadyAfter, ShelfTicket};
use super::{Kind, Pool, Warm, is_loaded};
use crate::conversation::ConversationKey;
use crate::egress::{HostAccess, Traffic};
use crate::executor::{ContainerId, ContainerState, ExecutorError};
use crate::runner::{Load, Runner};
use crate::sandbox::{Capture, Program, Sandbox, SandboxError, Scale};
use crate::workspace::{DirectoryId, Workspace};

/// Longest time a sandbox may take to clean itself and park the next interpreter.
const CLEAN_WAIT: Duration = Duration::from_mins(1);

/// How a run got its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum SandboxSource {
    /// It already belonged to the conversation.
    Own,
    /// It was started ahead, for no particular conversation.
    Pool,
    /// It was started for this run.
    Cold,
    /// It is the kernel that the conversation already has.
    Kernel,
}

/// How an interpreter is parked after a run that began without one.
#[derive(Debug)]
struct Parking {
    /// The driver; empty when the image has none.
    driver: Vec<String>,
    /// What it loads.
    load: Load,
    /// How soon the sandbox is back.
    back: ReadyAfter,
}

impl Parking {
    fn of(runner: &Runner, load: Load) -> Self {
        let driver = runner.driver_for(load);
        let back = if driver.is_empty() {
            ReadyAfter::Scrub
        } else if driver == runner.driver {
            ReadyAfter::FullLoad
        } else {
            ReadyAfter::LightPark
        };
        Self {
            driver: driver.to_vec(),
            load,
            back,
        }
    }
}

/// Exclusive use of a sandbox for one run.
#[derive(Debug)]
pub struct Lease {
    pool: Pool,
    sandbox: Sandbox,
    key: ConversationKey,
    kind: Kind,
    parking: Parking,
    source: SandboxSource,
    load: Load,
    /// When a program last used what may be loaded, if anything is.
    used: Option<Instant>,
    /// What the program of this lease uses.
    needs: Load,
    /// Whether the conversation may keep the sandbox.
    pub(super) reuse: bool,
    /// The directory that the sandbox has as `/data`, once that is known.
    data: Option<DirectoryId>,
    /// The place among the warm ones that is kept for the sandbox's return.
    reserved: Option<TaskTrackerToken>,
}

impl Lease {
    pub(super) fn new(
        pool: Pool,
        sandbox: Sandbox,
        key: ConversationKey,
        runner: &Runner,
        source: SandboxSource,
        data: Option<DirectoryId>,
    ) -> Self {
        let (kind, parking) = (Kind::of(runner), Parking::of(runner, Load::Light));
        let reuse = pool.0.config.reuse;
        Self {
            pool,
            sandbox,
            key,
            kind,
            parking,
            source,
            load: Load::Light,
            used: None,
            needs: Load::Light,
            reuse,
            data,
            reserved: None,
        }
    }

    /// The same lease, of a sandbox in which an interpreter with this load is parked, and what may be loaded was used
    /// then.
    pub(super) fn with_load(mut self, load: Load, used: Option<Instant>) -> Self {
        (self.load, self.used) = (load, used);
        self
    }

    /// The same lease, for a program that uses this.
    pub(super) fn for_program(mut self, needs: Load) -> Self {
        self.needs = needs;
        self
    }

    /// The same lease, of a sandbox in which an interpreter with this load is parked after the run.
    pub(super) fn with_parking(mut self, runner: &Runner, load: Load) -> Self {
        self.parking = Parking::of(runner, load);
        self
    }

    /// The same lease, with a place kept for the sandbox if it may come back.
    pub(super) fn with_reservation(mut self, reserved: TaskTrackerToken) -> Self {
        self.reserved = self.reuse.then_some(reserved);
        self
    }

    /// How the run got the sandbox.
    pub fn source(&self) -> SandboxSource {
        self.source
    }

    /// Remembers the directory that the sandbox has as `/data`.
    pub fn bind_to(&mut self, workspace: &Workspace) {
        self.data = workspace.directory_id();
    }

    /// Whether the workspace is still the directory that the sandbox has: it may have been deleted and created again.
    pub fn fits(&self, workspace: &Workspace) -> bool {
        self.data
            .is_none_or(|data| workspace.directory_id() == Some(data))
    }

    /// Runs the program; see [`Sandbox::run`].
    ///
    /// # Errors
    /// Those of [`Sandbox::run`].
    pub async fn run(
        &mut self,
        program: &Program,
        capture: Arc<Capture>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<End, SandboxError> {
        let run = self.sandbox.run(program, capture, self.reuse, interrupt);
        run.await
    }

    /// Opens the way to listed hosts; see [`Sandbox::open_proxy`].
    ///
    /// # Errors
    /// Those of [`Sandbox::open_proxy`].
    pub async fn open_proxy(
        &mut self,
        access: &Arc<HostAccess>,
    ) -> Result<Arc<Traffic>, SandboxError> {
        self.sandbox.open_proxy(access).await
    }

    /// Turns it into a kernel's lease: the sandbox never comes back, so its place is freed.
    #[must_use]
    pub fn for_good(mut self) -> Self {
        self.reserved = None;
        self
    }

    /// Runs a cell of a kernel; see [`Sandbox::cell`].
    ///
    /// # Errors
    /// Those of [`Sandbox::cell`].
    pub async fn cell(
        &mut self,
        program: &Program,
        capture: Arc<Capture>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<End, SandboxError> {
        self.sandbox.cell(program, capture, interrupt).await
    }

    /// The container that is leased.
    pub fn container(&self) -> &ContainerId {
        self.sandbox.id()
    }

    /// What the sandbox holds of the disk that no name shows; see [`Scale`].
    pub fn scale(&self) -> &Scale {
        self.sandbox.scale()
    }

    /// Whether the sandbox lives, judging by its output.
    pub fn is_alive(&self) -> bool {
        self.sandbox.is_alive()
    }

    /// Whether the engine would end it in another run.
    pub fn is_old(&self) -> bool {
        self.pool.is_old(&self.sandbox)
    }

    /// Whether large libraries are loaded in it, ahead or by its programs.
    pub fn is_loaded(&self) -> bool {
        is_loaded(self.load, self.used)
    }

    /// What was loaded in it when its interpreter was parked.
    pub fn load(&self) -> Load {
        self.load
    }

    /// The container's state; see [`Sandbox::state`].
    pub fn state(
        &self,
    ) -> impl Future<Output = Result<ContainerState, ExecutorError>> + Send + use<> {
        self.sandbox.state()
    }

    /// Leaves the sandbox with its conversation after a run, if it may stay. Cleaning goes on in the background.
    pub fn finish(mut self, workspace: &Workspace) {
        // What it sees as /data may have been deleted, and created again for another run.
        if !self.reuse || !self.fits(workspace) {
            return;
        }
        self.data = workspace.directory_id();
        if self.needs == Load::Full {
            self.used = Some(Instant::now());
        }
        let back = if self.sandbox.is_parked() {
            ReadyAfter::Scrub
        } else {
            self.parking.back
        };
        let ticket = self
            .pool
            .0
            .shelf
            .lock()
            .begin_cleaning(&self.key, &self.kind, back);
        // From here on, the ticket holds its place.
        self.reserved = None;
        if let Some(ticket) = ticket {
            let tasks = self.pool.0.tasks.clone();
            tasks.spawn(self.clean(ticket));
        }
    }

    async fn clean(mut self, ticket: ShelfTicket) {
        let closed = self.pool.0.closed.clone();
        let clean = async {
            self.sandbox.clean().await?;
            // A sandbox that was started for a run has no interpreter parked yet.
            if !self.sandbox.is_parked() && !self.parking.driver.is_empty() {
                self.pool.until_calm(ticket).await;
                self.park().await?;
            }
            Ok(())
        };
        let cleaned = in_time(clean, &closed).await;
        self.come_back(ticket, cleaned, Instant::now());
    }

    /// Has a light interpreter parked in place of the one that is there, and leaves the sandbox with its conversation
    /// again, whose last run ended at `since`.
    pub(super) async fn unload(mut self, ticket: ShelfTicket, since: Instant) {
        let closed = self.pool.0.closed.clone();
        let unloaded = in_time(self.park(), &closed).await;
        self.come_back(ticket, unloaded, since);
    }

    async fn park(&mut self) -> Result<(), SandboxError> {
        self.load = self.parking.load;
        self.used = Warm::used_when_parked(self.load);
        let idle = self.pool.parked_for();
        let driver = &self.parking.driver;
        self.sandbox.park(driver, &BTreeMap::new(), idle, &[]).await
    }

    /// Puts the sandbox back on the shelf if it was made ready, and removes it if not.
    fn come_back(
        self,
        ticket: ShelfTicket,
        ready: Option<Result<(), SandboxError>>,
        since: Instant,
    ) {
        let Self {
            pool,
            sandbox,
            key,
            kind,
            data,
            load,
            used,
            ..
        } = self;
        let warm = Warm {
            sandbox,
            slot: None,
            data,
            load,
            used,
        };
        let mut shelf = pool.0.shelf.lock();
        let is_wanted = shelf.end_cleaning(ticket);
        let retired = match ready {
            Some(Ok(())) if is_wanted => shelf.give_back(&key, &kind, warm, since),
            Some(Err(error)) => {
                debug!(container.id = %warm.sandbox.id(), %error, "a sandbox is not used again");
                vec![warm]
            }
            Some(Ok(())) | None => vec![warm],
        };
        drop(shelf);
        drop(retired);
        pool.0.changed.notify_waiters();
    }
}

/// What comes of making a sandbox ready; `None` if it took too long, or is not wanted any more.
async fn in_time<T>(ready: impl Future<Output = T>, closed: &CancellationToken) -> Option<T> {
    tokio::select! {
        ready = tokio::time::timeout(CLEAN_WAIT, ready) => ready.ok(),
        () = closed.cancelled() => None,
    }
}
