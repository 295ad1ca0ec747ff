//! Bodies that are read whole, as much as they may have, in the time that they may take; and the rest of those that are
//! refused.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

/// How long the rest of a refused body is taken in.
const PATIENCE_REFUSED: Duration = Duration::from_secs(5);

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

/// Takes in what is left of a body that is refused, if it can be that much: who is still sending when the connection is
/// closed sees a reset and not the answer. Who asks before it sends may not have begun.
pub(crate) async fn drain(headers: &HeaderMap, mut body: BodyDataStream, limit: u64) {
    if headers.contains_key(EXPECT) || declared(headers).is_some_and(|length| length > limit) {
        return;
    }
    let rest = async {
        let mut left = limit;
        while let Some(Ok(piece)) = body.next().await
            && piece.len() as u64 <= left
        {
            left -= piece.len() as u64;
        }
    };
    // Who takes longer has to do without.
    let _ = tokio::time::timeout(PATIENCE_REFUSED, rest).await;
}

/// How many bytes a body is said to have.
pub(crate) fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
