//! `get_run`: the state of a run, its outcome, or a piece of its output.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Call, define, outcome, parse, structured};
use crate::api::arguments::some_whole;
use crate::api::error::CallError;
use crate::api::outcome::RunOutcome;
use crate::config::RunLimits;
use crate::executor::Stream;
use crate::ledger::RunHandle;
use crate::mcp::live::{self, Woken};
use crate::run::render;

pub(super) const NAME: &str = "get_run";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// The run, as the answer of `run_code` names it.
    #[serde(default)]
    #[schemars(with = "String")]
    run_id: Option<String>,
    /// Instead of runId: the latest run of this conversation, when the answer of `run_code` was lost.
    #[serde(default)]
    #[schemars(with = "String")]
    conversation_id: Option<String>,
    /// How long to wait for the end of the run; 0 when left out. The server may answer earlier: ask again.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    wait_seconds: Option<f64>,
    /// Reads a piece of the output instead of head and tail.
    #[serde(default)]
    #[schemars(with = "OutputStream")]
    stream: Option<OutputStream>,
    /// First byte of the piece; 0 when left out. Read on at nextOffset.
    #[serde(default, deserialize_with = "some_whole")]
    #[schemars(with = "usize")]
    offset: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OutputStream {
    /// Both, in the order in which they came.
    Output,
    Stdout,
    Stderr,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RunView {
    #[serde(flatten)]
    outcome: RunOutcome,
    /// The piece of output that was asked for; then `output`, `stdout` and `stderr` are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<Page>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Page {
    stream: OutputStream,
    /// Where the piece begins, in bytes as the program wrote them.
    offset: usize,
    /// The piece as text.
    text: String,
    /// Where to read on.
    next_offset: usize,
    /// Whether there is more to read already.
    more: bool,
}

pub(super) fn tool(limits: &RunLimits) -> Tool {
    let description = format!(
        "Tells how a run stands that was started by run_code: its output so far while status is \"running\", then its \
         outcome, until 10 minutes after its end. waitSeconds waits for the end, at most {} s a call. With stream and \
         offset it reads the whole of a long output piece by piece. Example: {{\"runId\": \"run_1f…\", \
         \"waitSeconds\": 30}}",
        limits.call_budget.as_secs_f64(),
    );
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, RunView>(NAME, "Ask for a run", description, annotations)
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let budget = call.services.limits.call_budget;
    let wait = wait(arguments.wait_seconds.unwrap_or_default(), budget)?;
    let run = find(call, &arguments)?;
    let due = Instant::now() + wait;
    // Progress shows what comes from now on; what came before is in the answer.
    let from = run.progress.capture.kept();
    let whole = arguments.stream.is_none() && arguments.offset.is_none();
    let outcome = match live::wait(&run, call.context, &call.caller, from, Some(due)).await {
        Woken::Ended(result) => {
            let rendered = result.as_ref().as_ref().map_err(CallError::from)?;
            RunOutcome::ended(&run, rendered)
        }
        // A client that asks about a run and goes away does not end it.
        Woken::Cancelled | Woken::Due if whole => RunOutcome::so_far(&run).await,
        Woken::Cancelled | Woken::Due => RunOutcome::unread(&run),
    };
    if whole {
        return Ok(outcome::answer(call, &run, &outcome).await);
    }
    let stream = arguments.stream.unwrap_or(OutputStream::Output);
    let page = page(
        &run,
        stream,
        arguments.offset.unwrap_or(0),
        call.services.limits.output_for_model,
    );
    Ok(structured(&RunView {
        outcome: RunOutcome {
            output: String::new(),
            stdout: String::new(),
            stderr: String::new(),
            files: Vec::new(),
            files_left_out: 0,
            ..outcome
        },
        page: Some(page),
    }))
}

/// How long to wait at most. A caller that asks for longer than a call may take is answered then, and can ask again.
fn wait(seconds: f64, budget: Duration) -> Result<Duration, CallError> {
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(CallError::invalid(&format!(
            "get_run: waitSeconds is {seconds:?}: it must be at least 0"
        )));
    }
    // What does not fit into a duration is longer than any.
    Ok(Duration::try_from_secs_f64(seconds).map_or(budget, |wait| wait.min(budget)))
}

fn find(call: &Call<'_>, arguments: &Arguments) -> Result<std::sync::Arc<RunHandle>, CallError> {
    let owner = &call.caller.principal;
    match (&arguments.run_id, &arguments.conversation_id) {
        (Some(id), _) => call
            .services
            .ledger
            .find(owner, id)
            .ok_or_else(|| CallError::no_run(id)),
        (None, Some(conversation)) => {
            let id = call.conversation(Some(conversation))?;
            call.services
                .ledger
                .latest(owner, &id)
                .ok_or_else(CallError::no_run_of_conversation)
        }
        (None, None) => Err(CallError::invalid(
            "get_run: give runId, as the answer of `run_code` names it, or conversationId for the latest run of a \
             conversation",
        )),
    }
}

/// As much text from `offset` on as an answer holds.
fn page(run: &RunHandle, stream: OutputStream, offset: usize, max_chars: usize) -> Page {
    let of = match stream {
        OutputStream::Output => None,
        OutputStream::Stdout => Some(Stream::Stdout),
        OutputStream::Stderr => Some(Stream::Stderr),
    };
    let bytes = run
        .progress
        .capture
        .read(of, offset, max_chars.saturating_add(1));
    let more = bytes.len() > max_chars;
    let mut piece = &bytes[..bytes.len().min(max_chars)];
    if more {
        // At the end of a line if there is one, so that lines are not torn.
        piece = &piece[..render::whole(piece)];
        let line = piece.iter().rposition(|byte| *byte == b'\n');
        piece = &piece[..line.map_or(piece.len(), |at| at + 1)];
    } else if run.result().is_none() {
        piece = &piece[..render::whole(piece)];
    }
    Page {
        stream,
        offset,
        text: render::clean(piece),
        next_offset: offset + piece.len(),
        more,
    }
}
