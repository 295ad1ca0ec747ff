//! `GET` and `HEAD /files/{key}/{path}`: downloads of what programs and callers put into workspaces.
//!
//! Anybody who knows a link may read, nobody may list. Every miss gets the same answer, so that nothing can be learned
//! by asking. What is served is hostile: browsers show only a few types at all, and those without scripts and isolated
//! from this origin. Bytes come from one open file, and never more than it had when it was opened.

pub(super) mod condition;
mod content;
pub(super) mod framed;
mod range;
mod transfer;
mod written;

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, IF_RANGE, LAST_MODIFIED, RANGE,
    REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use percent_encoding::percent_decode_str;

use self::range::Selection;
pub(super) use self::written::written;
use super::HttpState;
use crate::conversation::ConversationKey;
use crate::links::FileLinks;
use crate::workspace::path::RelativePath;
use crate::workspace::{OpenFile, WorkspaceError, Workspaces};

/// The first and last byte that a `Range` header selects, for the fuzzer; `None` is the whole file or nothing.
#[cfg(fuzzing)]
pub fn selected(range: &str, size: u64) -> Option<(u64, u64)> {
    match range::select(Some(range), size) {
        Selection::Part { first, last } => Some((first, last)),
        Selection::Whole | Selection::Unsatisfiable => None,
    }
}

/// Where the route is.
const PREFIX: &str = "/files/";
/// When it is worth trying again after too many downloads.
pub(super) const DOWNLOADS_AGAIN: Duration = Duration::from_secs(5);
/// What a browser may do with a file: show it without scripts, forms or the cookies of this origin.
const POLICY: &str = "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'";

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRequest<'a> {
    /// All after `/files/`, still percent-encoded.
    pub(crate) path: &'a str,
    /// All after `?`, or nothing.
    pub(crate) query: &'a str,
    /// Which part of the file.
    pub(crate) part: FilePart<'a>,
}

/// What a request asks for of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePart<'a> {
    /// Whether only the headers are wanted.
    pub(crate) is_head: bool,
    /// All headers.
    pub(crate) headers: &'a HeaderMap,
}

/// Why an open file is not sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unsent {
    /// It is not as the request demands.
    Unmet,
    /// The range has none of the file's bytes; this is how many there are.
    Shorter(u64),
    /// There are too many downloads: see `DOWNLOADS_AGAIN`.
    Busy,
}

impl<'a> FilePart<'a> {
    /// The `Range` header, if it applies.
    fn range(self) -> Option<&'a str> {
        let mut ranges = self.headers.get_all(RANGE).iter();
        let (range, more) = (ranges.next()?, ranges.next());
        // Ranges are for GET only (RFC 9110, section 14.2). There is no ETag, and a date of whole seconds is too weak
        // for `If-Range` where programs write, so its condition is never true (section 13.1.5).
        let is_heeded = more.is_none() && !self.is_head && !self.headers.contains_key(IF_RANGE);
        is_heeded.then(|| range.to_str().ok()).flatten()
    }
}

impl<'a> FileRequest<'a> {
    /// Takes what matters from a request.
    pub(crate) fn new(method: &Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        Self::below(PREFIX, method, uri, headers)
    }

    /// The same for a route elsewhere.
    fn below(prefix: &str, method: &Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        Self {
            path: uri.path().strip_prefix(prefix).unwrap_or_default(),
            query: uri.query().unwrap_or_default(),
            part: FilePart {
                is_head: method == Method::HEAD,
                headers,
            },
        }
    }

    /// Which file of which conversation it asks for. Percent-encoding is decoded once, after splitting into parts.
    fn target(&self) -> Option<(ConversationKey, RelativePath)> {
        let (key, path) = self.path.split_once('/')?;
        let mut parts = Vec::new();
        for part in path.split('/') {
            let part = percent_decode_str(part).decode_utf8().ok()?;
            if part.contains('/') {
                return None;
            }
            parts.push(part);
        }
        Some((
            key.parse().ok()?,
            RelativePath::parse(&parts.join("/")).ok()?,
        ))
    }
}

