//! The sandboxes of E2B (`E2B_API_URL`, `E2B_SANDBOX_URL`): a control plane that makes and ends them, and a data plane
//! for the files and programs of one.
//!
//! A sandbox is a conversation with a time at which it is deleted. Whoever made it is who calls on the data plane, where
//! there is no token of ours: its own, which nobody can guess, stands for it there.

mod contexts;
mod control;
mod entrance;
mod envelope;
mod feed;
mod files;
mod filesystem;
mod interpreter;
mod paths;
mod process;
mod program;
mod results;
mod sandboxes;
mod upload;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use self::entrance::Proof;
pub(in crate::http) use self::sandboxes::Sandboxes;
use super::failure::{self, Shape};
use super::guarded;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::http::rest::{self, ApiError};
use crate::http::{HttpState, rate};
use crate::scope::{Scope, Scopes};

/// Where clients make sandboxes.
const API: &str = "/e2b/api";
/// Where they use one.
const SANDBOX: &str = "/e2b/sandbox";

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let files = Router::new().route("/files", get(files::download).post(upload::store));
    let folders = Router::new()
        .route("/filesystem.Filesystem/ListDir", post(filesystem::list))
        .route("/filesystem.Filesystem/Stat", post(filesystem::stat))
        .route("/filesystem.Filesystem/MakeDir", post(filesystem::make))
        .route("/filesystem.Filesystem/Move", post(filesystem::rename))
        .route("/filesystem.Filesystem/Remove", post(filesystem::remove))
        .route("/filesystem.Filesystem/{method}", post(unimplemented));
    let programs = Router::new()
        .route("/process.Process/Start", post(process::start))
        .route("/process.Process/Connect", post(process::connect))
        .route("/process.Process/List", post(process::list))
        .route("/process.Process/SendSignal", post(process::signal))
        .route("/process.Process/{method}", post(unimplemented));
    let plain = Router::new().route("/health", get(async || StatusCode::NO_CONTENT));
    let plain = plain
        .route("/contexts", get(interpreter::list).post(interpreter::make))
        .route("/contexts/{id}", delete(interpreter::remove))
        .route("/contexts/{id}/restart", post(interpreter::restart));
    let cells = Router::new()
        .route("/envs", get(entrance::variables))
        .route("/execute", post(interpreter::execute));
    let sandbox = Router::new()
        .merge(inside(state, failed, Proof::Token, Scope::Files, files))
        .merge(inside(state, called, Proof::Token, Scope::Files, folders))
        .merge(inside(state, called, Proof::Token, Scope::Run, programs))
        .merge(inside(state, failed, Proof::Token, Scope::Run, cells))
        .merge(inside(state, failed, Proof::Id, Scope::Run, plain));
    guarded(state, failed, control_routes())
        .nest(SANDBOX, sandbox)
        .layer(DefaultBodyLimit::disable())
}

/// Older clients leave the version out.
fn control_routes() -> Router<HttpState> {
    let mut routes = Router::new();
    for prefix in [API.to_owned(), format!("{API}/v2")] {
        let at = |path: &str| format!("{prefix}/sandboxes{path}");
        routes = routes
            .route(&at(""), post(control::create).get(control::list))
            .route(&at("/{id}"), delete(control::kill).get(control::show))
            .route(&at("/{id}/connect"), post(control::connect))
            .route(&at("/{id}/resume"), post(control::connect))
            .route(&at("/{id}/timeout"), post(control::set_timeout))
            .route(&at("/{id}/refreshes"), post(control::refresh))
            .route(&at("/{id}/metrics"), get(control::metrics));
    }
    routes.route(&format!("{API}/{{*rest}}"), any(unimplemented))
}

/// Routes for whoever proves that a sandbox is theirs, if its owner may do that.
fn inside(
    state: &HttpState,
    shape: Shape,
    proof: Proof,
    scope: Scope,
    routes: Router<HttpState>,
) -> Router<HttpState> {
    // The layer added last is the first that a request meets.
    routes
        .route_layer(from_fn_with_state(Scopes::of(scope), rest::require))
        .route_layer(from_fn_with_state(state.clone(), rate::limit_rest))
        .route_layer(from_fn_with_state((state.clone(), proof), entrance::let_in))
        .route_layer(from_fn_with_state(shape, failure::shape))
}

async fn unimplemented() -> ApiError {
    not_here("this call is not implemented here: docs/moving.md says which are")
}

/// Something that E2B has and this server has not.
fn not_here(message: &str) -> ApiError {
    ApiError::new(Code::NotImplemented, message)
}

/// A language of E2B's that has no cells here.
fn unknown_language(name: &str) -> ApiError {
    let name: String = name.chars().take(64).collect();
    let known = "python, javascript, typescript and bash";
    not_here(&format!("language is {name:?}: cells are in {known}"))
}

/// A failure, as clients read it where they do not call methods.
fn failed(error: &CallError) -> Value {
    json!({ "code": error.code.status().as_u16(), "message": error.message })
}

/// A failure of a method, in the words of Connect.
fn called(error: &CallError) -> Value {
    let word = match (error.code, error.code.status()) {
        (Code::FileExists, _) => "already_exists",
        (Code::IsDirectory | Code::NotADirectory, _) => "invalid_argument",
        (Code::DiskFull | Code::StorageFull | Code::QuotaExceeded | Code::TooManyFiles, _) => {
            "resource_exhausted"
        }
        (_, StatusCode::UNAUTHORIZED) => "unauthenticated",
        (_, StatusCode::FORBIDDEN) => "permission_denied",
        (_, StatusCode::NOT_FOUND) => "not_found",
        (_, StatusCode::CONFLICT) => "failed_precondition",
        (_, StatusCode::REQUEST_TIMEOUT) => "deadline_exceeded",
        (_, StatusCode::TOO_MANY_REQUESTS) => "resource_exhausted",
        (_, StatusCode::NOT_IMPLEMENTED) => "unimplemented",
        (_, StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY) => "unavailable",
        (_, status) if status.is_client_error() => "invalid_argument",
        _ => "internal",
    };
    json!({ "code": word, "message": error.message })
}

/// What a method answers that has nothing to say.
fn nothing() -> Json<Value> {
    Json(json!({}))
}
