//! Starts sandboxes for the pool and for those that get none from it: what a container is to be, and how long its start
//! may take.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Lease, Pool, SandboxSource};
use crate::executor::Outage;
use crate::executor::spec::{
    ContainerLimits, ContainerSpec, HatchSpec, NetworkAccess, Place, Priority, ReadOnlyMount,
};
use crate::runner::catalog::EngineView;
use crate::runner::{Load, Runner};
use crate::sandbox::{Sandbox, SandboxError};
use crate::workspace::{Owner, Scratch, Slot, Workspace};

/// How long a start may take as long as no engine says otherwise.
const START_WAIT: Duration = Duration::from_mins(1);

/// An interpreter that is to be parked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interpreter<'a> {
    pub(super) runner: &'a Runner,
    pub(super) load: Load,
    /// Added to its image's environment.
    pub(super) env: &'a BTreeMap<String, String>,
}

/// The directory that becomes `/data`.
#[derive(Debug)]
pub(super) struct Data<'a> {
    place: Place,
    owner: Owner,
    /// The container's label that tells what directory it has.
    label: (&'static str, &'a str),
}

impl<'a> Data<'a> {
    fn of(workspace: &'a Workspace) -> Result<Self, SandboxError> {
        Ok(Self {
            place: workspace.place(),
            owner: workspace.owner().map_err(SandboxError::Data)?,
            label: ("sandbox.conversation", workspace.key().short()),
        })
    }

    pub(super) fn of_slot(slot: &'a Slot) -> Self {
        Self {
            place: slot.place(),
            owner: slot.owner(),
            label: ("sandbox.slot", slot.name()),
        }
    }
}

