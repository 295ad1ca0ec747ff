//! Kernels: interpreters that stay with their conversation, so that the variables of one run are there in the next.
//!
//! ```text
//!            claimed                     cell ended, it lives
//! Nobody's ───────────▶ Taken ────────────────────────────────────▶ Idle
//!                        │ ▲                                          │
//!                        │ └───────────────── claimed ────────────────┤
//!                        │                                            │
//!                        │ killed, ended,                             │ unused for KERNEL_TIMEOUT, room needed,
//!                        │ deleted meanwhile                          │ deleted, image replaced, container gone
//!                        ▼                                            ▼
//!                      Lost: why is remembered, and told to the next run that would have had it
//! ```
//!
//! There is one place for each conversation and language, or several with numbers where a client wants them. The run that
//! has it holds a [`KernelTurn`]; others are refused, or wait in the order in which they came. [`books`] keeps the books
//! and is pure. A kernel holds the lease of its sandbox, so letting go of it in any way removes the container.

mod books;
mod key;
mod lost;
mod turn;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strum::VariantNames as _;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::books::{KernelBooks, KernelClaim, KernelTicket, NoRoom};
use self::key::KernelKey;
pub use self::lost::KernelLoss;
pub use self::turn::{Kernel, KernelTurn, Needs};
use crate::access::Access;
use crate::config::KernelConfig;
use crate::conversation::{Conversation, ConversationKey};
use crate::metrics::{LostLabels, Metrics};
use crate::principal::Tenant;
use crate::runner::Runner;
use crate::runner::catalog::Catalog;
use crate::workspace::Workspaces;

/// Longest pause between two checks for kernels whose time has come.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// So little that nobody is ended for it.
const LITTLE: u64 = 1 << 20;
/// When a caller that finds all kernels busy may come back.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// All kernels.
#[derive(Clone, Debug)]
pub struct Kernels(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    books: Mutex<KernelBooks<Kernel>>,
    /// Notified when a run leaves its kernel or the line: those that wait check again.
    changed: Notify,
    config: KernelConfig,
    /// Knows how many kernels each tenant may have.
    access: Access,
    metrics: Arc<Metrics>,
}

/// Why a run does not get its kernel.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Another run has it.
    #[error(
        "another run of this conversation has the {0} kernel: call with wait: true to wait in turn, or end that run \
         first (cancel_run over MCP)"
    )]
    Busy(String),
    /// Too many wait for it already.
    #[error("{0} runs wait for this kernel already: try again when some have ended")]
    Crowded(usize),
    /// All kernels that the server may have are running cells.
    #[error(
        "all {0} kernels of the server are busy: try again in {seconds} s, or run without stateful",
        seconds = RETRY_AFTER.as_secs()
    )]
    Full(usize),
    /// All kernels that the tenant may have are running cells.
    #[error(
        "all {0} kernels of the tenant are busy: try again in {seconds} s, or run without stateful",
        seconds = RETRY_AFTER.as_secs()
    )]
    TenantFull(usize),
    /// It has the network and the run may not use it, or vice versa.
    #[error(
        "the kernel of this conversation was started with network: {0}: give the same, or restart: true for a new \
         kernel without its variables"
    )]
    Network(bool),
    /// Both have listed hosts, but not the same.
    #[error(
        "the kernel of this conversation was started with other hosts, {0}: give the same, or restart: true for a new \
         kernel without its variables"
    )]
    Hosts(String),
    /// Both can use secrets, or one of them can, but not the same.
    #[error(
        "the kernel of this conversation was started with other secrets, {0}: give the same, or restart: true for a new \
         kernel without its variables"
    )]
    Secrets(String),
    /// The value of a secret has changed since.
    #[error(
        "the value of {0} has changed since the kernel of this conversation was started: give restart: true for a new \
         kernel without its variables"
    )]
    SecretsReplaced(String),
    /// The run sets variables that the interpreter has already read.
    #[error(
        "environment sets {0}, which an interpreter reads when it starts: give restart: true for a new kernel \
         without its variables"
    )]
    Environment(String),
    /// The server is stopping.
    #[error("the server is stopping and takes no new runs; try again in a minute")]
    Closed,
}

