//! `upload_file`: stores a file in a conversation.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Call, define, parse, structured};
use crate::api::error::CallError;
use crate::files::ConversationFiles;
use crate::links::FileLink;
use crate::units::size_as_set;
use crate::workspace::Existing;

pub(super) const NAME: &str = "upload_file";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// Names the conversation. Leave it out of the first call, which makes and returns a new one: one that you make up
    /// may be somebody else's. 1 to 256 bytes.
    #[serde(default)]
    #[schemars(with = "String")]
    conversation_id: Option<String>,
    /// Name of the file below /data, for example "data.csv" or "in/data.csv".
    filename: String,
    /// Content of the file in base64.
    content: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Uploaded {
    success: bool,
    /// What happened, in a sentence.
    message: String,
    file: FileLink,
    /// The conversation: give it to `run_code` to find the file in /data.
    conversation_id: String,
}

pub(super) fn tool(files: &ConversationFiles) -> Tool {
    let description = format!(
        "Stores a file for programs of the same conversation, which find it in /data under the same name. Replaces a \
         file of that name. At most {}. Example: {{\"filename\": \"data.csv\", \
         \"content\": \"YSxiCjEsMgozLDQK\"}}",
        size_as_set(files.max_upload_bytes),
    );
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(true)
        .idempotent(true)
        .open_world(false);
    define::<Arguments, Uploaded>(NAME, "Upload a file", description, annotations)
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let id = call.conversation(arguments.conversation_id.as_deref())?;
    call.client.remember(&id);
    let file = call
        .services
        .conversations
        .upload(
            &call.origin(NAME),
            &id,
            arguments.filename,
            arguments.content,
            Existing::Replace,
        )
        .await?;
    Ok(structured(&Uploaded {
        success: true,
        message: format!(
            "File '{}' uploaded successfully ({} bytes)",
            file.name, file.size
        ),
        file,
        conversation_id: id.id().to_owned(),
    }))
}
