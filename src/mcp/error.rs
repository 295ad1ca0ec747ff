//! The one table from our errors to what an MCP client sees: a stable code and a sentence that a model can act on.

use rmcp::model::CallToolResult;
use serde_json::json;
use tracing::error;

use crate::admission::AdmissionError;
use crate::conversation::ConversationIdError;
use crate::files::FilesError;
use crate::run::RunError;
use crate::workspace::WorkspaceError;

/// An error as a tool result.
#[derive(Debug)]
pub(super) struct ToolError {
    code: &'static str,
    message: String,
}

impl ToolError {
    /// The arguments do not fit the tool's input schema.
    pub(super) fn arguments(
        tool: &str,
        error: &serde_path_to_error::Error<serde_json::Error>,
    ) -> Self {
        let path = error.path().to_string();
        let place = if path == "." {
            String::new()
        } else {
            format!("{path}: ")
        };
        Self {
            code: "invalid_arguments",
            message: format!("{tool}: {place}{}", error.inner()),
        }
    }
}

impl From<ToolError> for CallToolResult {
    fn from(error: ToolError) -> Self {
        Self::structured_error(
            json!({ "success": false, "code": error.code, "message": error.message }),
        )
    }
}

impl From<ConversationIdError> for ToolError {
    fn from(error: ConversationIdError) -> Self {
        Self {
            code: "invalid_arguments",
            message: error.to_string(),
        }
    }
}

impl From<RunError> for ToolError {
    fn from(error: RunError) -> Self {
        let code = match error {
            RunError::CodeTooLarge(..) => "code_too_large",
            RunError::Timeout(..) | RunError::Environment(_) => "invalid_arguments",
            RunError::UnknownLanguage { .. } => "unknown_language",
            RunError::Network(_) => "network_refused",
            RunError::Admission(AdmissionError::Busy { .. }) => "busy",
            RunError::Admission(AdmissionError::Closed) => "stopping",
            RunError::Workspace(error) => return error.into(),
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}

impl From<FilesError> for ToolError {
    fn from(error: FilesError) -> Self {
        let code = match error {
            FilesError::Path(_) | FilesError::Base64(_) => "invalid_arguments",
            FilesError::TooLarge(..) => "file_too_large",
            FilesError::NotFound(_) => "file_not_found",
            FilesError::Workspace(error) => return error.into(),
            FilesError::Read(_) => return internal(&error),
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        let code = match error {
            WorkspaceError::QuotaExceeded { .. } => "quota_exceeded",
            WorkspaceError::DiskFull => "disk_full",
            WorkspaceError::IsDirectory => "is_directory",
            WorkspaceError::NotADirectory => "not_a_directory",
            WorkspaceError::TooManyEntries { .. } => "too_many_files",
            WorkspaceError::Io { .. } => return internal(&error),
        };
        Self {
            code,
            message: error.to_string(),
        }
    }
}

/// Trouble of ours: the client learns that it is, the log what it is.
fn internal(cause: &(dyn std::error::Error + 'static)) -> ToolError {
    error!(error = cause, "a tool failed");
    ToolError {
        code: "internal",
        message: format!("the server {cause}: try again, and tell its operator if it stays"),
    }
}
