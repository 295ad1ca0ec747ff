//! Access tokens of authorization servers: who is let in by them, and what the others are told.

mod cloudflare;
mod ends;
mod floods;
mod issuers;
mod login;
mod scopes;
mod settings;
mod tenants;
mod tokens;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::support::issuer::TestIssuer;
use crate::support::{Answer, TestApp};

/// A server that takes the tokens of an issuer.
struct World {
    app: TestApp,
    issuer: TestIssuer,
}

impl World {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let issuer = TestIssuer::new().await;
        Self::of(issuer, settings).await
    }

    async fn of(issuer: TestIssuer, settings: &[(&str, &str)]) -> Self {
        let own = [("OAUTH_ISSUER", &*issuer.url)];
        // What a test sets counts before this.
        let settings: Vec<_> = settings.iter().copied().chain(own).collect();
        let app = TestApp::on_fake_with(&settings).await;
        Self { app, issuer }
    }

    async fn ask(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.ask_with(token, method, path, body, &[]).await
    }

    async fn ask_with(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8080")
            .header("content-type", "application/json");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        self.app.send(request.body(body).unwrap()).await
    }

    /// Whether a token lets its holder in, and why not, with `ISSUER` for the stub's address.
    async fn ping(&self, token: &str) -> (u16, String) {
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let answer = self.ask(token, Method::POST, "/mcp", Some(&ping)).await;
        let answer_of = answer.json();
        let (code, message) = (&answer_of["error"]["code"], &answer_of["error"]["message"]);
        let told = match answer.status.as_u16() {
            200 => answer.text(),
            _ => format!("{}: {}", code.as_str().unwrap(), message.as_str().unwrap()),
        };
        (
            answer.status.as_u16(),
            told.replace(&self.issuer.url, "ISSUER"),
        )
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = self.ask(token, Method::POST, "/mcp", Some(&message)).await;
        answer.json()["result"]["structuredContent"].clone()
    }
}

/// What a ping is answered.
fn pong() -> (u16, String) {
    (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned())
}
