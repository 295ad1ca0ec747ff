//! The sandboxes of E2B.

mod cells;
pub(crate) mod commands;
mod files;
mod sandboxes;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use super::{nothing_is_kept, token_file, told};
use crate::support::{Answer, TOKEN, TestApp, eventually};

async fn app(settings: &[(&str, &str)]) -> TestApp {
    let dialect = [("DIALECTS", "e2b")];
    let settings: Vec<_> = settings.iter().copied().chain(dialect).collect();
    TestApp::on_fake_with(&settings).await
}

/// Calls the control plane.
pub(crate) async fn api(
    app: &TestApp,
    token: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Answer {
    let path = format!("/e2b/api{path}");
    super::ask(app, method, &path, &[("x-api-key", token)], body).await
}

/// A sandbox as its client knows it.
pub(crate) struct Sandbox<'a> {
    app: &'a TestApp,
    pub(crate) id: String,
    token: String,
}

impl<'a> Sandbox<'a> {
    pub(crate) async fn new(app: &'a TestApp, token: &str) -> Self {
        let wish = json!({ "templateID": "base" });
        let made = api(app, token, Method::POST, "/v2/sandboxes", &wish);
        let made = made.await;
        assert_eq!(made.status.as_u16(), 201, "{}", made.text());
        let text = |name: &str| made.json()[name].as_str().unwrap().to_owned();
        Self {
            app,
            id: text("sandboxID"),
            token: text("envdAccessToken"),
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("/e2b/sandbox{path}"))
            .header("host", "localhost:8080")
            .header("e2b-sandbox-id", &self.id)
            .header("e2b-sandbox-port", "49983")
            .header("x-access-token", &self.token)
            .header("content-type", kind);
        self.app.send(request.body(body.into()).unwrap()).await
    }

    /// Calls a method that has one answer.
    pub(crate) async fn call(&self, method: &str, message: &Value) -> Answer {
        let body = message.to_string();
        self.send(
            Method::POST,
            &format!("/{method}"),
            "application/json",
            body,
        )
        .await
    }

    /// An answer without what differs each time.
    pub(crate) fn stable(&self, answer: &Answer) -> String {
        let text = told(answer)
            .replace(&self.id, "ID")
            .replace(&self.token, "TOKEN");
        // How large folders are is up to the file system.
        let sized = text.split("_DIRECTORY\",").map(str::to_owned);
        let mut sized: Vec<_> = sized.collect();
        for part in sized.iter_mut().skip(1) {
            *part = hidden(part, "\"size\":\"", 1);
        }
        hidden(&sized.join("_DIRECTORY\","), "Time\":\"", usize::MAX)
    }
}

/// A text in which what is between these words and the next quotation mark is left out, the first `times` times.
fn hidden(text: &str, before: &str, times: usize) -> String {
    let mut parts = text.splitn(times.saturating_add(1), before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.split_once('"').map_or(part, |(_, rest)| rest);
        text + before + "…\"" + rest
    })
}
