//! `POST /exec/programmatic`: a program that calls tools of its client's, and waits for what they answer.
//!
//! ```text
//! start ──▶ running ── calls ──▶ waiting, under a token ── results ──▶ running ──▶ ended
//!              └── its client goes away or cancels, a turn takes too long ──────────▲
//! ```
//!
//! The program goes on where it called, so nothing in it is done twice. It keeps its place meanwhile, for as long as a
//! run may take.

mod caller;
mod stub;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::caller::{Caller, ToolResult, Turn};
use super::not_found;
use super::reference::{FileRef, new_token};
use crate::http::HttpState;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller};
use crate::principal::Principal;

/// The name that a client gives a request, by which it can cancel it.
const REQUEST_ID: &str = "x-librechat-code-request-id";
/// Longest such name that is remembered.
const MAX_REQUEST_ID: usize = 128;

/// A program, or the results that one waits for.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    continuation_token: Option<String>,
    #[serde(default)]
    tool_results: Vec<ToolResult>,
    lang: Option<String>,
    code: Option<String>,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    files: Vec<FileRef>,
    /// Milliseconds that each turn may take.
    timeout: Option<u64>,
}

/// A tool of the client's. It says more of it, for models.
#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
}

/// Which request is to end.
#[derive(Debug, Deserialize)]
pub(super) struct Cancel {
    request_id: String,
}

/// The programs that wait for results, and the requests that can be cancelled.
#[derive(Debug, Default)]
pub(in crate::http) struct Programs {
    waiting: Mutex<HashMap<String, Caller>>,
    requests: Mutex<HashMap<(Principal, String), CancellationToken>>,
}

impl Programs {
    /// Keeps a program under a token. Those that have ended meanwhile are let go of.
    fn keep(&self, token: String, caller: Caller) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|_, other| other.is_running());
        waiting.insert(token, caller);
    }

    /// Takes the program out that waits under a token.
    fn take(&self, owner: &Principal, token: &str) -> Result<Caller, ApiError> {
        let mut waiting = self.waiting.lock();
        let is_theirs = waiting.get(token).is_some_and(|it| it.owner == *owner);
        let found = is_theirs.then(|| waiting.remove(token)).flatten();
        let missing = "no program waits for these results: it has ended, or its time was over";
        found.ok_or_else(|| ApiError(not_found(missing)))
    }

    /// A request under way, by the name that its client gave it.
    fn request(&self, owner: &Principal, headers: &HeaderMap) -> UnderWay<'_> {
        let name = headers.get(REQUEST_ID).and_then(|name| name.to_str().ok());
        let name = name.filter(|name| name.len() <= MAX_REQUEST_ID);
        let cancelled = CancellationToken::new();
        let key = name.map(|name| (owner.clone(), name.to_owned()));
        if let Some(key) = key.clone() {
            self.requests.lock().insert(key, cancelled.clone());
        }
        UnderWay {
            programs: self,
            key,
            cancelled,
        }
    }
}

/// A request under way. Dropping it forgets its name.
struct UnderWay<'a> {
    programs: &'a Programs,
    key: Option<(Principal, String)>,
    cancelled: CancellationToken,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.programs.requests.lock().remove(key);
        }
    }
}

pub(super) async fn run(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    headers: HeaderMap,
    Fields(mut request): Fields<Request>,
) -> Result<Json<Value>, ApiError> {
    let _unanswered = state.0.calls.token();
    let programs = &state.0.programs;
    let under_way = programs.request(&origin.caller, &headers);
    let work = async {
        let mut caller = match request.continuation_token.take() {
            None => Caller::start(&state, &origin, request).await?,
            Some(token) => {
                let mut caller = programs.take(&origin.caller, &token)?;
                if let Err(error) = caller.check(&request.tool_results) {
                    programs.keep(token, caller);
                    return Err(ApiError(error));
                }
                caller.give(&state, &origin, request.tool_results).await?;
                caller
            }
        };
        match caller.advance(&state, &origin).await? {
            Turn::Ended(answer) => Ok(Json(answer)),
            Turn::Calls(calls) => {
                let (session, token) = (caller.session().to_owned(), new_token());
                programs.keep(token.clone(), caller);
                Ok(Json(json!({
                    "status": "tool_call_required",
                    "session_id": session,
                    "continuation_token": token,
                    "tool_calls": calls,
                })))
            }
        }
    };
    // A program that is dropped ends.
    tokio::select! {
        answer = work => answer,
        () = under_way.cancelled.cancelled() => Ok(Json(json!({
            "status": "error", "error": "Execution failed or timed out", "stdout": "", "stderr": "",
        }))),
    }
}

/// Ends the program of a request that is under way.
pub(super) async fn cancel(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Fields(Cancel { request_id }): Fields<Cancel>,
) -> Result<Json<Value>, ApiError> {
    let key = (origin.caller, request_id);
    let found = state.0.programs.requests.lock().get(&key).cloned();
    let missing = || ApiError(not_found("there is no such request: it was answered"));
    found.ok_or_else(missing)?.cancel();
    Ok(Json(json!({ "status": "cancelled" })))
}
