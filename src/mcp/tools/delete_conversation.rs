//! `delete_conversation`: deletes all files of a conversation.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Call, define, parse, structured};
use crate::api::error::CallError;

pub(super) const NAME: &str = "delete_conversation";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// Names the conversation.
    conversation_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    success: bool,
    /// Whether there was anything to delete.
    existed: bool,
    /// What happened, in a sentence.
    message: String,
}

pub(super) fn tool() -> Tool {
    let description = "Deletes all files of a conversation for ever and stops its programs. Use it when the user asks \
        for it or the files are not needed any more. Example: {\"conversationId\": \"conv_1f…\"}";
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, Deleted>(
        NAME,
        "Delete a conversation",
        description.to_owned(),
        annotations,
    )
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let conversation = call.conversation(Some(&arguments.conversation_id))?;
    let (conversations, origin) = (&call.services.conversations, call.origin(NAME));
    let existed = conversations.delete(&origin, &conversation).await?;
    let message = if existed {
        "The conversation's files were deleted"
    } else {
        "There was nothing to delete"
    };
    Ok(structured(&Deleted {
        success: true,
        existed,
        message: message.to_owned(),
    }))
}
