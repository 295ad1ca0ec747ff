//! Exclusive use of a sandbox for one run. Dropping it takes the sandbox away; [`Lease::finish`] gives it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandbox_init::End;
use tokio::time::Instant;
use tracing::debug;

use super::keeper::PARKED_FOR;
use super::shelf::{Back, Ticket};
use super::{Kind, Pool, Warm};
use crate::conversation::ConversationKey;
use crate::executor::{ContainerId, ContainerState, ExecutorError};
use crate::runner::Runner;
use crate::sandbox::{Capture, Program, Sandbox, SandboxError};
use crate::workspace::{DirectoryId, Workspace};

/// Longest time a sandbox may take to clean itself and park the next interpreter.
const CLEAN_WAIT: Duration = Duration::from_mins(1);
/// How long a driver that is ready soon goes on loading, on half of a slow core.
const LOADING: Duration = Duration::from_secs(5);

/// How a run came by its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It was the conversation's own.
    Own,
    /// It was started ahead for nobody in particular.
    Pool,
    /// It was started for this run.
    Cold,
    /// It is the kernel that the conversation has already.
    Kernel,
}

impl Way {
    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Pool => "pool",
            Self::Cold => "cold",
            Self::Kernel => "kernel",
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
    /// What parks an interpreter after a run that began without, and how soon.
    driver: (Vec<String>, Back),
    way: Way,
    /// Whether the conversation may keep the sandbox.
    pub(super) reuse: bool,
    /// The directory that the sandbox has as `/data`, once that was seen.
    data: Option<DirectoryId>,
}

impl Lease {
    pub(super) fn new(
        pool: Pool,
        sandbox: Sandbox,
        key: ConversationKey,
        runner: &Runner,
        way: Way,
        data: Option<DirectoryId>,
    ) -> Self {
        let kind = Kind::of(runner);
        let driver = if runner.driver_soon.is_empty() {
            (runner.driver.clone(), Back::Later)
        } else {
            (runner.driver_soon.clone(), Back::Soon)
        };
        let reuse = pool.0.config.reuse;
        Self {
            pool,
            sandbox,
            key,
            kind,
            driver,
            way,
            reuse,
            data,
        }
    }

    /// How the run came by the sandbox.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Remembers the directory that the sandbox has.
    pub fn has(&mut self, workspace: &Workspace) {
        self.data = workspace.directory_id();
    }

    /// Whether the workspace is still the directory that the sandbox has: it may have been deleted and made anew.
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
    ) -> Result<End, SandboxError> {
        self.sandbox.run(program, capture, self.reuse).await
    }

    /// Runs a cell; see [`Sandbox::cell`]. After the first one the lease is a kernel's for good.
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

    /// Whether the sandbox lives, as far as its output tells.
    pub fn is_alive(&self) -> bool {
        self.sandbox.is_alive()
    }

    /// Whether libraries are still being loaded in it; see [`Sandbox::is_loading`].
    pub fn is_loading(&self) -> bool {
        self.sandbox.is_loading()
    }

    /// How the container is; see [`Sandbox::state`].
    pub fn state(
        &self,
    ) -> impl Future<Output = Result<ContainerState, ExecutorError>> + Send + use<> {
        self.sandbox.state()
    }

    /// Leaves the sandbox with its conversation after a run that ended so, if it may stay. Cleaning goes on behind.
    pub fn finish(mut self, end: &End, workspace: &Workspace) {
        self.data = workspace.directory_id();
        let usable = self.reuse && !end.timed_out && end.oom_kills == 0;
        let (driver, parked) = &self.driver;
        let back = if self.sandbox.is_parked() || driver.is_empty() {
            Back::Scrubbed
        } else {
            *parked
        };
        if !usable {
            return;
        }
        let ticket = self
            .pool
            .shelf()
            .begin_cleaning(&self.key, &self.kind, back);
        if let Some(ticket) = ticket {
            let tasks = self.pool.0.tasks.clone();
            tasks.spawn(self.clean(ticket));
        }
    }

    async fn clean(mut self, ticket: Ticket) {
        let closed = self.pool.0.closed.clone();
        let clean = async {
            self.sandbox.clean().await?;
            // One that was started for a run has no interpreter parked yet.
            if !self.sandbox.is_parked() {
                self.sandbox
                    .park(&self.driver.0, &BTreeMap::new(), PARKED_FOR)
                    .await?;
                if self.driver.1 == Back::Soon {
                    self.sandbox.loads_for(LOADING);
                }
            }
            Ok::<(), SandboxError>(())
        };
        let cleaned = tokio::select! {
            cleaned = tokio::time::timeout(CLEAN_WAIT, clean) => cleaned.ok(),
            () = closed.cancelled() => None,
        };
        let Self {
            pool,
            sandbox,
            key,
            kind,
            data,
            ..
        } = self;
        let warm = Warm {
            sandbox,
            slot: None,
            data,
        };
        let mut shelf = pool.shelf();
        let is_wanted = shelf.end_cleaning(ticket);
        let retired = match cleaned {
            Some(Ok(())) if is_wanted => shelf.give_back(&key, &kind, warm, Instant::now()),
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
