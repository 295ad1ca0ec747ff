//! The document of the interface, and the page at `/docs` that shows it. Everything on the page comes from this server.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::server::{Server, ServerBuilder};
use utoipa_swagger_ui::Config;

use crate::api::python::limit_timeout;
use crate::http::HttpState;
use crate::http::asset::Asset;

/// Where the document is.
pub(super) const DOCUMENT: &str = "/api/v1/openapi.json";
/// The time limit in the document that has a maximum of its own.
const TIMEOUT: &str = "/components/schemas/PythonRequest/properties/timeout";
/// The page, and the files that it asks for. The library contains more.
const FILES: &[&str] = &[
    "",
    "favicon-16x16.png",
    "favicon-32x32.png",
    "index.css",
    "swagger-initializer.js",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "swagger-ui.css",
];
/// Allows scripts, requests and pictures of this origin only. The page writes styles into its elements, and has
/// pictures in its styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// What the page begins with: the document, at a relative address that also works behind a proxy.
static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("../api/v1/openapi.json").persist_authorization(false)));

/// The document as JSON. `OpenAPI` cannot express a parameter that spans slashes, so its mark is left out.
pub(super) fn serialized(mut document: Document, state: &HttpState) -> String {
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.servers = Some(vec![server(state.0.config.public_path())]);
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(path, item)| (path.replace("{*", "{"), item))
        .collect();
    // It consists of strings and numbers, so this cannot fail.
    let mut document = serde_json::to_value(document).unwrap_or_default();
    limit_timeout(document.pointer_mut(TIMEOUT), &state.0.services);
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
pub(super) fn json(document: Bytes) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, document).into_response()
}

/// The page and its files.
pub(super) fn routes() -> Router<HttpState> {
    let mut routes = Router::new().route("/docs", get(to_folder));
    for name in FILES {
        let file = utoipa_swagger_ui::serve(name, Arc::clone(&CONFIG));
        let file = file.ok().flatten().expect("the library has these files");
        let body = match file.bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let asset = Asset::new(&file.content_type, body);
        let answer = async move |headers: HeaderMap| asset.answer(POLICY, &headers);
        routes = routes.route(&format!("/docs/{name}"), get(answer));
    }
    routes
}

/// Addresses in the page are relative to its folder.
async fn to_folder() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")]).into_response()
}
