//! Bodies that are read whole: as much as they may have, in the time that they may take.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// Why there is no whole body.
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Interrupted,
}

/// Reads one. What is said to be too large is not waited for.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    patience: Duration,
) -> Result<Bytes, BodyError> {
    if declared(headers).is_some_and(|length| length > limit as u64) {
        return Err(BodyError::TooLarge);
    }
    let body = Limited::new(body, limit).collect();
    match tokio::time::timeout(patience, body).await {
        Err(_) => Err(BodyError::TooSlow),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(_)) => Err(BodyError::Interrupted),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// How many bytes a body is said to have.
pub(crate) fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
