//! The use case of the product: run a program in its conversation's workspace and say how it ended.
//!
//! Enter, open the workspace, lease a sandbox, drive the program, look at the files, explain. Every step hands out a
//! guard, so that a caller that goes away at any point leaves nothing behind.
//!
//! What is known about the end grows along the way: sandbox-init reports [`End`](sandbox_init::End), `Observed` is what
//! was seen of it from outside, and [`Outcome`] what that means, with the output and the files. The edges show their
//! own forms of it.

mod disk;
mod drive;
mod environment;
mod error;
mod excess;
mod explain;
mod hint;
mod listing;
mod observed;
pub mod outcome;
mod prepare;
mod progress;
pub mod render;
mod request;
mod seat;
mod silence;
mod source;
pub mod stage;
pub(crate) mod texts;
mod timing;
pub(crate) mod traceback;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::info;

pub use self::environment::EnvironmentError;
pub(crate) use self::environment::check_environment;
use self::error::NotBegun;
pub use self::error::{RunError, RunErrorKind};
pub(crate) use self::excess::DiskExcess;
use self::explain::Allowed;
pub use self::hint::Hint;
use self::observed::Cause;
pub use self::outcome::Outcome;
use self::outcome::RunStatus;
use self::prepare::PreparedRun;
pub use self::progress::Progress;
pub use self::request::{KernelWish, RunRequest, TimeArgument, time_limit};
use self::seat::Seat;
use self::texts::{FINISH_PERMITS, render_off_thread};
pub use self::timing::Phase;
use self::timing::Timing;
use crate::config::RunLimits;
use crate::executor::Stream;
use crate::executor::spec::NetworkAccess;
use crate::files::ConversationFiles;
use crate::gate::admission::SlowStart;
use crate::gate::{Gate, Stop, Visit, Wants};
use crate::kernels::{KernelTurn, Kernels};
use crate::metrics::{Metrics, UNKNOWN_LANGUAGE};
use crate::pool::{Pool, SandboxSource};
use crate::runner::catalog::EngineView;
use crate::runner::hints::{Advice, Circumstances};
use crate::tally::{CountedRun, Tally};
use crate::workspace::Workspace;

/// Runs programs.
#[derive(Clone, Debug)]
pub struct Runs {
    /// What one run may use.
    pub(crate) limits: Arc<RunLimits>,
    /// The files of all conversations.
    pub(crate) files: ConversationFiles,
    /// What has to hold before a run begins.
    pub(crate) gate: Gate,
    /// Warm and cold sandboxes.
    pub(crate) pool: Pool,
    /// Sandboxes in which variables live on.
    pub(crate) kernels: Kernels,
    /// Where runs are counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Where they are counted by tenant.
    pub(crate) tally: Tally,
}

/// What is to be done in a sandbox.
#[derive(Clone, Copy)]
struct Job<'a> {
    prepared: &'a PreparedRun,
    workspace: &'a Workspace,
    /// Where the output goes, and who watches.
    progress: &'a Progress,
    stop: &'a Stop,
}

impl Runs {
    /// Runs a program to its end, or until `cancel`. `progress` shows its progress.
    ///
    /// # Errors
    /// [`RunError`] when there was no run: the caller made a mistake, or there is no room.
    pub async fn execute(
        &self,
        request: &RunRequest,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let mut timing = Timing::new();
        let wants = Wants::Run(request.asked());
        let ran = self
            .carry_out(wants, request, progress, cancel, &mut timing)
            .await;
        let result = self.answered(ran, progress);
        self.count(request, result.as_ref(), &timing);
        result
    }

    /// Like `execute`, as [`Wants::Check`]: for runs that find out whether the sandbox or the network holds.
    pub(crate) async fn check(
        &self,
        wants: Wants,
        request: &RunRequest,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let mut timing = Timing::new();
        // Boxed, because it is large and such runs are few.
        let ran = Box::pin(self.carry_out(wants, request, progress, cancel, &mut timing)).await;
        self.answered(ran, progress)
    }

    /// Adds a run to the metrics. What the server runs for itself is not counted.
    fn count(&self, request: &RunRequest, result: Result<&Outcome, &RunError>, timing: &Timing) {
        let view = self.gate.catalog.view();
        let language = view
            .find(&request.language)
            .map_or(UNKNOWN_LANGUAGE, |runner| &runner.language);
        let status = match result {
            Ok(outcome) => outcome.status.into_str(),
            Err(error) => error.kind().into_str(),
        };
        let took = result.ok().map(|outcome| outcome.wall);
        self.metrics.count_run(language, status, took);
        let usage = result.ok().map(|outcome| outcome.usage);
        let run = CountedRun {
            language,
            status,
            cpu_ms: usage.and_then(|usage| usage.cpu_ms).unwrap_or_default(),
            wall_ms: usage.map_or(0, |usage| usage.wall_ms),
        };
        self.tally.run(request.conversation.tenant(), run);
        timing.record(&self.metrics, language);
    }

    /// The same of one that was refused before it came here.
    pub(crate) fn count_refused(&self, request: &RunRequest, error: &RunError) {
        self.count(request, Err(error), &Timing::new());
    }

