//! Every transport and revision: sessions and their resumption, none at all, and the old event streams.

use axum::body::Body;
use axum::http::Request;
use mcp_code_sandbox::audit::Audit;
use mcp_code_sandbox::config::{AnswerConfig, Toolset};
use mcp_code_sandbox::ledger::Ledger;
use mcp_code_sandbox::mcp::McpHandler;
use mcp_code_sandbox::mcp::transport::{McpTransport, TransportSettings};
use mcp_code_sandbox::principal::Principal;
use mcp_code_sandbox::scope::Rights;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::sse::{EventStream, Session, call, newest, post_sse, run};
use crate::support::{TOKEN, TestApp, get, post};

const REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn ping(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

fn old_stream(path: &str) -> Request<Body> {
    get(path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("accept", "text/event-stream")
        .body(Body::empty())
        .unwrap()
}

async fn post_to(app: &TestApp, endpoint: &str, message: &Value) -> u16 {
    let mut request = post().body(Body::from(message.to_string())).unwrap();
    *request.uri_mut() = endpoint.parse().unwrap();
    app.send(request).await.status.as_u16()
}

/// Opens an old stream and says hello. Returns the stream and where to post.
async fn old_client(app: &TestApp, path: &str) -> (EventStream, String) {
    let mut stream = EventStream::open(app, old_stream(path)).await;
    let first = stream.next().await.unwrap();
    assert_eq!(
        (stream.status.as_u16(), first.name.as_str()),
        (200, "endpoint")
    );
    // What comes too early is told what to send first.
    assert_eq!(post_to(app, &first.data, &run(0, "echo early")).await, 202);
    let refused = stream.message().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(0), &json!(-32600)),
        "{refused}"
    );
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } } });
    assert_eq!(post_to(app, &first.data, &initialize).await, 202);
    assert_eq!(
        stream.message().await["result"]["protocolVersion"],
        "2024-11-05"
    );
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post_to(app, &first.data, &ready).await, 202);
    (stream, first.data)
}

#[tokio::test]
async fn every_revision_with_a_handshake_is_spoken() {
    let app = TestApp::on_fake().await;
    for revision in REVISIONS {
        let session = Session::open(&app, revision).await;
        let answer = session.send(&run(1, "echo hello")).await.rest().await;
        let result = &answer.last().unwrap()["result"]["structuredContent"];
        assert_eq!(
            (&result["status"], &result["stdout"]),
            (&json!("ok"), &json!("hello\n")),
            "{revision}"
        );
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let app = TestApp::on_fake().await;
    let send = async |method: &str, name: Option<&str>, params: Value| {
        app.send(newest(method, name, params)).await
    };
    let discovered = send("server/discover", None, json!({})).await.json();
    insta::assert_json_snapshot!(discovered["result"], { ".serverInfo.version" => "…", ".instructions" => "…", "._meta" => "…" }, @r#"
    {
      "resultType": "complete",
      "supportedVersions": [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28"
      ],
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
      "instructions": "…",
      "ttlMs": 0,
      "cacheScope": "private",
      "_meta": "…"
    }
    "#);
    let arguments =
        json!({ "name": "run_code", "arguments": { "language": "shell", "code": "echo hello" } });
    let answer = send("tools/call", Some("run_code"), arguments).await.json();
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "hello\n");
    assert_eq!(answer["result"]["resultType"], "complete");
    // What the revision has removed does not exist.
    for method in ["ping", "initialize", "logging/setLevel"] {
        let answer = send(method, None, json!({})).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["code"]),
            (404, &json!(-32601)),
            "{method}"
        );
    }
    let nothing = json!({ "uri": "sandbox://nobody/nothing" });
    let missing = send("resources/read", Some("sandbox://nobody/nothing"), nothing).await;
    assert_eq!(
        (missing.status.as_u16(), &missing.json()["error"]["code"]),
        (200, &json!(-32602))
    );
}

