//! The protocol as plain clients speak it, and every way to get it wrong.

use std::fmt::Write as _;

use axum::body::Body;
use serde_json::json;

use crate::support::{TestApp, post};

#[tokio::test]
async fn curl_needs_nothing_but_a_token() {
    let app = TestApp::on_fake().await;
    let initialize = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "curl", "version": "8" } });
    insta::assert_json_snapshot!(app.rpc("initialize", initialize).await, { ".result.serverInfo.version" => "…" }, @r#"
    {
      "jsonrpc": "2.0",
      "id": 1,
      "result": {
        "protocolVersion": "2025-06-18",
        "capabilities": {
          "extensions": {
            "io.modelcontextprotocol/tasks": {}
          },
          "logging": {},
          "completions": {},
          "prompts": {},
          "resources": {},
          "tools": {}
        },
        "serverInfo": {
          "name": "mcp-code-sandbox",
          "title": "Code sandbox",
          "version": "…",
          "description": "MCP server that runs code in hardened, ephemeral containers"
        },
        "instructions": "Runs code in isolated containers. Give the same conversationId to upload_file, run_code and list_files so that they share the directory /data; leave it out of the first call and one is made for you. Files that a program writes to /data come back as links, and install_packages adds libraries. Variables are kept between runs with stateful: true only."
      }
    }
    "#);
    insta::assert_json_snapshot!(app.rpc("ping", json!({})).await, @r#"
    {
      "jsonrpc": "2.0",
      "id": 1,
      "result": {}
    }
    "#);
    let answer = app
        .post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (202, ""));
}

#[tokio::test]
async fn every_tool_is_described_for_a_model() {
    let app = TestApp::on_fake().await;
    insta::assert_json_snapshot!(app.rpc("tools/list", json!({})).await["result"]["tools"]);
}

#[tokio::test]
async fn limits_are_told_as_they_are_set() {
    let odd = [
        ("MAX_UPLOAD_BYTES", "512k"),
        ("MAX_CODE_BYTES", "1000"),
        ("RUN_TIMEOUT", "500ms"),
        ("CALL_BUDGET", "1500ms"),
    ];
    let app = TestApp::on_fake_with(&odd).await;
    let list = app.rpc("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let says = |name: &str, words: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        let description = tool["description"].as_str().unwrap();
        assert!(description.contains(words), "{description}");
    };
    says("upload_file", "At most 512 KiB.");
    says("run_code", "256 MiB of memory, 1000 bytes of code,");
    says(
        "run_code",
        "Limits: 0.5 s (timeoutSeconds up to 300; above 1.5 ",
    );
    says("get_run", "at most 1.5 s a call.");
    let runners = app.call("list_runners", json!({})).await;
    assert_eq!(runners["limits"]["timeoutSeconds"], 0.5);
}

#[tokio::test]
async fn bad_messages_get_json_rpc_errors() {
    let app = TestApp::on_fake().await;
    let bodies = [
        "{",
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#""ping""#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"nothing/here"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_code","arguments":"print"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nothing"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tasks/cancel"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"nothing"}}"#,
    ];
    let mut answers = String::new();
    for body in bodies {
        let answer = app.post(body).await;
        assert_eq!(answer.header("content-type"), "application/json", "{body}");
        let _ = writeln!(
            answers,
            "{body}\n  {} {}",
            answer.status.as_u16(),
            answer.text()
        );
    }
    insta::assert_snapshot!(answers);
}

#[tokio::test]
async fn a_greeting_that_does_not_fit_is_refused_alike_to_all() {
    let app = TestApp::on_fake().await;
    for params in [
        json!({}),
        json!({ "protocolVersion": "2025-06-18", "capabilities": "all" }),
        json!({ "protocolVersion": 1, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } }),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params });
        let plain = app.post(body.to_string()).await;
        let streaming = post().header("accept", "application/json, text/event-stream");
        let streaming = streaming.body(Body::from(body.to_string())).unwrap();
        let streaming = app.send(streaming).await;
        assert_eq!(
            (streaming.status, streaming.text()),
            (plain.status, plain.text())
        );
        let answer = plain.json();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(7), &json!(-32602)),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn deep_and_large_bodies_are_refused() {
    let app = TestApp::on_fake_with(&[("MAX_UPLOAD_BYTES", "1m")]).await;
    let deep = "[".repeat(100_000);
    assert_eq!(app.post(deep).await.json()["error"]["code"], -32700);
    let large = app.post(" ".repeat(8 << 20)).await;
    assert_eq!(
        (
            large.status.as_u16(),
            large.json()["error"]["code"].as_i64()
        ),
        (413, Some(-32600))
    );
}

#[tokio::test]
async fn a_client_that_reads_streams_gets_a_session() {
    let app = TestApp::on_fake().await;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let request = post().header("accept", "application/json, text/event-stream");
    let answer = app
        .send(request.body(Body::from(initialize.to_string())).unwrap())
        .await;
    let session = answer.header("mcp-session-id").to_owned();
    assert!(
        !session.is_empty() && answer.text().contains("protocolVersion"),
        "{}",
        answer.text()
    );
    let in_session = || {
        post()
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &session)
    };
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(
        app.send(in_session().body(Body::from(ready)).unwrap())
            .await
            .status,
        202
    );
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    assert!(
        app.send(in_session().body(Body::from(ping)).unwrap())
            .await
            .text()
            .contains(r#""result":{}"#)
    );
    let put = in_session().method("PUT").body(Body::empty()).unwrap();
    let refused = app.send(put).await;
    assert_eq!(
        (refused.status.as_u16(), refused.header("allow")),
        (405, "GET, POST, DELETE")
    );
    assert_eq!(refused.json()["error"]["code"], -32600);
    let delete = in_session().method("DELETE").body(Body::empty()).unwrap();
    assert_eq!(app.send(delete).await.status, 204);
    let gone = app.send(in_session().body(Body::from(ping)).unwrap()).await;
    assert_eq!(
        (gone.status.as_u16(), gone.header("content-type")),
        (404, "application/json")
    );
}

#[tokio::test]
async fn get_without_a_session_says_what_to_do() {
    let app = TestApp::on_fake().await;
    let answer = app
        .send(post().method("GET").body(Body::empty()).unwrap())
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("allow")),
        (405, "POST")
    );
    assert_eq!(answer.json()["error"]["code"], -32600);
}