impl KernelError {
    /// When it is worth trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        matches!(self, Self::Full(_) | Self::TenantFull(_)).then_some(RETRY_AFTER)
    }
}

impl Kernels {
    /// No kernels yet. Tenants have the shares that `access` knows.
    pub fn new(config: KernelConfig, access: Access, metrics: Arc<Metrics>) -> Self {
        // A rate has to start from zero.
        for why in KernelLoss::VARIANTS {
            metrics
                .lost_kernels
                .get_or_create_owned(&LostLabels { why });
        }
        Self(Arc::new(Shared {
            books: Mutex::new(KernelBooks::new(config.max_kernels, config.idle)),
            changed: Notify::new(),
            config,
            access,
            metrics,
        }))
    }

    /// Whether a runner's variables can be kept.
    pub fn are_for(&self, runner: &Runner) -> bool {
        runner.kernel && self.0.config.max_kernels > 0
    }

    /// The turn of a run that asks for its conversation's kernel of this language and number. With `wait`, this may take
    /// as long as the runs before it, and `waits` is called when it stands in line for that.
    ///
    /// # Errors
    /// Another run has it, there is no room, or the server is stopping.
    pub async fn turn(
        &self,
        conversation: &Conversation,
        (runner, number): (&Runner, u32),
        wait: bool,
        waits: impl FnOnce(),
    ) -> Result<KernelTurn, KernelError> {
        let mut waits = Some(waits);
        let key = KernelKey {
            tenant: conversation.tenant().clone(),
            conversation: conversation.key().clone(),
            language: runner.language.clone(),
            number,
        };
        let mut waiting: Option<Waiting> = None;
        loop {
            let changed = self.0.changed.notified();
            let ticket = waiting.as_ref().map(|waiting| waiting.ticket);
            let share = self.share(&key.tenant);
            let claim = self.0.books.lock().claim(&key, ticket, share);
            match claim {
                KernelClaim::Granted { kernel, lost } => {
                    return Ok(KernelTurn::new(self.clone(), key, kernel, lost));
                }
                KernelClaim::Full(full) => return Err(self.full(&key, full)),
                KernelClaim::Closed => return Err(KernelError::Closed),
                KernelClaim::Busy if !wait => return Err(KernelError::Busy(key.language)),
                KernelClaim::Busy if waiting.is_none() => {
                    waiting = Some(self.line_up(&key)?);
                    if let Some(waits) = waits.take() {
                        waits();
                    }
                }
                KernelClaim::Busy => changed.await,
            }
        }
    }

    /// Keeps room for the new kernel of a run that begins. If necessary, the kernel that was idle longest makes way.
    fn make_room(&self, key: &KernelKey) -> Result<(), KernelError> {
        let made = self.0.books.lock().make_room(key, self.share(&key.tenant));
        let evicted = made.map_err(|full| self.full(key, full))?;
        self.let_go(
            evicted
                .map(|kernel| (kernel, KernelLoss::Evicted))
                .into_iter()
                .collect(),
        );
        Ok(())
    }

    /// How many kernels a tenant may have: of a server that several share, half of all unless its limits say otherwise.
    fn share(&self, tenant: &Tenant) -> usize {
        if !self.0.access.is_shared() {
            return usize::MAX;
        }
        let max_kernels = self.0.access.limits(tenant).max_kernels;
        max_kernels.unwrap_or(self.0.config.max_kernels.div_ceil(2))
    }

    fn full(&self, key: &KernelKey, full: NoRoom) -> KernelError {
        match full {
            NoRoom::OfTenant => KernelError::TenantFull(self.share(&key.tenant)),
            NoRoom::OfAll => KernelError::Full(self.0.config.max_kernels),
        }
    }

    fn line_up(&self, key: &KernelKey) -> Result<Waiting, KernelError> {
        let ticket = self.0.books.lock().line_up(key);
        let ticket = ticket.ok_or(KernelError::Crowded(books::MAX_WAITING))?;
        Ok(Waiting {
            kernels: self.clone(),
            key: key.clone(),
            ticket,
        })
    }

