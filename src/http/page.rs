//! The page at `/`: its files, embedded, and the rules that a browser holds it to.
//!
//! What the page is made of is below a folder that is named after the contents of all of it. So browsers keep these
//! files for good, modules import each other by relative names, and another version of the page has other addresses.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::HttpState;
use super::addresses;
use super::asset::Asset;
use super::login::escaped;
use crate::login::PAGE;

/// Allows scripts, styles, pictures, requests and frames of this origin, and nothing else but requests to `issuers`, at
/// which the page logs people in; frames cannot go elsewhere either. No text can become markup: the page
/// has no trusted types, so a browser refuses every such assignment.
fn policy(issuers: &[String]) -> String {
    let origins = issuers.iter().filter_map(|issuer| Url::parse(issuer).ok());
    let origins: String = origins
        .map(|issuer| format!(" {}", issuer.origin().ascii_serialization()))
        .collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{origins}; \
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

/// A file of the page.
struct File {
    /// Its path, on the server and below `static/`.
    path: &'static str,
    body: &'static [u8],
}

/// Embeds files by their paths below `static/`.
macro_rules! embedded {
    ($($path:literal)*) => {
        &[$(File { path: $path, body: include_bytes!(concat!("../../static", $path)) }),*]
    };
}

const FILES: &[File] = embedded!(
    "/index.html"
    "/favicon.svg"
    "/style/base.css"
    "/style/layout.css"
    "/style/parts.css"
    "/style/output.css"
    "/style/files.css"
    "/style/login.css"
    "/app/advice.js"
    "/app/ansi.js"
    "/app/api.js"
    "/app/conversation.js"
    "/app/conversations.js"
    "/app/curl.js"
    "/app/dom.js"
    "/app/events.js"
    "/app/examples.js"
    "/app/file-actions.js"
    "/app/files.js"
    "/app/history.js"
    "/app/issuer.js"
    "/app/languages.js"
    "/app/links.js"
    "/app/login.js"
    "/app/main.js"
    "/app/notices.js"
    "/app/options.js"
    "/app/order.js"
    "/app/output.js"
    "/app/packages.js"
    "/app/preview.js"
    "/app/question.js"
    "/app/requirements.js"
    "/app/rest.js"
    "/app/result.js"
    "/app/run.js"
    "/app/status.js"
    "/app/store.js"
    "/app/table.js"
    "/app/text.js"
    "/app/title.js"
    "/app/token.js"
    "/app/upload.js"
    "/app/who.js"
    "/vendor/editor.js"
    "/vendor/editor.LICENSES.txt"
);

/// What the page itself is called below `static/`.
const INDEX: &str = "/index.html";
const ICON: &str = "/favicon.svg";

/// Routes for the page, for its icon, which browsers also look for without it, and for all that it is made of.
pub(super) fn routes(state: &HttpState) -> Router<HttpState> {
    let folder = folder();
    let policy: Arc<str> = policy(&state.0.oauth_config.issuers).into();
    let mut routes = Router::new();
    let mut parts = HashMap::new();
    for file in FILES {
        let media_type = media_type(file.path);
        let body = Bytes::from_static(file.body);
        if file.path == INDEX {
            let page = referring_to(&folder, file.body);
            let page = page.replacen("</head>", &format!("{}</head>", ways_in(state)), 1);
            let page = Asset::new(media_type, page.into());
            routes = routes.route("/", answered_with(page, Arc::clone(&policy)));
            continue;
        }
        let part = Asset::for_good(media_type, body.clone());
        parts.insert(format!("/{folder}{}", file.path), part);
        if file.path == ICON {
            let icon = Asset::new(media_type, body);
            routes = routes.route(ICON, answered_with(icon, Arc::clone(&policy)));
        }
    }
    let parts = Arc::new(parts);
    let part = async move |state: State<HttpState>, request: Request| match parts
        .get(request.uri().path())
    {
        Some(part) => part.answer(&policy, request.headers()),
        // Of another version of the server too: its page is to be loaded again.
        None => addresses::no_such_route(state, request).await,
    };
    routes.route("/assets/{*path}", get(part))
}

fn answered_with(asset: Arc<Asset>, policy: Arc<str>) -> MethodRouter<HttpState> {
    get(async move |headers: HeaderMap| asset.answer(&policy, &headers))
}

/// Where all that pages are made of is, from the root of the server.
pub(super) fn folder() -> String {
    format!("assets/{}", version())
}

/// Names the contents of all files.
fn version() -> String {
    let mut hash = Sha256::new();
    for file in FILES {
        hash.update(file.path);
        hash.update(file.body.len().to_le_bytes());
        hash.update(file.body);
    }
    hex::encode(&hash.finalize()[..8])
}

/// The page with all that it is made of in a folder. Its addresses stay relative, since a proxy may have the whole
/// server below a path.
fn referring_to(folder: &str, index: &[u8]) -> String {
    let mut index = String::from_utf8_lossy(index).into_owned();
    for file in FILES {
        let name = file.path.trim_start_matches('/');
        index = index.replace(&format!("=\"{name}\""), &format!("=\"{folder}/{name}\""));
    }
    index
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/static");
        let mut there: BTreeSet<_> = ["/index.html", "/favicon.svg"].map(str::to_owned).into();
        for directory in ["app", "style", "vendor"] {
            for entry in fs::read_dir(format!("{root}/{directory}")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                there.insert(format!("/{directory}/{name}"));
            }
        }
        let served: BTreeSet<_> = FILES.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(served, there);
    }

    #[test]
    fn nothing_is_written_into_the_page_as_markup() {
        let scripts = FILES.iter().filter(|asset| asset.path.starts_with("/app/"));
        for asset in scripts {
            let text = std::str::from_utf8(asset.body).unwrap();
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(way), "{} has {way}", asset.path);
            }
        }
        let index = std::str::from_utf8(FILES[0].body).unwrap();
        for inline in ["<style", " style=", " onclick=", "<script>", "://"] {
            assert!(!index.contains(inline), "index.html has {inline}");
        }
    }
}
