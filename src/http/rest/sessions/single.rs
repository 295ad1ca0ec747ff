//! One session: making it, looking at it, interrupting what runs in it.

use axum::extract::State;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Done, Session};
use crate::http::HttpState;
use crate::http::rest::ApiError;
use crate::http::rest::envelope::Envelope;
use crate::http::rest::error::{ErrorBody, Failures};
use crate::http::rest::extract::{JsonBody, SessionPath, session_id};
use crate::principal::Principal;

/// Where programs see the files of their session.
const DIRECTORY: &str = "/data";

/// A session to be made.
#[derive(Debug, Default, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http::rest) struct SessionRequest {
    /// Its id: 1 to 256 bytes. Left out: a new one is made. One that exists stays as it is.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Addresses of files. They are not fetched: each is told in `errors`.
    file_urls: Option<Vec<String>>,
    /// The same with ids.
    files: Option<Vec<FileAddress>>,
    /// Accepted and without effect, since nothing is fetched.
    #[expect(dead_code, reason = "clients of older servers send it")]
    timeout: Option<f64>,
}

/// The address of a file and what a client calls it.
#[derive(Debug, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
struct FileAddress {
    /// Where it is.
    url: String,
    /// What the client calls it.
    id: String,
}

/// A session that is there.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http::rest) struct Made {
    session_id: String,
    /// Where its programs start and see its files.
    #[schema(example = "/data")]
    working_directory: &'static str,
    /// Always empty: nothing is fetched.
    downloaded_files: Vec<String>,
    /// For each address that was given: what to do instead.
    errors: Vec<String>,
}

/// Makes a session
///
/// Programs can also name one that was not made before.
#[utoipa::path(
    post, path = "/api/v1/sessions", tag = "runs", operation_id = "create_session",
    request_body = Option<SessionRequest>,
    responses((status = 200, description = "It is there", body = Envelope<Made>), Failures)
)]
pub(in crate::http::rest) async fn make(
    State(state): State<HttpState>,
    Extension(caller): Extension<Principal>,
    JsonBody(request): JsonBody<SessionRequest>,
) -> Result<Json<Envelope<Made>>, ApiError> {
    let SessionRequest {
        session_id: id,
        file_urls,
        files,
        ..
    } = request;
    let known = &state.0.services.files;
    let id = match id {
        Some(id) => known.conversation(&caller, id.parse().map_err(session_id)?),
        None => known.new_conversation(&caller),
    };
    state.0.sessions.touch(&caller, &id, 0);
    let addresses = file_urls.into_iter().flatten().map(|url| not_fetched(&url));
    let named = files.into_iter().flatten();
    let named = named.map(|file| format!("{}: {}", file.id, not_fetched(&file.url)));
    Ok(Json(Envelope::of(Made {
        session_id: id.id().to_owned(),
        working_directory: DIRECTORY,
        downloaded_files: Vec::new(),
        errors: addresses.chain(named).collect(),
    })))
}

fn not_fetched(url: &str) -> String {
    format!(
        "{url} was not fetched, since this server downloads nothing for programs: send the file with PUT \
         /api/v1/conversations/{{session_id}}/files/{{name}}"
    )
}

/// A session and its files.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http::rest) struct SessionDetail {
    #[serde(flatten)]
    session: Session,
    /// Where its programs start and see its files.
    working_directory: &'static str,
    /// Its files by name.
    files: Vec<SessionFile>,
    /// How many are listed.
    total_files: usize,
}

/// A file of a session.
#[derive(Debug, Serialize, ToSchema)]
struct SessionFile {
    /// Its name, which is its id too.
    id: String,
    /// Its name below the working directory.
    filename: String,
    /// Always true.
    exists: bool,
    /// Bytes.
    size: u64,
    /// Where programs see it.
    path: String,
}

/// Shows a session
///
/// One of those that are listed, with its files.
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}", tag = "runs", operation_id = "show_session",
    params(("session_id" = String, Path, description = "The session, percent-encoded", min_length = 1, max_length = 256)),
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "There is no such session", body = ErrorBody),
        Failures
    )
)]
pub(in crate::http::rest) async fn show(
    State(state): State<HttpState>,
    Extension(caller): Extension<Principal>,
    SessionPath(id): SessionPath,
) -> Result<Json<SessionDetail>, ApiError> {
    let known = state.0.sessions.get(&caller, &id)?;
    let list = state.0.services.files.list(&id).await?;
    let files: Vec<_> = list
        .files
        .into_iter()
        .map(|file| SessionFile {
            id: file.name.clone(),
            path: format!("{DIRECTORY}/{}", file.name),
            exists: true,
            size: file.size,
            filename: file.name,
        })
        .collect();
    Ok(Json(SessionDetail {
        session: Session::of(&state, &id, known),
        working_directory: DIRECTORY,
        total_files: files.len(),
        files,
    }))
}

/// Interrupts a session
///
/// Ends the program that runs in it; variables stay.
#[utoipa::path(
    post, path = "/api/v1/sessions/{session_id}/interrupt", tag = "runs", operation_id = "interrupt_session",
    params(("session_id" = String, Path, description = "The session, percent-encoded", min_length = 1, max_length = 256)),
    responses(
        (status = 200, description = "Nothing runs in it any more, or will soon", body = Done),
        (status = 404, description = "There is no such session", body = ErrorBody),
        Failures
    )
)]
pub(in crate::http::rest) async fn interrupt(
    State(state): State<HttpState>,
    Extension(caller): Extension<Principal>,
    SessionPath(id): SessionPath,
) -> Result<Json<Done>, ApiError> {
    state.0.sessions.get(&caller, &id)?;
    if let Some(run) = state.0.services.ledger.latest(&caller, &id) {
        run.cancel();
    }
    Ok(Json(Done {
        success: true,
        message: format!("Session {} interrupted", id.id()),
    }))
}
