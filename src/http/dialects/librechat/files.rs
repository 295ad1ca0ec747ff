//! Files of sessions: their bytes, what there is to know of one, which there are.

use std::time::SystemTime;

use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::Method;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::not_found;
use super::reference::{self, Listings, file_id};
use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::files::FilesError;
use crate::http::HttpState;
use crate::http::files::{FilePart, found};
use crate::http::rest::{ApiError, FromCaller};
use crate::links::FileLink;
use crate::workspace::OpenFile;

/// How much a listing is to say.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Detail {
    #[serde(default)]
    detail: String,
}

/// A file of a session of the caller's, by the names of both.
async fn opened(
    state: &HttpState,
    origin: &Origin,
    session: &str,
    file: &str,
) -> Result<(Conversation, FileLink, OpenFile), ApiError> {
    let services = &state.0.services;
    let session = reference::session(services, &origin.caller, session)?;
    let (link, open) = Listings::default().open(services, &session, file).await?;
    Ok((session, link, open))
}

pub(super) async fn download(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Path((session, file)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let (_, link, open) = opened(&state, &origin, &session, &file).await?;
    let part = FilePart {
        is_head: request.method() == Method::HEAD,
        headers: request.headers(),
    };
    let name = link.name.rsplit('/').next().unwrap_or_default();
    let response = found(&state.0.services.files.workspaces, part, name, open);
    response.map_err(|_| ApiError(not_found("File not found")))
}

pub(super) async fn describe(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Path((session, file)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let (_, link, open) = opened(&state, &origin, &session, &file).await?;
    Ok(Json(json!({
        "name": link.name,
        "originalFilename": link.name,
        "size": open.size,
        "lastModified": written(open.modified),
        "etag": file,
        "contentType": link.mime_type,
        "readOnly": reference::is_read_only(&session),
    })))
}

/// An unknown session has no files, which is no mistake.
pub(super) async fn list(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Path(session): Path<String>,
    Query(Detail { detail }): Query<Detail>,
) -> Result<Json<Value>, ApiError> {
    let services = &state.0.services;
    let session = reference::session(services, &origin.caller, &session)?;
    let listed = services.files.list(&session).await?.files;
    let mut told = Vec::with_capacity(listed.len());
    for file in listed {
        let open = match services.files.open(&session, &file.name).await {
            Ok((_, open)) => open,
            Err(FilesError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        told.push(row(&session, &file, &written(open.modified), &detail));
    }
    Ok(Json(Value::Array(told)))
}

pub(super) async fn delete(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Path((session, file)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let (session, link, _) = opened(&state, &origin, &session, &file).await?;
    let conversations = &state.0.services.conversations;
    conversations
        .delete_file(&origin, &session, &link.name, None)
        .await?;
    Ok(Json(json!({ "message": "success" })))
}

fn row(session: &Conversation, file: &FileLink, modified: &str, detail: &str) -> Value {
    let id = file_id(session, &file.name);
    if detail == "normalized" {
        return json!({
            "id": id, "name": file.name, "storage_session_id": session.id(), "size": file.size,
            "contentType": file.mime_type, "lastModified": modified
        });
    }
    let extension = file
        .name
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension);
    let mut row = json!({
        "name": format!("{}/{id}.{extension}", session.id()), "size": file.size, "lastModified": modified, "etag": id
    });
    if detail == "full" {
        row["metadata"] = json!({ "original-filename": file.name, "content-type": file.mime_type });
    }
    row
}

/// When a file was written to, as RFC 3339 has it.
fn written(modified: Option<SystemTime>) -> String {
    humantime::format_rfc3339_seconds(modified.unwrap_or(SystemTime::UNIX_EPOCH)).to_string()
}
