//! `POST /exec/programmatic`: a program that calls tools of its client's, and waits for what they answer.
//!
//! ```text
//! start ──▶ running ── calls ──▶ waiting, under a token ── results ──▶ running ──▶ ended
//!              │                            └── nobody comes back ───────────────────▲
//!              └── its client goes away or cancels, a turn takes too long ─────────────┘
//! ```
//!
//! The program goes on where it called, so nothing in it is done twice. It keeps its place meanwhile.

mod caller;
mod stub;
mod waiting;

use std::collections::HashMap;
use std::collections::hash_map;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::caller::{Call, Caller, FAILED, ToolResult, Turn};
use self::waiting::{Entry, Waiting};
use super::not_found;
use super::reference::{FileRef, new_token};
use crate::audit::Origin;
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

/// The answer of a turn in which the program has called.
#[derive(Debug, Serialize)]
struct Required {
    status: &'static str,
    session_id: String,
    continuation_token: String,
    tool_calls: Vec<Call>,
}

/// The programs that wait for results, and the requests that can be cancelled.
#[derive(Debug, Default)]
pub(in crate::http) struct Programs {
    waiting: Waiting<Caller>,
    requests: Mutex<HashMap<(Principal, String), CancellationToken>>,
}

impl Programs {
    /// Ends the programs whose clients do not come back.
    pub(in crate::http) async fn maintain(&self) {
        self.waiting.maintain().await;
    }

    /// A request under way, by the name that its client gave it. Of two with one name, the first is meant.
    fn request(&self, owner: &Principal, headers: &HeaderMap) -> UnderWay<'_> {
        let name = headers.get(REQUEST_ID).and_then(|name| name.to_str().ok());
        let name = name.filter(|name| !name.is_empty() && name.len() <= MAX_REQUEST_ID);
        let cancelled = CancellationToken::new();
        let key = name.and_then(|name| {
            let key = (owner.clone(), name.to_owned());
            match self.requests.lock().entry(key.clone()) {
                hash_map::Entry::Occupied(_) => None,
                hash_map::Entry::Vacant(free) => {
                    free.insert(cancelled.clone());
                    Some(key)
                }
            }
        });
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
    Fields(request): Fields<Request>,
) -> Result<Response, ApiError> {
    let _unanswered = state.0.calls.token();
    let programs = &state.0.programs;
    let under_way = programs.request(&origin.caller, &headers);
    // A program that is dropped ends, so one whose client goes away does.
    let turned = tokio::select! {
        biased;
        () = under_way.cancelled.cancelled() => None,
        turned = turn(&state, &origin, request) => Some(turned?),
    };
    match turned {
        None => Ok(Json(json!({
            "status": "error", "error": FAILED, "stdout": "", "stderr": "",
        }))
        .into_response()),
        Some((_, Turn::Ended(answer))) => Ok(Json(answer).into_response()),
        Some((caller, Turn::Calls(tool_calls))) => {
            let answer = Required {
                status: "tool_call_required",
                session_id: caller.session().to_owned(),
                continuation_token: new_token(),
                tool_calls,
            };
            let token = answer.continuation_token.clone();
            programs
                .waiting
                .keep(token, Entry::new(origin.caller, caller));
            Ok(Json(answer).into_response())
        }
    }
}

/// Starts a program or goes on with one, until it calls or ends.
async fn turn(
    state: &HttpState,
    origin: &Origin,
    mut request: Request,
) -> Result<(Caller, Turn), ApiError> {
    let programs = &state.0.programs;
    let mut caller = match request.continuation_token.take() {
        None => Caller::start(state, origin, request).await?,
        Some(token) => {
            let missing = "no program waits for these results: it has ended, or its time was over";
            let found = programs.waiting.take(&origin.caller, &token);
            let entry = found.ok_or_else(|| ApiError(not_found(missing)))?;
            if let Err(error) = entry.value.check(&request.tool_results) {
                programs.waiting.keep(token, entry);
                return Err(ApiError(error));
            }
            let mut caller = entry.value;
            let given = caller.give(state, origin, request.tool_results).await;
            if let Err(answer) = given {
                return Ok((caller, Turn::Ended(answer)));
            }
            caller
        }
    };
    let turn = caller.advance(state, origin).await?;
    Ok((caller, turn))
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
