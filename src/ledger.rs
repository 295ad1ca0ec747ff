//! Runs that outlive the call that started them.
//!
//! Every run of a client lives on a task of its own and in the ledger, under an id that only its caller can use. The
//! call waits for it as long as clients wait, then lets it go on. Its outcome stays readable for a while after its end:
//! a client that lost its connection, or its patience, asks again, and the program has still run only once.

mod cell;
mod entries;
mod output;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

pub use self::cell::{CellEvent, CellEvents, CellFailure};
use self::entries::Entries;
pub use self::output::{Fed, OutputFeed};
use crate::audit::{Audit, By, Event, Origin, Program, kept};
use crate::conversation::Conversation;
use crate::principal::Principal;
use crate::run::outcome::{Rendered, RunResult, RunStatus};
use crate::run::stage::Stage;
use crate::run::texts::{FINISH_PERMITS, Texts, render_off_thread};
use crate::run::{Outcome, Progress, RunError, RunRequest, Runs};

/// How long the outcome of a run can be read after its end.
pub const KEPT: Duration = Duration::from_mins(10);

/// What ids of runs begin with, before 32 hexadecimal digits.
const PREFIX: &str = "run_";

/// All runs that clients can ask for.
#[derive(Clone, Debug)]
pub struct Ledger {
    runs: Runs,
    tasks: TaskTracker,
    entries: Arc<Mutex<Entries>>,
    audit: Audit,
}

/// A run in progress or finished.
#[derive(Debug)]
pub struct RunHandle {
    /// What clients call it.
    pub id: String,
    /// Whose it is.
    pub owner: Principal,
    /// Whose files it sees.
    pub conversation: Conversation,
    /// The language of its program, as its caller wrote it, shortened.
    pub language: String,
    /// When it was asked for.
    pub created: SystemTime,
    /// Its progress.
    pub progress: Progress,
    /// The time limit that it runs under.
    pub timeout: Duration,
    /// Characters of output in one answer.
    pub output_for_model: usize,
    started: Instant,
    ended: OnceLock<SystemTime>,
    stop: CancellationToken,
}

impl Ledger {
    /// An empty ledger. Runs live on `tasks`.
    pub fn new(runs: Runs, tasks: TaskTracker, audit: Audit) -> Self {
        Self {
            runs,
            tasks,
            entries: Arc::default(),
            audit,
        }
    }

    /// Starts a run that ends by itself, by [`RunHandle::cancel`] or when the server stops, whether or not anybody
    /// waits for it.
    pub fn start(&self, origin: Origin, request: RunRequest) -> Arc<RunHandle> {
        let run = self.planned(new_id(), &origin, &request);
        // Nobody has made up an id of 128 random bits before.
        self.entries.lock().begin(Arc::clone(&run));
        self.launch(&run, origin, request);
        run
    }

    /// The same under an id that its caller has made up, unless the caller has a run of that id: whoever sends the same
    /// request again starts nothing.
    pub fn start_as(
        &self,
        id: String,
        origin: Origin,
        request: RunRequest,
    ) -> Option<Arc<RunHandle>> {
        let run = self.planned(id, &origin, &request);
        if !self.entries.lock().begin(Arc::clone(&run)) {
            return None;
        }
        self.launch(&run, origin, request);
        Some(run)
    }

    fn planned(&self, id: String, origin: &Origin, request: &RunRequest) -> Arc<RunHandle> {
        Arc::new(RunHandle {
            id,
            owner: origin.caller.clone(),
            conversation: request.conversation.clone(),
            language: kept(&request.language),
            created: SystemTime::now(),
            progress: Progress::new(self.runs.limits.output),
            timeout: request.timeout.unwrap_or(self.runs.limits.timeout),
            output_for_model: self.runs.limits.output_for_model,
            started: Instant::now(),
            ended: OnceLock::new(),
            stop: CancellationToken::new(),
        })
    }

