//! Where a run takes place: in a sandbox leased for this run, or in the conversation's kernel.

use std::sync::Arc;

use thiserror::Error;

use super::error::NotBegun;
use super::observed::Cause;
use super::prepare::PreparedRun;
use super::{KernelWish, RunError, Runs};
use crate::allow_list::AllowList;
use crate::egress::Traffic;
use crate::executor::spec::NetworkAccess;
use crate::gate::admission::{AdmissionError, Start};
use crate::kernels::{Kernel, KernelError, KernelLoss, KernelTurn, Needs};
use crate::pool::{Lease, SandboxSource};
use crate::runner::Load;
use crate::sandbox::SandboxError;
use crate::workspace::{Workspace, WorkspaceError};

/// Where a run takes place.
#[derive(Debug)]
pub(super) enum Seat {
    /// In a clean sandbox, which is cleaned afterwards or removed.
    Sandbox(Box<Lease>),
    /// In the conversation's kernel.
    Kernel(Box<KernelTurn>, SandboxSource),
}

impl Seat {
    pub(super) fn source(&self) -> SandboxSource {
        match self {
            Self::Sandbox(lease) => lease.source(),
            Self::Kernel(_, source) => *source,
        }
    }

    /// Whether everything is loaded by now that a run which started slowly waits for.
    pub(super) fn is_loaded(&self) -> bool {
        match self {
            Self::Sandbox(lease) => lease.is_loaded(),
            // For a new kernel it was loaded before; one that was there loads it with the cell.
            Self::Kernel(_, source) => *source != SandboxSource::Kernel,
        }
    }

    /// What became of the kernel that the run would have had.
    pub(super) fn take_lost(&mut self) -> Option<KernelLoss> {
        match self {
            Self::Sandbox(_) => None,
            Self::Kernel(turn, _) => turn.take_lost(),
        }
    }

    /// Opens the way to listed hosts, if the program may reach any, and returns what counts its traffic.
    pub(super) async fn open_network(
        &mut self,
        network: &NetworkAccess,
    ) -> Result<Option<(Arc<AllowList>, Arc<Traffic>)>, RunError> {
        let NetworkAccess::Listed(access) = network else {
            return Ok(None);
        };
        let lease = match self {
            Self::Sandbox(lease) => Some(&mut **lease),
            Self::Kernel(turn, _) => turn.lease(),
        };
        let Some(lease) = lease else {
            return Ok(None);
        };
        let opened = lease.open_proxy(access).await;
        let traffic = opened.map_err(|error| RunError::Proxy(error.to_string()))?;
        Ok(Some((Arc::clone(&access.list), traffic)))
    }

    /// The sandbox to run the program in. There is none if the kernel was lost just now.
    pub(super) fn begin(&mut self) -> Option<&mut Lease> {
        match self {
            Self::Sandbox(lease) => Some(lease),
            Self::Kernel(turn, _) => turn.begin(),
        }
    }
}

/// Why there is no sandbox for a run.
#[derive(Debug, Error)]
pub(super) enum SeatError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl From<SeatError> for NotBegun {
    fn from(error: SeatError) -> Self {
        match error {
            SeatError::Workspace(error) => error.into(),
            SeatError::Kernel(error) => error.into(),
            SeatError::Sandbox(error) => match error.lack_of_room() {
                Some(reason) => AdmissionError::no_room(reason).into(),
                None => Cause::EngineLost(error.outage()).into(),
            },
        }
    }
}

impl PreparedRun {
    fn needs(&self) -> Needs<'_> {
        Needs {
            runner: &self.runner,
            network: &self.network,
            env: &self.program.env,
            load: self.load(),
        }
    }

    /// Whether a sandbox that already exists will do.
    fn can_be_warm(&self) -> bool {
        self.may_be_warm
            && !self.network.is_of_engine()
            && self.runner.can_be_warm(self.program.env.keys())
    }

    /// What should be loaded in the sandbox that it gets.
    fn load(&self) -> Load {
        self.runner.load_for(&self.program.code)
    }
}

