//! `python` alone, on a server of that name: the tool that gpt-oss was trained with, as vLLM looks for it.
//!
//! The model writes a program where others write arguments, so nothing but the text that it printed comes back.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Adapter, watched};
use crate::api::arguments::parse;
use crate::api::error::CallError;
use crate::api::once;
use crate::api::python::PYTHON;
use crate::api::schema;
use crate::mcp::tools::Call;
use crate::scope::{Scope, Scopes};

/// The name of the tool, and of the server that has it.
pub(super) const NAME: &str = "python";
/// What the model is told: its prompt has this in place of a schema.
pub(super) const INSTRUCTIONS: &str = "Use this tool to run Python in your chain of thought: to compute, to check and to \
    look at data. The user sees neither the code nor what it prints. Write the program itself, not JSON. Each call is a \
    new process in a container of its own, without internet: variables and files are not kept for the next call. What \
    the program prints to stdout is returned, so print whatever you want to see; errors are returned too.";
/// What an empty answer would hide.
const SILENT: &str = "The program ended well and printed nothing: print what you want to see.";

/// The tools of this set.
pub(super) const TOOLS: &[Adapter] = &[Adapter {
    name: NAME,
    tool: |_| tool(),
    needs: Scopes::of(Scope::Run),
    call: |call, arguments| {
        async move {
            let answer = run(call, arguments).await;
            answer.or_else(|error| call.caller.refuse(error))
        }
        .boxed()
    },
}];

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The whole program.
    code: String,
}

fn tool() -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(false)
        .open_world(false);
    Tool::new(NAME, INSTRUCTIONS, schema::input::<Arguments>()).with_annotations(annotations)
}

/// Says of every listed tool that its schema is not to be in the prompt.
pub(super) fn annotate(message: &mut Value) {
    let result = message.get_mut("result");
    let tools = result.and_then(|result| result.get_mut("tools"));
    for tool in tools.and_then(Value::as_array_mut).into_iter().flatten() {
        tool["annotations"]["include_in_prompt"] = json!(false);
    }
}

/// The program in what a model wrote. One that was shown the schema after all writes the arguments in JSON, which do
/// nothing as a program.
fn program(written: String) -> String {
    let arguments: Result<BTreeMap<String, String>, _> = serde_json::from_str(&written);
    let code = arguments.ok().filter(|arguments| arguments.len() == 1);
    let code = code.and_then(|mut arguments| arguments.remove("code"));
    code.unwrap_or(written)
}

async fn run(call: &Call<'_>, arguments: JsonObject) -> Result<CallToolResult, CallError> {
    let Arguments { code } = parse(NAME, arguments)?;
    let code = program(code);
    let run = once::start(call.services, call.calls, call.origin(NAME), PYTHON, code);
    let outcome = watched(call, &run).await?;
    let mut text = outcome.stdout.clone();
    if !outcome.success {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&once::complaint(&outcome));
    } else if text.is_empty() {
        SILENT.clone_into(&mut text);
    }
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}
