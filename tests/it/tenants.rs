//! Tokens of `ACCESS_FILE`, and that no tenant reaches what is another's, by whatever it was shown.

mod limits;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Method, Request};
use base64::Engine as _;
use mcp_code_sandbox::access::TokenCommand;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::engines::Engine;
use crate::support::{Answer, TOKEN, TestApp, eventually};

/// So long a call waits, which is enough for what is soon over, and too short for what goes on.
const BUDGET: &str = "2s";
/// A program that goes on.
const LONG: &str = "sleep 120";

/// A server with three tenants: whoever has `MCP_API_TOKEN`, and two of a file.
struct Tenants {
    app: TestApp,
    /// The token of each.
    tokens: [String; 3],
    file: PathBuf,
    _dir: TempDir,
}

fn new_token(file: &Path, tenant: &str, name: &str) -> String {
    let command = TokenCommand::New {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
        expires: None,
        scopes: Vec::new(),
    };
    command.run(Some(file)).unwrap()
}

/// Writes these lines into the table of the first tenant.
fn set_limits(file: &Path, limits: &str) {
    let text = fs::read_to_string(file).unwrap();
    let name = "name = \"research\"\n";
    let (before, after) = text.split_once(name).unwrap();
    let rest = &after[after.find("\n[[").unwrap()..];
    fs::write(file, format!("{before}{name}{limits}\n{rest}")).unwrap();
}

impl Tenants {
    async fn new(settings: &[(&str, &str)]) -> Self {
        Self::with_limits("", settings, async |settings| {
            TestApp::on_fake_with(settings).await
        })
        .await
    }

    async fn on(engine: Engine, settings: &[(&str, &str)]) -> Self {
        let build = async |settings: &[(&str, &str)]| engine.start("shell", settings).await;
        Self::with_limits("", settings, build).await
    }

    /// On a server that `build` makes, and with these lines for the first tenant of the file.
    async fn with_limits(
        limits: &str,
        settings: &[(&str, &str)],
        build: impl AsyncFnOnce(&[(&str, &str)]) -> TestApp,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("access.toml");
        let tokens = ["research", "sales"].map(|tenant| new_token(&file, tenant, "n8n"));
        let [research, sales] = tokens;
        set_limits(&file, limits);
        let path = file.display().to_string();
        let settings: Vec<_> = settings
            .iter()
            .copied()
            .chain([("ACCESS_FILE", &*path)])
            .collect();
        Self {
            app: build(&settings).await,
            tokens: [TOKEN.to_owned(), research, sales],
            file,
            _dir: dir,
        }
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
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        self.app.send(request.body(body).unwrap()).await
    }

    async fn rpc(&self, token: &str, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.ask(token, Method::POST, "/mcp", Some(&message))
            .await
            .json()
    }

    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.rpc(token, "tools/call", params).await["result"]["structuredContent"].clone()
    }

    async fn run(&self, token: &str, code: &str) -> Value {
        let arguments = json!({ "conversationId": "demo", "language": "shell", "code": code });
        self.call(token, "run_code", arguments).await
    }
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn conversations_of_one_name_are_another_for_each_tenant(#[case] engine: Engine) {
    let tenants = Tenants::on(engine, &[]).await;
    for (number, token) in tenants.tokens.iter().enumerate() {
        let content = base64(&format!("of {number}\n"));
        let arguments =
            json!({ "conversationId": "demo", "filename": "own.txt", "content": content });
        assert_eq!(
            tenants.call(token, "upload_file", arguments).await["success"],
            true
        );
    }
    let mut urls = Vec::new();
    for (number, token) in tenants.tokens.iter().enumerate() {
        let outcome = tenants.run(token, "cat own.txt").await;
        assert_eq!(outcome["stdout"], format!("of {number}\n"));
        urls.push(outcome["files"][0]["url"].clone());
        assert_eq!(
            tenants.app.download(&urls[number]).await.text(),
            format!("of {number}\n")
        );
    }
    // What the one deletes the others keep.
    let gone = json!({ "conversationId": "demo" });
    tenants
        .call(&tenants.tokens[1], "delete_conversation", gone)
        .await;
    let left = [0, 1, 2].map(|number| tenants.app.download(&urls[number]));
    let left = futures::future::join_all(left).await;
    assert_eq!(
        left.iter()
            .map(|answer| answer.status.as_u16())
            .collect::<Vec<_>>(),
        [200, 404, 200]
    );
    // The first is where a server without other tenants has it.
    assert!(tenants.app.workspace("demo").join("own.txt").exists());
}