impl Runs {
    /// The turn of a stateful run: a kernel that fits it, or the place for one. `waits` is called if others come first.
    pub(super) async fn turn(
        &self,
        prepared: &PreparedRun,
        wish: KernelWish,
        waits: impl FnOnce(),
    ) -> Result<KernelTurn, RunError> {
        let PreparedRun {
            conversation,
            runner,
            ..
        } = prepared;
        let mut turn = self
            .kernels
            .turn(conversation, (runner, wish.number), wish.wait, waits)
            .await?;
        turn.fit(prepared.needs(), wish.restart)?;
        Ok(turn)
    }

    /// A place for a run, and the workspace that it has as `/data`.
    pub(super) async fn seat(
        &self,
        prepared: &PreparedRun,
        turn: Option<KernelTurn>,
    ) -> Result<(Seat, Workspace), SeatError> {
        if let Some(turn) = turn {
            // Boxed, because it is large and few runs need it.
            return Box::pin(self.kernel_seat(prepared, turn)).await;
        }
        let (lease, workspace) = self.lease(prepared).await?;
        Ok((Seat::Sandbox(Box::new(lease)), workspace))
    }

    /// How soon the run can begin, as things are.
    pub(super) fn start(&self, prepared: &PreparedRun, turn: Option<&KernelTurn>) -> Start {
        let (key, runner, load) = (
            prepared.conversation.key(),
            &prepared.runner,
            prepared.load(),
        );
        let has_loaded = || match turn {
            Some(turn) => turn.has_loaded(load),
            None => prepared.can_be_warm() && self.pool.has_loaded(key, runner),
        };
        if load == Load::Light || has_loaded() {
            Start::Ready
        } else {
            Start::Slow
        }
    }

    /// A sandbox for one run, warm if there is one that fits.
    async fn lease(&self, prepared: &PreparedRun) -> Result<(Lease, Workspace), SeatError> {
        let PreparedRun {
            runner, network, ..
        } = prepared;
        let key = prepared.conversation.key();
        let may_be_warm = prepared.can_be_warm();
        if may_be_warm && let Some(leased) = self.warm_lease(prepared).await? {
            return Ok(leased);
        }
        // The directory first, since the container mounts it.
        let workspace = self.files.workspaces.create(key).await?;
        let lease = self
            .pool
            .start_cold(
                &workspace,
                runner,
                network.clone(),
                may_be_warm,
                prepared.load(),
            )
            .await?;
        Ok((lease, workspace))
    }

    /// A sandbox that already exists.
    async fn warm_lease(
        &self,
        prepared: &PreparedRun,
    ) -> Result<Option<(Lease, Workspace)>, SeatError> {
        let (key, runner) = (prepared.conversation.key(), &prepared.runner);
        let claimed = self.pool.claim(key, runner, prepared.load()).await?;
        let Some(lease) = claimed else {
            return Ok(None);
        };
        let workspace = self.files.workspaces.create(key).await?;
        Ok(lease.fits(&workspace).then_some((lease, workspace)))
    }

    /// The kernel of a turn, or a new one, in a warm sandbox if there is one.
    async fn kernel_seat(
        &self,
        prepared: &PreparedRun,
        mut turn: KernelTurn,
    ) -> Result<(Seat, Workspace), SeatError> {
        let (key, runner) = (prepared.conversation.key(), &prepared.runner);
        let needs = prepared.needs();
        let found = self.files.workspaces.find(key).await?;
        if turn.has_kernel_for(found.as_ref())
            && let Some(workspace) = found
        {
            turn.note_load(prepared.load());
            return Ok((
                Seat::Kernel(Box::new(turn), SandboxSource::Kernel),
                workspace,
            ));
        }
        turn.make_room()?;
        let early = needs.early_env();
        let may_be_warm = !needs.network.is_of_engine() && early.is_empty();
        let warm = if may_be_warm {
            // What is not loaded yet the cell would wait for, within its time limit and on half a core.
            let warm = self.warm_lease(prepared).await?;
            warm.filter(|(lease, _)| lease.load() >= prepared.load())
        } else {
            None
        };
        let (lease, workspace) = if let Some(leased) = warm {
            leased
        } else {
            let workspace = self.files.workspaces.create(key).await?;
            let network = prepared.network.clone();
            let load = prepared.load();
            let parked = self
                .pool
                .start_parked(&workspace, runner, network, &early, load);
            (parked.await?, workspace)
        };
        let source = lease.source();
        turn.install_kernel(Kernel::new(lease, needs));
        Ok((Seat::Kernel(Box::new(turn), source), workspace))
    }
}
