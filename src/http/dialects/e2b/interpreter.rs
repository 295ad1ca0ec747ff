//! `/execute` and `/contexts`: cells, whose results are told line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse as _, Response};
use futures::stream::unfold;
use serde::Deserialize;
use serde_json::Value;

use super::contexts::Language;
use super::results::Lines;
use super::sandboxes::Sandbox;
use super::{not_here, paths};
use crate::http::HttpState;
use crate::http::dialects::bash;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller, Segments};
use crate::ledger::CellEvents;
use crate::run::stage::Stage;
use crate::run::{KernelWish, RunRequest};
use crate::sandbox::RecordMark;

/// A cell.
#[derive(Debug, Deserialize)]
pub(super) struct Cell {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

/// What a context is to be like.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    language: Option<String>,
    cwd: Option<String>,
}

/// Runs a cell. Going away ends it. How long it may take, its client does not say.
pub(super) async fn execute(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(cell): Fields<Cell>,
) -> Result<Response, ApiError> {
    if cell.context_id.is_some() && cell.language.is_some() {
        let message = "there are both context_id and language: give one of them";
        return Err(ApiError::arguments(message));
    }
    let language = Language::named(cell.language.as_deref())?;
    let next = sandbox
        .contexts
        .begin(cell.context_id.as_deref(), language)?;
    let services = &state.0.services;
    let runner = next.language.kernel();
    let runner = runner.unwrap_or_else(|| bash::language(services, sandbox.owner.tenant()));
    let mark = RecordMark::random();
    let mut request = RunRequest::plain(sandbox.conversation.clone(), runner, cell.code);
    request.environment.clone_from(&sandbox.wish.variables);
    request
        .environment
        .extend(cell.env_vars.unwrap_or_default());
    request.timeout = Some(services.limits.timeout_max);
    request.stateful = next.language.kernel().is_some();
    request.kernel = KernelWish {
        wait: true,
        restart: false,
        number: next.number,
        records: Some(mark),
    };
    let run = services.ledger.start(origin, request);
    let guard = run.cancel_on_drop();
    let mut stages = run.progress.stage.subscribe();
    // The run owns the sender.
    let _ = stages.wait_for(Stage::may_be_answered).await;
    if let Some(Err(error)) = run.result().as_deref() {
        return Err(error.into());
    }
    let conversation = sandbox.conversation.clone();
    let lines = Lines::new(CellEvents::of(run, mark), conversation, next.count);
    let begun = (lines, state.clone(), state.0.calls.token(), guard);
    let lines = unfold(begun, async |(mut lines, state, unanswered, guard)| {
        let line = lines.next(&state.0.services.files).await?;
        Some((
            Ok::<_, std::convert::Infallible>(line),
            (lines, state, unanswered, guard),
        ))
    });
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        // nginx would pass on many lines together, or all of them at the end.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

pub(super) async fn make(
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(wanted): Fields<Wanted>,
) -> Result<Json<Value>, ApiError> {
    let cwd = wanted.cwd.as_deref().unwrap_or(paths::HOME);
    if !matches!(paths::named(cwd), Ok(None)) {
        let message = format!(
            "cwd is not {}, where every context begins: change the directory in a cell",
            paths::HOME
        );
        return Err(not_here(&message));
    }
    let language = Language::named(wanted.language.as_deref())?;
    sandbox.contexts.make(language).map(Json)
}

pub(super) async fn list(Extension(sandbox): Extension<Arc<Sandbox>>) -> Json<Value> {
    Json(sandbox.contexts.told())
}

pub(super) async fn remove(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Segments(id): Segments<String>,
) -> Result<StatusCode, ApiError> {
    let number = sandbox.contexts.remove(&id)?;
    let conversations = &state.0.services.conversations;
    conversations.end_kernels(&sandbox.conversation, number);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn restart(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Segments(id): Segments<String>,
) -> Result<StatusCode, ApiError> {
    let before = sandbox.contexts.restart(&id)?;
    let conversations = &state.0.services.conversations;
    conversations.end_kernels(&sandbox.conversation, before);
    Ok(StatusCode::OK)
}
