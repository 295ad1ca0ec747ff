//! What a request demands of a file as it is now (RFC 9110, section 13.1). No file has an `ETag`.

use std::time::{Duration, SystemTime};

use axum::http::HeaderMap;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};

use crate::workspace::OpenFile;

/// Whether a request demands anything that [`is_met`] looks at.
pub(in crate::http) fn is_any(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE)
}

/// Whether a file is as a request demands by `If-Match` or `If-Unmodified-Since`.
pub(in crate::http) fn is_met(headers: &HeaderMap, file: Option<&OpenFile>) -> bool {
    if let Some(tags) = headers.get(IF_MATCH) {
        return tags == "*" && file.is_some();
    }
    let since = headers
        .get(IF_UNMODIFIED_SINCE)
        .and_then(|since| httpdate::parse_http_date(since.to_str().ok()?).ok());
    match (since, file.and_then(|file| file.modified)) {
        (Some(since), Some(modified)) => is_within(modified, since),
        // What is no date is ignored, and so is any where there is none to compare it with.
        _ => true,
    }
}

/// Whether an upload is to make a file and not to replace one.
pub(in crate::http) fn is_for_new(headers: &HeaderMap) -> bool {
    headers.get(IF_NONE_MATCH).is_some_and(|tags| tags == "*")
}

/// Whether a time is not after a date of whole seconds.
fn is_within(time: SystemTime, date: SystemTime) -> bool {
    let later = time.duration_since(date).unwrap_or_default();
    later < Duration::from_secs(1)
}
