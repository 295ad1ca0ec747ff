//! Administration: what the operator sees and ends, and that nobody else does.

mod access;
mod audit;
mod command;
mod document;
mod ending;
mod lists;
mod pages;
mod usage;

use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Method, Request};
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::engines::Engine;
use crate::support::{Answer, TestApp};

/// What opens `/admin`.
const ADMIN_TOKEN: &str = "a91c0b7de5f34826b0c1d2e3";
/// A program that goes on.
const LONG: &str = "sleep 120";

/// A server with an operator, a tenant of a file, and an audit log.
struct Administered {
    app: TestApp,
    /// The token of the tenant `research`.
    research: String,
    log: PathBuf,
    _dir: TempDir,
}

impl Administered {
    async fn new() -> Self {
        Self::on(Engine::Fake, "shell", &[]).await
    }

    async fn on(engine: Engine, language: &str, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [file, log] = ["access.toml", "audit.log"].map(|name| dir.path().join(name));
        let research = new_token(&file, "research", "n8n");
        let [access, audit] = [&file, &log].map(|path| path.display().to_string());
        let own = [
            ("ADMIN_TOKEN", ADMIN_TOKEN),
            ("ACCESS_FILE", &*access),
            ("AUDIT_LOG", &*audit),
        ];
        let settings = [settings, &own].concat();
        Self {
            app: engine.start(language, &settings).await,
            research,
            log,
            _dir: dir,
        }
    }

    /// What the operator is answered.
    async fn ask(&self, method: Method, path: &str) -> Answer {
        ask(&self.app, ADMIN_TOKEN, method, path).await
    }

