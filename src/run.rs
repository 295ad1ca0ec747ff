//! The use case of the product: run a program in its conversation's workspace and say how it ended.
//!
//! Admit, open the workspace, lease a sandbox, execute, look at the files, explain. Every step hands out a guard, so
//! that a caller who goes away at any point leaves nothing behind.

mod active;
mod disk;
mod ending;
mod environment;
mod error;
pub mod ledger;
mod live;
pub mod outcome;
pub mod render;
mod silence;
mod texts;
mod timing;
mod uploads;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::active::ActiveRuns;
use self::disk::Allowance;
use self::ending::{Ending, Verdict};
pub use self::environment::EnvironmentError;
pub use self::error::RunError;
pub use self::live::Live;
use self::outcome::{RunOutcome, RunStatus, Truncated};
use self::silence::{chain, overdue, silent};
pub use self::timing::Phase;
use self::timing::Timing;
use crate::admission::Admission;
use crate::config::RunLimits;
use crate::conversation::{ConversationId, ConversationKey};
use crate::executor::Stream;
use crate::executor::spec::NetworkAccess;
use crate::files::{ConversationFiles, FilesError, link};
use crate::metrics::{Metrics, RunLabels, UNKNOWN_LANGUAGE};
use crate::network::NetworkPolicy;
use crate::pool::{Lease, Pool, Way};
use crate::proof::Proof;
use crate::runner::Runner;
use crate::runner::catalog::{Catalog, EngineView};
use crate::sandbox::{Capture, Captured, Launcher, Program, SandboxError};
use crate::workspace::{Listing, Workspace, WorkspaceError};

/// How much longer than the program's own time limit we wait for sandbox-init's report.
const REPORT_GRACE: Duration = Duration::from_secs(1);
/// How long runs of a conversation that is deleted may take to end.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// Most files that an answer lists; `list_files` gives the rest.
const MAX_LISTED: usize = 100;

/// A program that somebody wants to have run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Whose files it sees.
    pub conversation: ConversationId,
    /// Language or alias.
    pub language: String,
    /// Source code.
    pub code: String,
    /// Whether it may use the network.
    pub network: bool,
    /// The caller's environment variables.
    pub environment: BTreeMap<String, String>,
    /// Time limit; `None` means the configured one.
    pub timeout: Option<Duration>,
    /// Whether it runs in the conversation's kernel of this language, where variables live on.
    pub stateful: bool,
    /// How it wants that kernel. Of no meaning unless `stateful`.
    pub kernel: KernelWish,
}

/// How a stateful run wants its kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWish {
    /// Whether it waits in turn while another run has the kernel, instead of being refused.
    pub wait: bool,
    /// Whether it wants a new kernel, and the one that is there to be ended.
    pub restart: bool,
}

/// Runs programs.
#[derive(Clone, Debug)]
pub struct Runs {
    /// What one run may use.
    pub limits: RunLimits,
    /// Behind conversation keys.
    pub file_secret: SecretString,
    /// Everybody's files.
    pub files: ConversationFiles,
    /// The runners that there are.
    pub catalog: Catalog,
    /// The gate.
    pub admission: Admission,
    /// Warm and cold sandboxes.
    pub pool: Pool,
    /// What started them.
    pub launcher: Launcher,
    /// Whether runs may use the network.
    pub network: NetworkPolicy,
    /// Whether the sandbox holds, and so whether programs may run.
    pub proof: Proof,
    /// The runs in progress.
    pub active: ActiveRuns,
    /// What is counted of them.
    pub metrics: Arc<Metrics>,
}

/// Where a run takes place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// What it may reach.
    pub(crate) network: NetworkAccess,
    /// Whether it may have a sandbox that was there before, and keep it for the next run.
    pub(crate) warm: bool,
}

/// Why there is no sandbox for a run.
#[derive(Debug, Error)]
enum LeaseError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// A request that passed every check, with what it needs.
struct Prepared {
    runner: Arc<Runner>,
    program: Program,
    place: Place,
    key: ConversationKey,
}

impl Runs {
    /// Runs a program to its end, or until `cancel`. How it fares can be seen from `live` meanwhile.
    ///
    /// # Errors
    /// [`RunError`] when there was no run: a mistake of the caller's, or no room.
    pub async fn execute(
        &self,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
    ) -> Result<RunOutcome, RunError> {
        let mut timing = Timing::new();
        let result = self
            .execute_proved(request, live, cancel, &mut timing)
            .await;
        self.count(&request.language, &result, &timing);
        result
    }

    /// Adds a run to the metrics. What the server runs for itself is not counted.
    fn count(&self, language: &str, result: &Result<RunOutcome, RunError>, timing: &Timing) {
        let view = self.catalog.view();
        let language = view
            .find(language)
            .map_or(UNKNOWN_LANGUAGE, |runner| &runner.language);
        let status = match result {
            Ok(outcome) => outcome.status.as_str(),
            Err(error) => error.as_str(),
        };
        let labels = RunLabels {
            language: language.to_owned(),
            status,
        };
        self.metrics.runs.get_or_create_owned(&labels).inc();
        timing.tell(&self.metrics, language);
    }