    fn launch(&self, run: &Arc<RunHandle>, origin: Origin, mut request: RunRequest) {
        let grants = &self.runs.gate.grants;
        request.granted = grants.allowed(&origin.caller, request.conversation.key());
        let (ledger, handle) = (self.clone(), Arc::clone(run));
        self.tasks.spawn(async move {
            let execute = async {
                let start = || handle.start_event(&origin, &request);
                if let Err(unavailable) = ledger.audit.before(start).await {
                    let refused = unavailable.into();
                    ledger.runs.count_refused(&request, &refused);
                    return Err(refused);
                }
                // Boxed, because it is large.
                let execute = Box::pin(ledger.runs.execute(
                    &request,
                    &handle.progress,
                    &handle.stop,
                ));
                Ok(handle.render(execute.await?).await)
            };
            let result = AssertUnwindSafe(execute).catch_unwind().await;
            let result = result.unwrap_or_else(|_panic| {
                error!("a run panicked");
                Err(RunError::Panicked)
            });
            ledger
                .audit
                .record(|| handle.end_event(&origin, &request, &result));
            let bytes = handle.finish(result);
            ledger.entries.lock().end(&handle, bytes);
        });
    }

    /// Ends some of the runs under way.
    pub(crate) fn end_those(&self, is_meant: impl Fn(&RunHandle) -> bool) {
        let entries = self.entries.lock();
        for run in entries.under_way().filter(|run| is_meant(run)) {
            run.cancel();
        }
    }

    /// A caller's run by its id.
    pub fn find(&self, owner: &Principal, id: &str) -> Option<Arc<RunHandle>> {
        let mut entries = self.entries.lock();
        entries.get(owner, id).cloned()
    }

    /// All runs that have not ended, of all callers.
    pub fn under_way(&self) -> Vec<Arc<RunHandle>> {
        self.entries.lock().under_way().cloned().collect()
    }

    /// The same, with those that have ended and are still remembered.
    pub fn all(&self) -> Vec<Arc<RunHandle>> {
        self.entries.lock().iter().cloned().collect()
    }

    /// The latest run of a caller's conversation, for a client that never learned its id. A refused call does not count
    /// as a run.
    pub fn latest(&self, owner: &Principal, conversation: &Conversation) -> Option<Arc<RunHandle>> {
        let mut entries = self.entries.lock();
        let refused = |run: &RunHandle| run.result().is_some_and(|result| result.is_err());
        let theirs = entries.iter().filter(|run| {
            run.owner == *owner && run.conversation == *conversation && !refused(run)
        });
        theirs.max_by_key(|run| run.started).cloned()
    }
}

/// What is recorded of a program.
fn program(request: &RunRequest) -> Program {
    let RunRequest {
        conversation,
        language,
        code,
        network,
        ..
    } = request;
    Program::of(conversation, language, code, *network)
}

fn new_id() -> String {
    format!("{PREFIX}{}", hex::encode(rand::random::<[u8; 16]>()))
}

/// Whether a text is like the ids that runs have.
pub fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.len() == 32 && digits.bytes().all(is_digit)
}

impl RunHandle {
    /// Its result, when it has ended.
    pub async fn ended(&self) -> RunResult {
        let mut stages = self.progress.stage.subscribe();
        let ended = stages.wait_for(|stage| stage.result().is_some()).await;
        // The sender is in `self`.
        let result = ended.ok().and_then(|stage| stage.result().cloned());
        result.unwrap_or_else(|| Arc::new(Err(RunError::Panicked)))
    }

    /// Its result, if it has ended.
    pub fn result(&self) -> Option<RunResult> {
        self.progress.stage.borrow().result().cloned()
    }

    /// Ends it early. A run that has already ended stays as it is. Returns whether it was still to end.
    pub fn cancel(&self) -> bool {
        // Holds the read lock, so the run cannot finish between check and cancel.
        let stage = self.progress.stage.borrow();
        let is_under_way = stage.result().is_none();
        if is_under_way {
            self.stop.cancel();
        }
        is_under_way
    }

