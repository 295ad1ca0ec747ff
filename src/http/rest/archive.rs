//! All files of a conversation in one answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse as _, Response};

use super::ApiError;
use super::error::{ErrorBody, Failures};
use super::extract::SessionPath;
use crate::http::HttpState;
use crate::http::files::{self, DOWNLOADS_AGAIN};

/// Most archives in the making: each takes a thread and a part of the processor.
pub(in crate::http) const AT_A_TIME: usize = 2;

/// Downloads all files as one archive
///
/// A ZIP archive that is made while it is sent: of the files that `list_files` lists, each as it is when its turn
/// comes. Backslashes and control characters in names become `_`. Its size is not known before, and an answer that
/// breaks off is not complete.
#[utoipa::path(
    get, path = "/api/v1/conversations/{id}/archive", tag = "files", operation_id = "download_archive",
    params(("id" = String, Path, description = "The conversation, percent-encoded", min_length = 1, max_length = 256)),
    responses(
        (status = 200, description = "The archive; empty if there is no file", body = Vec<u8>, content_type = "application/zip"),
        (status = 409, description = "There are more files than are listed", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn download(
    State(state): State<HttpState>,
    SessionPath(id): SessionPath,
    method: Method,
) -> Result<Response, ApiError> {
    let files = &state.0.services.files;
    let archive = files.archive(&id).await?;
    let headers = [
        (CONTENT_TYPE, "application/zip"),
        (CONTENT_DISPOSITION, "attachment; filename=\"files.zip\""),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "private, no-store"),
    ];
    if method == Method::HEAD {
        return Ok(headers.into_response());
    }
    let busy = |what| ApiError::busy(what, DOWNLOADS_AGAIN);
    let turn = Arc::clone(&state.0.archives).try_acquire_owned();
    let turn = turn.map_err(|_| busy("too many archives"))?;
    let slot = files.workspaces.reserve_download(&archive.key);
    let slot = slot.ok_or_else(|| busy("too many downloads"))?;
    let body = files::written(
        files.workspaces.tasks(),
        archive.bytes,
        (turn, slot),
        |to| archive.write(to),
    );
    Ok((headers, body).into_response())
}