    /// The same of a request that succeeds.
    async fn get(&self, path: &str) -> Value {
        let answer = self.ask(Method::GET, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// A call of a tool by the holder of a token.
    async fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        call(&self.app, token, tool, arguments).await
    }

    /// Runs a program of a conversation to its end, or until the server's patience with the call.
    async fn run(&self, token: &str, conversation: &str, code: &str) -> Value {
        let arguments = json!({ "conversationId": conversation, "language": "shell", "code": code, "timeoutSeconds": 120 });
        self.call(token, "run_code", arguments).await
    }
}

fn new_token(file: &Path, tenant: &str, name: &str) -> String {
    let new = TokenCommand::New {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
        expires: None,
        scopes: Vec::new(),
    };
    new.run(Some(file)).unwrap()
}

async fn ask(app: &TestApp, token: &str, method: Method, path: &str) -> Answer {
    ask_with(
        app,
        method,
        path,
        &[("authorization", &format!("Bearer {token}"))],
    )
    .await
}

async fn ask_with(app: &TestApp, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("user-agent", "operator/1.0");
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost:8080");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

async fn call(app: &TestApp, token: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    let answer = app.send(request.body(message.to_string().into()).unwrap());
    answer.await.json()["result"]["structuredContent"].clone()
}

/// The key of a conversation of the tenant of `MCP_API_TOKEN`.
fn key(app: &TestApp, conversation: &str) -> String {
    let workspace = app.workspace(conversation);
    let name = workspace.file_name().unwrap();
    name.to_str().unwrap().to_owned()
}

/// An answer without what differs from run to run: times, what programs took, ids of runs, and links.
fn stable(mut value: Value) -> Value {
    const VARYING: [&str; 12] = [
        "createdAt",
        "lastUsedAt",
        "endedAt",
        "cpuMs",
        "wallMs",
        "cpuMs24h",
        "id",
        "url",
        "day",
        "from",
        "to",
        "storedBytes",
    ];
    match &mut value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let is_varying = VARYING.contains(&name.as_str()) && !field.is_null();
                *field = if is_varying {
                    "…".into()
                } else {
                    stable(field.take())
                };
            }
        }
        Value::Array(parts) => parts
            .iter_mut()
            .for_each(|part| *part = stable(part.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn a_server_without_tenants_has_the_one_of_its_token() {
    let app = TestApp::on_fake_with(&[("ADMIN_TOKEN", ADMIN_TOKEN)]).await;
    app.run("shell", "echo hi").await;
    let tenants = ask(&app, ADMIN_TOKEN, Method::GET, "/admin/v1/tenants").await;
    let tenants = tenants.json();
    let names = tenants["tenants"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|tenant| &tenant["name"]).collect();
    assert_eq!(names, ["default"]);
    assert_eq!(tenants["tenants"][0]["runs24h"], 1);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_by_its_name() {
    let it = Administered::new().await;
    let mut said = Vec::new();
    for (method, path) in [
        (Method::GET, "tenants?limit=0"),
        (Method::GET, "tenants?limit=501"),
        (Method::GET, "tenants?tenant=x"),
        (Method::GET, "conversations?limit=many"),
        (Method::GET, "conversations?limit=1&limit=2"),
        (Method::GET, "conversations?sort=name"),
        (Method::GET, "conversations?tenant=Research"),
        (Method::GET, "conversations?cursor=x"),
        (Method::GET, "conversations/demo"),
        (Method::DELETE, "conversations/demo"),
        (Method::GET, "runs?active=yes"),
        (Method::DELETE, "runs/run_1"),
        (Method::GET, "usage?from=2027-02-30"),
        (Method::GET, "usage?from=2027-02-02&to=2027-02-01"),
        (Method::GET, "usage?group=tenant,month"),
        (Method::GET, "audit?after=-1"),
        (Method::GET, "audit?limit=1001"),
        (Method::POST, "tenants"),
        (Method::GET, "nothing"),
    ] {
        let answer = it.ask(method, &format!("/admin/v1/{path}")).await;
        let error = &answer.json()["error"];
        let (code, message) = (error["code"].as_str(), error["message"].as_str());
        let status = answer.status.as_u16();
        said.push(format!(
            "{path}: {status} {} {}",
            code.unwrap(),
            message.unwrap()
        ));
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    tenants?limit=0: 400 invalid_arguments limit is 0: it must be a whole number from 1 to 500
    tenants?limit=501: 400 invalid_arguments limit is 501: it must be a whole number from 1 to 500
    tenants?tenant=x: 400 invalid_arguments "tenant" is nothing that can be given here: limit, cursor can
    conversations?limit=many: 400 invalid_arguments limit is "many": it must be a whole number from 1 to 500
    conversations?limit=1&limit=2: 400 invalid_arguments "limit" is there twice: give it once
    conversations?sort=name: 400 invalid_arguments sort is "name": it must be one of lastUsed, size, key
    conversations?tenant=Research: 400 invalid_arguments tenant is "Research": it must be the name of a tenant: 1 to 32 lower-case letters, digits and `-`
    conversations?cursor=x: 400 invalid_arguments cursor is not one that this server gave for this list in this order: take the nextCursor of the page before, or leave it out to begin
    conversations/demo: 400 invalid_arguments a conversation key is 64 lower-case hexadecimal digits, or the first 16 of them: GET /admin/v1/conversations lists them
    conversations/demo: 400 invalid_arguments a conversation key is 64 lower-case hexadecimal digits, or the first 16 of them: GET /admin/v1/conversations lists them
    runs?active=yes: 400 invalid_arguments active is "yes": it must be 1 or 0
    runs/run_1: 404 run_not_found there is no run run_1: it never was, or it ended more than ten minutes ago; GET /admin/v1/runs lists them
    usage?from=2027-02-30: 400 invalid_arguments from is "2027-02-30": it must be a day of UTC, such as 2027-01-31
    usage?from=2027-02-02&to=2027-02-01: 400 invalid_arguments from is 2027-02-02, which is after to, 2027-02-01: give the earlier day as from
    usage?group=tenant,month: 400 invalid_arguments group has "month": it must be words of tenant, day, language, with commas between them
    audit?after=-1: 400 invalid_arguments after is "-1": it must be a whole number
    audit?limit=1001: 400 invalid_arguments limit is 1001: it must be a whole number from 1 to 1000
    tenants: 405 method_not_allowed this address takes other methods, see the header Allow; MCP clients connect to /mcp
    nothing: 404 no_such_route there is nothing here: MCP clients connect to /mcp, and the REST interface is described at /docs
    "#);
}
