//! The one table from our errors to what callers see: a stable code and a sentence that a model can act on.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tracing::error;

use super::code::Code;
use crate::admin::AdminError;
use crate::argument::Argument;
use crate::audit::ExcerptError;
use crate::conversation::ConversationIdError;
use crate::files::FilesError;
use crate::gate::admission::AdmissionError;
use crate::kernels::KernelError;
use crate::packages::PackagesError;
use crate::run::RunError;
use crate::scope::Forbidden;
use crate::secrets::SecretError;
use crate::workspace::WorkspaceError;

/// Why a call has no other answer: a tool result, or the body of an answer of the REST interface.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    /// What clients may rely on.
    pub(crate) code: Code,
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
pub(crate) struct Failure {
    success: bool,
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    retry_after_seconds: Option<u64>,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self {
            success: false,
            code: error.code.into_str(),
            message: error.message,
            retry_after_seconds: error.retry_after.map(|time| time.as_secs()),
        }
    }
}

impl CallError {
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
            code: Code::InvalidArguments,
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
    let as_json = |(rust, json)| Some(message.strip_suffix(rust)?.to_owned() + json);
    WORDS.into_iter().find_map(as_json).unwrap_or(message)
}

impl CallError {
    /// There is no such run for this caller.
    pub(crate) fn no_run(id: &str) -> Self {
        Self::no_such_run(&format!("{id:?}"))
    }

    pub(crate) fn no_run_of_conversation() -> Self {
        Self::no_such_run("of this conversation")
    }

    fn no_such_run(which: &str) -> Self {
        Self {
            code: Code::RunNotFound,
            retry_after: None,
            argument: None,
            message: format!(
                "there is no run {which} of yours: outcomes are kept for 10 minutes after the end, and only for the \
                 caller that started the run"
            ),
        }
    }

    /// The arguments fit the schema but still cannot be acted on, for this reason.
    pub(crate) fn invalid(message: &str) -> Self {
        Self::new(Code::InvalidArguments, message)
    }

    /// An error that is about no argument in particular, and that time does not mend.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
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
            code: Code::Busy,
            message: format!("{what}: try again in {} s", again.as_secs()),
            retry_after: Some(again),
            argument: None,
        }
    }

    /// The same with the name that an interface has for the argument which it is about.
    pub(crate) fn naming(mut self, name: impl FnOnce(Argument) -> &'static str) -> Self {
        if let Some(argument) = self.argument.take()
            && let Some(rest) = self.message.strip_prefix(argument.into_str())
        {
            self.message = [name(argument), rest].concat();
        }
        self
    }
}

impl From<ConversationIdError> for CallError {
    fn from(error: ConversationIdError) -> Self {
        Self {
            code: Code::InvalidArguments,
            retry_after: None,
            argument: Some(Argument::ConversationId),
            message: error.to_string(),
        }
    }
}

impl From<Forbidden> for CallError {
    fn from(forbidden: Forbidden) -> Self {
        Self::new(Code::ForbiddenScope, forbidden.to_string())
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        (&error).into()
    }
}

impl From<&RunError> for CallError {
    fn from(error: &RunError) -> Self {
        let code = match error {
            RunError::CodeTooLarge(..) => Code::ProgramTooLarge,
            RunError::StdinTooLarge(..)
            | RunError::NoStdin { .. }
            | RunError::NoStdinInKernel { .. }
            | RunError::Timeout(..)
            | RunError::Environment(_)
            | RunError::Fence { .. }
            | RunError::StrayFence => Code::InvalidArguments,
            RunError::UnknownLanguage { .. } => Code::UnknownLanguage,
            RunError::NoKernel { .. } => Code::StatefulUnavailable,
            RunError::Kernel(error) => kernel_code(error),
            RunError::Network(_) => Code::NetworkRefused,
            RunError::NotListed(_) => Code::HostNotListed,
            RunError::Secret(error) => secret_code(error),
            RunError::Proxy(_) => Code::NetworkFailed,
            RunError::Unproven(_) => Code::SandboxNotProven,
            RunError::Admission(error) => admission_code(error),
            RunError::Workspace(error) => return error.into(),
            RunError::Audit(_) => Code::AuditUnavailable,
            RunError::Panicked => Code::Panicked,
        };
        Self {
            code,
            message: error.to_string(),
            retry_after: match error {
                RunError::Admission(error) => error.retry_after(),
                RunError::Kernel(error) => error.retry_after(),
                _ => None,
            },
            argument: error.argument(),
        }
    }
}

impl From<PackagesError> for CallError {
    fn from(error: PackagesError) -> Self {
        match &error {
            PackagesError::Workspace(error) => error.into(),
            PackagesError::Failed { .. } => internal(&error),
            _ => Self {
                code: package_code(&error),
                message: error.to_string(),
                retry_after: error.retry_after(),
                argument: error.argument(),
            },
        }
    }
}

const fn admission_code(error: &AdmissionError) -> Code {
    match error {
        AdmissionError::Busy { .. }
        | AdmissionError::ConversationBusy { .. }
        | AdmissionError::TenantBusy { .. }
        | AdmissionError::NoRoom { .. } => Code::Busy,
        AdmissionError::Closed => Code::Stopping,
    }
}