#[tokio::test]
async fn old_clients_get_their_event_stream() {
    let app = TestApp::on_fake().await;
    for path in ["/sse", "/mcp/sse", "/mcp/events", "/mcp"] {
        let (mut stream, endpoint) = old_client(&app, path).await;
        assert!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
        assert_eq!(post_to(&app, &endpoint, &run(7, "echo hello")).await, 202);
        let messages = stream.rest().await;
        let answer = messages.last().unwrap();
        assert_eq!(
            (
                &answer["id"],
                &answer["result"]["structuredContent"]["stdout"]
            ),
            (&json!(7), &json!("hello\n")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_old_client_is_understood_like_a_new_one() {
    let app = TestApp::on_fake().await;
    let mut stream = EventStream::open(&app, old_stream("/sse")).await;
    let endpoint = stream.next().await.unwrap().data;
    let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "clientInfo": { "name": "old" } } });
    assert_eq!(post_to(&app, &endpoint, &greeting).await, 202);
    let greeted = stream.message().await;
    assert_eq!(greeted["result"]["protocolVersion"], "2024-11-05");
    let ready = json!({ "jsonrpc": "2.0", "id": null, "method": "notifications/initialized" });
    assert_eq!(
        post_to(&app, &endpoint, &json!([ready, ping(1), ping(2)])).await,
        202
    );
    let answers = [stream.message().await, stream.message().await];
    let mut ids = answers.map(|answer| answer["id"].as_u64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    // Either all or none.
    assert_eq!(post_to(&app, &endpoint, &json!([ping(3), 7])).await, 400);
    assert_eq!(post_to(&app, &endpoint, &ping(4)).await, 202);
    assert_eq!(stream.message().await["id"], 4);
}

#[tokio::test]
async fn an_old_client_that_does_not_read_is_refused() {
    let app = TestApp::on_fake().await;
    let (mut stream, endpoint) = old_client(&app, "/sse").await;
    let mut taken = 0;
    while post_to(&app, &endpoint, &ping(taken)).await == 202 {
        taken += 1;
        assert!(taken < 1000, "it has to end");
    }
    // A message that needs no answer is accepted.
    let late = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9999 } });
    assert_eq!(post_to(&app, &endpoint, &late).await, 202);
    for _ in 0..taken {
        stream.message().await;
    }
    assert_eq!(post_to(&app, &endpoint, &ping(taken)).await, 202);
    assert_eq!(stream.message().await["id"], taken);
}

#[tokio::test]
async fn the_endpoint_carries_the_public_path() {
    let app = TestApp::on_fake_with(&[
        ("PUBLIC_BASE_URL", "https://box.example/tools/sandbox/"),
        ("ALLOWED_HOSTS", "localhost"),
    ])
    .await;
    let (mut stream, endpoint) = old_client(&app, "/sse").await;
    assert!(
        endpoint.starts_with("/tools/sandbox/messages?sessionId="),
        "{endpoint}"
    );
    // A proxy removes the path.
    let behind_proxy = endpoint.strip_prefix("/tools/sandbox").unwrap();
    assert_eq!(post_to(&app, behind_proxy, &ping(1)).await, 202);
    assert_eq!(stream.message().await["id"], 1);
}

#[tokio::test]
async fn messages_need_a_token_a_stream_and_sense() {
    let app = TestApp::on_fake().await;
    let (_stream, endpoint) = old_client(&app, "/sse").await;
    assert_eq!(
        post_to(&app, "/messages?sessionId=0123", &ping(1)).await,
        404
    );
    assert_eq!(post_to(&app, "/messages", &ping(1)).await, 404);
    assert_eq!(post_to(&app, &endpoint, &json!({ "id": 1 })).await, 400);
    assert_eq!(post_to(&app, &endpoint, &json!([])).await, 400);
    let without_token = Request::post(&endpoint)
        .header("host", "localhost")
        .body(Body::empty())
        .unwrap();
    assert_eq!(app.send(without_token).await.status, 401);
}

#[tokio::test]
async fn two_requests_with_one_id_are_both_answered() {
    let app = TestApp::on_fake().await;
    let session = Session::open(&app, "2025-06-18").await;
    let (slow, fast) = (run(5, "sleep 0.3\necho slow"), run(5, "echo fast"));
    let mut slow = session.send(&slow).await;
    let mut fast = session.send(&fast).await;
    let stdout = |messages: Vec<Value>| {
        messages.last().unwrap()["result"]["structuredContent"]["stdout"].clone()
    };
    assert_eq!(stdout(fast.rest().await), "fast\n");
    assert_eq!(stdout(slow.rest().await), "slow\n");
    // The same on the old transport, where both answers come on one stream.
    let (mut stream, endpoint) = old_client(&app, "/sse").await;
    post_to(&app, &endpoint, &run(5, "sleep 0.3\necho slow")).await;
    post_to(&app, &endpoint, &run(5, "echo fast")).await;
    assert_eq!(stdout(stream.rest().await), "fast\n");
    assert_eq!(stdout(stream.rest().await), "slow\n");
}

