//! What tokens with scopes let their holders do: every tool, method and route, with each scope alone.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::Request;
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sse::{EventStream, newest};
use crate::support::{Answer, TestApp};

/// The sets of scopes that a token is tried with. The first is the control: with it, nothing is refused.
const SETS: [&[&str]; 6] = [
    &["all"],
    &["run"],
    &["files"],
    &["install"],
    &["network"],
    &["run", "network"],
];

/// A server with a token for each set.
struct Scoped {
    app: TestApp,
    tokens: Vec<String>,
    _dir: TempDir,
}

impl Scoped {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("access.toml");
        let token = |scopes: &&[&str]| {
            let command = TokenCommand::New {
                tenant: "research".parse().unwrap(),
                name: scopes.join("-").parse().unwrap(),
                expires: None,
                scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
            };
            command.run(Some(&file)).unwrap()
        };
        let tokens = SETS.iter().map(token).collect();
        let path = file.display().to_string();
        let own = [("ACCESS_FILE", &*path)];
        let settings: Vec<_> = settings.iter().copied().chain(own).collect();
        Self {
            app: TestApp::on_fake_speaking(&["python", "shell"], &settings).await,
            tokens,
            _dir: dir,
        }
    }

    /// The token with just these scopes.
    fn token(&self, scopes: &[&str]) -> &str {
        let index = SETS.iter().position(|set| *set == scopes).unwrap();
        &self.tokens[index]
    }

    async fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        let request = Request::post(path)
            .header("host", "localhost:8080")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        let body = body.to_string().into();
        self.app.send(request.body(body).unwrap()).await
    }

    async fn call(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.post(token, "/mcp", &message).await.json()
    }

    async fn tools(&self) -> Vec<String> {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        // With a token that may do least: what is listed is the same for all.
        let list = self.post(self.token(&["network"]), "/mcp", &message).await;
        let list = list.json()["result"]["tools"].clone();
        let names = list.as_array().unwrap().iter();
        names
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// With which of the sets this is let through.
    async fn row(&self, what: &str, is_forbidden: impl AsyncFn(&str) -> bool) -> String {
        let mut row = format!("{what}:");
        for (set, token) in SETS.iter().zip(&self.tokens) {
            if !is_forbidden(token).await {
                write!(row, " {}", set.join("+")).unwrap();
            }
        }
        assert!(row.contains(" all"), "the control is refused: {row}");
        row
    }
}

fn is_forbidden(answer: &Value) -> bool {
    let code = &answer["result"]["structuredContent"]["code"];
    let code_of_error = &answer["error"]["data"]["code"];
    [code, code_of_error].contains(&&json!("forbidden_scope"))
}

