//! What a run gives: the object that every client sees.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;

use crate::egress::NetworkReport;
use crate::kernels::KernelLoss;
use crate::ledger::RunHandle;
use crate::links::FileLink;
use crate::run::outcome::{Rendered, RunStatus, Usage, milliseconds};
use crate::run::stage::Stage;
use crate::run::texts::{FINISH_PERMITS, POLL_PERMITS, Texts, apart, render_off_thread};
use crate::runner::hints::Remedy;
use crate::sandbox::Captured;

/// The result of one run. A program that fails is a result too, with `success: false`.
#[derive(Clone, Debug, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOutcome {
    /// Whether the program ended by itself with exit code 0.
    pub success: bool,
    /// Standard output and error in the order in which they came; what programs other than Python, TypeScript and Bash
    /// write to both within microseconds may be grouped. Colours are removed and progress bars are in their last state;
    /// of long output head and tail, with a line between them that says how to read the rest.
    pub output: String,
    /// Standard output alone, as far as there is room for it beside `output`.
    pub stdout: String,
    /// Standard error alone, as far as there is room for it beside `output`.
    pub stderr: String,
    /// Exit code, 128 + number for a death by signal, null when the program was stopped before its end.
    pub exit_code: Option<i32>,
    /// How the run ended.
    pub status: RunStatus,
    /// What happened and what to do about it, when `status` is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What helps, for clients that can do it for their user; missing when that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// Milliseconds from handing over the program to its end.
    pub duration_ms: u64,
    /// What the program took.
    pub usage: Usage,
    /// Bytes of output that were left out because they were more than the limit.
    pub truncated: Truncated,
    /// What the run made or changed, then at most a dozen other files of the conversation: `list_files` lists them all.
    pub files: Vec<FileLink>,
    /// Whether there are more files than `files` lists.
    pub files_truncated: bool,
    /// How many more, as far as they were counted; missing when there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_left_out: usize,
    /// What the program did in the network of listed hosts: whom it reached, and whom not and why. Missing without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub network: Option<NetworkReport>,
    /// What there is to know about the pictures of this answer: which were scaled down, which are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The conversation: give it again to find the same files.
    pub conversation_id: String,
    /// The run: `get_run` reads its whole output, and its outcome while and after it runs.
    pub run_id: String,
    /// Whether the kernel of a stateful run goes on, with its variables; missing for other runs and those that never
    /// began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_alive: Option<bool>,
    /// Whether a stateful run had a new kernel although there was one before: what that had in variables is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_restarted: bool,
    /// Why, if it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_restart_reason: Option<String>,
}

impl RunOutcome {
    /// Of a run that has ended.
    pub(crate) fn ended(run: &RunHandle, rendered: &Rendered) -> Self {
        let Rendered { outcome, texts } = rendered;
        let lost = outcome.lost_kernel;
        Self {
            success: outcome.status == RunStatus::Ok,
            output: texts.output.clone(),
            stdout: texts.stdout.clone(),
            stderr: texts.stderr.clone(),
            exit_code: outcome.exit_code,
            status: outcome.status,
            hint: outcome.hint.text(),
            remedy: outcome.hint.remedy(),
            duration_ms: milliseconds(outcome.wall),
            usage: outcome.usage,
            truncated: Truncated::of(&outcome.captured),
            files: outcome.files.clone(),
            files_truncated: outcome.files_truncated,
            files_left_out: outcome.files_left_out,
            network: outcome.network.clone(),
            notes: outcome.network.iter().map(ToString::to_string).collect(),
            conversation_id: run.conversation.id().to_owned(),
            run_id: run.id.clone(),
            kernel_alive: outcome.hint.is_kernel_alive(),
            kernel_restarted: lost.is_some(),
            kernel_restart_reason: lost.map(KernelLoss::sentence),
        }
    }

