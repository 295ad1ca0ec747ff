//! The sandbox of Dify (`CODE_EXECUTION_ENDPOINT`), which runs the code and the template nodes of workflows.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::guarded;
use crate::api::error::CallError;
use crate::http::HttpState;

pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let for_callers = Router::new().route("/dify/v1/sandbox/dependencies", get(dependencies));
    guarded(state, failed, for_callers).route("/dify/health", get(async || Json("ok")))
}

/// A failure: the status again as a negative number, since clients look for a number other than 0.
fn failed(error: &CallError) -> Value {
    let code = -i32::from(error.code.status().as_u16());
    json!({ "code": code, "message": error.message, "data": null })
}

/// What nodes could use besides what is always there: nothing can be added to that.
async fn dependencies() -> Json<Value> {
    Json(json!({ "code": 0, "message": "success", "data": { "dependencies": [] } }))
}