/// Whatever the server shows a tenant by which something could be asked for.
struct Shown {
    run: String,
    conversation: String,
    session: String,
    rest_session: String,
}

impl Tenants {
    /// What the server shows this one. Its run goes on.
    async fn shown_to(&self, token: &str) -> Shown {
        let minted = json!({ "language": "shell", "code": "echo secret > secret.txt" });
        let minted = self.call(token, "run_code", minted).await;
        let running = json!({ "conversationId": minted["conversationId"], "language": "shell", "code": LONG, "timeoutSeconds": 120 });
        let running = self.call(token, "run_code", running).await;
        assert_eq!(running["status"], "running", "{running}");
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        let accept = [("accept", "application/json, text/event-stream")];
        let hello = self.ask_with(token, Method::POST, "/mcp", Some(&hello), &accept);
        let hello = hello.await;
        assert!(!hello.header("mcp-session-id").is_empty());
        let rest = self
            .ask(token, Method::POST, "/api/v1/sessions", None)
            .await
            .json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Shown {
            run: text(&running["runId"]),
            conversation: text(&minted["conversationId"]),
            session: hello.header("mcp-session-id").to_owned(),
            rest_session: text(&rest["data"]["session_id"]),
        }
    }

    /// What somebody is answered who asks for all of it.
    async fn answers(&self, token: &str, shown: &Shown) -> Vec<Told> {
        let mut answers = self.answers_of_tools(token, shown).await;
        answers.extend(self.answers_of_sessions(token, &shown.session).await);
        answers.extend(self.answers_of_rest(token, shown).await);
        answers
    }

    async fn answers_of_tools(&self, token: &str, shown: &Shown) -> Vec<Told> {
        let (run, conversation) = (&shown.run, &shown.conversation);
        let file = json!({ "conversationId": conversation, "filename": "secret.txt" });
        let code = json!({ "conversationId": conversation, "language": "shell", "code": "cat secret.txt" });
        let tools = [
            ("get_run", json!({ "runId": run })),
            ("cancel_run", json!({ "runId": run })),
            ("list_files", json!({ "conversationId": conversation })),
            ("read_file", file.clone()),
            ("delete_file", file),
            ("run_code", code),
        ];
        let mut answers = Vec::new();
        for (tool, arguments) in tools {
            let answer = self.call(token, tool, arguments).await;
            answers.push((tool.to_owned(), 200, stable(answer).to_string()));
        }
        let uri = format!("sandbox://{conversation}/secret.txt");
        let methods = [
            ("tasks/get", json!({ "taskId": run })),
            ("tasks/cancel", json!({ "taskId": run })),
            ("resources/read", json!({ "uri": uri })),
        ];
        for (method, params) in methods {
            let answer = self.rpc(token, method, params).await;
            answers.push((method.to_owned(), 200, answer.to_string()));
        }
        // A run of that name is the caller's own.
        let arguments = json!({ "conversationId": "own", "language": "shell", "code": "echo own" });
        let named = json!({ "name": "run_code", "arguments": arguments, "_meta": { "mcp-code-sandbox/run": run } });
        let answer = self.rpc(token, "tools/call", named).await;
        let answer = stable(answer["result"]["structuredContent"].clone());
        answers.push(("run_code, named".to_owned(), 200, answer.to_string()));
        answers
    }

    async fn answers_of_sessions(&self, token: &str, session: &str) -> Vec<Told> {
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let params = json!({ "name": "list_files", "arguments": { "conversationId": "none" } });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let batch = json!([ping, call]);
        let of_session = [("mcp-session-id", session)];
        let mut answers = Vec::new();
        for (method, body) in [
            (Method::POST, Some(&ping)),
            (Method::GET, None),
            (Method::POST, Some(&call)),
            (Method::POST, Some(&batch)),
            (Method::DELETE, None),
        ] {
            let what = format!("{method} /mcp");
            let answer = self.ask_with(token, method, "/mcp", body, &of_session);
            let answer = answer.await;
            answers.push((what, answer.status.as_u16(), answer.text()));
        }
        answers
    }

