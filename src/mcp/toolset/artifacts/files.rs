//! The tools of this set that move files.

use std::ops::Not;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Artifact, Refusal, base, existing, path, session, tool};
use crate::api::arguments::parse;
use crate::api::error::CallError;
use crate::api::names::{LIST, READ, UPLOAD};
use crate::executor::spec::DATA_ALIAS;
use crate::files::FilesError;
use crate::mcp::tools::{Call, structured};
use crate::services::Services;
use crate::units::size_as_set;
use crate::workspace::path::PathError;
use crate::workspace::{Existing, WorkspaceError};

/// Largest file that is read in one answer.
const MAX_READ: u64 = 10 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
struct UploadArguments {
    /// Name of the file below /mnt/data, for example "data.csv".
    filename: String,
    /// Content of the file in base64.
    content_base64: String,
    /// The session: 1 to 64 letters, digits, `_` and `-`. Left out: a new one is made.
    #[serde(default)]
    #[schemars(with = "String")]
    session_id: Option<String>,
    /// Whether a file of that name may be replaced.
    #[serde(default)]
    overwrite: bool,
}

pub(super) fn upload_tool(services: &Services) -> Tool {
    let description = format!(
        "Stores a file in /mnt/data for programs of the session. At most {}. Example: {{\"filename\": \
         \"data.csv\", \"content_base64\": \"YSxiCjEsMgo=\"}}",
        size_as_set(services.files.max_upload_bytes),
    );
    // `overwrite` replaces what is there.
    let annotations = ToolAnnotations::new().destructive(true);
    tool::<UploadArguments>(UPLOAD, "Upload a file", description, &annotations)
}

pub(super) async fn upload(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, Refusal> {
    let UploadArguments {
        filename,
        content_base64,
        session_id,
        overwrite,
    } = parse(UPLOAD, arguments)?;
    let id = session(call, session_id.as_deref())?;
    let existing = if overwrite {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let stored = call
        .services
        .conversations
        .upload(
            &call.origin(UPLOAD),
            &id,
            filename,
            content_base64,
            existing,
        )
        .await;
    let file = stored.map_err(|error| refusal(error, "invalid_filename"))?;
    call.client.remember(&id);
    Ok(CallToolResult::structured(
        json!({ "session_id": id.id(), "path": path(&file.name) }),
    ))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReadArguments {
    /// The session.
    session_id: String,
    /// Path of the file for programs, for example "/mnt/data/chart.png".
    path: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReadAnswer {
    path: String,
    filename: String,
    mime_type: String,
    size_bytes: u64,
    content_base64: String,
}

pub(super) fn read_tool() -> Tool {
    let description = "Reads a file of the session as base64, at most 10 MiB. Example: {\"session_id\": \
        \"sess_1f…\", \"path\": \"/mnt/data/chart.png\"}";
    let annotations = ToolAnnotations::new().read_only(true).idempotent(true);
    tool::<ReadArguments>(READ, "Read a file", description.to_owned(), &annotations)
}

pub(super) async fn read(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, Refusal> {
    let ReadArguments {
        session_id,
        path: asked,
    } = parse(READ, arguments)?;
    let id = existing(call, &session_id).await?;
    let read = call.services.files.read_whole(&id, &asked, MAX_READ).await;
    let (file, bytes) = read.map_err(|error| refusal(error, "invalid_path"))?;
    let Some(bytes) = bytes else {
        let message = format!(
            "{} has {} bytes, the limit is {MAX_READ}: download it by its download_url",
            file.name, file.size
        );
        let size = Some(file.size);
        let refusal = Refusal::new("artifact_too_large", message);
        return Err(Refusal { size, ..refusal });
    };
    Ok(structured(&ReadAnswer {
        path: path(&file.name),
        filename: base(&file.name).to_owned(),
        mime_type: file.mime_type,
        size_bytes: bytes.len() as u64,
        content_base64: STANDARD.encode(bytes),
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListAnswer {
    artifacts: Vec<Artifact>,
    /// Only there when there are more pages: those servers know of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Whether files are missing, on other pages or altogether. Only there when it is true.
    #[serde(skip_serializing_if = "Not::not")]
    artifacts_truncated: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListArguments {
    /// The session.
    session_id: String,
    /// Reads on: `next_cursor` of the page before. Leave it out to begin.
    #[serde(default)]
    #[schemars(with = "String")]
    cursor: Option<String>,
}

pub(super) fn list_tool() -> Tool {
    let description = "Lists the files of a session by name, with sizes and download links. One page of up to 200 \
        files: when there is a next_cursor, call it again with that as cursor. Example: {\"session_id\": \
        \"sess_1f…\"}";
    let annotations = ToolAnnotations::new().read_only(true).idempotent(true);
    tool::<ListArguments>(LIST, "List files", description.to_owned(), &annotations)
}

pub(super) async fn list(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, Refusal> {
    let ListArguments { session_id, cursor } = parse(LIST, arguments)?;
    let id = existing(call, &session_id).await?;
    let list = call
        .services
        .files
        .list(&id)
        .await
        .map_err(CallError::from)?;
    let page = list.page(cursor.as_deref()).map_err(CallError::from)?;
    Ok(structured(&ListAnswer {
        artifacts: page.files.iter().map(Artifact::of).collect(),
        artifacts_truncated: page.truncated.is_some() || page.next_cursor.is_some(),
        next_cursor: page.next_cursor,
    }))
}

/// An error about a file; `name` is the code for a bad name, which depends on the argument.
fn refusal(error: FilesError, name: &'static str) -> Refusal {
    let code = match &error {
        FilesError::Path(PathError::Absolute) if name == "invalid_path" => {
            let message = format!("path must begin with {DATA_ALIAS}/: see {LIST}");
            return Refusal::new(name, message);
        }
        FilesError::Path(PathError::Absolute | PathError::Dots(_)) => Some("invalid_path"),
        FilesError::Path(_) => Some(name),
        FilesError::Base64(_) | FilesError::DataUri => Some("invalid_content"),
        FilesError::Workspace(WorkspaceError::Exists) => {
            let message = "there is a file of that name already: choose another filename, or replace it with \
                overwrite: true";
            return Refusal::new("file_exists", message);
        }
        _ => None,
    };
    let refusal = Refusal::from(CallError::from(error));
    Refusal {
        code: code.unwrap_or(refusal.code),
        ..refusal
    }
}