/// The route.
pub(super) async fn route(State(state): State<HttpState>, request: Request) -> Response {
    let files = &state.0.services.files;
    let request = FileRequest::new(request.method(), request.uri(), request.headers());
    serve(&files.workspaces, &files.links, request).await
}

/// Answers one request.
pub(crate) async fn serve(
    workspaces: &Workspaces,
    links: &FileLinks,
    request: FileRequest<'_>,
) -> Response {
    match open(workspaces, links, request).await {
        Ok(Some((path, file))) => found(workspaces, request.part, path.file_name(), file)
            .unwrap_or_else(Unsent::into_text),
        Ok(None) => refusal(StatusCode::NOT_FOUND, "There is no such file.\n"),
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a download failed"
            );
            refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The server failed to read the file.\n",
            )
        }
    }
}

async fn open(
    workspaces: &Workspaces,
    links: &FileLinks,
    request: FileRequest<'_>,
) -> Result<Option<(RelativePath, OpenFile)>, WorkspaceError> {
    let Some((key, path)) = request.target() else {
        return Ok(None);
    };
    if !links.verify(&key, &path, request.query, SystemTime::now()) {
        return Ok(None);
    }
    let Some(workspace) = workspaces.find(&key).await? else {
        return Ok(None);
    };
    Ok(workspace.open_file(&path).await?.map(|file| (path, file)))
}

/// Answers with an open file, or with a part of it. How a refusal looks is up to the route.
pub(super) fn found(
    workspaces: &Workspaces,
    part: FilePart<'_>,
    name: &str,
    file: OpenFile,
) -> Result<Response, Unsent> {
    let demand = condition::demand(part.headers);
    if demand.is_some_and(|demand| !demand.is_met_by(Some(&file))) {
        return Err(Unsent::Unmet);
    }
    let size = file.size;
    let (status, first, length) = match range::select(part.range(), size) {
        Selection::Whole => (StatusCode::OK, 0, size),
        Selection::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Selection::Unsatisfiable => return Err(Unsent::Shorter(size)),
    };
    let mut response = secured(status);
    let kind = content::kind(name);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
    let disposition = content::disposition(kind, name);
    headers.insert(CONTENT_DISPOSITION, text(disposition));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first + length - 1;
        headers.insert(CONTENT_RANGE, text(format!("bytes {first}-{last}/{size}")));
    }
    if let Some(date) = file.modified.and_then(content::http_date) {
        headers.insert(LAST_MODIFIED, text(date));
    }
    if part.is_head || length == 0 {
        return Ok(response);
    }
    let slot = workspaces.reserve_download(&file.key).ok_or(Unsent::Busy)?;
    *response.body_mut() = transfer::body(workspaces.tasks(), file.file, first, length, slot);
    Ok(response)
}

/// What `Content-Range` says when a range has none of a file's bytes.
pub(super) fn none_of(size: u64) -> HeaderValue {
    text(format!("bytes */{size}"))
}

impl Unsent {
    /// The answer of this route, for people with a browser.
    fn into_text(self) -> Response {
        let (status, reason, name, value) = match self {
            Self::Unmet => {
                let reason = "The file is not as the request demands.\n";
                return refusal(StatusCode::PRECONDITION_FAILED, reason);
            }
            Self::Shorter(size) => (
                StatusCode::RANGE_NOT_SATISFIABLE,
                "The file is shorter.\n",
                CONTENT_RANGE,
                none_of(size),
            ),
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many downloads, try again.\n",
                RETRY_AFTER,
                DOWNLOADS_AGAIN.as_secs().into(),
            ),
        };
        let mut response = refusal(status, reason);
        response.headers_mut().insert(name, value);
        response
    }
}

/// A short answer without a file.
fn refusal(status: StatusCode, reason: &'static str) -> Response {
    let mut response = secured(status);
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(reason.len()));
    *response.body_mut() = Body::from(reason);
    response
}

/// An empty answer with the headers that all answers carry.
fn secured(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, POLICY),
        // Chat clients embed pictures in their own pages.
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "cross-origin",
        ),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "private, no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("numbers, dates and encoded names are plain ASCII")
}

#[cfg(test)]
mod tests;