    async fn answers_of_rest(&self, token: &str, shown: &Shown) -> Vec<Told> {
        let session = format!("/api/v1/sessions/{}", shown.rest_session);
        let files = format!("/api/v1/conversations/{}/files", shown.conversation);
        let run = json!({ "language": "shell", "code": "cat secret.txt", "session_id": shown.conversation });
        let requests = [
            (Method::GET, session.clone(), None),
            (Method::POST, format!("{session}/interrupt"), None),
            (Method::DELETE, session, None),
            (Method::GET, files.clone(), None),
            (Method::GET, format!("{files}/secret.txt"), None),
            (Method::DELETE, format!("{files}/secret.txt"), None),
            (Method::GET, files.replace("/files", "/archive"), None),
            (Method::POST, "/api/v1/execute_sync".to_owned(), Some(&run)),
        ];
        let mut answers = Vec::new();
        for (method, path, body) in requests {
            let what = format!("{method} {path}");
            let answer = self.ask(token, method, &path, body).await;
            let text = match answer.header("content-type") {
                "application/json" => stable(answer.json()).to_string(),
                _ => String::new(),
            };
            answers.push((what, answer.status.as_u16(), text));
        }
        answers
    }
}

/// What was asked, the status of the answer, and its text.
type Told = (String, u16, String);

/// Without what no two answers have in common.
fn stable(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(fields) => {
            for name in [
                "durationMs",
                "usage",
                "runId",
                "created_at",
                "last_activity",
            ] {
                fields.remove(name);
            }
            let each = fields.values_mut();
            each.for_each(|value| *value = stable(value.take()));
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| *value = stable(value.take())),
        _ => {}
    }
    answer
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[case::on_warm_kubernetes(Engine::WarmKubernetes)]
#[tokio::test]
async fn what_one_was_shown_is_to_another_as_if_it_had_never_been(#[case] engine: Engine) {
    let settings = [("CALL_BUDGET", BUDGET), ("MAX_CONCURRENT_RUNS", "8")];
    let tenants = Tenants::on(engine, &settings).await;
    for (victim, owner) in tenants.tokens.iter().enumerate() {
        let shown = tenants.shown_to(owner).await;
        let other_digits = |id: &str| {
            id.chars()
                .map(|digit| if digit.is_ascii_digit() { '7' } else { digit })
                .collect::<String>()
        };
        let never = Shown {
            run: other_digits(&shown.run),
            conversation: other_digits(&shown.conversation),
            session: other_digits(&shown.session),
            rest_session: other_digits(&shown.rest_session),
        };
        for (attacker, token) in tenants.tokens.iter().enumerate() {
            if attacker == victim {
                continue;
            }
            let listed = tenants.ask(token, Method::GET, "/api/v1/sessions", None);
            assert!(!listed.await.text().contains(&shown.rest_session));
            let to_ids = tenants.answers(token, &shown).await;
            let to_others = tenants.answers(token, &never).await;
            for ((what, status, text), (_, never_status, never_text)) in
                to_ids.iter().zip(&to_others)
            {
                let text = [
                    (&shown.run, &never.run),
                    (&shown.conversation, &never.conversation),
                    (&shown.session, &never.session),
                    (&shown.rest_session, &never.rest_session),
                ]
                .into_iter()
                .fold(text.clone(), |text, (id, never)| text.replace(id, never));
                assert_eq!(
                    (*status, &text),
                    (*never_status, never_text),
                    "{attacker} asks {victim}: {what}"
                );
                assert!(!text.contains("secret\\n"), "{what}: {text}");
            }
            for token in &tenants.tokens {
                let arguments = json!({ "conversationId": never.conversation });
                tenants.call(token, "delete_conversation", arguments).await;
            }
            let own = json!({ "conversationId": shown.conversation });
            tenants.call(token, "delete_conversation", own).await;
        }
        // It is all there, and its owner has it.
        let state = tenants
            .call(
                owner,
                "get_run",
                json!({ "runId": shown.run, "waitSeconds": 0 }),
            )
            .await;
        assert_eq!(state["status"], "running", "{state}");
        let read = json!({ "conversationId": shown.conversation, "filename": "secret.txt" });
        assert_eq!(
            tenants.call(owner, "read_file", read).await["content"],
            "secret\n"
        );
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let of_session = [("mcp-session-id", shown.session.as_str())];
        let pong = tenants
            .ask_with(owner, Method::POST, "/mcp", Some(&ping), &of_session)
            .await;
        assert_eq!(pong.status, 200);
        let rest = format!("/api/v1/sessions/{}", shown.rest_session);
        assert_eq!(
            tenants.ask(owner, Method::GET, &rest, None).await.status,
            200
        );
        tenants
            .call(owner, "cancel_run", json!({ "runId": shown.run }))
            .await;
    }
    let gate = &tenants.app.app.parts.gate;
    eventually("no run is left", || gate.count() == 0).await;
}
