//! Why there was no run.

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use super::environment::EnvironmentError;
use super::observed::Cause;
use crate::allow_list::NotListed;
use crate::argument::Argument::{self, TimeoutSeconds};
use crate::audit::AuditUnavailable;
use crate::gate::GateError;
use crate::gate::admission::AdmissionError;
use crate::gate::network::NetworkRefusal;
use crate::gate::proof::Unproven;
use crate::kernels::KernelError;
use crate::secrets::SecretError;
use crate::workspace::WorkspaceError;

/// Why there was no run. A program that fails is not an error.
#[derive(Debug, Error)]
pub enum RunError {
    /// The program is larger than the limit.
    #[error("code has {0} bytes, the limit is {1}: upload data as a file and read it from /data")]
    CodeTooLarge(usize, usize),
    /// What the program is to read is larger than the limit.
    #[error("stdin has {0} bytes, the limit is {1}: upload it as a file and read that from /data")]
    StdinTooLarge(usize, usize),
    /// The runner cannot give it to the program.
    #[error(
        "stdin is not available for {language} here: upload a file, or write the values into code"
    )]
    NoStdin {
        /// What was asked for.
        language: String,
    },
    /// The runner can give it to programs, and not to its kernel.
    #[error("stdin is not available for {language} with stateful: true: leave one of them out")]
    NoStdinInKernel {
        /// What was asked for.
        language: String,
    },
    /// The time limit is out of range.
    #[error("{TimeoutSeconds} is {0}: it must be greater than 0 and at most {1}")]
    Timeout(f64, f64),
    /// The environment is not acceptable.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// There is no runner for the language.
    #[error("language {language:?} has no runner here: use one of {}", known.join(", "))]
    UnknownLanguage {
        /// What was asked for.
        language: String,
        /// The languages that have one.
        known: Vec<String>,
    },
    /// The program is in a Markdown fence of another language.
    #[error(
        "code is one Markdown block of {fence}, and language is {language}: send the program alone, with its own \
         language"
    )]
    Fence {
        /// What the fence says.
        fence: String,
        /// The language that was asked for.
        language: String,
    },
    /// There is a Markdown fence in the code, but it is not one fence with the program in it.
    #[error(
        "code has the fences of Markdown in it, but is not one block of its language: send the program alone, without \
         fences and without the text around them"
    )]
    StrayFence,
    /// The language has no kernel, but others may.
    #[error(
        "stateful: true is not available for {language} here: {}",
        instead(known)
    )]
    NoKernel {
        /// What was asked for.
        language: String,
        /// The languages that have one.
        known: Vec<String>,
    },
    /// The run cannot have its kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The network was asked for and is not available.
    #[error("network: true is refused: {0}. Run without it, with data that was uploaded")]
    Network(String),
    /// A host was asked for that is not listed.
    #[error("hosts: {0}: name listed ones, or leave hosts out for all of them")]
    NotListed(NotListed),
    /// A secret was asked for that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The network could not be opened.
    #[error("the server {0}: try again, and tell its operator if it stays")]
    Proxy(String),
    /// The sandbox was not proved to hold.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Too many runs.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The files are not usable.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// It cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditUnavailable),
    /// The server made a mistake; its log has the details.
    #[error("the server made a mistake while it ran the program: its log has the details")]
    Panicked,
}

/// Why a run did not begin.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// It is refused.
    Refused(RunError),
    /// It has already ended, and has an outcome.
    Ended(Cause),
}

impl<E: Into<RunError>> From<E> for NotBegun {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

impl From<GateError> for NotBegun {
    fn from(refused: GateError) -> Self {
        match refused {
            GateError::EngineLost(outage) => Cause::EngineLost(outage).into(),
            GateError::Cancelled => Cause::Cancelled.into(),
            GateError::Unproven(error) => RunError::Unproven(error).into(),
            GateError::Network(NetworkRefusal::Closed(reason)) => RunError::Network(reason).into(),
            GateError::Network(NetworkRefusal::NotListed(error)) => {
                RunError::NotListed(error).into()
            }
            GateError::Secret(error) => RunError::Secret(error).into(),
            GateError::Storage(error) => RunError::Workspace(error).into(),
            GateError::Admission(error) => RunError::Admission(error).into(),
        }
    }
}

impl From<Cause> for NotBegun {
    fn from(cause: Cause) -> Self {
        Self::Ended(cause)
    }
}

impl RunError {
    /// What kind of error it is.
    pub(crate) const fn kind(&self) -> RunErrorKind {
        match self {
            Self::Admission(AdmissionError::Closed) | Self::Kernel(KernelError::Closed) => {
                RunErrorKind::Stopping
            }
            Self::Admission(_)
            | Self::Kernel(
                KernelError::Busy(_)
                | KernelError::Crowded(_)
                | KernelError::Full(_)
                | KernelError::TenantFull(_),
            ) => RunErrorKind::Busy,
            Self::Unproven(_) => RunErrorKind::Unproven,
            // A conversation's own limits are its caller's to keep; the rest is the operator's.
            Self::Workspace(
                WorkspaceError::QuotaExceeded { .. } | WorkspaceError::TooManyEntries { .. },
            ) => RunErrorKind::Refused,
            Self::Workspace(_)
            | Self::Audit(_)
            | Self::Proxy(_)
            | Self::Secret(SecretError::Unavailable(_) | SecretError::Failed)
            | Self::Panicked => RunErrorKind::Failed,
            Self::CodeTooLarge(..)
            | Self::StdinTooLarge(..)
            | Self::NoStdin { .. }
            | Self::NoStdinInKernel { .. }
            | Self::Timeout(..)
            | Self::Environment(_)
            | Self::UnknownLanguage { .. }
            | Self::Fence { .. }
            | Self::StrayFence
            | Self::NoKernel { .. }
            | Self::Kernel(
                KernelError::Network(_)
                | KernelError::Hosts(_)
                | KernelError::Secrets(_)
                | KernelError::SecretsReplaced(_)
                | KernelError::Environment(_),
            )
            | Self::Network(_)
            | Self::NotListed(_)
            | Self::Secret(SecretError::Unknown { .. } | SecretError::NoHost { .. }) => {
                RunErrorKind::Refused
            }
        }
    }

    /// The argument that it is about, if its message begins with one that interfaces name differently.
    pub const fn argument(&self) -> Option<Argument> {
        match self {
            Self::Timeout(..) => Some(TimeoutSeconds),
            _ => None,
        }
    }
}

/// The kinds of errors, each one word in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RunErrorKind {
    /// Too much at once.
    Busy,
    /// The server is stopping.
    Stopping,
    /// The sandbox was not proved to hold.
    Unproven,
    /// What was asked for is not to be had.
    Refused,
    /// The server or its storage failed.
    Failed,
}

/// What to do without a kernel.
fn instead(known: &[String]) -> String {
    if known.is_empty() {
        return "no language keeps variables, so leave stateful out".to_owned();
    }
    format!("leave it out, or use one of {}", known.join(", "))
}
