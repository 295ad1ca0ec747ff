//! `GET /framed/{key}/{path}`: HTML pages that programs left, such as charts, for a frame of [the
//! page](crate::http::page).
//!
//! Charts need scripts, which links never allow. So a page is given only to a frame of our own page, as browsers say in
//! headers that no script can set, and never as a document of its own that could pretend to be ours. There it has an
//! origin like no other, no network, no forms, and our page keeps it from going anywhere else.

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::{FileRequest, HttpState, refusal, serve};

/// Where the route is.
const PREFIX: &str = "/framed/";
/// What a page may do in its frame: run what it brings along, and show what it brings along. Libraries of charts make
/// functions of text.
const POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
    style-src 'unsafe-inline'; img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'self'; webrtc 'block'";

/// The route.
pub(in crate::http) async fn route(State(state): State<HttpState>, request: Request) -> Response {
    if !is_for_our_frame(request.headers()) {
        return refusal(
            StatusCode::FORBIDDEN,
            "This is shown only in a frame of the server's own page, over HTTPS or on the same machine.\n",
        );
    }
    // All of it, whatever else is asked for.
    let (method, headers) = (Method::GET, HeaderMap::new());
    let asked = FileRequest::below(PREFIX, &method, request.uri(), &headers);
    if !is_page(asked.path) {
        return refusal(StatusCode::NOT_FOUND, "There is no such page.\n");
    }
    let files = &state.0.services.files;
    let mut response = serve(&files.workspaces, &files.links, asked).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_DISPOSITION, "inline"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        // Names of hosts would tell something, too.
        (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a browser asks for a frame, from a page of this origin. Browsers say so where they trust the connection.
fn is_for_our_frame(headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|given| given == value);
    is("sec-fetch-dest", "iframe") && is("sec-fetch-site", "same-origin")
}

fn is_page(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| {
        extension.eq_ignore_ascii_case("html") || extension.eq_ignore_ascii_case("htm")
    })
}
