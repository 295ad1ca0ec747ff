//! How failures of tools become answers of MCP: a result that the model reads, or an error of JSON-RPC.

use rmcp::model::{CallToolResult, ErrorData, Tool};
use serde_json::json;

use crate::api::code::Code;
use crate::api::error::{CallError, Failure};
use crate::scope::Forbidden;

impl CallError {
    /// As a result that the model reads, or as a failed request if the server itself is broken.
    ///
    /// # Errors
    /// The server made a mistake.
    pub(super) fn into_result(self) -> Result<CallToolResult, ErrorData> {
        if self.code == Code::Panicked {
            return Err(internal_error());
        }
        // Strings and numbers always become JSON.
        let failure = serde_json::to_value(Failure::from(self)).unwrap_or_default();
        Ok(CallToolResult::structured_error(failure))
    }
}

/// We made a mistake. What it was is in the log, and nowhere else.
pub(super) fn internal_error() -> ErrorData {
    ErrorData::internal_error("the server made a mistake: its log has the details", None)
}

/// The caller's token does not have the scopes that this needs.
pub(super) fn forbidden(forbidden: Forbidden) -> ErrorData {
    let code = json!({ "code": Code::ForbiddenScope });
    ErrorData::invalid_request(forbidden.to_string(), Some(code))
}

/// A resource cannot be read, and why.
///
/// The address is not repeated: it contains the conversation's id, and rmcp logs what it answers.
pub(super) fn no_resource(why: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("there is no such resource: {why}"), None)
}

/// There is no tool of this name, but there are these.
pub(super) fn unknown_tool(name: &str, listed: &[Tool]) -> ErrorData {
    let name: String = name.chars().take(64).collect();
    let listed: Vec<_> = listed.iter().map(|tool| &*tool.name).collect();
    let listed = listed.join(", ");
    ErrorData::invalid_params(format!("unknown tool: {name}: there are {listed}"), None)
}
