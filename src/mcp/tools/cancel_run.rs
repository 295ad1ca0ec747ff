//! `cancel_run`: ends a run before its time.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, define, outcome, parse};
use crate::api::error::CallError;
use crate::api::outcome::RunOutcome;

pub(super) const NAME: &str = "cancel_run";

/// How long the end may take. It comes at once, unless the container engine is in trouble.
const WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// The run, as the answer of `run_code` names it.
    run_id: String,
}

pub(super) fn tool() -> Tool {
    let description = "Ends a run that is still going on and tells what it has printed. A run that has ended already \
        stays as it is. Example: {\"runId\": \"run_1f…\"}";
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, RunOutcome>(NAME, "Cancel a run", description.to_owned(), annotations)
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let id = &arguments.run_id;
    let run = call
        .services
        .ledger
        .find(&call.caller.principal, id)
        .ok_or_else(|| CallError::no_run(id))?;
    run.cancel();
    let outcome = match tokio::time::timeout(WAIT, run.ended()).await {
        Ok(result) => {
            let rendered = result.as_ref().as_ref().map_err(CallError::from)?;
            RunOutcome::ended(&run, rendered)
        }
        Err(_) => RunOutcome::so_far(&run).await,
    };
    Ok(outcome::answer(call, &run, &outcome).await)
}
