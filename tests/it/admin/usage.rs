//! What tenants used: exactly, whatever happens in between.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::gate::proof::ProofState;
use serde_json::{Value, json};

use super::{ADMIN_TOKEN, Administered, ask, call, stable};
use crate::support::{TOKEN, TestApp};

const ON: (&str, &str) = ("ADMIN_TOKEN", ADMIN_TOKEN);

async fn usage(app: &TestApp, query: &str) -> Value {
    let path = format!("/admin/v1/usage?{query}");
    ask(app, ADMIN_TOKEN, Method::GET, &path).await.json()
}

#[tokio::test]
async fn usage_is_counted_exactly_and_survives_a_restart() {
    let root = Arc::new(tempfile::tempdir().unwrap());
    let start = async || {
        let fake = Arc::new(FakeExecutor::with_languages(&["shell"]));
        let app = TestApp::at(Arc::clone(&root), &[ON], fake).await;
        app.app.parts.gate.proof.set(ProofState::Held);
        app
    };
    let mut counted = 0;
    for round in 1..=3 {
        let app = start().await;
        let before = usage(&app, "").await["usage"][0]["runs"]["ok"].clone();
        assert_eq!(before.as_u64().unwrap_or_default(), counted);
        let run = |number: usize| {
            let arguments = json!({ "conversationId": format!("c{number}"), "language": "shell", "code": "echo hi" });
            call(&app, TOKEN, "run_code", arguments)
        };
        let runs = futures::future::join_all((0..5 * round).map(run)).await;
        counted += runs.iter().filter(|run| run["status"] == "ok").count() as u64;
        let now = usage(&app, "").await["usage"][0]["runs"]["ok"].clone();
        assert_eq!(now.as_u64(), Some(counted));
        app.assert_nothing_is_left().await;
    }
    assert_eq!(counted, 30);
}

#[tokio::test]
async fn refusals_uploads_and_downloads_count_for_their_tenant() {
    let it = Administered::new().await;
    let app = &it.app;
    let bearer = format!("Bearer {}", it.research);
    let send = async |method: Method, path: &str, body: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8080")
            .header("authorization", &bearer);
        app.send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    };
    let path = "/api/v1/conversations/demo/files/a.txt";
    let stored = send(Method::PUT, path, "0123456789").await.json();
    let whole = send(Method::GET, path, "").await;
    assert_eq!(
        (whole.text().as_str(), whole.header("content-length")),
        ("0123456789", "10")
    );
    send(Method::HEAD, path, "").await;
    send(Method::GET, "/api/v1/conversations/demo/files", "").await;
    let link = stored["file"]["url"].clone();
    assert_eq!(app.download(&link).await.text(), "0123456789");
    let archive = send(Method::GET, "/api/v1/conversations/demo/archive", "").await;
    let unknown = json!({ "language": "cobol", "code": "hi" });
    it.call(&it.research, "run_code", unknown).await;
    let mut answer = it.get("/admin/v1/usage?tenant=research").await;
    assert_eq!(
        answer["usage"][0]["downloadedBytes"],
        20 + archive.body.len()
    );
    answer["usage"][0]["downloadedBytes"] = "…".into();
    insta::assert_json_snapshot!(stable(answer), @r#"
    {
      "from": "…",
      "to": "…",
      "usage": [
        {
          "tenant": "research",
          "day": "…",
          "language": null,
          "runs": {},
          "cpuMs": "…",
          "wallMs": "…",
          "installs": 0,
          "uploadedBytes": 10,
          "downloadedBytes": "…"
        },
        {
          "tenant": "research",
          "day": "…",
          "language": "unknown",
          "runs": {
            "refused": 1
          },
          "cpuMs": "…",
          "wallMs": "…",
          "installs": 0,
          "uploadedBytes": 0,
          "downloadedBytes": 0
        }
      ]
    }
    "#);
    assert_eq!(
        it.get("/admin/v1/usage?tenant=default").await["usage"],
        json!([])
    );
    let past = it.get("/admin/v1/usage?to=2020-01-31").await;
    assert_eq!(
        (&past["from"], &past["usage"]),
        (&json!("2020-01-02"), &json!([]))
    );
    it.app.assert_nothing_is_left().await;
}
