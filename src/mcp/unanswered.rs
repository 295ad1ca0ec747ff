//! Requests that no handler takes: their method does not exist, or their parameters do not fit it.
//!
//! rmcp passes both on as a request of a method of somebody's own.

use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CustomRequest, ErrorCode,
    ErrorData, GetPromptRequestParams, GetTaskParams, InitializeRequestParams,
    PaginatedRequestParams, ReadResourceRequestParams, SubscribeRequestParams,
    UnsubscribeRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Methods that the stateless revision no longer has: there they do not exist, even with malformed parameters.
const REMOVED: &[&str] = &["initialize", "ping", "logging/setLevel"];

/// What the names of notifications begin with.
const NOTIFICATIONS: &str = "notifications/";

/// Why a request has no other answer.
pub(super) fn why(request: &CustomRequest, stateless: bool) -> ErrorData {
    let method = request.method.as_str();
    let nothing = json!({});
    let params = request.params.as_ref().unwrap_or(&nothing);
    let exists = !(stateless && REMOVED.contains(&method));
    let mistake = exists.then(|| mistake(method, params)).flatten();
    let (code, message) = match mistake {
        Some(mistake) => (
            ErrorCode::INVALID_PARAMS,
            format!("the parameters of {method} are missing or malformed: {mistake}"),
        ),
        None if method.starts_with(NOTIFICATIONS) => (
            ErrorCode::METHOD_NOT_FOUND,
            format!("{} is a notification: send it without id", short(method)),
        ),
        None => (
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method {}", short(method)),
        ),
    };
    ErrorData::new(code, message, None)
}

/// The answer to a request of a method that the protocol has and this server has not.
pub(super) fn no_method(method: &str, reason: &str) -> ErrorData {
    let message = format!("{} is not served here: {reason}", short(method));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

fn short(method: &str) -> String {
    method.chars().take(64).collect()
}

/// What is wrong with the parameters of a method; `None` if there is no such method.
#[expect(deprecated, reason = "clients of older revisions send them")]
fn mistake(method: &str, params: &Value) -> Option<String> {
    let reads = match method {
        "initialize" => reads::<InitializeRequestParams>,
        "tools/call" => reads::<CallToolRequestParams>,
        "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => {
            reads::<PaginatedRequestParams>
        }
        "resources/read" => reads::<ReadResourceRequestParams>,
        "resources/subscribe" => reads::<SubscribeRequestParams>,
        "resources/unsubscribe" => reads::<UnsubscribeRequestParams>,
        "prompts/get" => reads::<GetPromptRequestParams>,
        "completion/complete" => reads::<CompleteRequestParams>,
        "logging/setLevel" => reads::<rmcp::model::SetLevelRequestParams>,
        "tasks/get" => reads::<GetTaskParams>,
        "tasks/cancel" => reads::<CancelTaskParams>,
        "ping" | "server/discover" => reads::<Value>,
        _ => return None,
    };
    Some(reads(params))
}

/// Where a value does not fit a type, and why.
fn reads<T: DeserializeOwned>(params: &Value) -> String {
    match serde_path_to_error::deserialize::<_, T>(params) {
        Ok(_) => "params._meta is not of the form that the protocol asks for".to_owned(),
        Err(error) if error.path().to_string() == "." => format!("params: {}", error.inner()),
        Err(error) => format!("params.{}: {}", error.path(), error.inner()),
    }
}