const fn package_code(error: &PackagesError) -> Code {
    match error {
        PackagesError::Requirement(_) | PackagesError::Removal(_) => Code::InvalidRequirement,
        PackagesError::Count(..)
        | PackagesError::Twice(_)
        | PackagesError::RemoveCount(..)
        | PackagesError::RemoveVersion(_)
        | PackagesError::Both(_) => Code::InvalidArguments,
        PackagesError::NotThere { .. } => Code::PackageNotInstalled,
        PackagesError::Language { .. } => Code::UnknownLanguage,
        PackagesError::Blocked { .. } => Code::PackageBlocked,
        PackagesError::NotFound(_) => Code::PackageNotFound,
        PackagesError::Incompatible(_) => Code::PackageIncompatible,
        PackagesError::TooLarge(_) => Code::PackageTooLarge,
        PackagesError::Offline(_) => Code::PackageOffline,
        PackagesError::RateLimited(_) => Code::RateLimited,
        PackagesError::Busy => Code::InstallBusy,
        PackagesError::TimedOut(_) => Code::InstallTimeout,
        PackagesError::Cancelled => Code::Cancelled,
        PackagesError::Admission(error) => admission_code(error),
        PackagesError::Unproven(_) => Code::SandboxNotProven,
        PackagesError::Workspace(error) => workspace_code(error),
        PackagesError::Audit(_) => Code::AuditUnavailable,
        PackagesError::Failed { .. } => Code::Internal,
    }
}

const fn kernel_code(error: &KernelError) -> Code {
    match error {
        KernelError::Busy(_) | KernelError::Crowded(_) => Code::SessionBusy,
        KernelError::Full(_) | KernelError::TenantFull(_) => Code::Busy,
        KernelError::Network(_)
        | KernelError::Hosts(_)
        | KernelError::Secrets(_)
        | KernelError::SecretsReplaced(_)
        | KernelError::Environment(_) => Code::KernelDiffers,
        KernelError::Closed => Code::Stopping,
    }
}

const fn secret_code(error: &SecretError) -> Code {
    match error {
        SecretError::Unknown { .. } => Code::UnknownSecret,
        SecretError::NoHost { .. } => Code::HostNotListed,
        SecretError::Unavailable(_) | SecretError::Failed => Code::SecretUnavailable,
    }
}

impl From<FilesError> for CallError {
    fn from(error: FilesError) -> Self {
        let code = match error {
            FilesError::Path(_)
            | FilesError::IntoItself
            | FilesError::Base64(_)
            | FilesError::DataUri
            | FilesError::Cursor => Code::InvalidArguments,
            FilesError::TooLarge(..)
            | FilesError::TooLong(_)
            | FilesError::TooLargeForArchive(..) => Code::FileTooLarge,
            FilesError::TooManyForArchive(_) => Code::TooManyFiles,
            FilesError::BodyTooLong(_) => Code::BodyTooLarge,
            FilesError::TooSlow => Code::TooSlow,
            FilesError::Interrupted => Code::Interrupted,
            FilesError::NotFound(_) => Code::FileNotFound,
            FilesError::Audit(_) => Code::AuditUnavailable,
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

impl From<AdminError> for CallError {
    fn from(error: AdminError) -> Self {
        let code = match error {
            AdminError::NoConversation(_) => Code::ConversationNotFound,
            AdminError::NoRun(_) => Code::RunNotFound,
            AdminError::SeveralRuns(..) | AdminError::Cursor | AdminError::TooManyEntries(..) => {
                Code::InvalidArguments
            }
            AdminError::Excerpt(ExcerptError::NoFile) => Code::NoAuditLog,
            AdminError::Audit(_) => Code::AuditUnavailable,
            AdminError::Files(error) => return error.into(),
            AdminError::Workspace(error) => return (&error).into(),
            AdminError::Tally(_) | AdminError::Excerpt(ExcerptError::Unreadable(_)) => {
                return internal(&error);
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<&WorkspaceError> for CallError {
    fn from(error: &WorkspaceError) -> Self {
        if let WorkspaceError::Io { .. } = error {
            return internal(error);
        }
        Self {
            code: workspace_code(error),
            retry_after: error.retry_after(),
            argument: error.argument(),
            message: error.to_string(),
        }
    }
}

const fn workspace_code(error: &WorkspaceError) -> Code {
    match error {
        WorkspaceError::QuotaExceeded { .. } => Code::QuotaExceeded,
        WorkspaceError::StorageFull { .. }
        | WorkspaceError::TenantFull { .. }
        | WorkspaceError::NoUserLeft { .. } => Code::StorageFull,
        WorkspaceError::DiskFull => Code::DiskFull,
        WorkspaceError::IsDirectory => Code::IsDirectory,
        WorkspaceError::NotADirectory => Code::NotADirectory,
        WorkspaceError::Exists | WorkspaceError::NameTaken => Code::FileExists,
        WorkspaceError::Unmet => Code::PreconditionFailed,
        WorkspaceError::TooManyUploads
        | WorkspaceError::FoldersVanish
        | WorkspaceError::Refilled => Code::Busy,
        WorkspaceError::TooManyEntries { .. } | WorkspaceError::TooManyToList { .. } => {
            Code::TooManyFiles
        }
        WorkspaceError::Io { .. } => Code::Internal,
    }
}

/// A failure on our side: the client learns that there was one, and the log has the details.
fn internal(cause: &(dyn std::error::Error + 'static)) -> CallError {
    error!(error = cause, "a tool failed");
    CallError {
        code: Code::Internal,
        retry_after: None,
        argument: None,
        message: format!("the server {cause}: try again, and tell its operator if it stays"),
    }
}
