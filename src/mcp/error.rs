//! The one table from our errors to what an MCP client sees: a stable code and a sentence that a model can act on.

use std::time::Duration;

use rmcp::model::{CallToolResult, ErrorData, Tool};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::error;

use crate::admission::AdmissionError;
use crate::argument::Argument;
use crate::conversation::ConversationIdError;
use crate::files::FilesError;
use crate::kernels::KernelError;
use crate::packages::PackagesError;
use crate::run::RunError;
use crate::workspace::WorkspaceError;

/// An error as a tool result, and as the body of an answer of the REST interface.
#[derive(Debug)]
pub(crate) struct ToolError {
    /// What clients may rely on.
    pub(crate) code: &'static str,
    /// A sentence that says what to do.
    pub(crate) message: String,
    /// What it is about, and begins with under the name that our own tools have for it.
    pub(crate) argument: Option<Argument>,
    /// When it is worth trying again.
    pub(crate) retry_after: Option<Duration>,
}

/// What a tool answers when it could not do what it was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    success: bool,
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    retry_after_seconds: Option<u64>,
}

/// The code of our own mistakes, which are protocol errors and not tool results.
pub(crate) const BROKEN: &str = "broken";

/// Where a [`Failure`] says when it is worth trying again.
pub(super) const RETRY_AFTER_SECONDS: &str = "retryAfterSeconds";

impl ToolError {
    /// The arguments do not fit the tool's input schema.
    pub(crate) fn arguments(
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
            retry_after: None,
            argument: None,
            message: format!("{tool}: {place}{}", in_json(error.inner().to_string())),
        }
    }
}

/// What was expected, in the words of JSON instead of those of Rust.
fn in_json(message: String) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("expected f64", "expected a number"),
        ("expected a map", "expected an object"),
        ("expected a sequence", "expected an array"),
    ];
    let said = |(rust, json)| Some(message.strip_suffix(rust)?.to_owned() + json);
    WORDS.into_iter().find_map(said).unwrap_or(message)
}

impl ToolError {
    /// There is no such run for this caller.
    pub(super) fn no_run(id: &str) -> Self {
        Self::no_such_run(&format!("{id:?}"))
    }

    pub(super) fn no_run_of_conversation() -> Self {
        Self::no_such_run("of this conversation")
    }

    fn no_such_run(which: &str) -> Self {
        Self {
            code: "run_not_found",
            retry_after: None,
            argument: None,
            message: format!(
                "there is no run {which} of yours: outcomes are kept for 10 minutes after the end, and only for the \
                 caller that started the run"
            ),
        }
    }

    /// The arguments fit the schema but still cannot be acted on, for this reason.
    pub(super) fn invalid(message: &str) -> Self {
        Self::new("invalid_arguments", message)
    }

    /// An error that is about no argument in particular, and that time does not mend.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            argument: None,
            retry_after: None,
        }
    }

    /// Too much of something at once, and when it is worth trying again.
    pub(crate) fn busy(what: &str, again: Duration) -> Self {
        Self {
            code: "busy",
            message: format!("{what}: try again in {} s", again.as_secs()),
            retry_after: Some(again),
            argument: None,
        }
    }

    /// The same with the name that an interface has for the argument which it is about.
    pub(crate) fn naming(mut self, name: impl FnOnce(Argument) -> &'static str) -> Self {
        if let Some(argument) = self.argument.take()
            && let Some(rest) = self.message.strip_prefix(argument.name())
        {
            self.message = [name(argument), rest].concat();
        }
        self
    }

    /// As a result that the model reads, or as a failed request if the server itself is broken.
    pub(super) fn into_result(self) -> Result<CallToolResult, ErrorData> {
        if self.code == BROKEN {
            return Err(broken());
        }
        let failure = Failure {
            success: false,
            code: self.code,
            message: self.message,
            retry_after_seconds: self.retry_after.map(|time| time.as_secs()),
        };
        // Strings and numbers always become JSON.
        let failure = serde_json::to_value(failure).unwrap_or_default();
        Ok(CallToolResult::structured_error(failure))
    }
}

