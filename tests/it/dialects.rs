//! Addresses for clients that were made for other code interpreters.

mod credentials;
mod dify;
pub(crate) mod e2b;
pub(crate) mod jupyter;
mod librechat;
pub(crate) mod python_tool;

use std::fs;

use axum::http::Method;
use axum::http::header::HeaderMap;
use axum::http::{HeaderName, Request};
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Answer, TOKEN, TestApp, eventually};

/// A server with every dialect, whose every language is the same few lines of shell.
async fn app(settings: &[(&str, &str)]) -> TestApp {
    let all = [("DIALECTS", "dify,jupyter,librechat,python_tool")];
    let settings: Vec<_> = settings.iter().copied().chain(all).collect();
    TestApp::on_fake_speaking(&["python", "typescript"], &settings).await
}

/// A file with a token of a tenant.
pub(crate) fn token_file(tenant: &str, scopes: &[&str]) -> (TempDir, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.toml");
    let command = TokenCommand::New {
        tenant: tenant.parse().unwrap(),
        name: "dify".parse().unwrap(),
        expires: None,
        scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
    };
    let token = command.run(Some(&file)).unwrap();
    let path = file.display().to_string();
    (dir, path, token)
}

/// Sends a request with these headers and no others.
async fn ask(
    app: &TestApp,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080");
    let all: &mut HeaderMap = request.headers_mut().unwrap();
    for (name, value) in headers {
        all.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    app.send(request.body(body.to_string().into()).unwrap())
        .await
}

/// Status and body.
fn told(answer: &Answer) -> String {
    format!("{} {}", answer.status.as_u16(), answer.text())
}

/// Waits until nothing is left of any conversation.
pub(crate) async fn nothing_is_kept(app: &TestApp) {
    let is_key = |name: &str| name.len() == 64;
    let kept = || {
        let entries = fs::read_dir(app.root()).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.any(|name| is_key(&name))
    };
    eventually("no conversation is kept", || !kept()).await;
}

#[tokio::test]
async fn no_dialect_is_there_unless_it_is_named() {
    let plain = TestApp::on_fake().await;
    let some = TestApp::on_fake_with(&[("DIALECTS", "python_tool")]).await;
    let path = "/dify/v1/sandbox/dependencies";
    let token = [("x-api-key", TOKEN)];
    for app in [plain, some] {
        let answer = ask(&app, Method::GET, path, &token, &json!(null)).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["code"]),
            (404, &json!("no_such_route"))
        );
    }
}
