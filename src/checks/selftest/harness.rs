//! Where hostile programs are run: conversations of the selftest's own, which are deleted afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use strum::IntoStaticStr;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Selftest, Verdict};
use crate::audit::Origin;
use crate::config::RunLimits;
use crate::conversation::{Conversation, ConversationId};
use crate::executor::spec::NetworkAccess;
use crate::executor::{Executor, Stream};
use crate::gate::Wants;
use crate::gate::admission::AdmissionError;
use crate::parts::Parts;
use crate::principal::{Name, NameError, Principal, Tenant};
use crate::run::outcome::{RunStatus, Usage};
use crate::run::{self, DiskExcess, KernelWish, Progress, RunError, RunRequest};
use crate::workspace::Existing;

/// The language that the programs are written in.
const LANGUAGE: &str = "python";
/// Longest time limit of a program here.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
/// Bytes of output that are examined.
const OUTPUT: usize = 256 << 10;
/// How often a place is asked for while others take all there are, and the pause in between.
const PLACE_TRIES: usize = 60;
const PLACE_PAUSE: Duration = Duration::from_secs(1);
/// A program that takes no time on an idle machine, and how long its answer may take, or how many times as long as
/// before, where that is more: on a slow machine, everything takes long.
pub(super) const HARMLESS: &str = "print('well')";
const PROMPT: Duration = Duration::from_secs(5);
const TIMES: u32 = 4;
/// How long a program may take to begin, and the files by which it says so and is told to end.
pub(super) const BEGINNING: Duration = Duration::from_secs(30);
const BEGUN: &str = "begun";
const STOP: &str = "stop";
/// How long a sandbox may take to be parked, or cleaned, on a slow machine.
const WARM_WAIT: Duration = Duration::from_mins(1);
/// Time between two checks of what happens after answers.
const LOOK: Duration = Duration::from_millis(20);

/// How a run gets its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Warmth {
    /// It gets a new one.
    Cold,
    /// It gets one that was started ahead, or that the conversation kept.
    Warm,
}

/// Where programs are run in one way.
pub(super) struct Harness<'a> {
    pub(super) parts: &'a Parts,
    pub(super) test: &'a Selftest,
    pub(super) way: Warmth,
}

/// A program that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Time until the answer came.
    pub(super) took: Duration,
}

/// The part of the result that is judged, with the whole output as the program wrote it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) status: RunStatus,
    pub(super) hint: Option<String>,
    /// The limit on files that ended it, if one did.
    pub(super) disk_excess: Option<DiskExcess>,
    pub(super) usage: Usage,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// Bytes of standard output that were left out.
    pub(super) dropped: u64,
}

impl Outcome {
    fn of(outcome: &run::Outcome) -> Self {
        Self {
            status: outcome.status,
            hint: outcome.hint.text(),
            disk_excess: outcome.hint.disk_excess(),
            usage: outcome.usage,
            stdout: outcome.captured.text(Stream::Stdout),
            stderr: outcome.captured.text(Stream::Stderr),
            dropped: outcome.captured.stdout.dropped,
        }
    }
}

/// A program to run.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt<'a> {
    pub(super) program: &'a str,
    pub(super) environment: &'a [(&'a str, String)],
    pub(super) seconds: u64,
    /// What it may reach; nothing by default.
    pub(super) network: Option<NetworkAccess>,
    /// The language; the harness's by default.
    pub(super) language: Option<&'a str>,
}

impl<'a> Harness<'a> {
    pub(super) fn new(test: &'a Selftest, way: Warmth) -> Self {
        Self {
            parts: &test.parts,
            test,
            way,
        }
    }

