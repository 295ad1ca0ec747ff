//! Why nothing was installed, grouped by what can be done about it.

use std::time::Duration;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use super::requirement::RequirementError;
use crate::argument::Argument::{self, Packages, Remove};
use crate::audit::AuditUnavailable;
use crate::gate::GateError;
use crate::gate::admission::AdmissionError;
use crate::gate::proof::Unproven;
use crate::workspace::WorkspaceError;

/// Why nothing was installed. Each is a sentence that a model can act on; the conversation keeps the packages that it
/// had.
#[derive(Debug, Error)]
pub enum PackagesError {
    /// Something that was asked for is not a requirement.
    #[error("{Packages}: {0}")]
    Requirement(#[from] RequirementError),
    /// Nothing was asked for, or too much.
    #[error("{Packages} has {0} entries: give 1 to {1}")]
    Count(usize, usize),
    /// One package was asked for twice.
    #[error("{Packages} names {0} more than once: give it once")]
    Twice(String),
    /// Something that is to be removed is not a name.
    #[error("{Remove}: {0}")]
    Removal(#[source] RequirementError),
    /// Too much is to be removed.
    #[error("{Remove} has {0} entries: give at most {1}")]
    RemoveCount(usize, usize),
    /// A version is to be removed.
    #[error("{Remove}: {0:?} has a version: give the name alone")]
    RemoveVersion(String),
    /// One package is asked for and to be removed.
    #[error("{0} is in {Packages} and in {Remove}: give it in one of them")]
    Both(String),
    /// What is to be removed was not asked for.
    #[error("{Remove}: {names} cannot be removed: {}", what_can_be(.there))]
    NotThere {
        /// What was to be removed.
        names: String,
        /// What could be, or nothing.
        there: String,
    },
    /// There is no runner of this language, or none that packages can be installed for.
    #[error("packages cannot be installed for the language {language:?}: give one of {known}")]
    Language {
        /// What was asked for.
        language: String,
        /// What could have been asked for.
        known: String,
    },
    /// The operator does not allow it.
    #[error("{name} was not installed: {why}. Do without it, or ask the operator")]
    Blocked {
        /// Which package.
        name: String,
        /// Which list says so.
        why: &'static str,
    },
    /// No such package, or no such version.
    #[error(
        "not found: {0}. Check the spelling of the name, and ask for a version that there is, or for any"
    )]
    NotFound(String),
    /// It does not fit the runner, or what is asked for does not go together.
    #[error("incompatible: {0}")]
    Incompatible(String),
    /// Too many bytes, or too many packages.
    #[error("too large: {0}. Ask for less, or for smaller packages")]
    TooLarge(String),
    /// No network, or no answer from the index.
    #[error("off-line: {0}")]
    Offline(String),
    /// Too many installs of one conversation.
    #[error("too many installs for this conversation (PACKAGE_RATE_LIMIT): try again in {} s", .0.as_secs())]
    RateLimited(Duration),
    /// Another install of the conversation is still going on.
    #[error("another install of this conversation is still going on: wait for its answer")]
    Busy,
    /// It took longer than it may.
    #[error("the packages were not installed within {} s (PACKAGE_TIMEOUT): the index may be slow or out of reach, so try again later, and ask for few at a time", .0.as_secs())]
    TimedOut(Duration),
    /// It was cancelled, the conversation was deleted, or the server is stopping.
    #[error("the install was cancelled")]
    Cancelled,
    /// No room for another container.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The sandbox was not proved to hold.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// No room for the files, or trouble with the storage.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// It cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditUnavailable),
    /// The container engine does not answer, or a container did not do what it was started for.
    #[error("failed to {operation}")]
    Failed {
        /// What was being done.
        operation: &'static str,
        /// What went wrong, for the log.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The kinds of errors, each one word for machines and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(const_into_str, serialize_all = "snake_case")]
#[expect(missing_docs, reason = "each is the error of that name")]
pub enum PackagesErrorKind {
    InvalidRequirement,
    InvalidArguments,
    PackageNotInstalled,
    UnknownLanguage,
    PackageBlocked,
    PackageNotFound,
    PackageIncompatible,
    PackageTooLarge,
    PackageOffline,
    RateLimited,
    InstallBusy,
    InstallTimeout,
    Cancelled,
    Stopping,
    Busy,
    SandboxNotProven,
    QuotaExceeded,
    StorageFull,
    DiskFull,
    TooManyFiles,
    AuditUnavailable,
    Internal,
}

impl From<GateError> for PackagesError {
    fn from(refused: GateError) -> Self {
        match refused {
            GateError::EngineLost(outage) => {
                Self::failed("reach the container engine")(outage.reason.into())
            }
            GateError::Cancelled => Self::Cancelled,
            GateError::Unproven(error) => error.into(),
            GateError::Network(reason) => Self::Offline(reason.to_string()),
            // Installs ask for none.
            GateError::Secret(error) => Self::failed("read secrets")(error.into()),
            GateError::Storage(error) => error.into(),
            GateError::Admission(error) => error.into(),
        }
    }
}

impl PackagesError {
    /// The argument that it is about, if it is about one.
    pub fn argument(&self) -> Option<Argument> {
        match self {
            Self::Requirement(_) | Self::Count(..) | Self::Twice(_) => Some(Packages),
            Self::Removal(_)
            | Self::RemoveCount(..)
            | Self::RemoveVersion(_)
            | Self::NotThere { .. } => Some(Remove),
            _ => None,
        }
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> PackagesErrorKind {
        use PackagesErrorKind as Kind;
        match self {
            Self::Requirement(_) | Self::Removal(_) => Kind::InvalidRequirement,
            Self::Count(..)
            | Self::Twice(_)
            | Self::RemoveCount(..)
            | Self::RemoveVersion(_)
            | Self::Both(_) => Kind::InvalidArguments,
            Self::NotThere { .. } => Kind::PackageNotInstalled,
            Self::Language { .. } => Kind::UnknownLanguage,
            Self::Blocked { .. } => Kind::PackageBlocked,
            Self::NotFound(_) => Kind::PackageNotFound,
            Self::Incompatible(_) => Kind::PackageIncompatible,
            Self::TooLarge(_) => Kind::PackageTooLarge,
            Self::Offline(_) => Kind::PackageOffline,
            Self::RateLimited(_) => Kind::RateLimited,
            Self::Busy => Kind::InstallBusy,
            Self::TimedOut(_) => Kind::InstallTimeout,
            Self::Cancelled => Kind::Cancelled,
            Self::Admission(AdmissionError::Closed) => Kind::Stopping,
            Self::Admission(_) => Kind::Busy,
            Self::Unproven(_) => Kind::SandboxNotProven,
            Self::Workspace(error) => match error {
                WorkspaceError::QuotaExceeded { .. } => Kind::QuotaExceeded,
                WorkspaceError::StorageFull { .. }
                | WorkspaceError::TenantFull { .. }
                | WorkspaceError::NoUserLeft { .. } => Kind::StorageFull,
                WorkspaceError::DiskFull => Kind::DiskFull,
                WorkspaceError::TooManyEntries { .. } => Kind::TooManyFiles,
                WorkspaceError::FoldersVanish
                | WorkspaceError::Refilled
                | WorkspaceError::TooManyUploads => Kind::Busy,
                _ => Kind::Internal,
            },
            Self::Audit(_) => Kind::AuditUnavailable,
            Self::Failed { .. } => Kind::Internal,
        }
    }

    /// After what time it is worth trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(wait) => Some(*wait),
            Self::Admission(error) => error.retry_after(),
            _ => None,
        }
    }

    pub(super) fn failed(
        operation: &'static str,
    ) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |source| Self::Failed { operation, source }
    }
}

/// What can be removed: only what was asked for, since everything else is there because something needs it.
fn what_can_be(there: &str) -> String {
    match there {
        "" => "nothing was asked for in this conversation".to_owned(),
        there => format!(
            "what was asked for in this conversation is {there}, and what came along with it goes when nothing needs it"
        ),
    }
}