#[tokio::test]
async fn a_cancellation_that_comes_late_ends_no_other_run() {
    let app = TestApp::on_fake().await;
    let (mut stream, endpoint) = old_client(&app, "/sse").await;
    post_to(&app, &endpoint, &run(1, "sleep 0.3\necho whole")).await;
    post_to(&app, &endpoint, &ping(2)).await;
    assert_eq!(stream.message().await["id"], 2);
    let late = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    assert_eq!(post_to(&app, &endpoint, &late).await, 202);
    let messages = stream.rest().await;
    let answer = messages.last().unwrap();
    assert_eq!(
        (
            &answer["id"],
            &answer["result"]["structuredContent"]["stdout"]
        ),
        (&json!(1), &json!("whole\n"))
    );
}

#[tokio::test]
async fn an_id_is_taken_until_its_run_has_ended() {
    let app = TestApp::on_fake().await;
    let session = Session::open(&app, "2025-06-18").await;
    let mut given_up = session
        .send(&run(1, "echo started\nsleep 0.3\necho first"))
        .await;
    assert_eq!(given_up.message().await["params"]["message"], "started\n");
    drop(given_up);
    let mut stream = session.send(&run(1, "sleep 0.6\necho second")).await;
    let messages = stream.rest().await;
    let outcome = &messages.last().unwrap()["result"]["structuredContent"];
    assert_eq!(
        (&outcome["status"], &outcome["stdout"]),
        (&json!("ok"), &json!("second\n"))
    );
}

#[tokio::test]
async fn a_reused_request_id_gets_its_own_progress() {
    let app = TestApp::on_fake().await;
    let session = Session::open(&app, "2025-06-18").await;
    let _first = session.send(&run(5, "sleep 25")).await;
    let lines: Vec<_> = (1..=12).map(|line| format!("{line}\n")).collect();
    let code: Vec<_> = lines
        .iter()
        .map(|line| format!("echo {line}sleep 0.15\n"))
        .collect();
    let messages = session.send(&run(5, &code.concat())).await.rest().await;
    let told: Vec<_> = messages
        .iter()
        .filter_map(|message| message["params"]["message"].as_str())
        .collect();
    assert_eq!(told.concat(), lines.concat());
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_where_it_broke() {
    let app = TestApp::on_fake().await;
    let session = Session::open(&app, "2025-11-25").await;
    let mut stream = session
        .send(&run(
            1,
            "echo first\nsleep 0.3\necho second\nsleep 0.3\necho third",
        ))
        .await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.json()["params"]["message"], "first\n");
    drop(stream);
    let messages = session.listen(Some(&first.id)).await.rest().await;
    let told: Vec<_> = messages
        .iter()
        .filter_map(|message| message["params"]["message"].as_str())
        .collect();
    assert_eq!(told, ["second\n", "third\n"][..told.len()]);
    assert_eq!(
        messages.last().unwrap()["result"]["structuredContent"]["stdout"],
        "first\nsecond\nthird\n"
    );
    // Even if the answer was sent to nobody.
    let again = session.listen(Some(&first.id)).await.rest().await;
    assert_eq!(again.last(), messages.last());
}

#[tokio::test]
async fn over_the_cap_there_are_answers_without_sessions() {
    let app = TestApp::on_fake().await;
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let mut sessions = 0;
    for _ in 0..1005 {
        let answer = app.send(post_sse(&initialize)).await;
        assert!(
            answer.text().contains("protocolVersion"),
            "{}",
            answer.text()
        );
        sessions += usize::from(!answer.header("mcp-session-id").is_empty());
    }
    assert_eq!(sessions, 1000);
    let answer = app.send(post_sse(&run(1, "echo hello"))).await;
    assert!(answer.text().contains("hello"));
}

/// The transport without the routes that lead to it.
fn unguarded(app: &TestApp, tasks: &TaskTracker, stop: &CancellationToken) -> McpTransport {
    let parts = &app.app.parts;
    let ledger = Ledger::new(parts.runs(), tasks.clone(), Audit::default());
    let handler = McpHandler::new(
        parts.services(ledger, app.app.packages.clone()),
        tasks.clone(),
        Toolset::Default,
        AnswerConfig::default(),
    );
    let settings = TransportSettings {
        body_patience: std::time::Duration::from_mins(1),
        max_body: 1 << 20,
        idle: std::time::Duration::from_mins(1),
        public_path: String::new(),
    };
    McpTransport::new(handler, &settings, tasks, stop)
}