    pub(super) fn limits(&self) -> &'a RunLimits {
        &self.parts.limits
    }

    /// Bytes that all processes of a sandbox together may take: the program's, and what the image's driver holds.
    pub(super) fn memory(&self) -> u64 {
        let view = self.parts.gate.catalog.view();
        let driver = view.find(LANGUAGE).map_or(0, |runner| runner.driver_memory);
        self.limits().memory.saturating_add(driver)
    }

    pub(super) fn executor(&self) -> &'a dyn Executor {
        &*self.test.executor
    }

    /// Runs a program in a conversation of its own.
    pub(super) async fn run_alone(&self, attempt: Attempt<'_>) -> Result<Ended, Verdict> {
        let conversation = self.conversation();
        let ended = self.run(&conversation, attempt).await;
        self.forget(&conversation).await;
        ended
    }

    /// Runs a program in a conversation. The error is the verdict on a control that could not be tried.
    pub(super) async fn run(
        &self,
        conversation: &Conversation,
        attempt: Attempt<'_>,
    ) -> Result<Ended, Verdict> {
        let language = attempt.language.unwrap_or(LANGUAGE);
        self.has_runner(language)?;
        let is_warm = self.way == Warmth::Warm && attempt.network.is_none();
        if is_warm {
            self.warm(conversation).await?;
        }
        let network = attempt.network.unwrap_or(NetworkAccess::None);
        let environment = attempt.environment.iter();
        let request = RunRequest {
            conversation: conversation.clone(),
            language: language.to_owned(),
            code: attempt.program.to_owned(),
            stdin: None,
            network: network != NetworkAccess::None,
            hosts: Vec::new(),
            granted: Vec::new(),
            secrets: Vec::new(),
            environment: environment
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect::<BTreeMap<_, _>>(),
            timeout: Some(Duration::from_secs(attempt.seconds)),
            time_argument: None,
            stateful: false,
            kernel: KernelWish::default(),
        };
        let wants = Wants::Check {
            network,
            may_be_warm: is_warm,
        };
        self.execute(wants, &request)
            .await
            .map_err(|error| Verdict::Fail(format!("it could not be tried: {error}")))
    }

    /// Runs a program as soon as there is a place.
    async fn execute(&self, wants: Wants, request: &RunRequest) -> Result<Ended, RunError> {
        let never = CancellationToken::new();
        let mut tries = 0;
        loop {
            let progress = Progress::new(OUTPUT.max(self.limits().output));
            let started = Instant::now();
            let runs = self.parts.runs();
            let run = runs.check(wants.clone(), request, &progress, &never);
            let finished = run.await;
            let took = started.elapsed();
            tries += 1;
            match finished {
                Err(RunError::Admission(
                    AdmissionError::Busy { .. }
                    | AdmissionError::ConversationBusy { .. }
                    | AdmissionError::TenantBusy { .. },
                )) if tries < PLACE_TRIES => {
                    tokio::time::sleep(PLACE_PAUSE).await;
                }
                finished => {
                    let outcome = finished.map(|outcome| Outcome::of(&outcome));
                    return outcome.map(|outcome| Ended { outcome, took });
                }
            }
        }
    }

    /// Runs one program from when another has begun, which goes on until this one has ended: it makes the file `begun`
    /// and ends once there is the file `stop`. Returns how both ended, the one that was there first at first.
    pub(super) async fn run_beside(
        &self,
        first: Attempt<'_>,
        second: Attempt<'_>,
    ) -> Result<(Ended, Ended), Verdict> {
        let conversation = self.conversation();
        let is_over = AtomicBool::new(false);
        let begin_and_end = async {
            let ended = self.run(&conversation, first).await;
            is_over.store(true, Ordering::Relaxed);
            ended
        };
        let then = async {
            until(BEGINNING, || async {
                is_over.load(Ordering::Relaxed) || self.size(&conversation, BEGUN).await > 0
            })
            .await;
            let ended = self.run_alone(second).await;
            let content = STANDARD.encode(STOP);
            let conversations = self.parts.conversations();
            let own = Origin::own();
            let stopping = conversations.upload(
                &own,
                &conversation,
                STOP.to_owned(),
                content,
                Existing::Replace,
            );
            // A program that is not told ends at its time limit, and that is seen.
            let _ = stopping.await;
            ended
        };
        let (first, second) = tokio::join!(begin_and_end, then);
        self.forget(&conversation).await;
        Ok((first?, second?))
    }

    /// How much later than due this answer may have come. The machine is measured only if that is needed.
    pub(super) async fn lateness(&self, took: Duration, due: Duration) -> Duration {
        if took <= due + PROMPT {
            return PROMPT;
        }
        let attempt = Attempt {
            program: HARMLESS,
            seconds: LONGEST.as_secs(),
            ..Attempt::default()
        };
        self.run_alone(attempt)
            .await
            .map_or(PROMPT, |alone| prompt(alone.took))
    }

    /// Skips a control without a runner to try it in.
    pub(super) fn has_runner(&self, language: &str) -> Result<(), Verdict> {
        if self.parts.gate.catalog.view().find(language).is_some() {
            return Ok(());
        }
        Err(Verdict::Skipped(format!(
            "there is no {language} runner, in which this is tried"
        )))
    }

    /// Waits until a run in the conversation will have a sandbox that is there already, unless its own did not come
    /// back from the previous run: then it gets a new one, as every run does.
    async fn warm(&self, conversation: &Conversation) -> Result<(), Verdict> {
        let is_new = matches!(
            self.parts.files.workspaces.find(conversation.key()).await,
            Ok(None)
        );
        let ready = || {
            if !is_new {
                return !self.parts.pool.is_cleaning(conversation.key());
            }
            let view = self.parts.gate.catalog.view();
            view.find(LANGUAGE)
                .is_some_and(|runner| self.parts.pool.ready(runner) > 0)
        };
        if until(WARM_WAIT, || std::future::ready(ready())).await {
            return Ok(());
        }
        Err(Verdict::Fail(
            "it could not be tried: no sandbox was ready ahead of the run within a minute, as where the host is too \
             busy to start one"
                .to_owned(),
        ))
    }

    /// Whether a warm run that follows one of this conversation does not get the same sandbox.
    pub(super) async fn has_lost_its_own(&self, conversation: &Conversation) -> bool {
        let is_warm = self.way == Warmth::Warm && self.warm(conversation).await.is_ok();
        is_warm && !self.parts.pool.keeps(conversation.key())
    }

    /// Creates a conversation, which [`forget`](Self::forget) deletes.
    pub(super) fn conversation(&self) -> Conversation {
        let conversation = self.parts.files.new_conversation(&Principal::local());
        self.test.conversations.lock().push(conversation.clone());
        conversation
    }

    /// Creates a conversation of each of two tenants, who call it the same.
    pub(super) fn conversations_of_one_id(&self) -> Result<[Conversation; 2], NameError> {
        let id = ConversationId::mint();
        let name: Name = "selftest".parse()?;
        let other = Principal::named(Tenant::of(name.clone()), &name);
        let conversations = [Principal::local(), other]
            .map(|caller| self.parts.files.conversation(&caller, id.clone()));
        self.test.conversations.lock().extend(conversations.clone());
        Ok(conversations)
    }

    /// Deletes a conversation.
    pub(super) async fn forget(&self, conversation: &Conversation) {
        // Only deleting its directory can fail, and that logs its own failures.
        let _ = self
            .parts
            .conversations()
            .delete(&Origin::own(), conversation)
            .await;
        self.test
            .conversations
            .lock()
            .retain(|one| one != conversation);
    }

    /// Bytes of a file of the conversation; 0 if there is none.
    pub(super) async fn size(&self, conversation: &Conversation, name: &str) -> u64 {
        let list = self.parts.files.list(conversation).await;
        let files = list.map(|list| list.files).unwrap_or_default();
        let size = files.iter().find(|file| file.name == name);
        size.map_or(0, |file| file.size)
    }
}

