//! What a request demands of a file as it is now (RFC 9110, section 13.1). No file has an `ETag`.

use axum::http::HeaderMap;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};

use crate::workspace::{Demand, Existing};

/// What a request demands by `If-Match` or `If-Unmodified-Since`.
pub(in crate::http) fn demand(headers: &HeaderMap) -> Option<Demand> {
    if let Some(tags) = headers.get(IF_MATCH) {
        return Some(if tags == "*" {
            Demand::File
        } else {
            Demand::Impossible
        });
    }
    let since = headers.get(IF_UNMODIFIED_SINCE)?.to_str().ok()?;
    // What is not a date is ignored.
    let since = httpdate::parse_http_date(since).ok()?;
    Some(Demand::UnchangedSince(since))
}

/// What an upload may do with a file of its name, by the same headers and `If-None-Match`.
pub(in crate::http) fn existing(headers: &HeaderMap) -> Existing {
    let is_for_new = headers.get(IF_NONE_MATCH).is_some_and(|tags| tags == "*");
    match (demand(headers), is_for_new) {
        (None, false) => Existing::Replace,
        (Some(demand), false) => Existing::ReplaceIf(demand),
        // The file must exist and must not exist.
        (Some(Demand::File | Demand::Impossible), true) => Existing::ReplaceIf(Demand::Impossible),
        (None | Some(Demand::UnchangedSince(_)), true) => Existing::Keep,
    }
}
