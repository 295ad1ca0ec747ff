//! Runs that outlive the call that started them.
//!
//! Every run of a client lives on a task of its own and in the ledger, under an id that only its caller can use. The
//! call waits for it as long as clients wait, then lets it go on. Its outcome stays readable for a while after its end:
//! a client that lost its connection, or its patience, asks again, and the program has still run only once.

mod entries;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use self::entries::Entries;
use super::ending::Verdict;
use super::outcome::{RunOutcome, RunStatus, Truncated, Usage, milliseconds};
use super::texts::{ENDS, LOOKS, Texts, apart, gone_through};
use super::{Finished, Live, RunError, RunRequest, Runs};
use crate::conversation::ConversationId;
use crate::kernels::Lost;
use crate::principal::Principal;
use crate::sandbox::Captured;

/// How long the outcome of a run can be read after its end.
pub const KEPT: Duration = Duration::from_mins(10);

/// What ids of runs begin with, before 32 hexadecimal digits.
const PREFIX: &str = "run_";

/// How a run ended.
pub type RunResult = Arc<Result<RunOutcome, RunError>>;

/// All runs that clients can ask for.
#[derive(Clone, Debug)]
pub struct Ledger {
    runs: Runs,
    tasks: TaskTracker,
    entries: Arc<Mutex<Entries>>,
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
    /// Its progress.
    pub live: Live,
    /// The time limit that it runs under.
    pub timeout: Duration,
    started: Instant,
    output_for_model: usize,
    stop: CancellationToken,
    end: watch::Sender<Option<RunResult>>,
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

    /// Starts a run that ends by itself, by [`LiveRun::cancel`] or when the server stops, whether or not anybody waits
    /// for it.
    pub fn start(&self, owner: Principal, request: RunRequest) -> Arc<LiveRun> {
        let run = self.planned(new_id(), owner, &request);
        // Nobody has made up an id of 128 random bits before.
        self.entries.lock().begin(Arc::clone(&run));
        self.launch(&run, request);
        run
    }

    /// The same under an id that its caller has made up, unless there is a run of that id: whoever sends the same
    /// request again starts nothing.
    pub fn start_as(
        &self,
        id: String,
        owner: Principal,
        request: RunRequest,
    ) -> Option<Arc<LiveRun>> {
        let run = self.planned(id, owner, &request);
        if !self.entries.lock().begin(Arc::clone(&run)) {
            return None;
        }
        self.launch(&run, request);
        Some(run)
    }

    fn planned(&self, id: String, owner: Principal, request: &RunRequest) -> Arc<LiveRun> {
        Arc::new(LiveRun {
            id,
            owner,
            conversation: request.conversation.clone(),
            created: SystemTime::now(),
            live: Live::new(self.runs.limits.output),
            timeout: request.timeout.unwrap_or(self.runs.limits.timeout),
            started: Instant::now(),
            output_for_model: self.runs.limits.output_for_model,
            stop: CancellationToken::new(),
            end: watch::Sender::new(None),
        })
    }

    fn launch(&self, run: &Arc<LiveRun>, request: RunRequest) {
        let (ledger, live) = (self.clone(), Arc::clone(run));
        self.tasks.spawn(async move {
            let execute = async {
                let execute = ledger.runs.execute(&request, &live.live, &live.stop);
                Ok(live.tell(execute.await?).await)
            };
            let result = AssertUnwindSafe(execute).catch_unwind().await;
            let bytes = live.finish(result.unwrap_or_else(|_panic| {
                error!("a run panicked");
                Err(RunError::Broken)
            }));
            ledger.entries.lock().end(live.id.clone(), bytes);
        });
    }

    /// A caller's run by its id.
    pub fn find(&self, owner: &Principal, id: &str) -> Option<Arc<LiveRun>> {
        let mut entries = self.entries.lock();
        entries.get(id).filter(|run| run.owner == *owner).cloned()
    }

