//! Where clients learn at which issuer they can log in (RFC 9728): the document, and the header that leads to it.

use axum::Json;
use axum::extract::{MatchedPath, State};
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::HttpState;
use super::addresses::{MCP, STREAMS, TOKEN_MCP};
use super::login::METADATA;
use crate::config::HttpConfig;
use crate::login::SCOPE;
use crate::mcp::transport::MESSAGES;
use crate::scope::{PREFIX, Scopes};

/// What comes before the path of what a document is about.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Where the documents are, and what each is about.
pub(super) const DOCUMENTS: &[(&str, &str)] = &[
    ("/.well-known/oauth-protected-resource/mcp", MCP),
    ("/.well-known/oauth-protected-resource/sse", "/sse"),
    ("/.well-known/oauth-protected-resource/mcp/sse", "/mcp/sse"),
    (
        "/.well-known/oauth-protected-resource/mcp/events",
        "/mcp/events",
    ),
];

/// Whether a document is at this path, which any page may read: it has nothing that is secret.
pub(super) fn is_at(path: &str) -> bool {
    path == WELL_KNOWN || path == METADATA || DOCUMENTS.iter().any(|(address, _)| *address == path)
}

/// The addresses that clients take a token for, the one of MCP first.
pub fn resources(config: &HttpConfig) -> Vec<String> {
    let base = config.public_base_url.trim_end_matches('/');
    let paths = [MCP, ""].into_iter().chain(STREAMS.iter().copied());
    paths.map(|path| format!("{base}{path}")).collect()
}

/// The document about the endpoint that the address names.
pub(super) async fn show(State(state): State<HttpState>, path: MatchedPath) -> Response {
    let found = DOCUMENTS
        .iter()
        .find(|(address, _)| *address == path.as_str());
    let resource = found.map_or(MCP, |(_, resource)| *resource);
    let cache = [(CACHE_CONTROL, "public, max-age=3600")];
    (cache, Json(document(&state, resource))).into_response()
}

fn document(state: &HttpState, resource: &str) -> Value {
    let base = state.0.config.public_base_url.trim_end_matches('/');
    let mut document = json!({
        "resource": format!("{base}{resource}"),
        "authorization_servers": issuers(state),
        "bearer_methods_supported": ["header"],
        "resource_name": "mcp-code-sandbox",
        "resource_documentation": format!("{base}/docs"),
    });
    let scopes = scopes(state);
    if !scopes.is_empty() {
        document["scopes_supported"] = json!(scopes);
    }
    document
}

/// Where callers can log in: here, or at others.
pub(super) fn issuers(state: &HttpState) -> Vec<&str> {
    match &state.0.login {
        Some(login) => vec![login.issuer()],
        None => state
            .0
            .oauth_config
            .issuers
            .iter()
            .map(String::as_str)
            .collect(),
    }
}

/// What clients are told to ask for.
fn scopes(state: &HttpState) -> Vec<&str> {
    match &state.0.login {
        Some(_) => vec![SCOPE],
        None => state.0.oauth_config.named_scopes(),
    }
}

/// The header `WWW-Authenticate` of an answer.
pub(super) struct Challenge {
    /// Where to learn how to log in, if this is an address at which clients ask.
    metadata: Option<String>,
    scopes: String,
}

impl Challenge {
    /// That of an address.
    pub(super) fn at(state: &HttpState, path: &str) -> Self {
        let document = match path {
            MESSAGES => Some("/sse"),
            TOKEN_MCP => None,
            path => DOCUMENTS
                .iter()
                .find(|(_, resource)| *resource == path)
                .map(|(_, resource)| *resource),
        };
        let has_issuers = !issuers(state).is_empty();
        let base = state.0.config.public_base_url.trim_end_matches('/');
        Self {
            metadata: document
                .filter(|_| has_issuers)
                .map(|resource| format!("{base}{WELL_KNOWN}{resource}")),
            scopes: scopes(state).join(" "),
        }
    }

    /// The same for somebody who has to ask for these scopes, and for no others of ours.
    pub(super) fn asking_for(self, scopes: Scopes) -> Self {
        let more = scopes.as_words();
        let words = self.scopes.split_whitespace();
        let words: Vec<_> = words
            .filter(|word| !word.starts_with(PREFIX))
            .chain([&*more])
            .collect();
        Self {
            scopes: words.join(" "),
            ..self
        }
    }

    /// For a request without a token.
    pub(super) fn plain(&self) -> String {
        match self.parameters().as_slice() {
            [] => "Bearer".to_owned(),
            parameters => format!("Bearer {}", parameters.join(", ")),
        }
    }

    /// For one whose token counts for nothing.
    pub(super) fn with_error(&self, error: &str, description: &str) -> String {
        let mut parameters = self.parameters();
        if parameters.is_empty() {
            return "Bearer".to_owned();
        }
        parameters.push(format!("error=\"{error}\""));
        parameters.push(format!("error_description=\"{}\"", plain_text(description)));
        format!("Bearer {}", parameters.join(", "))
    }

    fn parameters(&self) -> Vec<String> {
        let Some(metadata) = &self.metadata else {
            return Vec::new();
        };
        let mut parameters = vec![format!("resource_metadata=\"{metadata}\"")];
        if !self.scopes.is_empty() {
            parameters.push(format!("scope=\"{}\"", self.scopes));
        }
        parameters
    }
}

/// A text in the signs that a description may have (RFC 6750, section 3).
fn plain_text(text: &str) -> String {
    let plain = |sign: char| match sign {
        '"' | '`' => '\'',
        ' '..='~' if sign != '\\' => sign,
        _ => '?',
    };
    text.chars().map(plain).collect()
}
