//! `POST /execute` and `POST /pip_install`: Python with one answer, as older servers have it.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::ApiError;
use super::error::{ErrorBody, Failures};
use super::extract::{FromCaller, JsonBody};
use crate::api::outcome::RunOutcome;
use crate::api::python::pip::{self, PipInstalled};
use crate::api::python::{self, Executed};
use crate::http::HttpState;

/// A Python program.
#[derive(Debug, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonRequest {
    /// The whole program.
    #[schema(example = "print(6 * 7)")]
    code: String,
    /// What it reads from its standard input, at most 1 MiB; left out: nothing.
    stdin: Option<String>,
    /// Time limit in seconds; left out: the server's default.
    #[schema(exclusive_minimum = 0)]
    timeout: Option<f64>,
}

/// Runs a Python program and waits for its end
///
/// All programs of one caller that come this way share a directory and what `POST /pip_install` installs. Going away
/// ends the program.
#[utoipa::path(
    post, path = "/execute", tag = "one-shot", operation_id = "execute_python",
    request_body = PythonRequest,
    responses(
        (status = 200, description = "How it ended", body = Executed),
        (status = 409, description = "The directory is in use", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn execute(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    JsonBody(request): JsonBody<PythonRequest>,
) -> Result<Json<Executed>, ApiError> {
    let _unanswered = state.0.calls.token();
    let PythonRequest {
        code,
        stdin,
        timeout,
    } = request;
    let run = python::request(&state.0.services, &origin.caller, code, stdin, timeout);
    let run = state
        .0
        .services
        .ledger
        .start(origin, run.map_err(ApiError)?);
    let _guard = run.cancel_on_drop();
    match run.ended().await.as_ref() {
        Ok(rendered) => {
            let outcome = RunOutcome::apart(&run, rendered).await;
            Ok(Json(Executed::of(&outcome)))
        }
        Err(error) => Err(error.into()),
    }
}

/// A Python package.
#[derive(Debug, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PackageRequest {
    /// Its name; extras such as `requests[socks]` are fine.
    #[schema(example = "six")]
    package: String,
    /// Its version; left out: the newest that fits.
    #[schema(example = "1.17.0")]
    version: Option<String>,
}

/// Installs a Python package for `POST /execute`
///
/// From wheels of the package index. That a package is not to be had is an answer with `success: false`.
#[utoipa::path(
    post, path = "/pip_install", tag = "one-shot", operation_id = "pip_install",
    request_body = PackageRequest,
    responses(
        (status = 200, description = "What came of it", body = PipInstalled),
        (status = 409, description = "Another install is going on", body = ErrorBody),
        Failures
    )
)]
pub(super) async fn install(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    JsonBody(request): JsonBody<PackageRequest>,
) -> Result<Json<PipInstalled>, ApiError> {
    let _unanswered = state.0.calls.token();
    let cancel = CancellationToken::new();
    // A client that goes away ends the install.
    let _guard = cancel.clone().drop_guard();
    let PackageRequest { package, version } = request;
    let services = &state.0.services;
    // Boxed, because it is large and few requests need it.
    let installed = pip::install(services, &origin, package, version, &cancel);
    let installed = Box::pin(installed).await;
    Ok(Json(installed.map_err(ApiError)?))
}
