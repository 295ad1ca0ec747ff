//! Files of a conversation without base64: streamed in both directions, or as a form.

use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest as _, Request, State};
use axum::http::header::CONTENT_RANGE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::TryStreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ApiError;
use super::error::{ErrorBody, Failures};
use super::extract::{FilePath, FromCaller, JsonBody, SessionPath};
use crate::api::code::Code;
use crate::audit::Origin;
use crate::body::declared;
use crate::conversation::Conversation;
use crate::conversations::Incoming;
use crate::files::{FileList, FilesError, StoredFile};
use crate::http::HttpState;
use crate::http::files::{self, Unsent, condition};
use crate::links::FileLink;
use crate::workspace::{Existing, WorkspaceError};

/// Most files in one form.
const MAX_PARTS: usize = 100;
/// Room in a form for everything except its files.
const MARGIN: u64 = 1 << 20;

/// A file that was stored.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stored {
    success: bool,
    file: FileLink,
}

/// Files that were stored.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StoredAll {
    success: bool,
    files: Vec<FileLink>,
}

/// Parts with a file name each.
#[derive(ToSchema)]
#[expect(dead_code, reason = "what the document says of a form")]
pub(super) struct Form {
    /// One or more files, each with its file name.
    #[schema(value_type = Vec<String>, format = Binary, min_items = 1)]
    file: Vec<Vec<u8>>,
}

/// Lists the files
///
/// At most 1,000 files, 7 folders deep. A conversation that was never used has none.
#[utoipa::path(
    get, path = "/api/v1/conversations/{id}/files", tag = "files", operation_id = "list_files",
    params(("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256)),
    responses((status = 200, description = "The files by name", body = FileList), Failures)
)]
pub(super) async fn list(
    State(state): State<HttpState>,
    SessionPath(id): SessionPath,
) -> Result<Json<FileList>, ApiError> {
    Ok(Json(state.0.services.files.list(&id).await?))
}

