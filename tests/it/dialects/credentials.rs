//! Where clients of dialects put their token, and that nobody else may put it there.

use axum::http::Method;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{app, ask, told};
use crate::support::server::Server;
use crate::support::{TOKEN, TestApp};

const DIALECT: &str = "/dify/v1/sandbox/dependencies";

/// Headers and query of each way to send a token.
fn carriers(token: &str) -> Vec<(&'static str, String, String)> {
    let basic = |pair: String| format!("Basic {}", BASE64_STANDARD.encode(pair));
    let nothing = String::new;
    vec![
        ("authorization", format!("Bearer {token}"), nothing()),
        ("authorization", format!("token {token}"), nothing()),
        ("authorization", basic(format!("{token}:")), nothing()),
        ("authorization", basic(format!(":{token}")), nothing()),
        ("authorization", basic(format!("x:{token}")), nothing()),
        ("x-api-key", token.to_owned(), nothing()),
        ("x-other", nothing(), format!("?token={token}")),
    ]
}

async fn statuses(
    app: &TestApp,
    method: Method,
    path: &str,
    token: &str,
    body: &Value,
) -> Vec<u16> {
    let mut seen = Vec::new();
    for (name, value, query) in carriers(token) {
        let headers = [(name, &*value), ("content-type", "application/json")];
        let path = format!("{path}{query}");
        let answer = ask(app, method.clone(), &path, &headers, body).await;
        seen.push(answer.status.as_u16());
    }
    seen
}

#[tokio::test]
async fn a_dialect_finds_the_token_wherever_it_is() {
    let app = app(&[]).await;
    let null = json!(null);
    let right = statuses(&app, Method::GET, DIALECT, TOKEN, &null).await;
    assert_eq!(right, [200; 7]);
    let wrong = statuses(&app, Method::GET, DIALECT, "0123456789abcdef", &null).await;
    assert_eq!(wrong, [401; 7]);
}

#[tokio::test]
async fn our_own_routes_know_one_place_as_before() {
    let app = app(&[]).await;
    let null = json!(null);
    let run = json!({ "code": "echo hi", "language": "python" });
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let one = [200, 401, 401, 401, 401, 401, 401];
    for (method, path, body) in [
        (Method::GET, "/api/v1/me", &null),
        (Method::POST, "/api/v1/execute_sync", &run),
        (Method::POST, "/mcp", &ping),
    ] {
        assert_eq!(
            statuses(&app, method, path, TOKEN, body).await,
            one,
            "{path}"
        );
    }
}

#[tokio::test]
async fn two_tokens_that_differ_are_refused() {
    let app = app(&[]).await;
    let bearer = format!("Bearer {TOKEN}");
    let mut seen = Vec::new();
    for (headers, query) in [
        (
            vec![("authorization", &*bearer), ("x-api-key", "other")],
            "",
        ),
        (vec![("x-api-key", TOKEN)], "?token=other"),
        (
            vec![
                ("authorization", &*bearer),
                ("authorization", "token other"),
            ],
            "",
        ),
        (vec![], "?token=%FCn%0A"),
        // The same one twice is one, and an empty one is none.
        (
            vec![("authorization", &*bearer), ("x-api-key", TOKEN)],
            "?token=",
        ),
        (vec![("x-api-key", "")], ""),
    ] {
        let path = format!("{DIALECT}{query}");
        seen.push(told(
            &ask(&app, Method::GET, &path, &headers, &json!(null)).await,
        ));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 {"code":-400,"message":"there is one token in the header Authorization and another one in the header X-API-Key: send one of them","data":null}
    400 {"code":-400,"message":"there is one token in the header X-API-Key and another one in the query: send one of them","data":null}
    400 {"code":-400,"message":"there is one token in the header Authorization and another one in the header Authorization: send one of them","data":null}
    400 {"code":-400,"message":"the token in the query has other characters than letters, digits and signs of ASCII","data":null}
    200 {"code":0,"message":"success","data":{"dependencies":[]}}
    401 {"code":-401,"message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <MCP_API_TOKEN>`","data":null}
    "#);
}

#[tokio::test]
async fn no_token_is_logged_recorded_or_counted() {
    let root = tempfile::tempdir().unwrap();
    let audit = root.path().join("audit.log").display().to_string();
    let nowhere = format!("unix://{}/nowhere", root.path().display());
    let settings = [
        ("DIALECTS", "dify,python_tool"),
        ("DOCKER_HOST", &*nowhere),
        ("RUST_LOG", "trace"),
        ("AUDIT_LOG", &*audit),
    ];
    let server = Server::start(root.path(), &settings).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}", server.addr());
    let wrong = "0e5c8f1a9b7d4e2f6a3c";
    for token in [TOKEN, wrong] {
        for (name, value, query) in carriers(token) {
            let program = json!({ "language": "python3", "code": "print(1)" });
            let run = client.post(format!("{url}/dify/v1/sandbox/run{query}"));
            run.header(name, value).json(&program).send().await.unwrap();
        }
        for path in ["python/sse", "python/messages", "nowhere"] {
            let path = format!("{url}/t/{token}/{path}");
            let answer = client.get(path).send().await.unwrap();
            assert_ne!(answer.status(), 500);
        }
    }
    let metrics = client.get(format!("{url}/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let audit = std::fs::read_to_string(&audit).unwrap();
    assert!(
        metrics.contains(r#"route="/t/{token}/python/sse""#),
        "{metrics}"
    );
    assert!(audit.contains("POST /dify/v1/sandbox/run"), "{audit}");
    for text in [server.log(), metrics, audit] {
        for token in [TOKEN, wrong] {
            let lines: Vec<_> = text.lines().filter(|line| line.contains(token)).collect();
            assert_eq!(lines, Vec::<&str>::new());
        }
    }
}
