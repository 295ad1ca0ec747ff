//! What runs, and what has ended a short while ago.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use tokio::time::timeout;
use tracing::info;

use super::page::{Place, page};
use super::{Admin, AdminError, PageQuery, shown};
use crate::audit::{ByOperator, Event, Operator, Subject};
use crate::ledger::RunHandle;
use crate::principal::Name;
use crate::run::outcome::RunStatus;
use crate::run::stage::Stage;

/// How long a cancelled run may take to end before the operator is answered.
const END_WAIT: Duration = Duration::from_secs(10);

/// Which runs are wanted.
#[derive(Clone, Debug)]
pub struct RunQuery {
    /// Only those of this one.
    pub tenant: Option<Name>,
    /// Only those that have not ended.
    pub is_active: bool,
    /// Which part of the list.
    pub page: PageQuery,
}

/// A page of runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    runs: Vec<RunRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    id: String,
    /// Whose.
    #[serde(flatten)]
    owner: Subject,
    conversation: String,
    language: String,
    /// A status, why there is no outcome, or `running`.
    status: &'static str,
    stage: &'static str,
    created_at: String,
    ended_at: Option<String>,
    cpu_ms: Option<u64>,
    wall_ms: Option<u64>,
}

impl Admin {
    /// A page of the runs that are remembered: the latest first.
    ///
    /// # Errors
    /// The cursor is none of ours.
    pub fn runs(&self, query: &RunQuery) -> Result<RunList, AdminError> {
        let mut runs = if query.is_active {
            self.ledger.under_way()
        } else {
            self.ledger.all()
        };
        if let Some(name) = &query.tenant {
            runs.retain(|run| run.owner.tenant().name() == name.as_str());
        }
        let (runs, next_cursor) = page("runs", runs, |run| place(run), &query.page)?;
        Ok(RunList {
            runs: runs.iter().map(|run| self.row(run)).collect(),
            next_cursor,
        })
    }

    /// Cancels a run, and waits a moment for its end. One that has ended stays as it is. Callers may have chosen the same
    /// id for their runs: then `subject` says whose is meant.
    ///
    /// # Errors
    /// There is no such run or there are several, or it cannot be recorded though that is required.
    pub async fn cancel(
        &self,
        operator: &Operator,
        id: &str,
        subject: Option<&str>,
    ) -> Result<RunRow, AdminError> {
        let mut runs = self.ledger.all();
        runs.retain(|run| {
            let is_meant = |subject| Subject::of(&run.owner).tag() == subject;
            run.id == id && subject.is_none_or(is_meant)
        });
        let run = match &*runs {
            [] => return Err(AdminError::NoRun(id.chars().take(64).collect())),
            [run] => run,
            several => return Err(AdminError::SeveralRuns(several.len(), id.to_owned())),
        };
        if run.result().is_none() {
            let change = self
                .conversations
                .audit
                .change(|| Event::AdminRunCancelled {
                    by: ByOperator::of(operator),
                    run: run.id.clone(),
                    owner: Subject::of(&run.owner),
                    conversation: run.conversation.key().short().to_owned(),
                });
            let change = change.await?;
            let was_under_way = run.cancel();
            change.end(was_under_way);
            if was_under_way {
                let conversation = run.conversation.key().short();
                info!(run = run.id, conversation, "the operator cancelled a run");
            }
            let _ = timeout(END_WAIT, run.ended()).await;
        }
        Ok(self.row(run))
    }

    fn row(&self, run: &RunHandle) -> RunRow {
        let stage = run.progress.stage.borrow().clone();
        let result = stage.result().map(|result| result.as_ref().as_ref());
        let outcome = result.and_then(|result| result.ok().map(|rendered| &rendered.outcome));
        let view = self.conversations.gate.catalog.view();
        let runner = view.find(&run.language);
        RunRow {
            id: run.id.clone(),
            owner: Subject::of(&run.owner),
            conversation: run.conversation.key().to_string(),
            language: runner
                .map_or(&run.language, |runner| &runner.language)
                .clone(),
            status: match result {
                None => RunStatus::Running.into_str(),
                Some(Ok(rendered)) => rendered.outcome.status.into_str(),
                Some(Err(error)) => error.kind().into_str(),
            },
            stage: word(&stage),
            created_at: shown(run.created),
            ended_at: run.ended_at().map(shown),
            cpu_ms: outcome.and_then(|outcome| outcome.usage.cpu_ms),
            wall_ms: outcome.map(|outcome| outcome.usage.wall_ms),
        }
    }
}

fn place(run: &RunHandle) -> Place {
    let since = run.created.duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    // Ids are unique for each caller.
    Place::new(micros, &format!("{} {}", run.id, run.owner.tag()))
}

fn word(stage: &Stage) -> &'static str {
    match stage {
        Stage::Entering => "entering",
        Stage::WaitingForKernel => "waiting_for_kernel",
        Stage::Waiting { .. } => "waiting",
        Stage::Starting => "starting",
        Stage::Running { .. } => "running",
        Stage::Ended(_) => "ended",
    }
}
