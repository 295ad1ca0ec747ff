//! The codes of failures, which callers may rely on, with the status that HTTP gives each.

use axum::http::StatusCode;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// Why there is no other answer: the words of docs/errors.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, Serialize, VariantArray)]
#[serde(into = "&str")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub(crate) enum Code {
    AuditUnavailable,
    AuthUnavailable,
    BodyTooLarge,
    /// Our own mistake: over MCP it is an error of the protocol and no result.
    #[strum(serialize = "internal")]
    Panicked,
    Busy,
    Cancelled,
    #[strum(serialize = "code_too_large")]
    ProgramTooLarge,
    ConversationNotFound,
    DiskFull,
    FileExists,
    FileNotFound,
    FileTooLarge,
    ForbiddenScope,
    HostNotAllowed,
    HostNotListed,
    InsufficientScope,
    InstallBusy,
    InstallTimeout,
    Internal,
    Interrupted,
    InvalidArguments,
    InvalidRequest,
    InvalidRequirement,
    IsDirectory,
    KernelDiffers,
    LeaderLost,
    MethodNotAllowed,
    NetworkFailed,
    NetworkRefused,
    NoAuditLog,
    NoLeader,
    NoSuchRoute,
    NotADirectory,
    NotAllowed,
    NotFound,
    NotImplemented,
    OriginNotAllowed,
    PackageBlocked,
    PackageIncompatible,
    PackageNotFound,
    PackageNotInstalled,
    PackageOffline,
    PackageTooLarge,
    PreconditionFailed,
    QuotaExceeded,
    RangeNotSatisfiable,
    RateLimited,
    RunNotFound,
    SandboxNotProven,
    SecretUnavailable,
    SessionBusy,
    SessionNotFound,
    StatefulUnavailable,
    Stopping,
    StorageFull,
    TooManyFiles,
    TooSlow,
    Unauthorized,
    UnknownLanguage,
    UnknownSecret,
    UnsupportedMediaType,
}

impl Code {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest
            | Self::InvalidArguments
            | Self::InvalidRequirement
            | Self::UnknownLanguage
            | Self::UnknownSecret
            | Self::StatefulUnavailable
            | Self::Interrupted => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::HostNotAllowed
            | Self::OriginNotAllowed
            | Self::ForbiddenScope
            | Self::InsufficientScope
            | Self::NotAllowed
            | Self::NetworkRefused
            | Self::HostNotListed
            | Self::PackageBlocked => StatusCode::FORBIDDEN,
            Self::ConversationNotFound
            | Self::FileNotFound
            | Self::NoAuditLog
            | Self::RunNotFound
            | Self::SessionNotFound
            | Self::PackageNotFound
            | Self::PackageNotInstalled
            | Self::NoSuchRoute
            | Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow | Self::InstallTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::IsDirectory
            | Self::NotADirectory
            | Self::FileExists
            | Self::TooManyFiles
            | Self::SessionBusy
            | Self::InstallBusy
            | Self::KernelDiffers
            | Self::PackageIncompatible
            | Self::Cancelled => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::ProgramTooLarge
            | Self::FileTooLarge
            | Self::BodyTooLarge
            | Self::PackageTooLarge
            | Self::QuotaExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Busy | Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Self::LeaderLost => StatusCode::BAD_GATEWAY,
            Self::AuditUnavailable
            | Self::AuthUnavailable
            | Self::Stopping
            | Self::SandboxNotProven
            | Self::NetworkFailed
            | Self::SecretUnavailable
            | Self::PackageOffline
            | Self::NoLeader => StatusCode::SERVICE_UNAVAILABLE,
            Self::StorageFull | Self::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::Internal | Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What is in backquotes in the tables of docs/errors.md.
    fn documented() -> BTreeSet<&'static str> {
        let rows = include_str!("../../docs/errors.md")
            .lines()
            .filter(|line| line.starts_with('|'));
        rows.flat_map(|row| row.split('`').skip(1).step_by(2))
            .collect()
    }

    #[test]
    fn every_code_is_documented() {
        let documented = documented();
        let missing: Vec<_> = Code::VARIANTS
            .iter()
            .map(Code::into_str)
            .filter(|code| !documented.contains(code))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
