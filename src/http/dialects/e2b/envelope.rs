//! Streams of Connect: each message in an envelope of its own, the last of which says how the stream ended.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::Stream;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::called;
use crate::api::error::CallError;
use crate::http::rest::ApiError;

/// One byte of flags, and four of length.
const HEAD: usize = 5;
/// The flag of a compressed message.
const COMPRESSED: u8 = 1;
/// The flag of the last message.
const LAST: u8 = 2;

/// A message on its way.
pub(super) fn of(message: &Value) -> Bytes {
    sealed(0, message)
}

/// The end of a stream that went well, or did not.
pub(super) fn last(error: Option<&CallError>) -> Bytes {
    let message = error.map_or_else(|| json!({}), |error| json!({ "error": called(error) }));
    sealed(LAST, &message)
}

fn sealed(flags: u8, message: &Value) -> Bytes {
    let message = message.to_string();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[flags], &length.to_be_bytes()[..], message.as_bytes()]
        .concat()
        .into()
}

/// The only message of a request.
pub(super) fn only<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let wrong = |why: &str| ApiError::arguments(format!("the body does not fit: {why}"));
    let Some((head, message)) = body.split_at_checked(HEAD) else {
        return Err(wrong("it must be a message in an envelope of Connect"));
    };
    if head[0] & COMPRESSED != 0 {
        return Err(wrong("its message is compressed: send it as it is"));
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    if u32::try_from(message.len()) != Ok(length) {
        return Err(wrong(
            "it must be one message, as long as its envelope says",
        ));
    }
    serde_json::from_slice(message).map_err(|error| wrong(&error.to_string()))
}

/// The answer that has a stream.
pub(super) fn answer(stream: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/connect+json"),
        (CACHE_CONTROL, "no-store"),
        // nginx would pass on many messages together, or all of them at the end.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let stream = futures::StreamExt::map(stream, Ok::<_, Infallible>);
    (headers, Body::from_stream(stream)).into_response()
}

/// The same for a call that comes to nothing: clients read why only in a stream.
pub(super) fn refused(ApiError(error): &ApiError) -> Response {
    let end = last(Some(error));
    answer(futures::stream::once(async { end }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_message_comes_out_as_it_went_in(text in ".{0,300}") {
            let message = json!({ "text": text });
            prop_assert_eq!(only::<Value>(&of(&message)).unwrap(), message);
        }

        #[test]
        fn nothing_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = only::<Value>(&body);
        }
    }
}
