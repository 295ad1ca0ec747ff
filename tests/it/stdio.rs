//! The built server as a client's child process, without an engine.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use crate::support::server::call;
use crate::support::stdio::StdioServer;
use crate::support::wait::within;

/// Keeps the server from asking an engine that may be there.
const NO_ENGINE: (&str, &str) = ("DOCKER_HOST", "unix:///nowhere/engine.sock");
/// How long stopping may take, on a machine that does other things too.
const END: Duration = Duration::from_secs(20);

/// Id and code of a refusal.
fn refusal(answer: &Value) -> (&Value, &Value) {
    (&answer["id"], &answer["error"]["code"])
}

#[tokio::test]
async fn a_line_that_cannot_be_taken_is_refused() {
    let small = [("MAX_UPLOAD_BYTES", "64k"), ("MAX_CODE_BYTES", "64k")];
    let mut server = StdioServer::start(&[&[NO_ENGINE], &small[..]].concat()).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for value in [r#""\ud800""#, "1e999", &deep] {
        let params = format!(r#"{{"name":"run_code","arguments":{{"code":{value}}}}}"#);
        let call =
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
        server.send_line(&call).await;
        let answer = server.message().await;
        assert_eq!(refusal(&answer), (&json!("a"), &json!(-32600)), "{answer}");
    }
    for (line, code) in [
        ("{", -32700),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (&"x".repeat(1 << 20), -32600),
    ] {
        server.send_line(line).await;
        let answer = server.message().await;
        assert_eq!(refusal(&answer), (&Value::Null, &json!(code)), "{answer}");
    }
    // An empty line, or a message that asks for no answer, gets none; what comes next is accepted.
    server.send_line("").await;
    server
        .send_line(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1e999}}"#)
        .await;
    server
        .send_line("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r")
        .await;
    assert_eq!(
        server.message().await,
        json!({ "jsonrpc": "2.0", "id": 7, "result": {} })
    );
}

#[tokio::test]
async fn arguments_in_a_text_are_taken_from_a_line() {
    let mut server = StdioServer::start(&[NO_ENGINE]).await;
    for (params, answered) in [
        (r#"{"name":"list_runners","arguments":[]}"#, "runners"),
        (
            r#"{"name":"list_files","arguments":"{\"conversationId\":\"demo\"}"}"#,
            "files",
        ),
    ] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        server.send_line(&call).await;
        let answer = server.message().await;
        assert_eq!(
            answer["result"]["structuredContent"][answered],
            json!([]),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_line_means_what_a_body_means() {
    let mut server = StdioServer::begin(&[NO_ENGINE]);
    let greeting = r#"{"jsonrpc":"2.0","id":0.0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
    server
        .send_line(&greeting.replace("protocolVersion", "version"))
        .await;
    let refused = server.message().await;
    assert_eq!(refusal(&refused), (&json!(0), &json!(-32602)), "{refused}");
    server.send_line(greeting).await;
    let greeted = server.message().await;
    assert_eq!(greeted["result"]["protocolVersion"], "2025-03-26");
    // Several at once, each answered by a line of its own.
    let batch = r#"[{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"},{"jsonrpc":"2.0","id":1.0,"method":"ping"},{"id":2},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#;
    server.send_line(batch).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = server.message().await;
        answers.push(format!("{} {}", answer["id"], answer["error"]["code"]));
    }
    answers.sort();
    assert_eq!(answers, ["1 null", "2 -32600", "3 null"]);
}

#[tokio::test]
async fn a_greeting_comes_first() {
    let mut server = StdioServer::begin(&[NO_ENGINE]);
    for early in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"list_runners"}}"#,
    ] {
        server.send_line(early).await;
    }
    let refused = server.message().await;
    insta::assert_json_snapshot!(refused, @r#"
    {
      "jsonrpc": "2.0",
      "id": "a",
      "error": {
        "code": -32600,
        "message": "nothing but ping may come before initialize: send an initialize request first, then this again"
      }
    }
    "#);
    for method in ["tools/list", "nothing/here", "notifications/initialized"] {
        server
            .send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method }))
            .await;
        let again = server.message().await;
        assert_eq!(again["error"], refused["error"], "{method}");
    }
    server.hello().await;
    server
        .send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }))
        .await;
    assert!(server.message().await["result"]["tools"].is_array());
}

#[tokio::test]
async fn files_where_the_client_works_are_not_its_settings() {
    let project = tempfile::tempdir().unwrap();
    let file = project.path().join(".env");
    std::fs::write(file, "TITLE=My App\n").unwrap();
    let [sources, tests] = ["src", "tests"].map(|name| project.path().join(name));
    std::fs::create_dir(&sources).unwrap();
    std::fs::create_dir(&tests).unwrap();
    std::fs::write(sources.join(".env"), "MCP_TOOLSET=python\n").unwrap();
    for directory in [project.path(), &sources, &tests] {
        let mut server = StdioServer::begin_in(directory, &[NO_ENGINE]);
        server.hello().await;
        server
            .send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))
            .await;
        let answer = server.message().await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "run_code"));
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_keep_the_server() {
    let mut server = StdioServer::start(&[NO_ENGINE]).await;
    for id in 1..20 {
        server
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }))
            .await;
        server.send_line("{").await;
    }
    // A pipe has 16 pages, a few of which are not full, so this means that something is stuck halfway.
    let full = async || (server.unread() > 48 << 10).then_some(());
    within(END, "the pipe is full", full).await;
    server.close();
    let status = server.ended(END).await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_signal_that_comes_during_the_start_is_heard() {
    // The start waits for an engine that says nothing.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("engine.sock");
    let engine = UnixListener::bind(&socket).unwrap();
    let host = format!("unix://{}", socket.display());
    let mut server = StdioServer::begin(&[("DOCKER_HOST", host.as_str())]);
    let _silent = engine.accept().await.unwrap();
    server.signal(Signal::TERM);
    let status = server.ended(END).await;
    assert_eq!(status.code(), Some(0), "{status}");
}

#[tokio::test]
async fn an_invalid_address_is_refused() {
    let output = call(&["stdio"], &[NO_ENGINE, ("MCP_HTTP_ADDR", "8123")]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.starts_with("MCP_HTTP_ADDR=8123 is not valid"),
        "{said}"
    );
}
