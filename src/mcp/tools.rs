//! The tools: one file each, with what the model reads about it, its arguments, and the use case it calls.

mod delete_conversation;
mod list_files;
mod list_runners;
mod read_file;
mod run_code;
mod upload_file;

use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::error::ToolError;
use crate::conversation::{ConversationId, ConversationIdError};
use crate::run::Runs;

/// Older names of tools, accepted and not listed.
const ALIASES: &[(&str, &str)] = &[
    ("sandbox.run_code", run_code::NAME),
    ("sandbox.list_runners", list_runners::NAME),
];

/// All tools, as `tools/list` gives them.
pub fn list(runs: &Runs) -> Vec<Tool> {
    vec![
        delete_conversation::tool(),
        list_files::tool(),
        list_runners::tool(),
        read_file::tool(),
        run_code::tool(runs),
        upload_file::tool(runs),
    ]
}

/// Calls a tool by name; `None` when there is no such tool.
pub async fn call(
    runs: &Runs,
    name: &str,
    arguments: JsonObject,
    cancel: &CancellationToken,
) -> Option<CallToolResult> {
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, name)| name);
    let result = match name {
        delete_conversation::NAME => delete_conversation::call(runs, arguments).await,
        list_files::NAME => list_files::call(runs, arguments).await,
        list_runners::NAME => Ok(list_runners::call(runs)),
        read_file::NAME => read_file::call(runs, arguments).await,
        run_code::NAME => run_code::call(runs, arguments, cancel).await,
        upload_file::NAME => upload_file::call(runs, arguments).await,
        _ => return None,
    };
    Some(result.unwrap_or_else(CallToolResult::from))
}

/// A tool with schemas made from its types.
fn define<Arguments, Output>(
    name: &'static str,
    title: &str,
    description: String,
    annotations: ToolAnnotations,
) -> Tool
where
    Arguments: JsonSchema + 'static,
    Output: JsonSchema + 'static,
{
    Tool::new(name, description, schema_for_type::<Arguments>())
        .with_title(title)
        .with_raw_output_schema(schema_for_type::<Output>())
        .with_annotations(annotations.with_title_if_none(title))
}

/// Reads a tool's arguments. Unknown ones are ignored: some clients add their own.
fn parse<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| ToolError::arguments(tool, &error))
}

/// A result as one JSON object, both structured and as the first text block.
fn structured<T: Serialize>(value: &T) -> CallToolResult {
    // Our own types of strings, numbers and lists always become JSON.
    CallToolResult::structured(serde_json::to_value(value).unwrap_or_default())
}

/// The given conversation, or a new one.
fn conversation(id: Option<&str>) -> Result<ConversationId, ConversationIdError> {
    id.map_or_else(|| Ok(ConversationId::mint()), str::parse)
}

/// Titles belong to the tool and, for older clients, to its annotations.
trait WithTitle {
    fn with_title_if_none(self, title: &str) -> Self;
}

impl WithTitle for ToolAnnotations {
    fn with_title_if_none(mut self, title: &str) -> Self {
        self.title.get_or_insert_with(|| title.to_owned());
        self
    }
}
