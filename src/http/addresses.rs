//! The addresses of MCP as clients write them, and what is said where there is nothing.
//!
//! People give an address with a slash at its end or two within it, and some clients resolve it so. A redirect would
//! lose the token, which clients drop on one, so such a request is served as if it were written plainly.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::uri::{PathAndQuery, Uri};
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::HttpState;
use super::login;
use super::metadata;
use super::rest::ApiError;
use crate::api::code::Code;
use crate::mcp::transport::MESSAGES;

/// The endpoint of streamable HTTP.
pub(super) const MCP: &str = "/mcp";
/// Where clients of the old transport open their stream.
pub(super) const STREAMS: &[&str] = &["/sse", "/mcp/sse", "/mcp/events"];
/// The same endpoint for clients that are given a token and are not to look for a place to log in.
pub(super) const TOKEN_MCP: &str = "/token/mcp";
/// Longer paths are none of these.
const MAX_PATH: usize = 1024;
/// Where clients that want to log in ask first, besides everything below `.well-known`.
const AUTHORIZATION: &[&str] = &["/authorize", "/register", "/token"];

/// Sends a request for an MCP address to its route, however the address is written. It may begin with the path of the
/// public address: a proxy strips that, but a client that does not come through the proxy sends it.
pub(super) fn plain(mut request: Request, public_path: &str) -> Request {
    let path = request.uri().path();
    if path.len() > MAX_PATH {
        return request;
    }
    let found = address(&simple(path, public_path)).filter(|address| *address != path);
    if let Some(uri) = found.and_then(|address| at(request.uri(), address)) {
        *request.uri_mut() = uri;
    }
    request
}

/// The MCP address that this is, or that of what is said about one.
fn address(path: &str) -> Option<&'static str> {
    let documents = metadata::DOCUMENTS.iter().map(|(address, _)| *address);
    let all = [MCP, MESSAGES, TOKEN_MCP, metadata::WELL_KNOWN].into_iter();
    let all = all.chain(STREAMS.iter().copied()).chain(documents);
    let mut all = all.chain(login::ADDRESSES.iter().copied());
    all.find(|address| *address == path)
}

/// A path without what does not change its meaning, and without the public path before it.
fn simple(path: &str, public_path: &str) -> String {
    let decoded = |path: &str| -> String {
        let text = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let segments = text.split('/').filter(|segment| !segment.is_empty());
        segments.flat_map(|segment| ["/", segment]).collect()
    };
    let (path, public_path) = (decoded(path), decoded(public_path));
    let without = |path: &str| {
        let rest = path.strip_prefix(&public_path);
        rest.filter(|rest| rest.starts_with('/'))
            .unwrap_or(path)
            .to_owned()
    };
    // Here the path of what the document is about comes last (RFC 9728, section 3.1; RFC 8414, section 3.1).
    let mut documents = [metadata::WELL_KNOWN, login::METADATA].into_iter();
    let about = |document: &'static str| Some((document, path.strip_prefix(document)?));
    match documents.find_map(about) {
        Some((document, "")) => document.to_owned(),
        Some((document, about)) if about == public_path => document.to_owned(),
        Some((document, about)) => format!("{document}{}", without(about)),
        None => without(&path),
    }
}

fn at(uri: &Uri, address: &str) -> Option<Uri> {
    let target = match uri.query() {
        Some(query) => format!("{address}?{query}"),
        None => address.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Answers where there is no route. Many clients look for OAuth as soon as something is refused, and some fail on any
/// other form of an answer than that of OAuth (RFC 6749, section 5.2).
pub(super) async fn no_such_route(State(state): State<HttpState>, request: Request) -> Response {
    let public_path = state.0.config.public_path();
    let path = simple(request.uri().path(), public_path);
    if path.split('/').any(|segment| segment == ".well-known")
        || AUTHORIZATION.contains(&path.as_str())
    {
        let description = if state.0.login.is_some() {
            "there is nothing here: /.well-known/oauth-authorization-server says where to log in"
        } else if state.0.oauth_config.issuers.is_empty() {
            "this server has no OAuth: send the header `Authorization: Bearer <MCP_API_TOKEN>`"
        } else {
            "this server issues no tokens: /.well-known/oauth-protected-resource/mcp says who does"
        };
        let body = json!({ "error": "not_found", "error_description": description });
        let fresh = [(CACHE_CONTROL, "no-store")];
        return (StatusCode::NOT_FOUND, fresh, Json(body)).into_response();
    }
    let message = format!(
        "there is nothing here: MCP clients connect to {public_path}{MCP}, and the REST interface is described at \
         {public_path}/docs"
    );
    ApiError::new(Code::NoSuchRoute, message).into_response()
}

pub(super) async fn method_not_allowed(State(state): State<HttpState>) -> ApiError {
    let message = format!(
        "this address takes other methods, see the header Allow; MCP clients connect to {}{MCP}",
        state.0.config.public_path()
    );
    ApiError::new(Code::MethodNotAllowed, message)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn seen(uri: &str, public_path: &str) -> String {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        plain(request, public_path).uri().to_string()
    }

    #[test]
    fn an_mcp_address_is_known_however_it_is_written() {
        for (written, address) in [
            ("/mcp/", "/mcp"),
            ("//mcp", "/mcp"),
            ("/%6dcp/", "/mcp"),
            ("/mcp/sse/", "/mcp/sse"),
            ("/mcp//events", "/mcp/events"),
            ("/messages/?sessionId=1", "/messages?sessionId=1"),
            ("/tools/box/mcp", "/mcp"),
            ("/tools/box/sse/?a=%2F", "/sse?a=%2F"),
        ] {
            assert_eq!(seen(written, "/tools/box"), address, "{written}");
        }
        for other in [
            "/",
            "/mcp/v1/",
            "/files//mcp",
            "/toolsbox/mcp/",
            "/MCP/",
            "/mcp%2f%2fx",
        ] {
            assert_eq!(seen(other, "/tools/box"), other);
        }
        assert_eq!(
            seen("http://box.example/mcp/", ""),
            "http://box.example/mcp"
        );
    }
}
