//! `POST /upload` and `POST /upload/batch`: a session of its own for what comes in one form.

use axum::Json;
use axum::extract::multipart::{Field, Multipart};
use axum::extract::{FromRequest as _, Request, State};
use futures::TryStreamExt as _;
use serde_json::{Value, json};

use super::reference::{Use, file_id, new_session};
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::audit::Origin;
use crate::conversation::Conversation;
use crate::conversations::Incoming;
use crate::files::FilesError;
use crate::http::HttpState;
use crate::http::rest::{ApiError, FromCaller};
use crate::workspace::Existing;

/// Most files of one form.
const MAX_FILES: usize = 200;

/// What became of the files of a form: each with its name.
struct Received {
    session: Conversation,
    files: Vec<(String, Result<String, CallError>)>,
    /// Whether there were more.
    is_full: bool,
}

impl Received {
    fn new(state: &HttpState, origin: &Origin, allowed: Use) -> Result<Self, ApiError> {
        Ok(Self {
            session: new_session(&state.0.services, &origin.caller, allowed)?,
            files: Vec::new(),
            is_full: false,
        })
    }
}

pub(super) async fn one(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let mut received = receive(&state, &origin, request).await?;
    let Some((name, stored)) = received.files.drain(..).next() else {
        return Err(ApiError::arguments(
            "the form has no file: send a part named file, with its name",
        ));
    };
    let id = stored.map_err(ApiError)?;
    let session = received.session.id();
    Ok(Json(json!({
        "message": "success",
        "storage_session_id": session,
        "session_id": session,
        "files": [{ "fileId": id, "filename": name }],
    })))
}

pub(super) async fn many(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let received = receive(&state, &origin, request).await?;
    let failed = received
        .files
        .iter()
        .filter(|(_, stored)| stored.is_err())
        .count();
    let succeeded = received.files.len() - failed;
    if succeeded == 0 {
        let first = received
            .files
            .into_iter()
            .find_map(|(_, stored)| stored.err());
        let none = || {
            CallError::invalid("the form has no file: send parts named file, each with its name")
        };
        return Err(ApiError(first.unwrap_or_else(none)));
    }
    let files: Vec<_> = received
        .files
        .iter()
        .map(|(name, stored)| match stored {
            Ok(id) => json!({ "status": "success", "filename": name, "fileId": id }),
            Err(error) => json!({ "status": "error", "filename": name, "error": error.message }),
        })
        .collect();
    Ok(Json(json!({
        "message": if failed == 0 { "success" } else { "partial_success" },
        "storage_session_id": received.session.id(),
        "session_id": received.session.id(),
        "files": files,
        "succeeded": succeeded,
        "failed": failed,
        "filesLimitReached": received.is_full,
        "maxFiles": MAX_FILES,
    })))
}

async fn receive(
    state: &HttpState,
    origin: &Origin,
    request: Request,
) -> Result<Received, ApiError> {
    let broken = |_| {
        ApiError::new(
            Code::UnsupportedMediaType,
            "the body must be a form: send multipart/form-data with a boundary",
        )
    };
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(broken)?;
    let patience = state.0.config.patience.body;
    let done = tokio::time::timeout(patience, read(state, origin, &mut form)).await;
    done.map_err(|_| FilesError::TooSlow)?
}

/// Reads the parts of a form. What is said of all its files comes before the first one.
async fn read(
    state: &HttpState,
    origin: &Origin,
    form: &mut Multipart,
) -> Result<Received, ApiError> {
    let (mut allowed, mut received) = (Use::Any, None);
    while let Some(part) = form
        .next_field()
        .await
        .map_err(|_| FilesError::Interrupted)?
    {
        let Some(name) = part.file_name().map(str::to_owned) else {
            if part.name() == Some("read_only") {
                if received.is_some() {
                    let message = "read_only is after a file: send it before all of them";
                    return Err(ApiError::arguments(message));
                }
                let text = part.text().await.map_err(|_| FilesError::Interrupted)?;
                allowed = read_only(&text)?;
            }
            continue;
        };
        let received = match &mut received {
            Some(received) => received,
            none => none.insert(Received::new(state, origin, allowed)?),
        };
        if received.files.len() == MAX_FILES {
            received.is_full = true;
            break;
        }
        let stored = store(state, origin, &received.session, &name, part).await;
        received.files.push((name, stored));
    }
    received.map_or_else(|| Received::new(state, origin, allowed), Ok)
}

fn read_only(text: &str) -> Result<Use, ApiError> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(Use::ReadOnly),
        "" | "false" | "0" => Ok(Use::Any),
        _ => Err(ApiError::arguments("read_only must be true or false")),
    }
}

async fn store(
    state: &HttpState,
    origin: &Origin,
    session: &Conversation,
    name: &str,
    part: Field<'_>,
) -> Result<String, CallError> {
    let incoming = Incoming {
        declared: None,
        patience: state.0.config.patience.body,
        body: part.map_err(|_| FilesError::Interrupted),
    };
    let conversations = &state.0.services.conversations;
    let stored = conversations
        .receive(origin, session, name, Existing::Replace, incoming)
        .await?;
    Ok(file_id(session, &stored.file.name))
}
