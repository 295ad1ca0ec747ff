//! The use case of the product: run a program in its conversation's workspace and say how it ended.
//!
//! Admit, open the workspace, lease a sandbox, execute, look at the files, explain. Every step hands out a guard, so
//! that a caller that goes away at any point leaves nothing behind.
//!
//! What is known about the end grows along the way: sandbox-init reports `End`, `Watched` whether that came in time,
//! `Ending` what caused it, `Ran` how long it took and what became of a kernel, `Verdict` explains it, `Finished` adds
//! output and files, `RunOutcome` is what clients see.

mod disk;
mod ending;
mod environment;
mod error;
pub mod ledger;
mod live;
pub mod outcome;
pub mod render;
mod request;
mod seat;
mod silence;
mod source;
mod stateful;
mod texts;
mod timing;
pub(crate) mod traceback;
mod uploads;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::ending::size_as_set;
use self::ending::{Ending, TimeLimit, Verdict};
pub use self::environment::EnvironmentError;
use self::error::NotBegun;
pub use self::error::RunError;
pub use self::live::Live;
pub(crate) use self::outcome::Finished;
use self::outcome::RunStatus;
pub use self::request::{KernelWish, RunRequest, TimeArgument, time_limit};
use self::seat::Seat;
use self::texts::{ENDS, gone_through};
pub use self::timing::Phase;
use self::timing::Timing;
use crate::config::RunLimits;
use crate::conversation::{ConversationId, ConversationKey};
use crate::executor::Stream;
use crate::executor::spec::NetworkAccess;
use crate::files::{ConversationFiles, FilesError, fitting, link};
use crate::gate::{Gate, Stop, Visit, Wants};
use crate::kernels::{Kernels, Lost};
use crate::metrics::{Metrics, UNKNOWN_LANGUAGE};
use crate::pool::{Pool, Way};
use crate::runner::Runner;
use crate::runner::catalog::EngineView;
use crate::runner::hints::Circumstances;
use crate::sandbox::{Capture, Launcher, Program};
use crate::workspace::{Listing, Workspace, WorkspaceError};

/// How long sandbox-init may take to report: after a time limit, before the engine is asked what became of the sandbox,
/// and after we interrupt.
const REPORT_GRACE: Duration = Duration::from_secs(1);
/// How long after the time limit the ending is decided, from whatever is known by then: the answer is due half a second
/// later, and the files have to be listed first.
const DECISION: Duration = Duration::from_millis(2_500);
/// How long the runs of a conversation that is being deleted may take to end.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// The most files that an answer lists, of those that the run made or changed and of others; `list_files` gives the
/// rest.
const MAX_NEW: usize = 100;
const MAX_OTHER: usize = 12;
/// Used when the files could not be listed after a run.
const UNSEEN: &str =
    "The server failed to look at the files after the run: list_files tells what there is.";

/// Runs programs.
#[derive(Clone, Debug)]
pub struct Runs {
    /// What one run may use.
    pub limits: RunLimits,
    /// The files of all conversations.
    pub files: ConversationFiles,
    /// What has to hold before a run begins.
    pub gate: Gate,
    /// Warm and cold sandboxes.
    pub pool: Pool,
    /// Sandboxes in which variables live on.
    pub kernels: Kernels,
    /// Starts and removes sandboxes.
    pub launcher: Launcher,
    /// Where runs are counted.
    pub metrics: Arc<Metrics>,
}

/// A request that passed every check, with what it needs.
struct Prepared {
    runner: Arc<Runner>,
    program: Program,
    /// What it may reach.
    network: NetworkAccess,
    /// Whether it may use a sandbox that already exists, and leave it for the next run.
    may_be_warm: bool,
    key: ConversationKey,
    /// Whether it runs in a kernel.
    stateful: bool,
}

/// What is to be done in a sandbox.
#[derive(Clone, Copy)]
struct Job<'a> {
    prepared: &'a Prepared,
    workspace: &'a Workspace,
    /// Where the output goes.
    capture: &'a Arc<Capture>,
    stop: &'a Stop,
}

impl Runs {
    /// Runs a program to its end, or until `cancel`. `live` shows its progress.
    ///
    /// # Errors
    /// [`RunError`] when there was no run: the caller made a mistake, or there is no room.
    pub async fn execute(
        &self,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
    ) -> Result<Finished, RunError> {
        let mut timing = Timing::new();
        let wants = Wants::Run {
            network: request.network,
        };
        let ran = self
            .carry_out(wants, request, live, cancel, &mut timing)
            .await;
        let result = self.answered(ran, live);
        self.count(&request.language, &result, &timing);
        result
    }

