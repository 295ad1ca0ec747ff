//! Runs that outlive the call that started them.
//!
//! Every run of a client lives on a task of its own and in the ledger, under an id that only its caller can use. The
//! call waits for it as long as clients wait, then lets it go on. What came of it stays readable for a while after
//! its end: a client that lost its connection, or its patience, asks again and the program has still run once.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::ending;
use super::outcome::{RunOutcome, RunStatus, Truncated, Usage};
use super::texts::{Texts, apart};
use super::{Live, RunError, RunRequest, Runs};
use crate::conversation::ConversationId;
use crate::principal::Principal;
use crate::sandbox::Captured;

/// How long the outcome of a run can be read after its end.
pub const KEPT: Duration = Duration::from_mins(10);
/// Finished runs kept at most, and their output in bytes: the oldest go first.
const MAX_FINISHED: usize = 20_000;
const MAX_BYTES: usize = 256 << 20;

/// How a run ended.
pub type RunResult = Arc<Result<RunOutcome, RunError>>;

/// All runs that clients can ask for.
#[derive(Clone, Debug)]
pub struct Ledger {
    runs: Runs,
    tasks: TaskTracker,
    entries: Arc<Mutex<HashMap<String, Arc<LiveRun>>>>,
}

/// A run in progress or finished.
#[derive(Debug)]
pub struct LiveRun {
    /// What clients call it.
    pub id: String,
    /// Whose it is.
    pub owner: Principal,
    /// Whose files it sees.
    pub conversation: ConversationId,
    /// When it was asked for.
    pub created: SystemTime,
    /// How it fares.
    pub live: Live,
    /// The time limit that it runs under.
    pub timeout: Duration,
    started: Instant,
    output_for_model: usize,
    stop: CancellationToken,
    end: watch::Sender<Option<End>>,
}

#[derive(Clone, Debug)]
struct End {
    at: Instant,
    bytes: usize,
    result: RunResult,
}

impl Ledger {
    /// An empty ledger. Runs live on `tasks`.
    pub fn new(runs: Runs, tasks: TaskTracker) -> Self {
        Self {
            runs,
            tasks,
            entries: Arc::default(),
        }
    }

    /// Starts a run that ends by itself, by [`LiveRun::cancel`] or when the server stops, whoever waits for it.
    pub fn start(&self, owner: Principal, request: RunRequest) -> Arc<LiveRun> {
        let run = Arc::new(LiveRun {
            id: format!("run_{}", hex::encode(rand::random::<[u8; 16]>())),
            owner,
            conversation: request.conversation.clone(),
            created: SystemTime::now(),
            live: Live::new(self.runs.limits.output),
            timeout: request.timeout.unwrap_or(self.runs.limits.timeout),
            started: Instant::now(),
            output_for_model: self.runs.limits.output_for_model,
            stop: CancellationToken::new(),
            end: watch::Sender::new(None),
        });
        let mut entries = self.lock();
        forget(&mut entries);
        entries.insert(run.id.clone(), Arc::clone(&run));
        drop(entries);
        let (runs, live) = (self.runs.clone(), Arc::clone(&run));
        self.tasks.spawn(async move {
            let execute = runs.execute(&request, &live.live, &live.stop);
            let result = AssertUnwindSafe(execute).catch_unwind().await;
            live.finish(result.unwrap_or_else(|_panic| {
                error!("a run panicked");
                Err(RunError::Broken)
            }));
        });
        run
    }

    /// A caller's run by its id.
    pub fn find(&self, owner: &Principal, id: &str) -> Option<Arc<LiveRun>> {
        let mut entries = self.lock();
        forget(&mut entries);
        entries.get(id).filter(|run| run.owner == *owner).cloned()
    }

    /// The latest run of a caller's conversation, for a client that never learned its id. A call that was refused is
    /// no run.
    pub fn latest(&self, owner: &Principal, conversation: &ConversationId) -> Option<Arc<LiveRun>> {
        let mut entries = self.lock();
        forget(&mut entries);
        let refused = |run: &LiveRun| run.result().is_some_and(|result| result.is_err());
        let theirs = entries.values().filter(|run| {
            run.owner == *owner && run.conversation == *conversation && !refused(run)
        });
        theirs.max_by_key(|run| run.started).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of runs that ended too long ago, and of the oldest when there are too many.
fn forget(entries: &mut HashMap<String, Arc<LiveRun>>) {
    let now = Instant::now();
    let (mut count, mut bytes) = (0, 0);
    entries.retain(|_, run| {
        let end = run.end.borrow();
        let Some(end) = end.as_ref() else {
            return true;
        };
        let keep = now.duration_since(end.at) < KEPT;
        if keep {
            (count, bytes) = (count + 1, bytes + end.bytes);
        }
        keep
    });
    if count <= MAX_FINISHED && bytes <= MAX_BYTES {
        return;
    }
    let mut finished: Vec<_> = entries
        .values()
        .filter_map(|run| {
            let end = run.end.borrow();
            end.as_ref().map(|end| (end.at, end.bytes, run.id.clone()))
        })
        .collect();
    finished.sort();
    // Down to nine tenths, so that this is not done for every run.
    let enough =
        |count: usize, bytes: usize| count <= MAX_FINISHED / 10 * 9 && bytes <= MAX_BYTES / 10 * 9;
    for (_, size, id) in finished {
        if enough(count, bytes) {
            break;
        }
        entries.remove(&id);
        (count, bytes) = (count.saturating_sub(1), bytes.saturating_sub(size));
    }
}

impl LiveRun {
    /// Its result, when it has ended.
    pub async fn ended(&self) -> RunResult {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(end)) => Arc::clone(&end.result),
            // The sender is in `self`.
            _ => Arc::new(Err(RunError::Broken)),
        }
    }

