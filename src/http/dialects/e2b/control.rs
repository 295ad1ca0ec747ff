//! The control plane: sandboxes are made, described, listed, kept and killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::sandboxes::{Sandbox, Wish, new_id};
use crate::api::code::Code;
use crate::audit::Origin;
use crate::http::HttpState;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller, Segments};
use crate::run::check_environment;
use crate::scope::Rights;

/// What clients adapt to: from this version on they send files as they are, and before the next they ask for nothing
/// that is not here.
const ENVD: &str = "0.5.7";
/// How long a sandbox is there that nobody says a time for.
const TIMEOUT: u64 = 300;
/// How long one can be asked for.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;
/// Names and values of metadata together, in bytes.
const MAX_BYTES: usize = 32 << 10;
/// Bytes of the name of a template.
const MAX_TEMPLATE: usize = 128;
/// Most sandboxes in one answer.
const PAGE: usize = 100;

/// What a sandbox is to be like. Whatever else there is, such as a network, is not to be had.
#[derive(Debug, Deserialize)]
pub(super) struct Create {
    /// Clients always send one. All sandboxes are the same.
    #[serde(default, rename = "templateID")]
    template: Option<String>,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    #[serde(rename = "envVars")]
    variables: Option<BTreeMap<String, String>>,
}

/// How long a sandbox is to be there from now.
#[derive(Debug, Deserialize)]
pub(super) struct Timeout {
    timeout: Option<u64>,
    /// The same for `refreshes`.
    duration: Option<u64>,
}

/// Which sandboxes to list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    /// Pairs that they have, as in a query of their own.
    metadata: Option<String>,
    state: Option<String>,
    limit: Option<usize>,
    /// The id that the last page ended with.
    next_token: Option<String>,
}

pub(super) async fn create(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(rights): Extension<Rights>,
    Fields(create): Fields<Create>,
) -> Result<Response, ApiError> {
    let time = time(create.timeout.unwrap_or(TIMEOUT))?;
    let wish = Wish {
        template: template(create.template)?,
        metadata: metadata(create.metadata)?,
        variables: variables(create.variables)?,
    };
    let id = new_id();
    let name = id.parse().map_err(ApiError::from)?;
    let conversation = state.0.services.files.conversation(&origin.caller, name);
    let sandbox = Sandbox::new(id, (origin.caller, rights), conversation, wish, time);
    match state.0.sandboxes.add(sandbox) {
        Ok(sandbox) => Ok((StatusCode::CREATED, Json(told(&sandbox))).into_response()),
        Err(full) => {
            let error = ApiError::new(Code::Busy, full.to_string());
            // Clients would try again at once.
            Ok(([("should-retry", "false")], error).into_response())
        }
    }
}

