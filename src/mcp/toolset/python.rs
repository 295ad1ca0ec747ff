//! `execute_python` and `pip_install`: one Python for each caller, with answers in the form of these tools.

mod pip;

use futures::FutureExt as _;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Adapter;
use crate::api::arguments::{ignored, parse};
use crate::api::error::CallError;
use crate::api::names::{EXECUTE, INSTALL, translated};
use crate::api::python::{Executed, longest, request};
use crate::config::Toolset;
use crate::mcp::tools::{Call, define, structured};
use crate::scope::{Scope, Scopes};
use crate::services::Services;
use crate::units::size_as_set;

/// What a client's model is told once.
pub(super) const INSTRUCTIONS: &str = "Runs Python programs in isolated containers. All calls share the directory \
    /data and the packages that pip_install installs; variables are not kept between calls.";

/// The tools of this set.
pub(super) const TOOLS: &[Adapter] = &[
    Adapter {
        name: EXECUTE,
        tool: execute_tool,
        needs: Scopes::of(Scope::Run),
        call: |call, arguments| answered(call, execute(call, arguments)).boxed(),
    },
    Adapter {
        name: INSTALL,
        tool: pip::tool,
        needs: Scopes::of(Scope::Install),
        call: |call, arguments| answered(call, pip::call(call, arguments)).boxed(),
    },
];

async fn answered(
    call: &Call<'_>,
    answer: impl Future<Output = Result<CallToolResult, CallError>>,
) -> Result<CallToolResult, ErrorData> {
    answer.await.or_else(|mut error| {
        error.message = translated(Toolset::Python, &error.message);
        call.caller.refuse(error)
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The whole program. Print what you want to see.
    code: String,
    /// Time limit in seconds; left out: the server's default.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0))]
    timeout: Option<f64>,
    /// Python, by any of its names.
    #[serde(default)]
    #[schemars(with = "String", extend("x-unlisted" = true))]
    language: Option<String>,
}

fn execute_tool(services: &Services) -> Tool {
    let description = format!(
        "Runs a Python program in an isolated container and returns what it printed and its exit code. It starts in \
         /data, where files are kept for the next call. Limits: {} s (timeout up to {}), {} of memory, no internet. \
         Example: {{\"code\": \"print(6 * 7)\"}}",
        services.limits.timeout.as_secs_f64(),
        longest(services).as_secs_f64(),
        size_as_set(services.limits.memory),
    );
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(false);
    define::<Arguments, Executed>(EXECUTE, "Run Python", description, annotations)
}

async fn execute(call: &Call<'_>, arguments: JsonObject) -> Result<CallToolResult, CallError> {
    let note = ignored::<Arguments>(EXECUTE, &arguments);
    let Arguments {
        code,
        timeout,
        language,
    } = parse(EXECUTE, arguments)?;
    super::check_language(EXECUTE, language.as_deref(), call.services)?;
    let request = request(call.services, &call.caller.principal, code, None, timeout)?;
    let mut answer = structured(&Executed::of(&super::run(call, EXECUTE, request).await?));
    answer.content.extend(note.map(ContentBlock::text));
    Ok(answer)
}
