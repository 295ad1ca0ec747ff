//! The document of the interface, and the page at `/docs` that shows it. All of the page comes from this server.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{OriginalUri, Path};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::server::{Server, ServerBuilder};
use utoipa_swagger_ui::Config;

use crate::http::HttpState;
use crate::mcp::toolset::python::limit_timeout;

/// Where the document is.
pub(super) const DOCUMENT: &str = "/api/v1/openapi.json";
/// The time limit in the document that has a maximum of its own.
const TIMEOUT: &str = "/components/schemas/PythonRequest/properties/timeout";
/// Scripts, requests and pictures of this origin alone. The page writes styles into its elements, and has pictures in
/// its styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// How the page begins: with the document, whose address is relative so that it is right behind a proxy too.
static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("../api/v1/openapi.json").persist_authorization(false)));

/// The document as JSON. `OpenAPI` has no word for a parameter that goes on over slashes, so its mark is left out.
pub(super) fn serialized(mut document: Document, state: &HttpState) -> String {
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.servers = Some(vec![server(state.0.config.public_path())]);
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    // Made of strings and numbers.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    limit_timeout(document.pointer_mut(TIMEOUT), &state.0.runs);
    document.to_string()
}

/// Where the paths of the document begin: below the path that a proxy serves us under, if there is one.
fn server(public_path: &str) -> Server {
    let url = if public_path.is_empty() {
        "/"
    } else {
        public_path
    };
    ServerBuilder::new()
        .url(url)
        .description(Some("this server"))
        .build()
}

/// The document as an answer.
pub(super) fn json(document: &str) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, document.to_owned()).into_response()
}

/// The page and its files.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/docs", get(to_folder))
        .route("/docs/", get(async || file("")))
        .route(
            "/docs/{*file}",
            get(async |Path(path): Path<String>| file(&path)),
        )
        .layer(CompressionLayer::new())
}

/// Addresses in the page are relative to its folder.
async fn to_folder(OriginalUri(_): OriginalUri) -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]).into_response()
}

fn file(path: &str) -> Response {
    let Ok(Some(file)) = utoipa_swagger_ui::serve(path, Arc::clone(&CONFIG)) else {
        return super::ApiError::new("no_such_route", "the page has no such file").into_response();
    };
    let headers = [
        (CONTENT_TYPE, file.content_type.as_str()),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, file.bytes.into_owned()).into_response()
}