/// What a container may have as `/data`.
#[derive(Clone, Copy, Debug)]
pub enum Directory<'a> {
    /// What will be a conversation's.
    Slot(&'a Slot),
    /// What is a conversation's.
    Workspace(&'a Workspace),
}

/// What is special about a container that serves no conversation.
#[derive(Debug)]
pub struct UtilityContainer {
    /// Used instead of the image's own command; it reads a program on standard input.
    pub command: Vec<String>,
    /// What else it sees.
    pub read_only: Vec<ReadOnlyMount>,
    /// What it may reach.
    pub network: NetworkAccess,
}

impl Pool {
    /// Starts a container for one run in a conversation's workspace, which keeps it afterwards, with `load`, if `may_stay`
    /// and the settings allow it.
    ///
    /// # Errors
    /// The engine failed.
    pub async fn start_cold(
        &self,
        workspace: &Workspace,
        runner: &Runner,
        network: NetworkAccess,
        may_stay: bool,
        load: Load,
    ) -> Result<Lease, SandboxError> {
        let data = Data::of(workspace)?;
        let spec = self.spec(runner, data, network, Priority::Run);
        let started = self.0.cold_starts.track_future(self.start(spec, None));
        let sandbox = started.await?;
        let key = workspace.key().clone();
        let mut lease = Lease::new(
            self.clone(),
            sandbox,
            key,
            runner,
            SandboxSource::Cold,
            None,
        )
        .with_parking(runner, load);
        lease.reuse &= may_stay;
        Ok(lease)
    }

    /// Starts a container that serves no conversation: it has a directory of its own as `/data`, and
    /// [`UtilityContainer::command`] instead of the image's command.
    ///
    /// # Errors
    /// The engine failed.
    pub async fn start_utility(
        &self,
        runner: &Runner,
        scratch: &Scratch,
        utility: UtilityContainer,
    ) -> Result<Sandbox, SandboxError> {
        let data = Data {
            place: scratch.place(),
            owner: scratch.owner(),
            label: ("sandbox.scratch", scratch.name()),
        };
        let is_listed = matches!(utility.network, NetworkAccess::Listed(_));
        let mut spec = self.spec(runner, data, utility.network, Priority::Run);
        if !is_listed {
            // No program of a conversation ever comes here.
            spec.hatch = HatchSpec::None;
        }
        spec.command = utility.command;
        spec.read_only = utility.read_only;
        // It runs no conversation's program, and has settings of its own for what its clients trust.
        spec.certificates = None;
        self.start(spec, None).await
    }

    /// Starts a container that has this directory as `/data`, with nothing parked in it. Who starts it keeps it.
    ///
    /// # Errors
    /// The engine failed.
    pub async fn start_bare(
        &self,
        runner: &Runner,
        directory: Directory<'_>,
    ) -> Result<Sandbox, SandboxError> {
        let data = match directory {
            Directory::Slot(slot) => Data::of_slot(slot),
            Directory::Workspace(workspace) => Data::of(workspace)?,
        };
        let spec = self.spec(runner, data, NetworkAccess::None, Priority::Run);
        self.start(spec, None).await
    }

    /// Starts a container for a kernel of a conversation, and has its interpreter parked with `env`.
    ///
    /// # Errors
    /// The engine failed, or the interpreter was not parked.
    pub async fn start_parked(
        &self,
        workspace: &Workspace,
        runner: &Runner,
        network: NetworkAccess,
        env: &BTreeMap<String, String>,
        load: Load,
    ) -> Result<Lease, SandboxError> {
        let data = Data::of(workspace)?;
        let spec = self.spec(runner, data, network, Priority::Load);
        let interpreter = Interpreter { runner, load, env };
        let sandbox = self.start(spec, Some(interpreter)).await?;
        let key = workspace.key().clone();
        Ok(Lease::new(
            self.clone(),
            sandbox,
            key,
            runner,
            SandboxSource::Cold,
            None,
        ))
    }

    /// Starts a container, and has an interpreter parked in it, if there is one. A container without a network is returned
    /// only if its programs have none.
    pub(super) async fn start(
        &self,
        spec: ContainerSpec,
        interpreter: Option<Interpreter<'_>>,
    ) -> Result<Sandbox, SandboxError> {
        let setup = &self.0.setup;
        let started = async {
            if setup.asks_about_network(&spec.network) {
                return self.start_cut(spec, interpreter).await;
            }
            let needs_lane = setup.needs_lane(&spec.network);
            let must_see_none = setup.must_see_none(&spec.network);
            let sandbox = self.0.launcher.start(spec, needs_lane).await?;
            let Some(interpreter) = interpreter else {
                return Ok(sandbox);
            };
            let sandbox = self.parked(sandbox, interpreter, &[]).await?;
            match sandbox.cut(false) {
                Err(uncut) if must_see_none => Err(SandboxError::NotCut(uncut)),
                Ok(_) | Err(_) => Ok(sandbox),
            }
        };
        self.in_time(started).await
    }

    /// The result of a start, as long as the engine answers at all.
    async fn in_time(
        &self,
        start: impl Future<Output = Result<Sandbox, SandboxError>>,
    ) -> Result<Sandbox, SandboxError> {
        let limit = match self.0.setup.catalog.engine() {
            EngineView::Up(engine) => engine.capabilities.longest_start,
            EngineView::Down(_) => START_WAIT,
        };
        tokio::select! {
            // First: an engine that is lost is not asked.
            biased;
            outage = self.0.setup.catalog.lost() => Err(SandboxError::NotStarted(outage)),
            () = tokio::time::sleep(limit) => {
                let seconds = limit.as_secs();
                let outage = Outage::passing(format!("it took longer than {seconds} s"));
                Err(SandboxError::NotStarted(outage))
            }
            sandbox = start => sandbox,
        }
    }

    pub(super) fn spec(
        &self,
        runner: &Runner,
        data: Data<'_>,
        network: NetworkAccess,
        priority: Priority,
    ) -> ContainerSpec {
        let setup = &self.0.setup;
        let labels = [
            (data.label.0, data.label.1.to_owned()),
            ("sandbox.run-language", runner.language.clone()),
        ];
        ContainerSpec {
            image: runner.image_id.clone(),
            command: runner.command.clone(),
            env: runner.env.clone(),
            data: data.place,
            read_only: Vec::new(),
            user: setup.user(data.owner),
            limits: self.limits(runner),
            hatch: setup.hatch(&network),
            network: network.of_container(),
            certificates: setup.certificates.clone(),
            lane: None,
            priority,
            avoided_nodes: Vec::new(),
            runtime: setup.runtime.clone(),
            labels: self.0.launcher.labels(&labels),
        }
    }

    /// The limits of a run, plus the memory that the runner's driver holds.
    pub(super) fn limits(&self, runner: &Runner) -> ContainerLimits {
        let limits = self.0.setup.limits;
        ContainerLimits {
            memory: limits.memory.saturating_add(runner.driver_memory),
            ..limits
        }
    }
}
