//! The body that every failure has.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema};

use crate::admin::AdminError;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::conversation::ConversationIdError;
use crate::files::FilesError;
use crate::mcp::transport::TooMany;
use crate::run::RunError;

/// When a server that cannot run programs may be able to again.
const SOON: Duration = Duration::from_secs(5);

/// A request that was refused or failed.
#[derive(Debug)]
pub(in crate::http) struct ApiError(pub(in crate::http) CallError);

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
    pub(in crate::http) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(CallError::new(code, message))
    }

    pub(in crate::http) fn arguments(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArguments, message)
    }

    /// Too much of something at once, and when it is worth trying again.
    pub(super) fn busy(what: &str, again: Duration) -> Self {
        Self(CallError::busy(what, again))
    }

    /// What may be there again by then.
    pub(in crate::http) fn again(code: Code, message: String, after: Duration) -> Self {
        let mut error = Self::new(code, message);
        error.0.retry_after = Some(after);
        error
    }

    /// More requests than a limit allows.
    pub(in crate::http) fn too_many(excess: TooMany) -> Self {
        let mut error = Self::new(Code::RateLimited, excess.to_string());
        error.0.retry_after = Some(Duration::from_secs(excess.seconds));
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let status = error.code.status();
        let wait = match status {
            StatusCode::SERVICE_UNAVAILABLE => error.retry_after.or(Some(SOON)),
            _ => error.retry_after,
        };
        let seconds = wait.map(|wait| wait.as_secs().max(1));
        let told = error.clone();
        let failure = Failure {
            code: error.code.into_str(),
            message: error.message,
            retry_after_seconds: seconds,
        };
        let mut response = (status, Json(ErrorBody { error: failure })).into_response();
        // For those who say it in another form.
        response.extensions_mut().insert(told);
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

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
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
