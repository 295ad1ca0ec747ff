//! The turn of a run: exclusive use of its conversation's kernel, or of the place for one.

use std::collections::BTreeMap;
use std::mem;

use sandbox_init::Held;
use tokio::time::Instant;

use super::key::KernelKey;
use super::{KernelError, KernelLoss, Kernels};
use crate::egress::HostAccess;
use crate::executor::ContainerId;
use crate::executor::spec::NetworkAccess;
use crate::pool::Lease;
use crate::runner::{Load, Runner};
use crate::workspace::{Deleted, Workspace};

/// A sandbox whose interpreter stays. Dropping it removes the container.
#[derive(Debug)]
pub struct Kernel {
    lease: Lease,
    image_id: String,
    network: NetworkAccess,
    /// What the interpreter read from its environment when it started.
    env: BTreeMap<String, String>,
    /// What its cells have had loaded, or what was before them.
    load: Load,
    /// Counts what it holds, while it is idle.
    deleted: Option<Deleted>,
}

/// What a run requires of its kernel.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The runner it belongs to.
    pub runner: &'a Runner,
    /// What it may reach.
    pub network: &'a NetworkAccess,
    /// The environment of the run.
    pub env: &'a BTreeMap<String, String>,
    /// What its program names.
    pub load: Load,
}