    /// Waits for everything that a run needs, and runs it.
    async fn carry_out(
        &self,
        wants: Wants,
        request: &RunRequest,
        progress: &Progress,
        cancel: &CancellationToken,
        timing: &mut Timing,
    ) -> Result<Outcome, NotBegun> {
        let visit = Visit {
            conversation: &request.conversation,
            wants: wants.clone(),
            cancel,
        };
        let mut entered = self.gate.enter(visit).await?;
        let mut prepared = self.prepared(&wants, request)?;
        prepared.set_network(&entered.network);
        timing.begin();
        let turn = if request.stateful {
            let turn = self.await_turn(&prepared, request.kernel, progress);
            // Boxed, because it is large and few runs need it.
            Some(entered.stop.unless(Box::pin(turn)).await?)
        } else {
            None
        };
        let start = self.start(&prepared, turn.as_ref());
        let report = |position| progress.wait_at(position);
        entered.admit(start, report).await?;
        prepared.set_network(&entered.network);
        timing.end(Phase::Queue);
        progress.set_starting();
        let seat = async { Ok::<_, NotBegun>(self.seat(&prepared, turn).await?) };
        let slow = entered.take_slow_start();
        let seat = Box::pin(entered.stop.unless(seat));
        let (seated, slow) = SlowStart::during(slow, seat).await;
        let (mut seat, workspace) = seated?;
        // Boxed, because it is large and few runs need it.
        let opened = Box::pin(seat.open_network(&prepared.network));
        let opened = async { Ok::<_, NotBegun>(opened.await?) };
        let traffic = entered.stop.unless(opened).await?;
        let job = Job {
            prepared: &prepared,
            workspace: &workspace,
            progress,
            stop: &entered.stop,
        };
        let slow = slow.filter(|_| !seat.is_loaded());
        let ran = Box::pin(self.run_seated(seat, job, timing));
        let (mut ran, _) = SlowStart::during(slow, ran).await;
        if let (Ok(outcome), Some((list, traffic))) = (&mut ran, traffic) {
            let report = traffic.report();
            self.metrics.count_traffic(&report);
            outcome.add_network(report, &list);
        }
        ran
    }

    /// What is asked for. Without an engine, no language is known.
    fn prepared(&self, wants: &Wants, request: &RunRequest) -> Result<PreparedRun, NotBegun> {
        match self.prepare(wants, request) {
            Err(RunError::UnknownLanguage { .. })
                if let EngineView::Down(outage) = self.gate.catalog.engine() =>
            {
                Err(Cause::EngineLost(outage).into())
            }
            prepared => Ok(prepared?),
        }
    }

    async fn await_turn(
        &self,
        prepared: &PreparedRun,
        kernel: KernelWish,
        progress: &Progress,
    ) -> Result<KernelTurn, NotBegun> {
        let turn = self.turn(prepared, kernel, || progress.wait_for_kernel());
        let turn = turn.await?;
        progress.set_entering();
        Ok(turn)
    }

    /// The answer for the caller.
    fn answered(
        &self,
        ran: Result<Outcome, NotBegun>,
        progress: &Progress,
    ) -> Result<Outcome, RunError> {
        ran.or_else(|not_begun| match not_begun {
            NotBegun::Ended(cause) => {
                Ok(cause.explain_not_begun(&self.limits, progress.capture.snapshot()))
            }
            NotBegun::Refused(error) => Err(error),
        })
    }

    /// Runs a program in its place and lists the files that it made.
    async fn run_seated(
        &self,
        mut seat: Seat,
        job: Job<'_>,
        timing: &mut Timing,
    ) -> Result<Outcome, NotBegun> {
        let Job {
            prepared,
            workspace,
            progress,
            stop,
        } = job;
        let survey = async { Ok::<_, NotBegun>(workspace.survey().await?) };
        let before = stop.unless(survey).await?;
        let (way, lost_kernel) = (seat.source(), seat.take_lost());
        timing.started(way);
        let observed = self.drive(seat, job, before.usage).await;
        timing.end(Phase::Run);
        let has_ended = observed.report.is_some();
        let listing = workspace.changes_since(&before, has_ended).await;
        progress.capture.finish();
        let allowed = Allowed {
            limits: &self.limits,
            time: prepared.time,
        };
        let mut outcome = observed.explain(allowed, progress.capture.snapshot());
        outcome.lost_kernel = lost_kernel;
        log(prepared, &outcome, way);
        outcome.hint.advice = advice(&outcome, prepared).await;
        outcome.list(&self.files.links, prepared.conversation.key(), listing);
        timing.end(Phase::Answer);
        Ok(outcome)
    }
}

/// What the runner's image says about what the program printed to standard error.
async fn advice(outcome: &Outcome, prepared: &PreparedRun) -> Option<Advice> {
    let (RunStatus::Ok | RunStatus::Error) = outcome.status else {
        return None;
    };
    if outcome.captured.stderr.kept == 0 {
        return None;
    }
    let run = Circumstances {
        failed: outcome.status == RunStatus::Error,
        network: prepared.network != NetworkAccess::None,
        stateful: prepared.stateful,
        stdin: prepared.program.stdin.is_some(),
    };
    let hints = prepared.runner.hints.clone();
    let printed = || outcome.captured.clone();
    render_off_thread(&FINISH_PERMITS, printed, move |captured| {
        hints.about(run, &captured.text(Stream::Stderr))
    })
    .await
}

fn log(prepared: &PreparedRun, outcome: &Outcome, way: SandboxSource) {
    info!(
        run.way = way.into_str(),
        conversation.key = prepared.conversation.key().short(),
        run.language = prepared.runner.language,
        run.status = outcome.status.into_str(),
        run.exit_code = outcome.exit_code,
        run.network = prepared.network != NetworkAccess::None,
        duration_ms = outcome::milliseconds(outcome.wall),
        "run ended"
    );
}
