//! The one table from codes to statuses, and the body that every failure has.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema};

use crate::conversation::ConversationIdError;
use crate::files::FilesError;
use crate::mcp::error::{BROKEN, ToolError};
use crate::run::RunError;

/// When a server that cannot run programs may be able to again.
const SOON: Duration = Duration::from_secs(5);

/// A request that was refused or failed.
#[derive(Debug)]
pub(in crate::http) struct ApiError(pub(super) ToolError);

/// What clients read of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: Failure,
}

/// Why there is no other answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Failure {
    /// A word that stays the same: see docs/errors.md.
    #[schema(example = "invalid_arguments")]
    code: &'static str,
    /// What happened and what to do about it.
    message: String,
    /// When it is worth trying again, as in the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
}

impl ApiError {
    pub(in crate::http) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self(ToolError::new(code, message))
    }

    pub(in crate::http) fn arguments(message: impl Into<String>) -> Self {
        Self::new("invalid_arguments", message)
    }

    /// Too much of something at once, and when it is worth trying again.
    pub(super) fn busy(what: &str, again: Duration) -> Self {
        Self(ToolError::busy(what, again))
    }

    /// More requests than `RATE_LIMIT`.
    pub(in crate::http) fn too_many(seconds: u64) -> Self {
        let mut error = Self::new(
            "rate_limited",
            format!("too many requests (RATE_LIMIT): try again in {seconds} s"),
        );
        error.0.retry_after = Some(Duration::from_secs(seconds));
        error
    }
}

/// The status of a code.
fn status(code: &str) -> StatusCode {
    match code {
        "invalid_request"
        | "invalid_arguments"
        | "invalid_requirement"
        | "unknown_language"
        | "stateful_unavailable"
        | "interrupted" => StatusCode::BAD_REQUEST,
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "host_not_allowed" | "origin_not_allowed" | "network_refused" | "package_blocked" => {
            StatusCode::FORBIDDEN
        }
        "file_not_found"
        | "run_not_found"
        | "session_not_found"
        | "package_not_found"
        | "package_not_installed"
        | "no_such_route"
        | "not_found" => StatusCode::NOT_FOUND,
        "method_not_allowed" => StatusCode::METHOD_NOT_ALLOWED,
        "too_slow" | "install_timeout" => StatusCode::REQUEST_TIMEOUT,
        "is_directory"
        | "not_a_directory"
        | "file_exists"
        | "too_many_files"
        | "session_busy"
        | "install_busy"
        | "kernel_differs"
        | "package_incompatible"
        | "cancelled" => StatusCode::CONFLICT,
        "precondition_failed" => StatusCode::PRECONDITION_FAILED,
        "code_too_large" | "file_too_large" | "body_too_large" | "package_too_large"
        | "quota_exceeded" => StatusCode::PAYLOAD_TOO_LARGE,
        "unsupported_media_type" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "range_not_satisfiable" => StatusCode::RANGE_NOT_SATISFIABLE,
        "busy" | "rate_limited" => StatusCode::TOO_MANY_REQUESTS,
        "stopping" | "sandbox_not_proven" | "package_offline" => StatusCode::SERVICE_UNAVAILABLE,
        "storage_full" | "disk_full" => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A code as callers know it.
pub(super) fn public(code: &'static str) -> &'static str {
    if code == BROKEN { "internal" } else { code }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let status = status(error.code);
        let wait = match status {
            StatusCode::SERVICE_UNAVAILABLE => error.retry_after.or(Some(SOON)),
            _ => error.retry_after,
        };
        let seconds = wait.map(|wait| wait.as_secs().max(1));
        let failure = Failure {
            code: public(error.code),
            message: error.message,
            retry_after_seconds: seconds,
        };
        let mut response = (status, Json(ErrorBody { error: failure })).into_response();
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        Self(error.into())
    }
}

impl From<&RunError> for ApiError {
    fn from(error: &RunError) -> Self {
        Self(error.into())
    }
}

impl From<FilesError> for ApiError {
    fn from(error: FilesError) -> Self {
        Self(error.into())
    }
}

impl From<ConversationIdError> for ApiError {
    fn from(error: ConversationIdError) -> Self {
        Self(error.into())
    }
}

/// The failures that any request can be answered with, for the document.
pub(super) struct Failures;

/// Statuses of failures that concern every operation.
const FAILURES: &[(&str, &str)] = &[
    (
        "400",
        "The request is not understood, or an argument is wrong",
    ),
    ("401", "The bearer token is missing or wrong"),
    (
        "403",
        "The server does not answer for this Host or Origin, or the operator does not allow it",
    ),
    ("408", "The body took too long"),
    (
        "413",
        "The program, file or body is larger than may be, or there is no room left in the conversation",
    ),
    (
        "415",
        "The body is of a type that this operation does not take",
    ),
    (
        "429",
        "Too much at once; `Retry-After` says when to come back",
    ),
    ("500", "The server made a mistake; its log has the details"),
    (
        "503",
        "There can be no runs at the moment; `Retry-After` says when to come back",
    ),
    ("507", "The server's disk is full"),
];

impl IntoResponses for Failures {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        FAILURES
            .iter()
            .map(|(status, description)| {
                let content = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
                let response = ResponseBuilder::new()
                    .description(*description)
                    .content("application/json", content)
                    .build();
                ((*status).to_owned(), RefOr::T(response))
            })
            .collect()
    }
}

const _: fn() = || {
    // The reference above names a schema that the document has.
    let _ = ErrorBody::schema;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_of_a_use_case_is_a_mistake_of_the_server() {
        let documented = include_str!("../../../docs/errors.md");
        let (_, table) = documented.split_once("## Codes of tools").unwrap();
        let (table, _) = table.split_once("\n## ").unwrap();
        let codes: Vec<_> = table
            .lines()
            .filter_map(|row| row.strip_prefix("| `")?.split('`').next())
            .collect();
        assert!(codes.len() > 15, "{codes:?}");
        for code in codes.into_iter().filter(|code| *code != "internal") {
            assert_ne!(status(code), StatusCode::INTERNAL_SERVER_ERROR, "{code}");
        }
    }
}
