//! Addresses, headers and outer forms of messages, as clients send them and as they may get them wrong: whole answers.

mod silence;

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use serde_json::{Value, json};

use crate::support::{Answer, TOKEN, TestApp};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const BOTH: &str = "application/json, text/event-stream";

/// A request with the token.
fn to(method: &str, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {TOKEN}"))
}

/// A whole answer on a few lines, without what differs from run to run.
fn shown(name: &str, answer: &Answer) -> String {
    let mut shown = format!("{name}\n  {}", answer.status.as_u16());
    for header in ["content-type", "allow", "location"] {
        let value = answer.header(header);
        if !value.is_empty() {
            let _ = write!(shown, " {header}: {value}");
        }
    }
    if !answer.header("mcp-session-id").is_empty() {
        shown.push_str(" and a session");
    }
    for line in answer.text().lines() {
        let line = short(line);
        let _ = write!(shown, "\n  {line}");
    }
    shown.push('\n');
    shown
}

/// Leaves out what the greeting and the list of tools say, and the numbers of events.
fn short(line: &str) -> String {
    let (field, json) = match line.strip_prefix("data: ") {
        Some(json) => ("data: ", json),
        None if line.starts_with("id: ") => return "id: …".to_owned(),
        None => ("", line),
    };
    let Ok(mut message) = serde_json::from_str::<Value>(json) else {
        return line.to_owned();
    };
    shorten(&mut message);
    format!("{field}{message}")
}

fn shorten(message: &mut Value) {
    if let Some(messages) = message.as_array_mut() {
        return messages.iter_mut().for_each(shorten);
    }
    if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) {
        for field in [
            "capabilities",
            "serverInfo",
            "instructions",
            "tools",
            "_meta",
        ] {
            result.remove(field);
        }
        if let Some(result) = result.get_mut("structuredContent") {
            *result = result["stdout"].clone();
        }
        result.remove("content");
    }
}

/// Posts these bodies to `/mcp`, each as the simplest `curl` call does.
async fn posted(app: &TestApp, accept: &str, bodies: &[&str]) -> String {
    let mut answers = String::new();
    for body in bodies {
        let request = to("POST", "/mcp").header("accept", accept);
        let answer = app
            .send(request.body(Body::from((*body).to_owned())).unwrap())
            .await;
        answers.push_str(&shown(body, &answer));
    }
    answers
}

fn run(id: u64, code: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "run_code",
        "arguments": { "conversationId": "demo", "language": "shell", "code": code } } })
    .to_string()
}

/// The id of a new session.
async fn session(app: &TestApp, revision: &str) -> String {
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": revision } });
    let request = to("POST", "/mcp").header("accept", BOTH);
    let answer = app
        .send(request.body(Body::from(initialize.to_string())).unwrap())
        .await;
    answer.header("mcp-session-id").to_owned()
}

#[tokio::test]
async fn an_mcp_address_is_served_however_it_is_written() {
    let app = TestApp::on_fake_with(&[
        ("PUBLIC_BASE_URL", "https://box.example/tools/sandbox/"),
        ("ALLOWED_HOSTS", "localhost"),
    ])
    .await;
    for path in [
        "/mcp",
        "/mcp/",
        "//mcp",
        "/%6Dcp/",
        "/tools/sandbox/mcp",
        "/tools/sandbox/mcp/",
    ] {
        let answer = app.send(to("POST", path).body(PING.into()).unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["result"].clone()),
            (200, json!({})),
            "{path}"
        );
    }
    for path in [
        "/messages/",
        "/tools/sandbox/messages",
        "//messages//?sessionId=0",
    ] {
        let answer = app.send(to("POST", path).body(PING.into()).unwrap()).await;
        assert_eq!(answer.json()["error"]["code"], -32001, "{path}");
    }
    for path in [
        "/sse",
        "/sse/",
        "/mcp/sse/",
        "/mcp/events/",
        "/mcp/",
        "/tools/sandbox/sse/",
    ] {
        for accept in ["text/event-stream", "*/*"] {
            let request = to("GET", path)
                .header("accept", accept)
                .body(Body::empty())
                .unwrap();
            let mut stream = crate::sse::EventStream::open(&app, request).await;
            assert_eq!(stream.next().await.unwrap().name, "endpoint", "{path}");
        }
    }
    // They need the token, however they are written.
    let request = Request::post("/mcp/").header("host", "localhost");
    assert_eq!(
        app.send(request.body(PING.into()).unwrap()).await.status,
        401
    );
}