/// The variables of all programs of a sandbox, which none could run with otherwise.
fn variables(
    variables: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, ApiError> {
    let variables = variables.unwrap_or_default();
    let wrong = |error| ApiError::arguments(format!("envVars: {error}"));
    check_environment(&variables).map_err(wrong)?;
    Ok(variables)
}

/// What a client calls the kind of sandbox that it wants.
fn template(name: Option<String>) -> Result<String, ApiError> {
    let name = name.unwrap_or_else(|| "base".to_owned());
    if name.len() > MAX_TEMPLATE {
        let message = format!(
            "templateID has {} bytes, the limit is {MAX_TEMPLATE}: give it a shorter one",
            name.len()
        );
        return Err(ApiError::arguments(message));
    }
    Ok(name)
}

/// A sandbox for a client that knows its id. Its time becomes longer and never shorter.
pub(super) async fn connect(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
    Fields(asked): Fields<Timeout>,
) -> Result<Json<Value>, ApiError> {
    let sandbox = theirs(&state, &origin, &id)?;
    let time = time(asked.timeout.unwrap_or(TIMEOUT))?;
    state.0.sandboxes.keep_for(&sandbox, time);
    Ok(Json(told(&sandbox)))
}

pub(super) async fn kill(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
) -> Result<StatusCode, ApiError> {
    let sandbox = theirs(&state, &origin, &id)?;
    if !state.0.sandboxes.remove(&sandbox) {
        return Err(unknown(&id));
    }
    let conversations = &state.0.services.conversations;
    let deleted = conversations.delete(&origin, &sandbox.conversation).await;
    if let Err(error) = deleted {
        // Only what is gone is forgotten: its client can ask again.
        state.0.sandboxes.put_back(sandbox);
        return Err(error.into());
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn set_timeout(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
    Fields(asked): Fields<Timeout>,
) -> Result<StatusCode, ApiError> {
    let sandbox = theirs(&state, &origin, &id)?;
    let seconds = asked.timeout.or(asked.duration).unwrap_or(TIMEOUT);
    state.0.sandboxes.end_after(&sandbox, time(seconds)?);
    Ok(StatusCode::NO_CONTENT)
}

/// The same for clients that only ask for more time.
pub(super) async fn refresh(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
    Fields(asked): Fields<Timeout>,
) -> Result<StatusCode, ApiError> {
    let sandbox = theirs(&state, &origin, &id)?;
    let time = time(asked.duration.unwrap_or(TIMEOUT))?;
    state.0.sandboxes.keep_for(&sandbox, time);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn show(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, ApiError> {
    let sandbox = theirs(&state, &origin, &id)?;
    Ok(Json(described(&state, &sandbox)))
}

/// Nothing is measured but runs.
pub(super) async fn metrics(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Segments(id): Segments<String>,
) -> Result<Json<Value>, ApiError> {
    theirs(&state, &origin, &id)?;
    Ok(Json(json!([])))
}

pub(super) async fn list(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Query(filter): Query<Filter>,
) -> Result<Response, ApiError> {
    let all = state.0.sandboxes.all_of(&origin.caller);
    let mut listed: Vec<_> = all.iter().filter(|each| filter.takes(each)).collect();
    if let Some(last) = &filter.next_token {
        let at = listed.iter().position(|sandbox| sandbox.id == *last);
        let at = at.ok_or_else(|| {
            ApiError::arguments("nextToken is not one that there is now: begin with the first page")
        })?;
        listed.drain(..=at);
    }
    let limit = filter.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let next = listed.get(limit).map(|_| listed[limit - 1].id.clone());
    listed.truncate(limit);
    let rows: Vec<_> = listed
        .into_iter()
        .map(|each| described(&state, each))
        .collect();
    let next = next.map(|next| [("x-next-token", next)]);
    Ok((next, Json(rows)).into_response())
}

impl Filter {
    fn takes(&self, sandbox: &Sandbox) -> bool {
        let wanted = self.state.as_deref().unwrap_or_default();
        let runs = wanted.is_empty() || wanted.split(',').any(|state| state == "running");
        // Clients encode names and values once more.
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = self.metadata.as_deref().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(pairs.as_bytes());
        runs && pairs.all(|(name, value)| {
            let there = sandbox.wish.metadata.get(&plain(&name));
            there.is_some_and(|there| *there == plain(&value))
        })
    }
}

/// A caller's sandbox by its id.
fn theirs(state: &HttpState, origin: &Origin, id: &str) -> Result<Arc<Sandbox>, ApiError> {
    let found = state.0.sandboxes.of(&origin.caller, id);
    found.ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> ApiError {
    let id: String = id.chars().take(64).collect();
    let message =
        format!("there is no sandbox {id:?} of yours: it was killed, or its time is over");
    ApiError::new(Code::NotFound, message)
}

fn time(seconds: u64) -> Result<Duration, ApiError> {
    if seconds > MAX_TIMEOUT {
        let message = format!("timeout is {seconds}: it must be at most {MAX_TIMEOUT} seconds");
        return Err(ApiError::arguments(message));
    }
    Ok(Duration::from_secs(seconds))
}

fn metadata(pairs: Option<BTreeMap<String, String>>) -> Result<BTreeMap<String, String>, ApiError> {
    let pairs = pairs.unwrap_or_default();
    let bytes: usize = pairs
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > MAX_BYTES {
        let message =
            format!("metadata has {bytes} bytes, the limit is {MAX_BYTES}: say less in it");
        return Err(ApiError::arguments(message));
    }
    Ok(pairs)
}

/// What a client needs to use a sandbox.
fn told(sandbox: &Sandbox) -> Value {
    json!({
        "templateID": sandbox.wish.template,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "envdVersion": ENVD,
        "envdAccessToken": sandbox.token(),
        "domain": null,
    })
}

/// What there is to know of a sandbox.
fn described(state: &HttpState, sandbox: &Sandbox) -> Value {
    let services = &state.0.services;
    let quota = services.files.workspaces.quota_of(sandbox.owner.tenant());
    let cores = services.limits.nano_cpus.unwrap_or(1_000_000_000);
    json!({
        "templateID": sandbox.wish.template,
        "sandboxID": sandbox.id,
        "clientID": "local",
        "startedAt": written(sandbox.started),
        "endAt": written(SystemTime::now() + sandbox.left()),
        "envdVersion": ENVD,
        "cpuCount": (cores / 1_000_000_000).max(1),
        "memoryMB": services.limits.memory >> 20,
        "diskSizeMB": quota >> 20,
        "state": "running",
        "metadata": sandbox.wish.metadata,
        "domain": null,
    })
}

fn written(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