    /// Like `execute`, as [`Wants::Check`]: for runs that find out whether the sandbox or the network holds.
    pub(crate) async fn check(
        &self,
        wants: Wants,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
    ) -> Result<Finished, RunError> {
        let mut timing = Timing::new();
        // Boxed, because it is large and such runs are few.
        let ran = Box::pin(self.carry_out(wants, request, live, cancel, &mut timing)).await;
        self.answered(ran, live)
    }

    /// Adds a run to the metrics. What the server runs for itself is not counted.
    fn count(&self, language: &str, result: &Result<Finished, RunError>, timing: &Timing) {
        let view = self.gate.catalog.view();
        let language = view
            .find(language)
            .map_or(UNKNOWN_LANGUAGE, |runner| &runner.language);
        let status = match result {
            Ok(finished) => finished.verdict.status.into_str(),
            Err(error) => error.as_str(),
        };
        debug_assert!(
            RunStatus::ENDED.contains(&status) || RunError::WORDS.contains(&status),
            "{status} is not expected by the metrics"
        );
        let took = result.as_ref().ok().map(|finished| finished.wall);
        self.metrics.count_run(language, status, took);
        timing.tell(&self.metrics, language);
    }

    /// Waits for everything that a run needs, and runs it.
    async fn carry_out(
        &self,
        wants: Wants,
        request: &RunRequest,
        live: &Live,
        cancel: &CancellationToken,
        timing: &mut Timing,
    ) -> Result<Finished, NotBegun> {
        let key = self.files.key(&request.conversation);
        let may_be_warm = match wants {
            Wants::Check { may_be_warm, .. } => may_be_warm,
            Wants::Run { .. } | Wants::Install => true,
        };
        let visit = Visit {
            key: &key,
            wants,
            cancel,
        };
        let mut entered = self.gate.enter(visit).await?;
        let network = entered.network.clone();
        let mut prepared = match self.prepare(network, may_be_warm, key, request) {
            Err(RunError::UnknownLanguage { .. })
                if let EngineView::Down(outage) = self.engine() =>
            {
                return Err(Ending::EngineLost(outage).into());
            }
            prepared => prepared?,
        };
        timing.begin();
        let turn = if request.stateful {
            let turn = async { Ok::<_, NotBegun>(self.turn(&prepared, request.kernel).await?) };
            // Boxed, because it is large and few runs need it.
            Some(entered.stop.unless(Box::pin(turn)).await?)
        } else {
            None
        };
        entered
            .admit(|position| live.set_position(position))
            .await?;
        prepared.network = entered.network.clone();
        timing.end(Phase::Queue);
        live.set_position(0);
        let seat = async { Ok::<_, NotBegun>(self.seat(&prepared, turn).await?) };
        let (seat, workspace) = entered.stop.unless(seat).await?;
        let job = Job {
            prepared: &prepared,
            workspace: &workspace,
            capture: &live.capture,
            stop: &entered.stop,
        };
        let time = TimeLimit {
            length: prepared.program.deadline,
            argument: request.time_argument,
        };
        Ok(self.run_seated(seat, job, &time, timing).await?)
    }

    /// The answer for the caller.
    fn answered(&self, ran: Result<Finished, NotBegun>, live: &Live) -> Result<Finished, RunError> {
        match ran {
            Ok(finished) => Ok(finished),
            Err(NotBegun::Ended(ending)) => {
                let time = TimeLimit {
                    length: Duration::ZERO,
                    argument: None,
                };
                let verdict = ending.explain(&self.limits, &time, Duration::ZERO);
                let nothing = live.capture.snapshot();
                Ok(Finished::bare(verdict, Duration::ZERO, nothing))
            }
            Err(NotBegun::Refused(error)) => Err(error),
        }
    }

    /// Runs a program in its place and lists the files that it made.
    async fn run_seated(
        &self,
        mut seat: Seat,
        job: Job<'_>,
        time: &TimeLimit,
        timing: &mut Timing,
    ) -> Result<Finished, RunError> {
        let Job {
            prepared,
            workspace,
            capture,
            ..
        } = job;
        let before = workspace.snapshot().await?;
        let (way, lost) = (seat.way(), seat.take_lost());
        timing.started(way);
        let ran = self.run_in(seat, job).await;
        timing.end(Phase::Run);
        let listing = workspace.changes_since(&before).await;
        capture.finish();
        let verdict = ran.explain(&self.limits, time);
        log(prepared, &verdict, way, ran.wall);
        let mut finished = Finished::bare(verdict, ran.wall, capture.snapshot());
        finished.lost = lost;
        read_stderr(&mut finished, prepared).await;
        self.list(&mut finished, &prepared.key, listing);
        timing.end(Phase::Answer);
        Ok(finished)
    }