    async fn execute_proved(
        &self,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
        timing: &mut Timing,
    ) -> Result<RunOutcome, RunError> {
        let network = if request.network {
            self.network.access().map_err(RunError::Network)?
        } else {
            NetworkAccess::None
        };
        if self.proof.now().is_err() {
            if let EngineView::Down(reason) = self.engine() {
                return Ok(self.without_run(request, &Ending::EngineLost(reason)));
            }
            tokio::select! {
                proved = self.proof.wait() => proved?,
                () = cancel.cancelled() => return Ok(self.without_run(request, &Ending::Cancelled)),
            }
        }
        self.files.workspaces.check_storage()?;
        let place = Place {
            network,
            warm: true,
        };
        timing.begin();
        self.execute_timed(place, request, live, cancel, timing)
            .await
    }

    /// The same in a place that was chosen already, without asking whether the sandbox holds: for what finds that out.
    pub(crate) async fn execute_in(
        &self,
        place: Place,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
    ) -> Result<RunOutcome, RunError> {
        self.execute_timed(place, request, live, cancel, &mut Timing::new())
            .await
    }

    async fn execute_timed(
        &self,
        place: Place,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
        timing: &mut Timing,
    ) -> Result<RunOutcome, RunError> {
        let capture = &live.capture;
        let prepared = match self.prepare(place, request) {
            Err(RunError::UnknownLanguage { .. })
                if let EngineView::Down(reason) = self.engine() =>
            {
                return Ok(self.without_run(request, &Ending::EngineLost(reason)));
            }
            prepared => prepared?,
        };
        let active = self.active.enter(&prepared.key);
        // Until the run is over, its files do not expire.
        let _in_use = self.files.workspaces.hold(&prepared.key).await;
        // Ends with this call, or as soon as the conversation is deleted or the server stops.
        let ended = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = active.stop.cancelled() => {}
            }
        };
        tokio::pin!(ended);
        let _permit = tokio::select! {
            permit = self.admission.enter(&prepared.key, |position| live.set_position(position)) => permit?,
            () = &mut ended => return Ok(self.without_run(request, &Ending::Cancelled)),
        };
        timing.end(Phase::Queue);
        live.set_position(0);
        let leased = tokio::select! {
            leased = self.lease(&prepared) => leased,
            () = &mut ended => return Ok(self.without_run(request, &Ending::Cancelled)),
        };
        let (lease, workspace) = match leased {
            Err(LeaseError::Workspace(error)) => return Err(error.into()),
            Err(LeaseError::Sandbox(error)) => {
                return Ok(self.without_run(request, &Ending::EngineLost(chain(&error))));
            }
            Ok(leased) => leased,
        };
        let before = workspace.snapshot().await?;
        let way = lease.way();
        timing.started(way);
        let (ending, wall) = match Allowance::of(&self.files.workspaces, &workspace).await {
            Ok(allowance) => {
                self.run_in_sandbox(lease, &prepared, &workspace, allowance, capture, ended)
                    .await
            }
            Err(reason) => (Ending::DiskFull(reason), Duration::ZERO),
        };
        timing.end(Phase::Run);
        let listing = workspace.changes_since(&before).await?;
        let verdict = ending.explain(&self.limits, prepared.program.deadline, wall);
        log(&prepared, &verdict, way, wall);
        let captured = capture.snapshot();
        let outcome = self.outcome(request, &prepared.key, verdict, &captured, listing, wall);
        timing.end(Phase::Answer);
        Ok(outcome)
    }

    /// Ends the runs of a conversation and deletes its files. Says whether there were any.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn delete_conversation(&self, id: &ConversationId) -> Result<bool, FilesError> {
        let key = id.key(&self.file_secret);
        self.active.stop(&key);
        // One that is about to make its directory would make it again.
        let _ = tokio::time::timeout(STOP_WAIT, self.active.idle(&key)).await;
        self.pool.retire(&key);
        self.files.delete(id).await
    }

    fn prepare(&self, place: Place, request: &RunRequest) -> Result<Prepared, RunError> {
        if request.code.len() > self.limits.code {
            return Err(RunError::CodeTooLarge(request.code.len(), self.limits.code));
        }
        let timeout = request.timeout.unwrap_or(self.limits.timeout);
        if timeout.is_zero() || timeout > self.limits.timeout_max {
            return Err(RunError::Timeout(
                timeout.as_secs_f64(),
                self.limits.timeout_max.as_secs(),
            ));
        }
        let view = self.catalog.view();
        let runner =
            view.find(&request.language)
                .cloned()
                .ok_or_else(|| RunError::UnknownLanguage {
                    language: request.language.chars().take(64).collect(),
                    known: view.runners.keys().cloned().collect(),
                });
        if let (true, Ok(runner)) = (request.stateful, &runner)
            && !runner.kernel
        {
            let with_kernels = view.runners.values().filter(|runner| runner.kernel);
            return Err(RunError::NoKernel {
                language: runner.language.clone(),
                known: with_kernels.map(|each| each.language.clone()).collect(),
            });
        }
        let key = request.conversation.key(&self.file_secret);
        let env = environment::environment(&request.environment, self.files.links.base_for(&key))?;
        let program = Program {
            code: request.code.clone(),
            env,
            deadline: timeout,
        };
        Ok(Prepared {
            runner: runner?,
            program,
            place,
            key,
        })
    }

    /// Runs the program and watches it until it ends or `ended` does. Gives how it ended and how long it took.
    async fn run_in_sandbox(
        &self,
        mut lease: Lease,
        prepared: &Prepared,
        workspace: &Workspace,
        allowance: Allowance,
        capture: &Arc<Capture>,
        ended: Pin<&mut impl Future<Output = ()>>,
    ) -> (Ending, Duration) {
        let started = Instant::now();
        let ending = tokio::select! {
            end = lease.run(&prepared.program, Arc::clone(capture)) => match end {
                Ok(end) => Ending::Reported(end),
                Err(error) => silent(lease.state(), &error).await,
            },
            () = tokio::time::sleep(prepared.program.deadline + REPORT_GRACE) => overdue(lease.state()).await,
            () = capture.flooded() => Ending::Flooded,
            reason = allowance.exceeded(&self.files.workspaces, workspace) => Ending::DiskFull(reason),
            () = ended => Ending::Cancelled,
        };
        let wall = started.elapsed();
        // Any other ending takes the sandbox away.
        if let Ending::Reported(end) = &ending {
            lease.finish(end, workspace);
        }
        (ending, wall)
    }

    /// A sandbox for one run, warm if there is one that fits, and the workspace that it has as `/data`.
    async fn lease(&self, prepared: &Prepared) -> Result<(Lease, Workspace), LeaseError> {
        let Prepared {
            runner,
            key,
            place: Place { network, warm },
            program,
        } = prepared;
        let may_be_warm =
            *warm && *network == NetworkAccess::None && runner.can_be_warm(program.env.keys());
        if may_be_warm && let Some(lease) = self.pool.claim(key, runner).await? {
            let workspace = self.files.workspaces.create(key).await?;
            if lease.fits(&workspace) {
                return Ok((lease, workspace));
            }
        }
        // The directory first, since the container mounts it.
        let workspace = self.files.workspaces.create(key).await?;
        let lease = self
            .pool
            .start_cold(key, runner, network.clone(), may_be_warm)
            .await?;
        Ok((lease, workspace))
    }

    fn outcome(
        &self,
        request: &RunRequest,
        key: &ConversationKey,
        verdict: Verdict,
        captured: &Captured,
        mut listing: Listing,
        wall: Duration,
    ) -> RunOutcome {
        // New ones first, else by name as they were.
        listing.files.sort_by_key(|file| !file.new);
        let files_truncated = listing.truncated.is_some() || listing.files.len() > MAX_LISTED;
        listing.files.truncate(MAX_LISTED);
        RunOutcome {
            success: verdict.status == RunStatus::Ok,
            output: captured.interleaved(),
            stdout: captured.text(Stream::Stdout),
            stderr: captured.text(Stream::Stderr),
            exit_code: verdict.exit_code,
            status: verdict.status,
            hint: verdict.hint,
            duration_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            usage: verdict.usage,
            truncated: Truncated {
                stdout: captured.stdout.dropped,
                stderr: captured.stderr.dropped,
            },
            files: listing
                .files
                .iter()
                .map(|file| link(&self.files.links, key, file))
                .collect(),
            files_truncated,
            conversation_id: request.conversation.as_str().to_owned(),
            // The ledger knows it.
            run_id: String::new(),
        }
    }

    /// The outcome of a run that never began.
    fn without_run(&self, request: &RunRequest, ending: &Ending) -> RunOutcome {
        let verdict = ending.explain(&self.limits, Duration::ZERO, Duration::ZERO);
        let key = request.conversation.key(&self.file_secret);
        self.outcome(
            request,
            &key,
            verdict,
            &Captured::default(),
            Listing::default(),
            Duration::ZERO,
        )
    }

    /// Whether the engine answers, else why not.
    pub fn engine(&self) -> EngineView {
        self.catalog.view().engine.clone()
    }
}

fn log(prepared: &Prepared, verdict: &Verdict, way: Way, wall: Duration) {
    info!(
        run.way = way.as_str(),
        conversation.key = prepared.key.short(),
        run.language = prepared.runner.language,
        run.status = verdict.status.as_str(),
        run.exit_code = verdict.exit_code,
        run.network = prepared.place.network != NetworkAccess::None,
        duration_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        "run ended"
    );
}