#[tokio::test]
async fn each_tool_needs_its_scope() {
    let mut rows = Vec::new();
    for toolset in ["default", "artifacts", "python"] {
        let world = Scoped::new(&[("MCP_TOOLSET", toolset)]).await;
        let asked = async |token: &str, tool: &str, arguments: &Value| {
            is_forbidden(&world.call(token, tool, arguments).await)
        };
        for tool in world.tools().await {
            let forbidden = async |token: &str| asked(token, &tool, &json!({})).await;
            rows.push(world.row(&tool, forbidden).await);
        }
        // Older names, our own beside those of other sets, and how models write that they want the network.
        let program = json!({ "language": "shell", "code": "echo" });
        for tool in ["run_code", "sandbox.run_code"] {
            let forbidden = async |token: &str| asked(token, tool, &program).await;
            rows.push(
                world
                    .row(&format!("{tool} beside {toolset}"), forbidden)
                    .await,
            );
        }
        for (name, value) in [
            ("network", json!(true)),
            ("Network", json!("yes")),
            ("internet", json!(1)),
            // Hosts and secrets are in the network.
            ("hosts", json!(["api.example.org"])),
            ("secrets", json!(["GITHUB_TOKEN"])),
            ("hosts", json!([])),
        ] {
            let mut program = program.clone();
            program[name] = value;
            let forbidden = async |token: &str| asked(token, "run_code", &program).await;
            rows.push(world.row(&format!("run_code with {name}"), forbidden).await);
        }
    }
    rows.dedup();
    insta::assert_snapshot!(rows.join("\n"), @r"
    cancel_run: all run run+network
    delete_conversation: all files
    get_run: all run run+network
    install_packages: all install
    list_files: all files
    list_runners: all run files install network run+network
    read_file: all files
    run_code: all run run+network
    upload_file: all files
    run_code beside default: all run run+network
    sandbox.run_code beside default: all run run+network
    run_code with network: all run+network
    run_code with Network: all run+network
    run_code with internet: all run+network
    run_code with hosts: all run+network
    run_code with secrets: all run+network
    run_code with hosts: all run run+network
    sandbox_close_session: all files
    sandbox_list_artifacts: all files
    sandbox_read_artifact: all files
    sandbox_run_python: all run run+network
    sandbox_upload_file: all files
    run_code beside artifacts: all run run+network
    sandbox.run_code beside artifacts: all run run+network
    run_code with network: all run+network
    run_code with Network: all run+network
    run_code with internet: all run+network
    run_code with hosts: all run+network
    run_code with secrets: all run+network
    run_code with hosts: all run run+network
    execute_python: all run run+network
    pip_install: all install
    run_code beside python: all run run+network
    sandbox.run_code beside python: all run run+network
    run_code with network: all run+network
    run_code with Network: all run+network
    run_code with internet: all run+network
    run_code with hosts: all run+network
    run_code with secrets: all run+network
    run_code with hosts: all run run+network
    ");
}

#[tokio::test]
async fn resources_and_tasks_need_the_scopes_of_files_and_runs() {
    let world = Scoped::new(&[]).await;
    let mut rows = Vec::new();
    for (method, name, params) in [
        ("tools/list", None, json!({})),
        ("prompts/list", None, json!({})),
        ("resources/templates/list", None, json!({})),
        ("resources/list", None, json!({})),
        (
            "resources/read",
            Some("sandbox://demo/a"),
            json!({ "uri": "sandbox://demo/a" }),
        ),
        ("tasks/get", Some("run_1"), json!({ "taskId": "run_1" })),
        ("tasks/cancel", Some("run_1"), json!({ "taskId": "run_1" })),
    ] {
        let forbidden = async |token: &str| {
            let mut request = newest(method, name, params.clone());
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", bearer);
            is_forbidden(&world.app.send(request).await.json())
        };
        rows.push(world.row(method, forbidden).await);
    }
    insta::assert_snapshot!(rows.join("\n"), @"
    tools/list: all run files install network run+network
    prompts/list: all run files install network run+network
    resources/templates/list: all run files install network run+network
    resources/list: all files
    resources/read: all files
    tasks/get: all run run+network
    tasks/cancel: all run run+network
    ");
}

#[tokio::test]
async fn each_route_needs_the_scope_of_its_group() {
    let world = Scoped::new(&[]).await;
    let document = world.app.get("/api/v1/openapi.json").await.json();
    let mut rows = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        let path = template
            .replace("{id}", "demo")
            .replace("{session_id}", "demo")
            .replace("{name}", "a.txt");
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let forbidden = async |token: &str| {
                let request = Request::builder()
                    .method(&*method)
                    .uri(&path)
                    .header("host", "localhost:8080")
                    .header("content-type", "application/json")
                    .header("authorization", format!("Bearer {token}"));
                let answer = world
                    .app
                    .send(request.body(Body::from("{}")).unwrap())
                    .await;
                let is_forbidden = answer.text().contains("\"forbidden_scope\"");
                assert_eq!(is_forbidden, answer.status == 403, "{}", answer.text());
                is_forbidden
            };
            rows.push(world.row(&format!("{method} {template}"), forbidden).await);
        }
    }
    insta::assert_snapshot!(rows.join("\n"), @"
    GET /api/v1/conversations/{id}/archive: all files
    GET /api/v1/conversations/{id}/files: all files
    POST /api/v1/conversations/{id}/files: all files
    GET /api/v1/conversations/{id}/files/{name}: all files
    PUT /api/v1/conversations/{id}/files/{name}: all files
    DELETE /api/v1/conversations/{id}/files/{name}: all files
    PATCH /api/v1/conversations/{id}/files/{name}: all files
    POST /api/v1/execute: all run run+network
    POST /api/v1/execute_sync: all run run+network
    GET /api/v1/health: all run files install network run+network
    GET /api/v1/me: all run files install network run+network
    GET /api/v1/sessions: all run run+network
    POST /api/v1/sessions: all run run+network
    GET /api/v1/sessions/{session_id}: all run run+network
    DELETE /api/v1/sessions/{session_id}: all files
    POST /api/v1/sessions/{session_id}/interrupt: all run run+network
    POST /execute: all run run+network
    POST /pip_install: all install
    ");
}

#[tokio::test]
async fn programs_of_the_rest_interface_need_the_scope_of_the_network_for_hosts_and_secrets() {
    let world = Scoped::new(&[]).await;
    let mut rows = Vec::new();
    for path in ["/api/v1/execute", "/api/v1/execute_sync"] {
        for (name, value) in [
            ("hosts", json!(["api.example.org"])),
            ("secrets", json!(["GITHUB_TOKEN"])),
            ("hosts", json!([])),
        ] {
            let body = json!({ "language": "shell", "code": "echo", name: value });
            let forbidden = async |token: &str| {
                let answer = world.post(token, path, &body).await;
                answer.text().contains("\"forbidden_scope\"")
            };
            rows.push(world.row(&format!("{path} {body}"), forbidden).await);
        }
    }
    insta::assert_snapshot!(rows.join("\n"), @r#"
    /api/v1/execute {"language":"shell","code":"echo","hosts":["api.example.org"]}: all run+network
    /api/v1/execute {"language":"shell","code":"echo","secrets":["GITHUB_TOKEN"]}: all run+network
    /api/v1/execute {"language":"shell","code":"echo","hosts":[]}: all run run+network
    /api/v1/execute_sync {"language":"shell","code":"echo","hosts":["api.example.org"]}: all run+network
    /api/v1/execute_sync {"language":"shell","code":"echo","secrets":["GITHUB_TOKEN"]}: all run+network
    /api/v1/execute_sync {"language":"shell","code":"echo","hosts":[]}: all run run+network
    "#);
}

#[tokio::test]
async fn what_is_missing_is_told() {
    let world = Scoped::new(&[]).await;
    let program = json!({ "language": "shell", "code": "echo", "network": true });
    let of_tool = world
        .call(world.token(&["run"]), "run_code", &program)
        .await;
    insta::assert_snapshot!(of_tool, @r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"success\":false,\"code\":\"forbidden_scope\",\"message\":\"this needs the scope network, and the token has run: ask the server's operator for a token that has it\"}"}],"structuredContent":{"success":false,"code":"forbidden_scope","message":"this needs the scope network, and the token has run: ask the server's operator for a token that has it"},"isError":true}}"#);
    let of_route = world
        .post(
            world.token(&["files"]),
            "/api/v1/execute",
            &json!({ "code": "1" }),
        )
        .await;
    assert_eq!(
        (
            of_route.status.as_u16(),
            of_route.header("www-authenticate")
        ),
        (403, "")
    );
    insta::assert_snapshot!(of_route.text(), @r#"{"error":{"code":"forbidden_scope","message":"this needs the scope run, and the token has files: ask the server's operator for a token that has it"}}"#);
    // Nothing was started, and nothing is there.
    assert_eq!(world.app.app.parts.launcher.live_count(), 0);
}