/// Downloads a file
///
/// No file has an `ETag`.
#[utoipa::path(
    get, path = "/api/v1/conversations/{id}/files/{*name}", tag = "files", operation_id = "download_file",
    params(
        ("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256),
        ("name" = String, Path, description = "The file below /data, with folders; percent-encoded", min_length = 1),
        ("Range" = Option<String>, Header, description = "One range of bytes", example = "bytes=0-1023"),
        ("If-Match" = Option<String>, Header, description = "`*`: there is to be such a file"),
        ("If-Unmodified-Since" = Option<String>, Header, description = "Not if it was written to after this date"),
    ),
    responses(
        (status = 200, description = "Its content", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "The part that the header Range names", body = Vec<u8>, content_type = "*/*"),
        (status = 404, description = "There is no such file", body = ErrorBody),
        (status = 412, description = "It is not as the request demands", body = ErrorBody),
        (status = 416, description = "The range has no byte of the file; `Content-Range` says how many it has", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn download(
    State(state): State<HttpState>,
    FilePath(id, name): FilePath,
    request: Request,
) -> Result<Response, ApiError> {
    let files = &state.0.services.files;
    let (file, open) = files.open(&id, &name).await?;
    let part = files::FilePart {
        is_head: request.method() == Method::HEAD,
        headers: request.headers(),
    };
    let found = files::found(&files.workspaces, part, &file.name, open);
    found.or_else(|unsent| match unsent {
        Unsent::Unmet => Err(unmet()),
        Unsent::Shorter(size) => {
            let message = format!("the range has none of the file's {size} bytes");
            let error = ApiError::new(Code::RangeNotSatisfiable, message);
            Ok(([(CONTENT_RANGE, files::none_of(size))], error).into_response())
        }
        Unsent::Busy => Err(ApiError::busy("too many downloads", files::DOWNLOADS_AGAIN)),
    })
}

/// Stores a file
///
/// The body is the file, as it is and whole: a `Content-Range` is refused. Replaces a file of that name. Folders on the
/// way are made.
#[utoipa::path(
    put, path = "/api/v1/conversations/{id}/files/{*name}", tag = "files", operation_id = "upload_file",
    params(
        ("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256),
        ("name" = String, Path, description = "The file below /data, with folders; percent-encoded", min_length = 1),
        ("If-Match" = Option<String>, Header, description = "`*`: there is to be such a file"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there is to be no such file"),
        ("If-Unmodified-Since" = Option<String>, Header, description = "Not if it was written to after this date"),
    ),
    request_body(content = Option<Vec<u8>>, content_type = "application/octet-stream", description = "None is an empty file"),
    responses(
        (status = 200, description = "It replaces what was there", body = Stored),
        (status = 201, description = "It is stored under a new name", body = Stored),
        (status = 409, description = "A folder is in the way, or there are too many files", body = ErrorBody),
        (status = 412, description = "What is there is not as the request demands", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn upload(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    FilePath(id, name): FilePath,
    request: Request,
) -> Result<(StatusCode, Json<Stored>), ApiError> {
    let (head, body) = request.into_parts();
    let stored = store(
        &state,
        &origin,
        &id,
        &name,
        &head.headers,
        body.into_data_stream(),
    );
    let StoredFile { file, created } = stored.await?;
    // RFC 9110, section 9.3.4.
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let success = true;
    Ok((status, Json(Stored { success, file })))
}

async fn store(
    state: &HttpState,
    origin: &Origin,
    id: &Conversation,
    name: &str,
    headers: &HeaderMap,
    body: BodyDataStream,
) -> Result<StoredFile, ApiError> {
    let services = &state.0.services;
    if headers.contains_key(CONTENT_RANGE) {
        return Err(ApiError::arguments(
            "a part of a file cannot be stored: send all of it, without Content-Range",
        ));
    }
    let existing = condition::existing(headers);
    // This is checked again when the whole file is there: checking it now only saves sending the file.
    if existing != Existing::Replace {
        let there = match services.files.open(id, name).await {
            Err(FilesError::NotFound(_)) => None,
            there => Some(there?.1),
        };
        if !existing.allows(there.as_ref()) {
            return Err(unmet());
        }
    }
    let incoming = Incoming {
        declared: declared(headers),
        patience: state.0.config.patience.body,
        body: body.map_err(|_| FilesError::Interrupted),
    };
    let conversations = &services.conversations;
    let file = conversations.receive(origin, id, name, existing, incoming);
    file.await.map_err(failed)
}

/// Stores files of a form
///
/// Each part with a file name is stored under that name; other parts are refused. Files that came before one that is
/// refused stay.
#[utoipa::path(
    post, path = "/api/v1/conversations/{id}/files", tag = "files", operation_id = "upload_form",
    params(("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256)),
    request_body(content = Form, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "They are stored", body = StoredAll),
        (status = 409, description = "A folder is in the way, or there are too many files", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn upload_form(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    SessionPath(id): SessionPath,
    request: Request,
) -> Result<Json<StoredAll>, ApiError> {
    let limit = state
        .0
        .services
        .files
        .max_upload_bytes
        .saturating_add(MARGIN);
    if declared(request.headers()).is_some_and(|length| length > limit) {
        return Err(FilesError::BodyTooLong(limit).into());
    }
    let patience = state.0.config.patience.body;
    let bounded = usize::try_from(limit).unwrap_or(usize::MAX);
    let request = request.map(|body| Body::new(http_body_util::Limited::new(body, bounded)));
    let mut form = Multipart::from_request(request, &()).await.map_err(|_| {
        let message = "the body must be a form: send multipart/form-data with a boundary";
        ApiError::new(Code::UnsupportedMediaType, message)
    })?;
    let mut stored = Vec::new();
    let receive = async {
        while let Some(part) = form
            .next_field()
            .await
            .map_err(|error| broken_form(&error, limit))?
        {
            let Some(name) = part.file_name().map(str::to_owned) else {
                return Err(nameless(part.name()));
            };
            if stored.len() == MAX_PARTS {
                return Err(ApiError::arguments(format!(
                    "the form has more than {MAX_PARTS} files: send them in several forms"
                )));
            }
            let incoming = Incoming {
                declared: None,
                patience,
                body: part.map_err(|error| broken_part(&error, limit)),
            };
            let conversations = &state.0.services.conversations;
            let file = conversations.receive(&origin, &id, &name, Existing::Replace, incoming);
            stored.push(file.await?.file);
        }
        Ok(())
    };
    let received = tokio::time::timeout(patience, receive).await;
    received.map_err(|_| ApiError::from(FilesError::TooSlow))??;
    if stored.is_empty() {
        return Err(ApiError::arguments(
            "the form has no file: send at least one part with a file name",
        ));
    }
    Ok(Json(StoredAll {
        success: true,
        files: stored,
    }))
}

/// Deletes a file
#[utoipa::path(
    delete, path = "/api/v1/conversations/{id}/files/{*name}", tag = "files", operation_id = "delete_file",
    params(
        ("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256),
        ("name" = String, Path, description = "The file below /data, with folders; percent-encoded", min_length = 1),
        ("If-Match" = Option<String>, Header, description = "`*`: there is to be such a file"),
        ("If-Unmodified-Since" = Option<String>, Header, description = "Not if it was written to after this date"),
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is no such file", body = ErrorBody),
        (status = 409, description = "It is a folder", body = ErrorBody),
        (status = 412, description = "It is not as the request demands", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn delete(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    FilePath(id, name): FilePath,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let demand = condition::demand(&headers);
    let conversations = &state.0.services.conversations;
    let deleted = conversations.delete_file(&origin, &id, &name, demand).await;
    deleted.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The new name of a file.
#[derive(Debug, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewName {
    /// Below /data, with folders.
    #[schema(min_length = 1)]
    filename: String,
}

/// Renames a file
///
/// Nothing may have the new name. Folders on the way are made, and the file keeps its content and its date.
#[utoipa::path(
    patch, path = "/api/v1/conversations/{id}/files/{*name}", tag = "files", operation_id = "rename_file",
    params(
        ("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256),
        ("name" = String, Path, description = "The file below /data, with folders; percent-encoded", min_length = 1),
    ),
    request_body = NewName,
    responses(
        (status = 200, description = "The file under its new name", body = Stored),
        (status = 404, description = "There is no such file", body = ErrorBody),
        (status = 409, description = "It is a folder, something has the new name, or there are too many files", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn rename(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    FilePath(id, name): FilePath,
    JsonBody(NewName { filename }): JsonBody<NewName>,
) -> Result<Json<Stored>, ApiError> {
    let conversations = &state.0.services.conversations;
    let file = conversations
        .rename_file(&origin, &id, &name, &filename)
        .await?;
    let success = true;
    Ok(Json(Stored { success, file }))
}

/// A failure; a demand that is not met is put in the words of HTTP.
fn failed(error: FilesError) -> ApiError {
    match error {
        FilesError::Workspace(WorkspaceError::Exists | WorkspaceError::Unmet) => unmet(),
        error => error.into(),
    }
}

fn unmet() -> ApiError {
    let message = "the file is not as the headers If-Match, If-None-Match or If-Unmodified-Since demand: look at it \
                   again";
    ApiError::new(Code::PreconditionFailed, message)
}

fn broken_form(error: &MultipartError, limit: u64) -> ApiError {
    if is_too_long(error) {
        return FilesError::BodyTooLong(limit).into();
    }
    ApiError::arguments(format!(
        "the form is not well formed: {}",
        error.body_text()
    ))
}

fn broken_part(error: &MultipartError, limit: u64) -> FilesError {
    if is_too_long(error) {
        FilesError::BodyTooLong(limit)
    } else {
        FilesError::Interrupted
    }
}

/// Whether the form exceeded its limit, which can happen between its files or within one.
fn is_too_long(error: &MultipartError) -> bool {
    error.status() == StatusCode::PAYLOAD_TOO_LARGE
}

fn nameless(part: Option<&str>) -> ApiError {
    let part: String = part.unwrap_or_default().chars().take(64).collect();
    ApiError::arguments(format!(
        "the part {part:?} of the form is no file: give it a file name, or leave it out"
    ))
}
