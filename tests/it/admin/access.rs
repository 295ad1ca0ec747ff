//! Who is let in, and where there is nothing.

use std::fs;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use mcp_code_sandbox::app::App;
use serde_json::Value;

use super::{ADMIN_TOKEN, Administered, ask, ask_with, new_token};
use crate::support::{TOKEN, TestApp, config};

const METRICS_TOKEN: &str = "b84de0c2a96f4713";
/// Every route.
pub(super) const ROUTES: [(Method, &str); 8] = [
    (Method::GET, "/admin/v1/tenants"),
    (Method::GET, "/admin/v1/conversations"),
    (Method::GET, "/admin/v1/conversations/0123456789abcdef"),
    (Method::DELETE, "/admin/v1/conversations/0123456789abcdef"),
    (Method::GET, "/admin/v1/runs"),
    (
        Method::DELETE,
        "/admin/v1/runs/run_0123456789abcdef0123456789abcdef",
    ),
    (Method::GET, "/admin/v1/usage"),
    (Method::GET, "/admin/v1/audit"),
];

#[tokio::test]
async fn without_the_setting_there_is_nothing() {
    let app = TestApp::on_fake().await;
    for token in [ADMIN_TOKEN, TOKEN] {
        for (method, path) in ROUTES {
            let answer = ask(&app, token, method.clone(), path).await;
            let elsewhere = ask(&app, token, method, "/somewhere/else").await;
            assert_eq!(answer.status, 404, "{path}");
            assert_eq!(answer.text(), elsewhere.text(), "{path}");
            let headers = [&answer.headers, &elsewhere.headers];
            let [one, other] = headers.map(|headers| format!("{headers:?}"));
            assert_eq!(one, other, "{path}");
        }
    }
    app.run("shell", "echo hi").await;
    app.assert_nothing_is_left().await;
    assert!(!app.root().join(".usage").exists());
}

#[tokio::test]
async fn no_other_token_opens_it_and_it_opens_nothing_else() {
    let it = Administered::on_fake_with_metrics().await;
    for (method, path) in ROUTES {
        let right = it.ask(method.clone(), path).await;
        assert!([200, 404].contains(&right.status.as_u16()), "{path}");
        assert!(!right.text().contains("no_such_route"), "{path}");
    }
    for (token, (method, path)) in [TOKEN, &it.research, METRICS_TOKEN].into_iter().zip(ROUTES) {
        let wrong = ask(&it.app, token, method, path).await;
        assert_eq!(wrong.status, 401, "{path}");
        assert_eq!(wrong.header("www-authenticate"), "Bearer");
        insta::allow_duplicates! {
            insta::assert_snapshot!(wrong.text(), @r#"{"error":{"code":"unauthorized","message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <ADMIN_TOKEN>`"}}"#);
        }
    }
    for (method, path) in ROUTES {
        let none = ask_with(&it.app, method, path, &[]).await;
        assert_eq!(none.status, 401, "{path}");
    }
    for path in ["/mcp", "/sse", "/api/v1/sessions", "/metrics"] {
        let elsewhere = it.ask(Method::GET, path).await;
        assert_eq!(elsewhere.status, 401, "{path}");
    }
    let bearer = format!("Bearer {ADMIN_TOKEN}");
    for (name, value, code) in [
        ("host", "evil.example", "host_not_allowed"),
        ("origin", "https://evil.example", "origin_not_allowed"),
    ] {
        let headers = [("authorization", &*bearer), (name, value)];
        let answer = ask_with(&it.app, Method::GET, ROUTES[0].1, &headers).await;
        assert_eq!(answer.json()["error"]["code"], code);
    }
    it.app.assert_nothing_is_left().await;
}

impl Administered {
    async fn on_fake_with_metrics() -> Self {
        let settings = [("METRICS_TOKEN", METRICS_TOKEN)];
        Self::on(crate::support::engines::Engine::Fake, "shell", &settings).await
    }

    async fn from(&self, address: &str, token: &str) -> crate::support::Answer {
        let peer: std::net::SocketAddr = format!("{address}:5000").parse().unwrap();
        let request = Request::get("/admin/v1/tenants")
            .header("host", "localhost:8080")
            .header("authorization", format!("Bearer {token}"))
            .extension(ConnectInfo(peer));
        self.app.send(request.body(Body::empty()).unwrap()).await
    }
}

#[tokio::test]
async fn who_guesses_is_recorded() {
    let it = Administered::new().await;
    let mut statuses = Vec::new();
    for guess in 0..12 {
        let answer = it.from("192.0.2.7", &format!("guess-{guess:016}")).await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [401; 12]);
    assert_eq!(it.from("192.0.2.8", "guess").await.status, 401);
    assert_eq!(it.from("192.0.2.7", ADMIN_TOKEN).await.status, 200);
    it.app.assert_nothing_is_left().await;
    let text = fs::read_to_string(&it.log).unwrap();
    assert!(!text.contains("guess"), "{text}");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let denied: Vec<_> = lines
        .filter(|line| line["event"] == "auth_denied")
        .collect();
    assert_eq!(denied.len(), 13);
    assert_eq!(denied[0]["route"], "GET /admin/v1/tenants");
    assert_eq!(denied[0]["reason"], "unknown_token");
    assert_eq!(denied[0]["address"], "192.0.2.7");
}

#[tokio::test]
async fn what_a_route_does_not_take_is_refused() {
    let it = Administered::new().await;
    for (method, path) in ROUTES {
        for query in ["colour=red", "subject="] {
            let answer = it.ask(method.clone(), &format!("{path}?{query}")).await;
            let error = &answer.json()["error"];
            assert_eq!(
                error["code"], "invalid_arguments",
                "{method} {path}?{query}: {error}"
            );
        }
    }
    let answer = it.ask(Method::GET, "/admin/v1/conversations/%FF").await;
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"invalid_arguments","message":"the address has a part that is not UTF-8: percent-encode it as UTF-8"}}"#);
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_token_of_a_caller_is_not_that_of_the_operator() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("access.toml");
    let token = new_token(&file, "research", "n8n");
    let path = file.display().to_string();
    let settings = [("ACCESS_FILE", &*path), ("ADMIN_TOKEN", &token)];
    let refused = App::access(&config(root.path(), &settings)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ACCESS_FILE is not valid: the token n8n of research is ADMIN_TOKEN, which is another caller's: make another \
         one with `mcp-code-sandbox token new`"
    );
}
