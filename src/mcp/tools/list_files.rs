//! `list_files`: the files of a conversation.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{define, parse, structured};
use crate::api::error::CallError;
use crate::files::ConversationFiles;
use crate::files::FilePage;
use crate::principal::Principal;

pub(super) const NAME: &str = "list_files";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// Names the conversation.
    conversation_id: String,
    /// Reads on: `nextCursor` of the page before. Leave it out to begin.
    #[serde(default)]
    #[schemars(with = "String")]
    cursor: Option<String>,
}

pub(super) fn tool() -> Tool {
    let description = "Lists the files of a conversation (what its programs see in /data) by name, with sizes and \
        download links. One page of up to 200 files: call it again with nextCursor as cursor for the next one. At most \
        1,000 files in all, 7 folders deep. Example: {\"conversationId\": \"conv_1f…\"}";
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, FilePage>(NAME, "List files", description.to_owned(), annotations)
}

pub(super) async fn call(
    files: &ConversationFiles,
    caller: &Principal,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let conversation = files.conversation(caller, arguments.conversation_id.parse()?);
    let list = files.list(&conversation).await?;
    Ok(structured(&list.page(arguments.cursor.as_deref())?))
}
