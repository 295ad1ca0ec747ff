//! Tools with the names, arguments and answers of other servers, for clients that were made for those.
//!
//! They are adapters: each translates its arguments, calls the use case that a tool of ours calls, and translates the
//! result. Our own tools can still be called, but are not listed.

mod artifacts;
mod python;
mod python_tool;

use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, ErrorData, JsonObject, ServerJsonRpcMessage, Tool};

use super::live::{self, Woken};
use super::tools::{self, Call};
use crate::api::error::CallError;
use crate::api::outcome::RunOutcome;
use crate::api::python::PYTHON;
use crate::config::Toolset;
use crate::ledger::RunHandle;
use crate::principal::Tenant;
use crate::run::{RunError, RunRequest};
use crate::scope::Scopes;
use crate::services::Services;

/// What a call returns.
type Answer<'a> = BoxFuture<'a, Result<CallToolResult, ErrorData>>;

/// A tool of another server.
pub(super) struct Adapter {
    name: &'static str,
    tool: fn(&Services) -> Tool,
    /// The scopes that a call of it needs.
    pub(super) needs: Scopes,
    /// Translates one call.
    pub(super) call: for<'a> fn(&'a Call<'a>, JsonObject) -> Answer<'a>,
}

/// The tools of a set.
fn adapters(toolset: Toolset) -> &'static [Adapter] {
    match toolset {
        Toolset::Default => &[],
        Toolset::Artifacts => artifacts::TOOLS,
        Toolset::Python => python::TOOLS,
        Toolset::PythonTool => python_tool::TOOLS,
    }
}

/// What a client's model is told once, if that is not about our own tools.
pub(super) fn instructions(toolset: Toolset) -> Option<&'static str> {
    match toolset {
        Toolset::Default => None,
        Toolset::Artifacts => Some(artifacts::INSTRUCTIONS),
        Toolset::Python => Some(python::INSTRUCTIONS),
        Toolset::PythonTool => Some(python_tool::INSTRUCTIONS),
    }
}

/// The name of the server, where its clients go by that.
pub(super) fn server_name(toolset: Toolset) -> Option<&'static str> {
    (toolset == Toolset::PythonTool).then_some(python_tool::NAME)
}

/// A message as the clients of a set read it, with what rmcp has no field for.
pub(super) fn as_json(toolset: Toolset, message: &ServerJsonRpcMessage) -> Option<String> {
    if toolset != Toolset::PythonTool {
        return serde_json::to_string(message).ok();
    }
    let mut message = serde_json::to_value(message).ok()?;
    python_tool::annotate(&mut message);
    Some(message.to_string())
}

/// The tools that are listed for a tenant.
pub(super) fn listed(toolset: Toolset, services: &Services, tenant: &Tenant) -> Vec<Tool> {
    match adapters(toolset) {
        [] => tools::list(services, tenant),
        adapters => adapters
            .iter()
            .map(|adapter| (adapter.tool)(services))
            .collect(),
    }
}

/// The adapter with this name.
pub(super) fn find(toolset: Toolset, name: &str) -> Option<&'static Adapter> {
    adapters(toolset)
        .iter()
        .find(|adapter| adapter.name == name)
}

/// Checks the language that a client gives to a tool which runs nothing but Python.
fn check_language(
    tool: &str,
    language: Option<&str>,
    services: &Services,
) -> Result<(), CallError> {
    let Some(language) = language else {
        return Ok(());
    };
    let view = services.status.view();
    let found = view.find(language).map(|runner| runner.language.as_str());
    if found.unwrap_or(language).eq_ignore_ascii_case(PYTHON) {
        return Ok(());
    }
    let language: String = language.chars().take(64).collect();
    Err(CallError::invalid(&format!(
        "{tool}: language is {language:?}, and this tool runs Python only: send a program in Python, without language"
    )))
}

/// Why there was no run, for a caller that cannot choose the language.
fn of_python(error: &RunError) -> CallError {
    let message = match error {
        RunError::Fence { fence, .. } => format!(
            "code is one Markdown block of {fence}, and this tool runs Python only: send a program in Python"
        ),
        RunError::UnknownLanguage { .. } => {
            "there is no runner for Python here: ask the server's operator for one".to_owned()
        }
        _ => return error.into(),
    };
    CallError {
        message,
        ..error.into()
    }
}

/// Runs a program to its end while its client watches.
async fn run(
    call: &Call<'_>,
    tool: &'static str,
    request: RunRequest,
) -> Result<RunOutcome, CallError> {
    call.client.remember(&request.conversation);
    let run = call.services.ledger.start(call.origin(tool), request);
    watched(call, &run).await
}

/// Waits for the end of a run while its client watches. Who goes away ends it.
async fn watched(call: &Call<'_>, run: &RunHandle) -> Result<RunOutcome, CallError> {
    let guard = run.cancel_on_drop();
    match live::wait(run, call.context, &call.caller, 0, None).await {
        Woken::Ended(result) => {
            guard.disarm();
            let rendered = result.as_ref().as_ref().map_err(of_python)?;
            Ok(RunOutcome::apart(run, rendered).await)
        }
        // Nobody reads the answer.
        Woken::Cancelled | Woken::Due => Ok(RunOutcome::unread(run)),
    }
}