/// We made a mistake. What it was is in the log, and nowhere else.
pub(super) fn broken() -> ErrorData {
    ErrorData::internal_error("the server made a mistake: its log has the details", None)
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

impl From<ConversationIdError> for ToolError {
    fn from(error: ConversationIdError) -> Self {
        Self {
            code: "invalid_arguments",
            retry_after: None,
            argument: Some(Argument::ConversationId),
            message: error.to_string(),
        }
    }
}

impl From<RunError> for ToolError {
    fn from(error: RunError) -> Self {
        (&error).into()
    }
}

impl From<&RunError> for ToolError {
    fn from(error: &RunError) -> Self {
        let code = match error {
            RunError::CodeTooLarge(..) => "code_too_large",
            RunError::StdinTooLarge(..)
            | RunError::NoStdin { .. }
            | RunError::NoStdinInKernel { .. }
            | RunError::Timeout(..)
            | RunError::Environment(_)
            | RunError::Fence { .. }
            | RunError::StrayFence => "invalid_arguments",
            RunError::UnknownLanguage { .. } => "unknown_language",
            RunError::NoKernel { .. } => "stateful_unavailable",
            RunError::Kernel(error) => kernel_code(error),
            RunError::Network(_) => "network_refused",
            RunError::Unproven(_) => "sandbox_not_proven",
            RunError::Admission(
                AdmissionError::Busy { .. } | AdmissionError::ConversationBusy { .. },
            ) => "busy",
            RunError::Admission(AdmissionError::Closed) => "stopping",
            RunError::Workspace(error) => return error.into(),
            RunError::Broken => BROKEN,
        };
        Self {
            code,
            message: error.to_string(),
            retry_after: match error {
                RunError::Admission(error) => error.retry_after(),
                RunError::Kernel(error) => error.retry_after(),
                _ => None,
            },
            argument: None,
        }
    }
}

impl From<PackagesError> for ToolError {
    fn from(error: PackagesError) -> Self {
        match &error {
            PackagesError::Workspace(error) => error.into(),
            PackagesError::Failed { .. } => internal(&error),
            _ => Self {
                code: error.as_str(),
                message: error.to_string(),
                retry_after: error.retry_after(),
                argument: error.argument(),
            },
        }
    }
}

fn kernel_code(error: &KernelError) -> &'static str {
    match error {
        KernelError::Busy(_) | KernelError::Crowded(_) => "session_busy",
        KernelError::Full(_) => "busy",
        KernelError::Network(_) | KernelError::Environment(_) => "kernel_differs",
        KernelError::Closed => "stopping",
    }
}

impl From<FilesError> for ToolError {
    fn from(error: FilesError) -> Self {
        let code = match error {
            FilesError::Path(_)
            | FilesError::Base64(_)
            | FilesError::DataUri
            | FilesError::Cursor => "invalid_arguments",
            FilesError::TooLarge(..)
            | FilesError::TooLong(_)
            | FilesError::TooLargeForArchive(..) => "file_too_large",
            FilesError::TooManyForArchive(_) => "too_many_files",
            FilesError::BodyTooLong(_) => "body_too_large",
            FilesError::TooSlow => "too_slow",
            FilesError::Interrupted => "interrupted",
            FilesError::NotFound(_) => "file_not_found",
            FilesError::Workspace(error) => return (&error).into(),
            FilesError::Read(_) => return internal(&error),
        };
        Self {
            code,
            retry_after: None,
            argument: error.argument(),
            message: error.to_string(),
        }
    }
}

impl From<&WorkspaceError> for ToolError {
    fn from(error: &WorkspaceError) -> Self {
        let code = match error {
            WorkspaceError::QuotaExceeded { .. } => "quota_exceeded",
            WorkspaceError::StorageFull { .. } | WorkspaceError::NoUserLeft { .. } => {
                "storage_full"
            }
            WorkspaceError::DiskFull => "disk_full",
            WorkspaceError::IsDirectory => "is_directory",
            WorkspaceError::NotADirectory => "not_a_directory",
            WorkspaceError::Exists | WorkspaceError::NameTaken => "file_exists",
            WorkspaceError::Unmet => "precondition_failed",
            WorkspaceError::TooManyUploads | WorkspaceError::FoldersVanish => "busy",
            WorkspaceError::TooManyEntries { .. } => "too_many_files",
            WorkspaceError::Io { .. } => return internal(error),
        };
        Self {
            code,
            retry_after: error.retry_after(),
            argument: error.argument(),
            message: error.to_string(),
        }
    }
}

/// A failure on our side: the client learns that there was one, and the log has the details.
fn internal(cause: &(dyn std::error::Error + 'static)) -> ToolError {
    error!(error = cause, "a tool failed");
    ToolError {
        code: "internal",
        retry_after: None,
        argument: None,
        message: format!("the server {cause}: try again, and tell its operator if it stays"),
    }
}