#[tokio::test]
async fn a_wrong_address_answers_with_the_right_one() {
    let app = TestApp::on_fake().await;
    let mut answers = String::new();
    for (method, path) in [
        ("POST", "/"),
        ("POST", "/api/mcp"),
        ("POST", "/mcp/v1"),
        ("POST", "/v1/mcp/"),
        ("POST", "/MCP"),
        ("POST", "/sse"),
        ("POST", "/mcp/sse/"),
        ("GET", "/messages"),
        ("GET", "/rpc"),
        ("HEAD", "/mcp"),
        ("PUT", "/mcp"),
        ("PATCH", "/mcp/"),
        ("DELETE", "/mcp"),
        ("GET", "/mcp"),
    ] {
        let answer = app.send(to(method, path).body(PING.into()).unwrap()).await;
        answers.push_str(&shown(&format!("{method} {path}"), &answer));
    }
    insta::assert_snapshot!(answers);
}

#[tokio::test]
async fn answers_of_clients_are_taken_in_their_session() {
    let app = TestApp::on_fake().await;
    let id = session(&app, "2025-03-26").await;
    for body in [
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":9,"result":{}}]"#,
    ] {
        let request = to("POST", "/mcp").header("mcp-session-id", &id);
        let answer = app.send(request.body(body.into()).unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text()),
            (202, String::new()),
            "{body}"
        );
    }
}

#[tokio::test]
async fn each_message_of_a_batch_counts() {
    let app = TestApp::on_fake_with(&[("RATE_LIMIT", "3/h")]).await;
    let pings: Vec<_> = (1..=5)
        .map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }))
        .collect();
    let answers = app.post(json!(pings).to_string()).await.json();
    let codes = answers.as_array().unwrap().iter();
    let codes: Vec<_> = codes
        .map(|answer| (&answer["id"], &answer["error"]["code"]))
        .collect();
    let [none, many] = [json!(null), json!(-32000)];
    let expected = [1, 2, 3, 4, 5].map(|id| (json!(id), if id > 3 { &many } else { &none }));
    assert_eq!(codes, expected.each_ref().map(|(id, code)| (id, *code)));
    assert_eq!(app.post(PING).await.status, 429);
}

#[tokio::test]
async fn oauth_discovery_answers_that_there_is_none() {
    let app = TestApp::on_fake().await;
    let mut answers = Vec::new();
    for (method, path) in [
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/oauth-authorization-server/mcp"),
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-protected-resource/mcp/"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/mcp/.well-known/openid-configuration"),
        ("POST", "/register"),
        ("GET", "/authorize?client_id=1"),
        ("POST", "/token/"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8080");
        let answer = app.send(request.body(Body::empty()).unwrap()).await;
        answers.push(shown("", &answer));
    }
    answers.dedup();
    insta::assert_snapshot!(answers.concat());
}

#[tokio::test]
async fn requests_with_one_meaning_are_taken() {
    let app = TestApp::on_fake().await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":-7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":9223372036854775807,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":null}"#,
        r#"{"jsonrpc":"2.0","id":"","method":"ping"}"#,
        "\u{feff} {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"extra\":1}\r\n",
        r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"a","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":[],"clientInfo":{"name":"a"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":null,"clientInfo":{"version":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1.0"}}"#,
    ];
    insta::assert_snapshot!(posted(&app, "*/*", &bodies).await);
}

#[tokio::test]
async fn requests_without_meaning_are_refused_by_name() {
    let app = TestApp::on_fake().await;
    let bodies = [
        "",
        "null",
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"a"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"Ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"sandbox://demo/a.txt"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"sandbox://demo/a.txt"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":20250618}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":"all"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":7}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":"me"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code","arguments":7}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#,
    ];
    insta::assert_snapshot!(posted(&app, "*/*", &bodies).await);
    let mut answers = String::new();
    let utf16: Vec<u8> = "\u{feff}{}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (name, body) in [("UTF-16", utf16), ("Latin-1", b"{\"a\":\"\xe9\"}".to_vec())] {
        let answer = app
            .send(to("POST", "/mcp").body(body.into()).unwrap())
            .await;
        answers.push_str(&shown(name, &answer));
    }
    let packed = to("POST", "/mcp").header("content-encoding", "gzip");
    let answer = app.send(packed.body("\u{1f}".into()).unwrap()).await;
    answers.push_str(&shown("gzip", &answer));
    insta::assert_snapshot!("encodings", answers);
}

#[tokio::test]
async fn an_answer_has_a_form_that_its_client_reads() {
    let app = TestApp::on_fake().await;
    let echo = run(1, "echo hello");
    let bodies = [
        PING,
        &echo,
        r#"{"jsonrpc":"2.0","id":2,"method":"nothing"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        "{",
    ];
    let mut answers = String::new();
    for accept in ["text/event-stream", "application/json", "text/html", BOTH] {
        let _ = write!(
            answers,
            "== {accept}\n{}",
            posted(&app, accept, &bodies).await
        );
    }
    insta::assert_snapshot!(answers);
}

