//! The Code API of LibreChat (`LIBRECHAT_CODE_BASEURL`): a fresh directory for each program, into which its client puts
//! what earlier ones have left.
//!
//! A session is a conversation that one upload or one program has to itself, so nothing is changed under anybody's
//! hands. The client remembers which files there are, and names those that the next program is to have.

mod files;
mod program;
mod programmatic;
mod reference;
mod upload;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

pub(in crate::http) use self::programmatic::Programs;
use super::guarded;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::http::HttpState;
use crate::http::rest::ApiError;

/// Clients are given the address with the version or without.
const PREFIXES: [&str; 2] = ["/librechat/v1", "/librechat"];

/// How a client expects programs to be run.
const PROFILE: &str = "x-codeapi-expected-profile";
const DEFAULT_PROFILE: &str = "default";

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let mut for_callers = Router::new();
    let mut for_all = Router::new();
    for prefix in PREFIXES {
        let at = |path: &str| format!("{prefix}{path}");
        let programs = Router::new()
            .route(&at("/exec"), post(program::run))
            .route(&at("/exec/programmatic"), post(programmatic::run))
            .route_layer(from_fn(require_default_profile));
        for_callers = for_callers
            .merge(programs)
            .route(&at("/exec/programmatic/cancel"), post(programmatic::cancel))
            .route(&at("/upload"), post(upload::one))
            .route(&at("/upload/batch"), post(upload::many))
            .route(&at("/download/{session}/{file}"), get(files::download))
            .route(
                &at("/sessions/{session}/objects/{file}"),
                get(files::describe),
            )
            .route(&at("/files/{session}"), get(files::list))
            .route(&at("/files/{session}/{file}"), delete(files::delete))
            .route(&at("/{*path}"), any(unknown));
        for_all = for_all.route(
            &at("/health"),
            get(async || Json(json!({ "status": "ok" }))),
        );
    }
    guarded(
        state,
        failed,
        for_callers
            .method_not_allowed_fallback(other_method)
            .layer(DefaultBodyLimit::disable()),
    )
    .merge(for_all)
}

/// A failure. Clients tell their model by the status alone what it means, and by two fields when to come back.
fn failed(error: &CallError) -> Value {
    match error.retry_after {
        Some(after) if error.code.status().as_u16() == 429 => {
            json!({ "error": "rate_limited", "retry_after_seconds": after.as_secs().max(1), "message": error.message })
        }
        // The client tells its model not to try again, and the person to choose another environment.
        _ if error.code == Code::NotImplemented => {
            json!({ "error": "execution_profile_mismatch", "message": error.message })
        }
        _ => json!({ "error": error.message, "code": <&str>::from(error.code) }),
    }
}

async fn unknown() -> ApiError {
    ApiError(not_found(
        "there is nothing at this address: see docs/clients.md for what of the Code API is here",
    ))
}

async fn other_method() -> ApiError {
    let message = "this address takes another method";
    ApiError::new(Code::MethodNotAllowed, message)
}

/// Refuses what is to run where an earlier program has left something: here each program begins anew.
async fn require_default_profile(request: Request, next: Next) -> Response {
    let profile = request.headers().get(PROFILE);
    if profile.is_none_or(|profile| profile == DEFAULT_PROFILE) {
        return next.run(request).await;
    }
    let message =
        format!("programs share nothing but files here: {PROFILE} can only be {DEFAULT_PROFILE}");
    ApiError::new(Code::NotImplemented, message).into_response()
}

/// Nothing of that name is the caller's.
fn not_found(what: &'static str) -> CallError {
    CallError::new(Code::NotFound, what)
}
