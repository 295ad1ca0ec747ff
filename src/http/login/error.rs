//! Failures in the form of OAuth (RFC 6749, section 5.2), which is not that of the rest.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tracing::error;

use super::fresh;
use crate::login::LoginError;
use crate::mcp::transport::TooMany;

/// Why a client of OAuth gets nothing.
#[derive(Debug)]
pub(super) enum OauthFailure {
    Login(LoginError),
    /// What it says of itself is not what one can say.
    Metadata(String),
    /// It asks too often.
    TooMany(TooMany),
}

impl From<LoginError> for OauthFailure {
    fn from(error: LoginError) -> Self {
        Self::Login(error)
    }
}

/// The word for an error, and the status of an answer with it.
pub(super) fn word(error: &LoginError) -> (&'static str, StatusCode) {
    match error {
        LoginError::Request(_) => ("invalid_request", StatusCode::BAD_REQUEST),
        // So that it registers again.
        LoginError::Client | LoginError::Document { .. } => {
            ("invalid_client", StatusCode::UNAUTHORIZED)
        }
        LoginError::RedirectUri(_) => ("invalid_redirect_uri", StatusCode::BAD_REQUEST),
        LoginError::Grant(_) | LoginError::Replayed { .. } | LoginError::Denied(_) => {
            ("invalid_grant", StatusCode::BAD_REQUEST)
        }
        LoginError::GrantType => ("unsupported_grant_type", StatusCode::BAD_REQUEST),
        LoginError::ResponseType => ("unsupported_response_type", StatusCode::BAD_REQUEST),
        LoginError::Scope => ("invalid_scope", StatusCode::BAD_REQUEST),
        LoginError::Target { .. } => ("invalid_target", StatusCode::BAD_REQUEST),
        LoginError::Storage(_) | LoginError::Unfinished(_) => {
            ("server_error", StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// A message in the signs that a description may have (RFC 6749, section 5.2).
pub(super) fn description(message: &str) -> String {
    let plain = |sign: char| match sign {
        '"' | '\\' => '\'',
        ' '..='~' => sign,
        _ => '?',
    };
    message.chars().map(plain).collect()
}

impl IntoResponse for OauthFailure {
    fn into_response(self) -> Response {
        let ((word, status), message) = match &self {
            Self::Login(error) => (word(error), error.to_string()),
            Self::Metadata(message) => (
                ("invalid_client_metadata", StatusCode::BAD_REQUEST),
                message.clone(),
            ),
            // The word that comes closest: there is none for it.
            Self::TooMany(excess) => (
                ("temporarily_unavailable", StatusCode::TOO_MANY_REQUESTS),
                excess.to_string(),
            ),
        };
        if let Self::Login(error) = &self
            && status.is_server_error()
        {
            let error = error as &dyn std::error::Error;
            error!(error, "a login failed");
        }
        fresh(
            status,
            json!({ "error": word, "error_description": description(&message) }),
        )
    }
}