    /// Adds the files that exist after a run. If they could not be listed, the program has run all the same.
    fn list(
        &self,
        finished: &mut Finished,
        key: &ConversationKey,
        listing: Result<Listing, WorkspaceError>,
    ) {
        let mut listing = listing.unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            warn!(
                conversation.key = key.short(),
                error, "did not see the files after a run"
            );
            finished.verdict.add_hint(Some(UNSEEN.to_owned()));
            Listing {
                truncated: Some(UNSEEN.to_owned()),
                ..Listing::default()
            }
        });
        // New files first; otherwise by name, as they were.
        listing.files.sort_by_key(|file| !file.new);
        let new = listing.files.iter().filter(|file| file.new).count();
        // Others only if no new one is left out.
        let most = if new > MAX_NEW {
            MAX_NEW
        } else {
            new + MAX_OTHER
        };
        let files = listing.files.iter().take(most);
        let mut files: Vec<_> = files
            .map(|file| link(&self.files.links, key, file))
            .collect();
        files.truncate(fitting(&files));
        finished.files_left_out = listing.files.len() - files.len();
        finished.files_truncated = listing.truncated.is_some() || finished.files_left_out > 0;
        finished.files = files;
    }

    /// Ends the runs of a conversation and deletes its files. Returns whether there were any.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn delete_conversation(&self, id: &ConversationId) -> Result<bool, FilesError> {
        let key = self.files.key(id);
        self.kernels.retire(&key, Lost::Deleted);
        self.gate.active.stop(&key);
        // A run that is about to create its directory would create it again.
        let _ = tokio::time::timeout(STOP_WAIT, self.gate.active.idle(&key)).await;
        self.pool.retire(&key);
        self.files.delete(id).await
    }

    fn prepare(
        &self,
        network: NetworkAccess,
        may_be_warm: bool,
        key: ConversationKey,
        request: &RunRequest,
    ) -> Result<Prepared, RunError> {
        if request.code.len() > self.limits.code {
            return Err(RunError::CodeTooLarge(request.code.len(), self.limits.code));
        }
        let timeout = request.timeout.unwrap_or(self.limits.timeout);
        if timeout.is_zero() || timeout > self.limits.timeout_max {
            let most = self.limits.timeout_max.as_secs_f64();
            return Err(RunError::Timeout(timeout.as_secs_f64(), most));
        }
        let view = self.gate.catalog.view();
        let runner =
            view.find(&request.language)
                .cloned()
                .ok_or_else(|| RunError::UnknownLanguage {
                    language: request.language.chars().take(64).collect(),
                    known: view.runners.keys().cloned().collect(),
                });
        if let (true, Ok(runner)) = (request.stateful, &runner)
            && !self.kernels.are_for(runner)
        {
            let runners = view.runners.values();
            let with_kernels = runners.filter(|runner| self.kernels.are_for(runner));
            return Err(RunError::NoKernel {
                language: runner.language.clone(),
                known: with_kernels.map(|each| each.language.clone()).collect(),
            });
        }
        let env = environment::environment(&request.environment, self.files.links.base_for(&key))?;
        let runner = runner?;
        let program = Program {
            code: source::program(&request.code, &runner, &view)?,
            stdin: source::stdin(request, &runner)?,
            env,
            deadline: timeout,
        };
        Ok(Prepared {
            runner,
            program,
            network,
            may_be_warm,
            key,
            stateful: request.stateful,
        })
    }

    /// Whether the engine answers, and if not, why.
    pub fn engine(&self) -> EngineView {
        self.gate.catalog.view().engine.clone()
    }
}

/// Adds to the hint what standard error shows, which may be that it is empty.
async fn read_stderr(finished: &mut Finished, prepared: &Prepared) {
    let Finished {
        verdict, captured, ..
    } = finished;
    if captured.stderr.kept == 0 {
        verdict.hint = verdict.hint.as_deref().map(ending::nothing_to_see);
    } else if let RunStatus::Ok | RunStatus::Error = verdict.status {
        let run = Circumstances {
            failed: verdict.status == RunStatus::Error,
            network: prepared.network != NetworkAccess::None,
            stateful: prepared.stateful,
            stdin: prepared.program.stdin.is_some(),
        };
        let hints = prepared.runner.hints.clone();
        let printed = || captured.clone();
        let hint = gone_through(&ENDS, printed, move |captured| {
            hints.about(run, &captured.text(Stream::Stderr))
        });
        verdict.add_hint(hint.await);
    }
}

fn log(prepared: &Prepared, verdict: &Verdict, way: Way, wall: Duration) {
    info!(
        run.way = way.into_str(),
        conversation.key = prepared.key.short(),
        run.language = prepared.runner.language,
        run.status = verdict.status.into_str(),
        run.exit_code = verdict.exit_code,
        run.network = prepared.network != NetworkAccess::None,
        duration_ms = outcome::milliseconds(wall),
        "run ended"
    );
}