impl Ended {
    /// What it printed last.
    pub(super) fn last_line(&self) -> &str {
        self.outcome.stdout.lines().last().unwrap_or_default()
    }

    /// How it ended, for people.
    pub(super) fn ending(&self) -> String {
        let status = self.outcome.status.into_str();
        let hint = self.outcome.hint.as_deref().unwrap_or_default();
        let last_line = self.outcome.stderr.lines().last().unwrap_or_default();
        [status, hint, last_line].join(" ").trim().to_owned()
    }

    /// Whether a program that writes nothing could run to its end: neither the engine nor a full disk prevented it.
    pub(super) fn was_let_run(&self) -> bool {
        self.was_run() && self.outcome.status != RunStatus::DiskLimit
    }

    /// Whether there was a run at all.
    pub(super) fn was_run(&self) -> bool {
        self.outcome.status != RunStatus::EngineLost
    }
}

/// How long an answer may take that took so long before.
pub(super) fn prompt(before: Duration) -> Duration {
    PROMPT.max(before * TIMES)
}

/// Asks until the answer is yes. Returns whether it came in time.
pub(super) async fn until<Answer: Future<Output = bool> + Send>(
    limit: Duration,
    mut ask: impl FnMut() -> Answer + Send,
) -> bool {
    let wait = async {
        while !ask().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(limit, wait).await.is_ok()
}

/// A program that ended at once in this way, for tests of judges.
#[cfg(test)]
pub(super) fn ended(status: RunStatus, stdout: &str) -> Ended {
    Ended {
        outcome: Outcome {
            status,
            hint: None,
            disk_excess: None,
            usage: Usage::default(),
            stdout: stdout.to_owned(),
            stderr: String::new(),
            dropped: 0,
        },
        took: Duration::from_millis(1),
    }
}
