//! The Code API of LibreChat (`LIBRECHAT_CODE_BASEURL`): a fresh directory for each program, into which its client puts
//! what earlier ones have left.
//!
//! A session is a conversation that one upload or one program has to itself, so nothing is changed under anybody's
//! hands. The client remembers which files there are, and names those that the next program is to have.

mod files;
mod program;
mod reference;
mod upload;

use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::guarded;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::http::HttpState;

/// Clients are given the address with the version or without.
const PREFIXES: [&str; 2] = ["/librechat/v1", "/librechat"];

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let mut for_callers = Router::new();
    let mut for_all = Router::new();
    for prefix in PREFIXES {
        let at = |path: &str| format!("{prefix}{path}");
        for_callers = for_callers
            .route(&at("/exec"), post(program::run))
            .route(&at("/upload"), post(upload::one))
            .route(&at("/upload/batch"), post(upload::many))
            .route(&at("/download/{session}/{file}"), get(files::download))
            .route(
                &at("/sessions/{session}/objects/{file}"),
                get(files::describe),
            )
            .route(&at("/files/{session}"), get(files::list))
            .route(&at("/files/{session}/{file}"), delete(files::delete));
        for_all = for_all.route(
            &at("/health"),
            get(async || Json(json!({ "status": "ok" }))),
        );
    }
    guarded(
        state,
        failed,
        for_callers.layer(DefaultBodyLimit::disable()),
    )
    .merge(for_all)
}

/// A failure. Clients tell their model by the status alone what it means, and by two fields when to come back.
fn failed(error: &CallError) -> Value {
    match error.retry_after {
        Some(after) if error.code.status().as_u16() == 429 => {
            json!({ "error": "rate_limited", "retry_after_seconds": after.as_secs().max(1), "message": error.message })
        }
        _ => json!({ "error": error.message, "code": <&str>::from(error.code) }),
    }
}

/// Nothing of that name is the caller's.
fn not_found(what: &'static str) -> CallError {
    CallError::new(Code::NotFound, what)
}