#[tokio::test]
async fn a_request_without_a_caller_answers_500() {
    let app = TestApp::on_fake().await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let transport = unguarded(&app, &tasks, &stop);
    let answer = transport.handle(post_sse(&run(1, "echo hello"))).await;
    assert_eq!(answer.status(), 500);
    let answer = transport.messages(post_sse(&ping(1))).await;
    assert_eq!(answer.status(), 500);
    let answer = transport.open_stream(&old_stream("/sse"));
    assert_eq!(answer.status(), 500);
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

#[tokio::test]
async fn sessions_streams_and_runs_belong_to_their_caller() {
    let app = TestApp::on_fake().await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let transport = unguarded(&app, &tasks, &stop);
    let (mine, theirs) = (Principal::of_token("mine"), Principal::of_token("theirs"));
    let send = async |principal: &Principal, message: &Value, session: &str| {
        let mut request = post_sse(message);
        request.extensions_mut().insert(principal.clone());
        request.extensions_mut().insert(Rights::ALL);
        if !session.is_empty() {
            request
                .headers_mut()
                .insert("mcp-session-id", session.parse().unwrap());
        }
        let response = transport.handle(request).await;
        let session = response
            .headers()
            .get("mcp-session-id")
            .map(|id| id.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        (
            status,
            session.unwrap_or_default(),
            String::from_utf8(body.to_vec()).unwrap(),
        )
    };
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let (_, session, _) = send(&mine, &initialize, "").await;
    assert_eq!(send(&mine, &ping(1), &session).await.0, 200);
    assert_eq!(send(&theirs, &ping(1), &session).await.0, 404);
    // A call is served without a session that nobody has. Another caller's is as unknown as that.
    let list = call(9, "list_runners", &json!({}));
    let (of_another, unknown) = (
        send(&theirs, &list, &session).await,
        send(&theirs, &list, "unknown").await,
    );
    assert_eq!(unknown.0, 200);
    assert_eq!(of_another, unknown);
    let (_, _, answer) = send(&mine, &run(1, "echo hello"), "").await;
    // On a busy machine it is a stream, with what was printed before.
    let last = answer.trim().lines().next_back().unwrap();
    let answer: Value = serde_json::from_str(last.trim_start_matches("data: ")).unwrap();
    let ask = call(
        2,
        "get_run",
        &json!({ "runId": answer["result"]["structuredContent"]["runId"] }),
    );
    assert!(send(&mine, &ask, "").await.2.contains("hello"));
    assert!(send(&theirs, &ask, "").await.2.contains("run_not_found"));
    let by_conversation = call(3, "get_run", &json!({ "conversationId": "demo" }));
    assert!(send(&mine, &by_conversation, "").await.2.contains("hello"));
    assert!(
        send(&theirs, &by_conversation, "")
            .await
            .2
            .contains("run_not_found")
    );
    stop.cancel();
    tasks.close();
    tasks.wait().await;
}

#[tokio::test]
async fn logs_go_to_those_who_asked() {
    let app = TestApp::on_fake().await;
    let session = Session::open(&app, "2025-06-18").await;
    let set_level = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "info" } });
    session.send(&set_level).await.rest().await;
    let mut stream = session.listen(None).await;
    session.send(&run(2, "exit 3")).await.rest().await;
    let message = stream.message().await;
    insta::assert_json_snapshot!(message["params"], { ".data.runId" => "…", ".data.durationMs" => "…" }, @r#"
    {
      "level": "warning",
      "logger": "run",
      "data": {
        "runId": "…",
        "status": "error",
        "exitCode": 3,
        "durationMs": "…"
      }
    }
    "#);
}

#[tokio::test]
async fn arguments_in_a_text_reach_an_old_client_too() {
    let app = TestApp::on_fake().await;
    let (mut stream, endpoint) = old_client(&app, "/sse").await;
    let program = json!({ "language": "shell", "code": "echo on" }).to_string();
    let params = json!({ "name": "run_code", "arguments": program });
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    assert_eq!(post_to(&app, &endpoint, &call).await, 202);
    let answer = stream.rest().await.pop().unwrap();
    assert_eq!(answer["result"]["structuredContent"]["output"], "on\n");
}
