//! `POST /execute` and `POST /pip_install`: Python with one answer, as older servers have it.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::ToSchema;

use super::ApiError;
use super::error::{ErrorBody, Failures};
use super::extract::JsonBody;
use crate::http::HttpState;
use crate::mcp::toolset::python::{self, Executed};
use crate::principal::Principal;

/// A Python program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonRequest {
    /// The whole program.
    #[schema(example = "print(6 * 7)")]
    code: String,
    /// Time limit in seconds, at most 120; left out: the server's default.
    #[schema(exclusive_minimum = 0, maximum = 120)]
    timeout: Option<f64>,
}

/// Runs a Python program and waits for its end
///
/// All programs of one token that come this way share a directory and what `POST /pip_install` installs. Going away
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
    Extension(caller): Extension<Principal>,
    JsonBody(request): JsonBody<PythonRequest>,
) -> Result<Json<Executed>, ApiError> {
    let _unanswered = state.0.calls.token();
    let run = python::request(&state.0.runs, &caller, request.code, request.timeout);
    let run = state.0.ledger.start(caller, run.map_err(ApiError)?);
    let _guard = run.cancel_on_drop();
    match run.ended().await.as_ref() {
        Ok(outcome) => Ok(Json(Executed::of(outcome))),
        Err(error) => Err(error.into()),
    }
}