    /// The latest run of a caller's conversation, for a client that never learned its id. A refused call does not count
    /// as a run.
    pub fn latest(&self, owner: &Principal, conversation: &ConversationId) -> Option<Arc<LiveRun>> {
        let mut entries = self.entries.lock();
        let refused = |run: &LiveRun| run.result().is_some_and(|result| result.is_err());
        let theirs = entries.iter().filter(|run| {
            run.owner == *owner && run.conversation == *conversation && !refused(run)
        });
        theirs.max_by_key(|run| run.started).cloned()
    }
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

impl LiveRun {
    /// Its result, when it has ended.
    pub async fn ended(&self) -> RunResult {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(result)) => Arc::clone(result),
            // The sender is in `self`.
            _ => Arc::new(Err(RunError::Broken)),
        }
    }

    /// Its result, if it has ended.
    pub fn result(&self) -> Option<RunResult> {
        self.end.borrow().clone()
    }

    /// Ends it early. A run that has already ended stays as it is.
    pub fn cancel(&self) {
        // Holds the read lock, so the run cannot finish between check and cancel.
        let end = self.end.borrow();
        if end.is_none() {
            self.stop.cancel();
        }
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

    /// The outcome so far, with `status` `running`.
    pub async fn so_far(&self) -> RunOutcome {
        let printed = || self.live.capture.snapshot();
        let said = gone_through(&LOOKS, printed, self.reading()).await;
        self.running(said)
    }

    /// The same without its output, which takes no time.
    pub fn unread(&self) -> RunOutcome {
        let truncated = Truncated::of(&self.live.capture.snapshot());
        self.running((Texts::default(), truncated))
    }

    fn running(&self, said: (Texts, Truncated)) -> RunOutcome {
        let wall = self.started.elapsed();
        let hint = format!(
            "The program is still running: call get_run with {{\"runId\": \"{}\", \"waitSeconds\": 30}} until \
             status is not running, or cancel_run to end it.",
            self.id
        );
        let verdict = Verdict {
            status: RunStatus::Running,
            exit_code: None,
            hint: Some(hint),
            usage: Usage::unreported(wall),
        };
        self.outcome(verdict, wall, said)
    }

    /// The final outcome with separate stdout and stderr and an empty `output`.
    pub async fn apart(&self, outcome: &RunOutcome) -> RunOutcome {
        let most = self.output_for_model;
        let printed = || self.live.capture.snapshot();
        let texts = gone_through(&ENDS, printed, move |captured| apart(captured, most));
        let [(stdout, no_stdout), (stderr, no_stderr)] = texts.await;
        let mut outcome = outcome.clone();
        outcome.output = String::new();
        outcome.stdout = stdout;
        outcome.stderr = stderr;
        // These answers say that something is missing, but not how much.
        outcome.truncated.stdout += u64::from(no_stdout);
        outcome.truncated.stderr += u64::from(no_stderr);
        outcome
    }

    /// Hands the result to all who wait, and returns how many bytes are kept.
    fn finish(&self, result: Result<RunOutcome, RunError>) -> usize {
        let told = result.as_ref().map_or(0, RunOutcome::size);
        self.end.send_replace(Some(Arc::new(result)));
        self.live.capture.snapshot().size() + told
    }

    /// Its outcome, as clients see it.
    async fn tell(&self, finished: Finished) -> RunOutcome {
        let said = gone_through(&ENDS, || finished.captured.clone(), self.reading()).await;
        RunOutcome {
            files: finished.files,
            files_truncated: finished.files_truncated,
            files_left_out: finished.files_left_out,
            kernel_restarted: finished.lost.is_some(),
            kernel_restart_reason: finished.lost.map(Lost::sentence),
            ..self.outcome(finished.verdict, finished.wall, said)
        }
    }

    /// How its output becomes the texts of an answer.
    fn reading(&self) -> impl FnOnce(&Captured) -> (Texts, Truncated) + Send + use<> {
        let (most, id) = (self.output_for_model, self.id.clone());
        move |captured| (Texts::of(captured, most, &id), Truncated::of(captured))
    }

    /// An outcome without files.
    fn outcome(
        &self,
        verdict: Verdict,
        wall: Duration,
        (texts, truncated): (Texts, Truncated),
    ) -> RunOutcome {
        RunOutcome {
            success: verdict.status == RunStatus::Ok,
            output: texts.output,
            stdout: texts.stdout,
            stderr: texts.stderr,
            exit_code: verdict.exit_code,
            status: verdict.status,
            hint: verdict.hint,
            duration_ms: milliseconds(wall),
            usage: verdict.usage,
            truncated,
            files: Vec::new(),
            files_truncated: false,
            files_left_out: 0,
            notes: Vec::new(),
            conversation_id: self.conversation.as_str().to_owned(),
            run_id: self.id.clone(),
            kernel_restarted: false,
            kernel_restart_reason: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Stream;
    use crate::run::outcome::FileLink;

    /// A run that has just begun.
    pub(super) fn live_run(id: &str) -> Arc<LiveRun> {
        Arc::new(LiveRun {
            id: id.to_owned(),
            owner: Principal::local(),
            conversation: ConversationId::mint(),
            created: SystemTime::now(),
            live: Live::new(1 << 20),
            timeout: Duration::ZERO,
            started: Instant::now(),
            output_for_model: 30_000,
            stop: CancellationToken::new(),
            end: watch::Sender::new(None),
        })
    }

    #[tokio::test]
    async fn an_end_does_not_wait_for_those_who_look() {
        let run = live_run("run");
        run.live.capture.push(Stream::Stdout, &vec![b'x'; 1 << 20]);
        let looks = LOOKS.acquire_many(2).await.unwrap();
        let mut look = Box::pin(run.so_far());
        assert!(futures::poll!(&mut look).is_pending());
        assert_eq!(run.unread().output, "");
        let verdict = Verdict {
            status: RunStatus::Ok,
            exit_code: Some(0),
            hint: None,
            usage: Usage::default(),
        };
        let finished = Finished::bare(verdict, Duration::ZERO, run.live.capture.snapshot());
        assert!(run.tell(finished).await.success);
        drop(looks);
        assert_eq!(look.await.status, RunStatus::Running);
    }

    #[tokio::test]
    async fn all_that_is_kept_of_a_run_is_counted() {
        let run = live_run("run");
        for _ in 0..1000 {
            run.live.capture.push(Stream::Stdout, b"o");
            run.live.capture.push(Stream::Stderr, b"e");
        }
        let mut outcome = run.so_far().await;
        outcome.files.push(FileLink {
            name: "n".repeat(500),
            url: "u".repeat(700),
            size: 0,
            mime_type: "m".repeat(10),
            new: true,
        });
        let captured = run.live.capture.snapshot().size();
        assert!(captured > 2000, "{captured}");
        // `output` has everything once more, and so do the two streams together.
        let texts = 2000 + 2000;
        assert_eq!(run.finish(Ok(outcome)), captured + texts + 500 + 700 + 10);
    }
}