impl Needs<'_> {
    /// The part of the environment that an interpreter must have from its start.
    pub fn early_env(&self) -> BTreeMap<String, String> {
        let early = |name: &String| !self.runner.can_be_warm([name].into_iter());
        let env = self.env.iter().filter(|(name, _)| early(name));
        env.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

impl Kernel {
    /// Makes a kernel of a sandbox in which an interpreter is parked.
    pub fn new(lease: Lease, needs: Needs<'_>) -> Self {
        Self {
            lease: lease.for_good(),
            image_id: needs.runner.image_id.clone(),
            network: needs.network.clone(),
            env: needs.early_env(),
            load: needs.load,
            deleted: None,
        }
    }

    pub(super) fn image_id(&self) -> &str {
        &self.image_id
    }

    pub(super) fn container(&self) -> &ContainerId {
        self.lease.container()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.lease.is_alive()
    }

    pub(super) fn is_old(&self) -> bool {
        self.lease.is_old()
    }

    /// What it holds of the disk that no name shows.
    pub(super) fn held(&self) -> Held {
        self.lease.scale().held()
    }

    /// Counts what it was found to hold after it had been idle for a while.
    pub(super) fn count_held(&mut self) {
        let bytes = self.held().seen();
        if let Some(deleted) = &mut self.deleted {
            deleted.set(bytes);
        }
    }

    /// Why it cannot go on, if it cannot.
    fn lost(&self, runner: &Runner) -> Option<KernelLoss> {
        if !self.is_alive() {
            return Some(KernelLoss::Gone);
        }
        if self.is_old() {
            return Some(KernelLoss::Aged);
        }
        (self.image_id != runner.image_id).then_some(KernelLoss::Replaced)
    }

    fn check(&self, needs: Needs<'_>) -> Result<(), KernelError> {
        match (&self.network, needs.network) {
            (ours, theirs) if ours.is_as(theirs) => {}
            (NetworkAccess::Listed(ours), NetworkAccess::Listed(theirs)) => {
                return Err(other_hosts(ours, theirs));
            }
            (ours, _) => return Err(KernelError::Network(*ours != NetworkAccess::None)),
        }
        let early = needs.early_env();
        let late: Vec<_> = early
            .iter()
            .filter(|(name, value)| self.env.get(*name) != Some(value))
            .map(|(name, _)| name.as_str())
            .collect();
        if late.is_empty() {
            return Ok(());
        }
        Err(KernelError::Environment(late.join(", ")))
    }
}

/// What is different of two accesses that are not the same.
fn other_hosts(ours: &HostAccess, theirs: &HostAccess) -> KernelError {
    if ours.list != theirs.list {
        return KernelError::Hosts(ours.list.to_string());
    }
    let (had, wanted) = (ours.secrets_in_words(), theirs.secrets_in_words());
    let pairs = ours.secrets.iter().zip(theirs.secrets.iter());
    let replaced = pairs.filter(|(ours, theirs)| ours != theirs);
    if had == wanted {
        let replaced: Vec<_> = replaced.map(|(ours, _)| &*ours.variable).collect();
        return KernelError::SecretsReplaced(replaced.join(", "));
    }
    let none = || "none".to_owned();
    KernelError::Secrets(if had.is_empty() { none() } else { had })
}

/// Exclusive use of a kernel, or of the place for one. Dropping it lets the next run have it.
#[derive(Debug)]
pub struct KernelTurn {
    kernels: Kernels,
    key: KernelKey,
    hold: Hold,
    /// Whether the run wants a new kernel even if there is one.
    restart: bool,
    /// What to report to the run.
    lost: Option<KernelLoss>,
}

#[derive(Debug)]
enum Hold {
    Nothing,
    /// It waits for a cell.
    Ready(Kernel),
    /// A cell has begun. If nobody sees its end, the kernel goes.
    Working(Kernel),
}

impl KernelTurn {
    pub(super) fn new(
        kernels: Kernels,
        key: KernelKey,
        kernel: Option<Kernel>,
        lost: Option<KernelLoss>,
    ) -> Self {
        Self {
            kernels,
            key,
            hold: kernel.map_or(Hold::Nothing, Hold::Ready),
            restart: false,
            lost,
        }
    }

    /// Lets go of a kernel that can no longer serve anybody. One that the run does not want goes when the run begins.
    ///
    /// # Errors
    /// The kernel does not fit but could serve others: the run has to say that it wants a new one.
    pub fn fit(&mut self, needs: Needs<'_>, restart: bool) -> Result<(), KernelError> {
        let Hold::Ready(kernel) = &self.hold else {
            return Ok(());
        };
        if let Some(why) = kernel.lost(needs.runner) {
            self.lose(why);
            return Ok(());
        }
        self.restart = restart;
        if restart {
            return Ok(());
        }
        kernel.check(needs)
    }

    /// Whether there is a kernel for the run, which has this workspace if there is one. A kernel with another workspace
    /// is let go, because the conversation has been deleted. So is one that the run does not want.
    pub fn has_kernel_for(&mut self, workspace: Option<&Workspace>) -> bool {
        let Hold::Ready(kernel) = &self.hold else {
            return false;
        };
        if !kernel.is_alive() {
            self.lose(KernelLoss::Gone);
            return false;
        }
        let fits = workspace.is_some_and(|workspace| kernel.lease.fits(workspace));
        if fits && !self.restart {
            return true;
        }
        self.lose(if fits {
            KernelLoss::Restarted
        } else {
            KernelLoss::Deleted
        });
        false
    }

    /// Whether the kernel that is there has this loaded, and the run does not want another one.
    pub fn has_loaded(&self, load: Load) -> bool {
        let has_it = |kernel: &Kernel| kernel.load >= load && kernel.is_alive();
        !self.restart && matches!(&self.hold, Hold::Ready(kernel) if has_it(kernel))
    }

    /// Notes what the program of a cell names, which is loaded from then on.
    pub fn note_load(&mut self, load: Load) {
        if let Hold::Ready(kernel) = &mut self.hold {
            kernel.load = kernel.load.max(load);
        }
    }

    /// Keeps room for a new kernel, for which another conversation's may have to make way.
    ///
    /// # Errors
    /// [`KernelError::Full`]: all others are working, or are waited for.
    pub fn make_room(&self) -> Result<(), KernelError> {
        self.kernels.make_room(&self.key)
    }

    /// Puts a new kernel in the place.
    pub fn install_kernel(&mut self, kernel: Kernel) {
        self.hold = Hold::Ready(kernel);
    }

    /// The sandbox of the kernel, if there is one, before a cell runs in it.
    pub fn lease(&mut self) -> Option<&mut Lease> {
        match &mut self.hold {
            Hold::Ready(kernel) | Hold::Working(kernel) => Some(&mut kernel.lease),
            Hold::Nothing => None,
        }
    }

    /// The sandbox to run a cell in, if there is a kernel. A turn that ends without [`KernelTurn::keep`] loses the kernel.
    pub fn begin(&mut self) -> Option<&mut Lease> {
        if let Hold::Ready(kernel) = mem::replace(&mut self.hold, Hold::Nothing) {
            self.hold = Hold::Working(kernel);
        }
        if let Hold::Working(kernel) = &mut self.hold {
            // It may close files now, and write others.
            kernel.deleted = None;
        }
        match &mut self.hold {
            Hold::Working(kernel) => Some(&mut kernel.lease),
            Hold::Nothing | Hold::Ready(_) => None,
        }
    }

    /// Keeps the kernel: the cell has ended and the kernel lives.
    pub fn keep(&mut self, workspace: &Workspace) {
        if let Hold::Working(mut kernel) = mem::replace(&mut self.hold, Hold::Nothing) {
            kernel.lease.bind_to(workspace);
            kernel.deleted = Some(workspace.count_deleted(kernel.held().seen()));
            self.hold = Hold::Ready(kernel);
        }
    }

    /// Gives the kernel up. The next run is told why.
    pub fn lose(&mut self, why: KernelLoss) {
        self.hold = Hold::Nothing;
        self.lost = Some(why);
        self.kernels.count(why);
    }

    /// What became of the kernel that the run would have had. Returned once.
    pub fn take_lost(&mut self) -> Option<KernelLoss> {
        self.lost.take()
    }
}

impl Drop for KernelTurn {
    fn drop(&mut self) {
        let hold = mem::replace(&mut self.hold, Hold::Nothing);
        let mut books = self.kernels.0.books.lock();
        let gone = match hold {
            Hold::Ready(kernel) => {
                if let Some(why) = self.lost {
                    books.remember(&self.key, why);
                }
                books.give_back(&self.key, kernel, Instant::now())
            }
            Hold::Working(kernel) => {
                books.leave(&self.key, Some(KernelLoss::Gone));
                Some((kernel, KernelLoss::Gone))
            }
            Hold::Nothing => {
                books.leave(&self.key, self.lost);
                None
            }
        };
        drop(books);
        self.kernels.let_go(gone.into_iter().collect());
    }
}
