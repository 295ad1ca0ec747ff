//! The pages of the server: that for everybody at `/`, and the operator's at `/admin` where `ADMIN_TOKEN` is set. How
//! they are served, and the rules that browsers hold them to.
//!
//! What they are made of is below a folder that is named after the contents of all of it. So browsers keep these
//! files for good, modules import each other by relative names, and another version of the page has other addresses.

mod files;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get};
use url::Url;

pub(super) use self::files::folder;
use self::files::{FILES, File, media_type, referring_to};
use super::HttpState;
use super::addresses;
use super::asset::Asset;
use super::login::escaped;
use crate::login::PAGE;

/// What the pages are called below `static/`.
const INDEX: &str = "/index.html";
const ADMIN: &str = "/admin.html";
const ICON: &str = "/favicon.svg";

/// Allows scripts, styles, pictures, requests and frames of this origin, and nothing else but requests to `issuers`, at
/// which the page logs people in; frames cannot go elsewhere either. No text can become markup: the page
/// has no trusted types, so a browser refuses every such assignment.
fn policy(issuers: &[String]) -> String {
    let mut sources = vec!["'self'".to_owned()];
    let origins = issuers.iter().filter_map(|issuer| Url::parse(issuer).ok());
    sources.extend(origins.map(|issuer| issuer.origin().ascii_serialization()));
    let sources = sources.join(" ");
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {sources}; \
         frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

/// What the page is to know of this server before it asks for a token: as which client it can log people in, none if it
/// has to register itself; and that Cloudflare Access lets people in.
fn ways_in(state: &HttpState) -> String {
    let oauth = &state.0.oauth_config;
    let client = match &state.0.login {
        Some(_) => Some(PAGE),
        None if oauth.issuers.is_empty() => None,
        None => Some(oauth.page_client.as_deref().unwrap_or_default()),
    };
    let meta = |name: &str, content: &str| {
        format!("<meta name=\"{name}\" content=\"{}\">\n", escaped(content))
    };
    let mut ways = client.map_or_else(String::new, |client| meta("login-client", client));
    if oauth.cloudflare.is_some() {
        ways += &meta("let-in-by", "cloudflare");
    }
    ways
}

/// Routes for the pages, for their icon, which browsers also look for without them, and for all that they are made of.
pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let folder = folder();
    let alone: Arc<str> = policy(&[]).into();
    let mut routes = Router::new();
    let mut parts = HashMap::new();
    for file in FILES {
        match file.path {
            INDEX => {
                let policy = policy(&state.0.oauth_config.issuers).into();
                routes = routes.route(
                    "/",
                    answered_with(page(&folder, file, &ways_in(state)), policy),
                );
            }
            ADMIN if state.0.config.admin_token.is_none() => {}
            ADMIN => {
                let page = answered_with(page(&folder, file, ""), Arc::clone(&alone));
                let to_page = async || {
                    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "../admin")]).into_response()
                };
                routes = routes.route("/admin", page).route("/admin/", get(to_page));
            }
            path => {
                let body = Bytes::from_static(file.body);
                if path == ICON {
                    let icon = Asset::new(media_type(path), body.clone());
                    routes = routes.route(ICON, answered_with(icon, Arc::clone(&alone)));
                }
                let part = Asset::for_good(media_type(path), body);
                parts.insert(format!("/{folder}{path}"), part);
            }
        }
    }
    let parts = Arc::new(parts);
    let part = async move |state: State<HttpState>, request: Request| match parts
        .get(request.uri().path())
    {
        Some(part) => part.answer(&alone, request.headers()),
        // Of another version of the server too: its page is to be loaded again.
        None => addresses::no_such_route(state, request).await,
    };
    routes.route("/assets/{*path}", get(part))
}

/// A page, with what is to be in its head besides.
fn page(folder: &str, file: &File, head: &str) -> Arc<Asset> {
    let page = referring_to(folder, file.body);
    let page = page.replacen("</head>", &format!("{head}</head>"), 1);
    Asset::new(media_type(file.path), page.into())
}

fn answered_with(asset: Arc<Asset>, policy: Arc<str>) -> MethodRouter<HttpState> {
    get(async move |headers: HeaderMap| asset.answer(&policy, &headers))
}