    /// Ends the kernels of a conversation: idle ones at once, the others with the runs that have them.
    pub fn retire(&self, key: &ConversationKey, why: KernelLoss) {
        let retired = self.0.books.lock().retire(key, None, why);
        self.let_go(retired);
    }

    /// The same for those with a number.
    pub fn retire_numbered(&self, key: &ConversationKey, number: u32, why: KernelLoss) {
        let retired = self.0.books.lock().retire(key, Some(number), why);
        self.let_go(retired);
    }

    /// Ends the idle kernel that holds most of the disk without a name. False if there is none that holds anything.
    pub fn end_largest_holder(&self) -> bool {
        // What cannot be seen comes after what can.
        let weight = |kernel: &Kernel| {
            let held = kernel.held();
            let is_much = held.seen() >= LITTLE;
            (is_much || held.unseen).then_some((is_much, held.seen()))
        };
        let ended = self.0.books.lock().take_heaviest(weight, KernelLoss::Floor);
        let is_there = ended.is_some();
        self.let_go(ended.into_iter().collect());
        is_there
    }

    /// Ends kernels whose time has come, those found to hold more than a conversation of their tenant may take, and those
    /// that a tenant has beyond what it may have now, until `stop`.
    pub async fn maintain(
        &self,
        catalog: &Catalog,
        workspaces: &Workspaces,
        stop: &CancellationToken,
    ) {
        let keep = async {
            let mut views = catalog.watch();
            loop {
                let view = views.borrow_and_update().clone();
                let images: BTreeSet<&str> = view
                    .runners
                    .values()
                    .map(|runner| runner.image_id.as_str())
                    .collect();
                self.0.books.lock().visit_idle(Kernel::count_held);
                let retired = self
                    .0
                    .books
                    .lock()
                    .expire(Instant::now(), |tenant, kernel| {
                        let is_there = images.contains(kernel.image_id());
                        let replaced =
                            (!is_there && view.engine.is_up()).then_some(KernelLoss::Replaced);
                        let holds_much = || kernel.held().seen() > workspaces.quota_of(tenant);
                        replaced
                            .or_else(|| (!kernel.is_alive()).then_some(KernelLoss::Gone))
                            .or_else(|| kernel.is_old().then_some(KernelLoss::Aged))
                            .or_else(|| holds_much().then_some(KernelLoss::Held))
                    });
                self.let_go(retired);
                let beyond = self.0.books.lock().trim(|tenant| self.share(tenant));
                self.let_go(beyond);
                tokio::select! {
                    _ = views.changed() => {}
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                }
            }
        };
        stop.run_until_cancelled(keep).await;
        self.close();
    }

    /// Ends all kernels, and starts none from now on.
    pub fn close(&self) {
        let retired = self.0.books.lock().close();
        drop(retired);
        self.0.changed.notify_waiters();
    }

    /// How many kernels of a language are idle, and how many are working.
    pub fn count_of(&self, language: &str) -> (usize, usize) {
        self.0.books.lock().count_of(language)
    }

    /// The languages of the kernels that each conversation has.
    pub fn languages(&self) -> HashMap<ConversationKey, Vec<String>> {
        self.0.books.lock().languages()
    }

    fn let_go(&self, retired: Vec<(Kernel, KernelLoss)>) {
        for (kernel, why) in &retired {
            debug!(container.id = %kernel.container(), kernel.lost = why.into_str(), "ended a kernel");
            self.count(*why);
        }
        drop(retired);
        self.0.changed.notify_waiters();
    }

    /// Counts a kernel that is lost.
    fn count(&self, why: KernelLoss) {
        self.0.metrics.lost_kernel(why.into_str());
    }
}

/// A run that waits for its turn. Dropping it leaves the line.
#[derive(Debug)]
struct Waiting {
    kernels: Kernels,
    key: KernelKey,
    ticket: KernelTicket,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.kernels
            .0
            .books
            .lock()
            .leave_line(&self.key, self.ticket);
        self.kernels.0.changed.notify_waiters();
    }
}