    /// Of a run that goes on, as far as it has come, or of its end if that came meanwhile.
    pub(crate) async fn so_far(run: &RunHandle) -> Self {
        let (max_chars, id) = (run.output_for_model, run.id.clone());
        let printed = || run.progress.capture.snapshot();
        let (texts, truncated) = render_off_thread(&POLL_PERMITS, printed, move |captured| {
            let texts = Texts::of(captured, max_chars, &id);
            (texts, Truncated::of(captured))
        })
        .await;
        let outcome = Self::unread(run);
        if outcome.status != RunStatus::Running {
            return outcome;
        }
        Self {
            output: texts.output,
            stdout: texts.stdout,
            stderr: texts.stderr,
            truncated,
            ..outcome
        }
    }

    /// The same without its output, which takes no time.
    pub(crate) fn unread(run: &RunHandle) -> Self {
        let stage = run.progress.stage.borrow().clone();
        if let Stage::Ended(result) = &stage
            && let Ok(rendered) = result.as_ref()
        {
            return Self::ended(run, rendered);
        }
        let wall = match &stage {
            Stage::Running { since } => since.elapsed(),
            _ => Duration::ZERO,
        };
        let hint = format!(
            "{}: call get_run with {{\"runId\": \"{}\", \"waitSeconds\": 30}} until status is not running, or \
             cancel_run to end it.",
            stage.describe(),
            run.id
        );
        Self {
            success: false,
            output: String::new(),
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
            status: RunStatus::Running,
            hint: Some(hint),
            remedy: None,
            duration_ms: milliseconds(wall),
            usage: Usage::unreported(wall),
            truncated: Truncated::of(&run.progress.capture.snapshot()),
            files: Vec::new(),
            files_truncated: false,
            files_left_out: 0,
            network: None,
            notes: Vec::new(),
            conversation_id: run.conversation.id().to_owned(),
            run_id: run.id.clone(),
            kernel_alive: None,
            kernel_restarted: false,
            kernel_restart_reason: None,
        }
    }

    /// Of a run that has ended, with separate stdout and stderr and an empty `output`.
    pub(crate) async fn apart(run: &RunHandle, rendered: &Rendered) -> Self {
        let max_chars = run.output_for_model;
        let printed = || rendered.outcome.captured.clone();
        let texts = render_off_thread(&FINISH_PERMITS, printed, move |captured| {
            apart(captured, max_chars)
        });
        let [(stdout, is_stdout_cut), (stderr, is_stderr_cut)] = texts.await;
        let mut outcome = Self {
            output: String::new(),
            stdout,
            stderr,
            ..Self::ended(run, rendered)
        };
        // These answers say that something is missing, but not how much.
        outcome.truncated.stdout += u64::from(is_stdout_cut);
        outcome.truncated.stderr += u64::from(is_stderr_cut);
        outcome
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Bytes of output that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, ToSchema)]
pub(crate) struct Truncated {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
}

impl Truncated {
    fn of(captured: &Captured) -> Self {
        Self {
            stdout: captured.stdout.dropped,
            stderr: captured.stderr.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Stream;
    use crate::ledger::tests::run_handle;

    #[tokio::test]
    async fn an_end_does_not_wait_for_those_who_poll() {
        let run = run_handle("run");
        run.progress
            .capture
            .push(Stream::Stdout, &vec![b'x'; 1 << 20]);
        let polls = POLL_PERMITS.acquire_many(2).await.unwrap();
        let mut poll = Box::pin(RunOutcome::so_far(&run));
        assert!(futures::poll!(&mut poll).is_pending());
        assert_eq!(RunOutcome::unread(&run).output, "");
        let outcome = crate::run::Outcome::ok(run.progress.capture.snapshot());
        let texts = Texts::default();
        let rendered = Rendered { outcome, texts };
        assert!(RunOutcome::apart(&run, &rendered).await.success);
        drop(polls);
        assert_eq!(poll.await.status, RunStatus::Running);
    }
}