    /// Ends it unless the guard is disarmed: for a call that may be dropped.
    pub fn cancel_on_drop(&self) -> tokio_util::sync::DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Whether it ended because somebody asked for that, and not by itself before.
    pub fn was_cancelled(&self) -> bool {
        let is_stopped = |result: &RunResult| match result.as_ref() {
            Ok(rendered) => rendered.outcome.status == RunStatus::Cancelled,
            Err(_) => true,
        };
        self.stop.is_cancelled() && self.result().as_ref().is_some_and(is_stopped)
    }

    fn start_event(&self, origin: &Origin, request: &RunRequest) -> Event {
        Event::RunStarted {
            run: self.id.clone(),
            by: By::of(origin),
            program: program(request),
        }
    }

    fn end_event(
        &self,
        origin: &Origin,
        request: &RunRequest,
        result: &Result<Rendered, RunError>,
    ) -> Event {
        let outcome = result.as_ref().map(|rendered| &rendered.outcome);
        let usage = outcome.ok().map(|outcome| outcome.usage);
        Event::RunEnded {
            run: self.id.clone(),
            by: By::of(origin),
            program: program(request),
            status: outcome.map_or_else(
                |error| error.kind().into_str(),
                |outcome| outcome.status.into_str(),
            ),
            cpu_ms: usage.and_then(|usage| usage.cpu_ms),
            wall_ms: usage.map(|usage| usage.wall_ms),
            reached: outcome.ok().and_then(|outcome| outcome.network.clone()),
        }
    }

    /// When it ended, if it has.
    pub fn ended_at(&self) -> Option<SystemTime> {
        self.ended.get().copied()
    }

    /// Hands the result to all who wait, and returns how many bytes are kept.
    fn finish(&self, result: Result<Rendered, RunError>) -> usize {
        let _ = self.ended.set(SystemTime::now());
        let rendered = result.as_ref().map_or(0, Rendered::size);
        self.progress
            .stage
            .send_replace(Stage::Ended(Arc::new(result)));
        self.progress.capture.snapshot().size() + rendered
    }

    /// Makes the texts of its outcome.
    async fn render(&self, outcome: Outcome) -> Rendered {
        let (max_chars, id) = (self.output_for_model, self.id.clone());
        let printed = || outcome.captured.clone();
        let texts = render_off_thread(&FINISH_PERMITS, printed, move |captured| {
            Texts::of(captured, max_chars, &id)
        });
        Rendered {
            texts: texts.await,
            outcome,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::executor::Stream;
    use crate::links::FileLink;

    /// A run that has just begun.
    pub(crate) fn run_handle(id: &str) -> Arc<RunHandle> {
        Arc::new(RunHandle {
            id: id.to_owned(),
            owner: Principal::local(),
            conversation: Conversation::new(
                Principal::local().tenant().clone(),
                crate::conversation::ConversationId::mint(),
                &"0123456789abcdef0123456789abcdef".into(),
            ),
            language: "shell".to_owned(),
            created: SystemTime::now(),
            progress: Progress::new(1 << 20),
            timeout: Duration::ZERO,
            output_for_model: 30_000,
            started: Instant::now(),
            ended: OnceLock::new(),
            stop: CancellationToken::new(),
        })
    }

    #[tokio::test]
    async fn all_that_is_kept_of_a_run_is_counted() {
        let run = run_handle("run");
        for _ in 0..1000 {
            run.progress.capture.push(Stream::Stdout, b"o");
            run.progress.capture.push(Stream::Stderr, b"e");
        }
        let mut outcome = Outcome::ok(run.progress.capture.snapshot());
        outcome.files.push(FileLink {
            name: "n".repeat(500),
            url: "u".repeat(700),
            size: 0,
            mime_type: "m".repeat(10),
            new: true,
        });
        let rendered = run.render(outcome).await;
        let captured = run.progress.capture.snapshot().size();
        assert!(captured > 2000, "{captured}");
        // `output` has everything once more, and so do the two streams together.
        let texts = 2000 + 2000;
        assert_eq!(run.finish(Ok(rendered)), captured + texts + 500 + 700 + 10);
    }
}