#[tokio::test]
async fn scopes_hold_in_batches_and_on_the_old_transport() {
    let world = Scoped::new(&[]).await;
    let token = world.token(&["files"]);
    let params = json!({ "name": "get_run", "arguments": { "runId": "run_1" } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let batch = world.post(token, "/mcp", &json!([ping, call])).await;
    assert_eq!(batch.status, 200);
    assert_eq!(batch.json()[0]["result"], json!({}));
    assert!(is_forbidden(&batch.json()[1]), "{}", batch.text());
    let request = Request::get("/sse")
        .header("host", "localhost:8080")
        .header("accept", "text/event-stream")
        .header("authorization", format!("Bearer {token}"));
    let mut stream = EventStream::open(&world.app, request.body(Body::empty()).unwrap()).await;
    let messages = stream.next().await.unwrap().data;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } } });
    assert_eq!(world.post(token, &messages, &hello).await.status, 202);
    assert_eq!(stream.message().await["id"], 0);
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    world.post(token, &messages, &ready).await;
    assert_eq!(world.post(token, &messages, &call).await.status, 202);
    let answer = stream.message().await;
    assert!(is_forbidden(&answer), "{answer}");
}

#[tokio::test]
async fn links_need_no_scope_and_a_run_sees_its_files() {
    let world = Scoped::new(&[]).await;
    let program =
        json!({ "conversationId": "demo", "language": "shell", "code": "echo 1 > a.txt" });
    let answer = world
        .call(world.token(&["run"]), "run_code", &program)
        .await;
    let url = &answer["result"]["structuredContent"]["files"][0]["url"];
    assert_eq!(world.app.download(url).await.text(), "1\n");
}