    /// Its result, if it has ended.
    pub fn result(&self) -> Option<RunResult> {
        self.end
            .borrow()
            .as_ref()
            .map(|end| Arc::clone(&end.result))
    }

    /// Ends it before its time.
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// Ends it unless the guard is disarmed: for a call that may be dropped.
    pub fn cancel_on_drop(&self) -> tokio_util::sync::DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Whether it ended because somebody asked for that, and not by itself before.
    pub fn was_cancelled(&self) -> bool {
        let is_stopped = |result: &RunResult| match result.as_ref() {
            Ok(outcome) => outcome.status == RunStatus::Cancelled,
            Err(_) => true,
        };
        self.stop.is_cancelled() && self.result().as_ref().is_some_and(is_stopped)
    }

    /// How it stands: the outcome so far, with `status` `running`.
    pub fn so_far(&self) -> RunOutcome {
        let captured = self.live.capture.snapshot();
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut outcome = RunOutcome {
            success: false,
            output: String::new(),
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
            status: RunStatus::Running,
            hint: Some(format!(
                "The program is still running: call get_run with {{\"runId\": \"{}\", \"waitSeconds\": 30}} until \
                 status is not running, or cancel_run to end it.",
                self.id
            )),
            duration_ms: elapsed,
            usage: Usage {
                wall_ms: elapsed,
                ..Usage::default()
            },
            truncated: Truncated::default(),
            files: Vec::new(),
            files_truncated: false,
            conversation_id: self.conversation.as_str().to_owned(),
            run_id: self.id.clone(),
            kernel_restarted: false,
            kernel_restart_reason: None,
        };
        self.show(&mut outcome, &captured);
        outcome
    }

    /// Its outcome, which must be that of its end, for an answer that has both streams and no `output`.
    pub fn apart(&self, outcome: &RunOutcome) -> RunOutcome {
        let captured = self.live.capture.snapshot();
        let [(stdout, no_stdout), (stderr, no_stderr)] = apart(&captured, self.output_for_model);
        let mut outcome = outcome.clone();
        outcome.output = String::new();
        outcome.stdout = stdout;
        outcome.stderr = stderr;
        // These answers say that something is missing, and not how much.
        outcome.truncated.stdout += u64::from(no_stdout);
        outcome.truncated.stderr += u64::from(no_stderr);
        outcome
    }

    fn finish(&self, mut result: Result<RunOutcome, RunError>) {
        let captured = self.live.capture.snapshot();
        let bytes = captured.stdout.kept + captured.stderr.kept;
        if let Ok(outcome) = &mut result {
            outcome.run_id.clone_from(&self.id);
            if captured.stderr.kept == 0 {
                outcome.hint = outcome.hint.take().map(ending::nothing_to_see);
            }
            self.show(outcome, &captured);
        }
        self.end.send_replace(Some(End {
            at: Instant::now(),
            bytes,
            result: Arc::new(result),
        }));
    }

    fn show(&self, outcome: &mut RunOutcome, captured: &Captured) {
        let texts = Texts::of(captured, self.output_for_model, &self.id);
        outcome.output = texts.output;
        outcome.stdout = texts.stdout;
        outcome.stderr = texts.stderr;
        outcome.truncated = Truncated {
            stdout: captured.stdout.dropped,
            stderr: captured.stderr.dropped,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that has ended just now, with so much output.
    fn ended(entries: &mut HashMap<String, Arc<LiveRun>>, id: &str, bytes: usize) {
        let run = LiveRun {
            id: id.to_owned(),
            owner: Principal::local(),
            conversation: ConversationId::mint(),
            created: SystemTime::now(),
            live: Live::new(0),
            timeout: Duration::ZERO,
            started: Instant::now(),
            output_for_model: 0,
            stop: CancellationToken::new(),
            end: watch::Sender::new(Some(End {
                at: Instant::now(),
                bytes,
                result: Arc::new(Err(RunError::Broken)),
            })),
        };
        entries.insert(id.to_owned(), Arc::new(run));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_go_by_age_take_no_others_with_them() {
        let mut entries = HashMap::new();
        ended(&mut entries, "old", MAX_BYTES);
        tokio::time::advance(KEPT).await;
        ended(&mut entries, "new", 1);
        forget(&mut entries);
        assert_eq!(entries.keys().collect::<Vec<_>>(), ["new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_all_are_too_much() {
        let mut entries = HashMap::new();
        for id in ["first", "second", "third"] {
            ended(&mut entries, id, MAX_BYTES / 2);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        forget(&mut entries);
        assert_eq!(entries.keys().collect::<Vec<_>>(), ["third"]);
    }
}