#[tokio::test]
async fn odd_headers_do_no_harm() {
    let app = TestApp::on_fake().await;
    let mut answers = String::new();
    for (name, value) in [
        ("content-type", ""),
        ("content-type", "text/plain; charset=latin1"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-encoding", "identity"),
        ("mcp-session-id", ""),
        ("mcp-protocol-version", ""),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "2099-01-01"),
        ("mcp-protocol-version", "latest"),
    ] {
        let request = to("POST", "/mcp").header(name, value);
        let answer = app.send(request.body(PING.into()).unwrap()).await;
        answers.push_str(&shown(&format!("{name}: {value}"), &answer));
    }
    insta::assert_snapshot!(answers);
}

#[tokio::test]
async fn a_session_that_is_not_known_is_not_found() {
    let app = TestApp::on_fake().await;
    let ended = session(&app, "2025-06-18").await;
    let delete = to("DELETE", "/mcp").header("mcp-session-id", &ended);
    assert_eq!(
        app.send(delete.body(Body::empty()).unwrap()).await.status,
        204
    );
    let mut answers = String::new();
    let echo = run(1, "echo hello");
    for (method, body, id) in [
        ("POST", PING, "unknown"),
        (
            "POST",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            "unknown",
        ),
        (
            "POST",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "unknown",
        ),
        ("GET", "", "unknown"),
        ("DELETE", "", "unknown"),
        // Its client lost nothing but the session when the server was restarted.
        ("POST", &echo, "unknown"),
        // This one was ended by its client.
        ("POST", &echo, &ended),
        ("GET", "", &ended),
    ] {
        let request = to(method, "/mcp")
            .header("accept", BOTH)
            .header("mcp-session-id", id);
        let answer = app
            .send(request.body(Body::from(body.to_owned())).unwrap())
            .await;
        let which = if id == ended { "ended" } else { id };
        answers.push_str(&shown(&format!("{method} {which} {body}"), &answer));
    }
    insta::assert_snapshot!(answers);
    // A client that sends the lost id with everything begins a new session with it.
    let greeting = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let request = to("POST", "/mcp")
        .header("accept", BOTH)
        .header("mcp-session-id", "unknown");
    let answer = app.send(request.body(greeting.into()).unwrap()).await;
    assert_eq!(answer.status, 200);
    assert_ne!(answer.header("mcp-session-id"), "unknown");
}

#[tokio::test]
async fn several_messages_come_at_once_in_the_revision_that_has_it() {
    let app = TestApp::on_fake().await;
    let batch = format!(
        r#"[{PING},{{"jsonrpc":"2.0","method":"notifications/initialized"}},{},{{"id":3}},7]"#,
        run(2, "echo hello")
    );
    let initialize = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}]"#;
    let bodies = [
        batch.as_str(),
        "[]",
        r#"[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":null,"method":"notifications/cancelled"}]"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":9,"result":{}}]"#,
        initialize,
    ];
    let mut answers = posted(&app, "*/*", &bodies).await;
    let many = format!("[{PING}{}]", format!(",{PING}").repeat(100));
    answers.push_str(&shown("101 pings", &app.post(many).await));
    for revision in ["2025-03-26", "2025-06-18"] {
        let request = to("POST", "/mcp").header("mcp-protocol-version", revision);
        let answer = app.send(request.body(batch.clone().into()).unwrap()).await;
        answers.push_str(&shown(revision, &answer));
        let id = session(&app, revision).await;
        let request = to("POST", "/mcp").header("mcp-session-id", id);
        let answer = app.send(request.body(batch.clone().into()).unwrap()).await;
        answers.push_str(&shown(&format!("in a session of {revision}"), &answer));
    }
    insta::assert_snapshot!(answers);
    // On a stream, in the order in which the answers are ready.
    let request = to("POST", "/mcp").header("accept", BOTH);
    let request = request.body(batch.into()).unwrap();
    let mut stream = crate::sse::EventStream::open(&app, request).await;
    let mut ids = Vec::new();
    while let Some(event) = stream.next().await {
        ids.push(event.json()["id"].to_string());
    }
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "null"][..]);
}

#[tokio::test]
async fn an_unknown_tool_answers_with_the_tools_of_the_set() {
    for set in ["artifacts", "python"] {
        let app = TestApp::on_fake_with(&[("MCP_TOOLSET", set)]).await;
        let answer = app.rpc("tools/call", json!({ "name": "nothing" })).await;
        let list = app.rpc("tools/list", json!({})).await;
        let tools = list["result"]["tools"].as_array().unwrap();
        let said = answer["error"]["message"].as_str().unwrap();
        for listed in tools {
            assert!(said.contains(listed["name"].as_str().unwrap()), "{said}");
        }
    }
}
