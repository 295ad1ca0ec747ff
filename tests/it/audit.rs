//! The audit log: what is recorded of calls by MCP and REST, what is not, and what happens when it cannot be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use base64::Engine as _;
use mcp_code_sandbox::access::TokenCommand;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Server, call};
use crate::support::wait::within;
use crate::support::{Answer, TOKEN, TestApp};

/// No engine is needed to store files.
const NO_ENGINE: (&str, &str) = ("DOCKER_HOST", "unix:///nowhere/engine.sock");
const WAIT: Duration = Duration::from_secs(10);
/// What must never be in a log.
const CODE: &str = "echo word-of-the-code";
const CONTENT: &str = "word-of-the-file\n";

/// A server with an audit log, and a token of a tenant.
struct Audited {
    app: TestApp,
    token: String,
    log: PathBuf,
    _dir: TempDir,
}

impl Audited {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [file, log] = ["access.toml", "audit.log"].map(|name| dir.path().join(name));
        let new = TokenCommand::New {
            tenant: "research".parse().unwrap(),
            name: "n8n".parse().unwrap(),
            expires: None,
            scopes: Vec::new(),
        };
        let token = new.run(Some(&file)).unwrap();
        let [file, path] = [&file, &log].map(|path| path.display().to_string());
        let settings = [("ACCESS_FILE", &*file), ("AUDIT_LOG", &*path)];
        Self {
            app: TestApp::on_fake_with(&settings).await,
            token,
            log,
            _dir: dir,
        }
    }

    /// A request by REST with the token of the tenant.
    async fn rest(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        ask(&self.app, &self.token, method, path, body).await
    }
}

async fn ask(
    app: &TestApp,
    token: &str,
    method: Method,
    path: &str,
    body: impl Into<Body>,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {token}"))
        .header("user-agent", "some-client/1.2 (test)")
        .header("content-type", "application/json")
        .extension(ConnectInfo::<std::net::SocketAddr>(
            "192.0.2.7:5000".parse().unwrap(),
        ));
    app.send(request.body(body.into()).unwrap()).await
}

/// The events of a log, without what differs from run to run, once the chain has been checked.
async fn events(files: &[&Path]) -> String {
    let verified = verify(files).await;
    assert_eq!(verified.0, Some(0), "{}", verified.1);
    let mut events = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines() {
            let Ok(mut line) = serde_json::from_str::<Value>(line) else {
                events.push("(cut off)".to_owned());
                continue;
            };
            let fields = line.as_object_mut().unwrap();
            let at = fields.shift_remove("at").unwrap();
            assert_eq!(at.as_str().unwrap().len(), "2027-01-01T12:00:00.000Z".len());
            for name in ["prev", "version", "run", "cpu_ms", "wall_ms", "torn_sha256"] {
                fields.shift_remove(name);
            }
            events.push(line.to_string());
        }
    }
    events.join("\n")
}

/// Exit code and output of `audit verify`.
async fn verify(files: &[&Path]) -> (Option<i32>, String) {
    let files: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut arguments = vec!["audit", "verify"];
    arguments.extend(files.iter().map(String::as_str));
    let output = call(&arguments, &[]).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn a_log_says_who_did_what_and_not_with_what() {
    let audited = Audited::new().await;
    let app = &audited.app;
    app.run("shell", CODE).await;
    app.upload("data.txt", CONTENT.as_bytes()).await;
    app.upload("../data.txt", CONTENT.as_bytes()).await;
    app.run("cobol", CODE).await;
    let files = "/api/v1/conversations/own/files";
    let run = json!({ "language": "shell", "code": CODE, "session_id": "own" }).to_string();
    let answers = [
        audited
            .rest(Method::POST, "/api/v1/execute_sync", run)
            .await,
        audited
            .rest(Method::PUT, &format!("{files}/a.txt"), CONTENT)
            .await,
        audited
            .rest(
                Method::PATCH,
                &format!("{files}/a.txt"),
                r#"{"filename":"b.txt"}"#,
            )
            .await,
        audited
            .rest(Method::DELETE, &format!("{files}/b.txt"), "")
            .await,
        // What does not happen is no event.
        audited
            .rest(Method::DELETE, &format!("{files}/b.txt"), "")
            .await,
        audited
            .rest(Method::DELETE, "/api/v1/sessions/own", "")
            .await,
        ask(app, "wrong-token-0123", Method::POST, "/mcp", "{}").await,
        app.get("/api/v1/sessions").await,
    ];
    let statuses = answers.map(|answer| answer.status.as_u16());
    assert_eq!(statuses, [200, 201, 200, 204, 404, 200, 401, 401]);
    app.call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    app.call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    app.assert_nothing_is_left().await;
    insta::assert_snapshot!(events(&[&audited.log]).await, @r#"
    {"seq":1,"event":"server_started"}
    {"seq":2,"event":"token_first_used","tenant":"default","subject":"48904f832917"}
    {"seq":3,"event":"run_started","tenant":"default","subject":"48904f832917","via":"run_code","conversation":"d37f9d488864","language":"shell","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd"}
    {"seq":4,"event":"run_ended","tenant":"default","subject":"48904f832917","via":"run_code","conversation":"d37f9d488864","language":"shell","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd","status":"ok"}
    {"seq":5,"event":"file_uploaded","tenant":"default","subject":"48904f832917","via":"upload_file","conversation":"d37f9d488864","name":"data.txt","bytes":17}
    {"seq":6,"event":"run_started","tenant":"default","subject":"48904f832917","via":"run_code","conversation":"d37f9d488864","language":"cobol","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd"}
    {"seq":7,"event":"run_ended","tenant":"default","subject":"48904f832917","via":"run_code","conversation":"d37f9d488864","language":"cobol","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd","status":"refused"}
    {"seq":8,"event":"token_first_used","tenant":"research","subject":"5a3b548f2f29","token":"n8n"}
    {"seq":9,"event":"run_started","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"POST /api/v1/execute_sync","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b","language":"shell","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd"}
    {"seq":10,"event":"run_ended","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"POST /api/v1/execute_sync","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b","language":"shell","code_sha256":"e5cc43642684d91deaf43b95d1aa844c035eb01c84ff15792a94135e669d2efd","status":"ok"}
    {"seq":11,"event":"file_uploaded","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"PUT /api/v1/conversations/{id}/files/{*name}","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b","name":"a.txt","bytes":17}
    {"seq":12,"event":"file_renamed","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"PATCH /api/v1/conversations/{id}/files/{*name}","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b","name":"a.txt","new_name":"b.txt"}
    {"seq":13,"event":"file_deleted","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"DELETE /api/v1/conversations/{id}/files/{*name}","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b","name":"b.txt"}
    {"seq":14,"event":"conversation_deleted","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"DELETE /api/v1/sessions/{session_id}","client":"some-client","client_version":"1.2","conversation":"7a3b70b51a9b"}
    {"seq":15,"event":"auth_denied","address":"192.0.2.7","route":"POST /mcp","reason":"unknown_token"}
    {"seq":16,"event":"auth_denied","route":"GET /api/v1/sessions","reason":"no_token"}
    {"seq":17,"event":"conversation_deleted","tenant":"default","subject":"48904f832917","via":"delete_conversation","conversation":"d37f9d488864"}
    {"seq":18,"event":"server_stopped"}
    "#);
    let text = fs::read_to_string(&audited.log).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(CONTENT);
    for secret in [
        "word-of",
        &encoded,
        TOKEN,
        &audited.token,
        "wrong-token",
        "demo",
    ] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    let mode = audited.log.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(start_paused = true)]
async fn who_guesses_tokens_does_not_fill_the_disk() {
    let audited = Audited::new().await;
    for _ in 0..100 {
        ask(&audited.app, "wrong", Method::GET, "/mcp", "").await;
    }
    tokio::time::sleep(Duration::from_secs(121)).await;
    ask(&audited.app, "wrong", Method::GET, "/mcp", "").await;
    audited.app.assert_nothing_is_left().await;
    let text = fs::read_to_string(&audited.log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!(
        (count("auth_denied"), count("auth_denied_more")),
        (31, 1),
        "{text}"
    );
    let more = lines
        .iter()
        .find(|line| line["event"] == "auth_denied_more");
    assert_eq!(more.unwrap()["count"], 70);
}

/// The value of the metric.
async fn audit_ok(app: &TestApp) -> String {
    let request = Request::get("/metrics")
        .header("host", "localhost:8080")
        .extension(ConnectInfo::<std::net::SocketAddr>(
            "127.0.0.1:5000".parse().unwrap(),
        ));
    let text = app.send(request.body(Body::empty()).unwrap()).await.text();
    let ok = text
        .lines()
        .find_map(|line| line.strip_prefix("mcp_sandbox_audit_ok "));
    ok.unwrap().to_owned()
}

#[tokio::test]
async fn nothing_is_done_without_a_log_that_is_required() {
    let full = [("AUDIT_LOG", "/dev/full"), ("AUDIT_REQUIRED", "1")];
    let app = TestApp::on_fake_with(&full).await;
    let install = json!({ "language": "python", "packages": ["six"] });
    let delete = json!({ "conversationId": "demo" });
    for answer in [
        app.run("shell", "echo hi > made.txt").await,
        app.upload("a.txt", b"a").await,
        app.call("install_packages", install).await,
        app.call("delete_conversation", delete).await,
    ] {
        assert_eq!(answer["code"], "audit_unavailable", "{answer}");
    }
    let run = json!({ "language": "shell", "code": "echo hi" }).to_string();
    let answer = ask(&app, TOKEN, Method::POST, "/api/v1/execute_sync", run).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, "5")
    );
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"audit_unavailable","message":"the audit log cannot be written, and nothing is done without it (AUDIT_REQUIRED): ask the operator to make room for AUDIT_LOG or to mend what the server's log says of it","retryAfterSeconds":5}}"#);
    assert!(!app.workspace("demo").exists());
    assert_eq!(audit_ok(&app).await, "0");
    // What changes nothing goes on.
    let list = app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(list["files"], json!([]));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_seen_in_the_metrics() {
    let app = TestApp::on_fake_with(&[("AUDIT_LOG", "/dev/full")]).await;
    assert_eq!(app.run("shell", "echo hi").await["status"], "ok");
    assert_eq!(audit_ok(&app).await, "0");
    app.assert_nothing_is_left().await;
    let without = TestApp::on_fake().await;
    assert_eq!(audit_ok(&without).await, "1");
}

/// Waits until a file has so many lines.
async fn lines(file: &Path, count: usize) {
    let there = async || {
        let text = fs::read_to_string(file).unwrap_or_default();
        (text.lines().count() >= count).then_some(())
    };
    within(WAIT, "the lines are written", there).await;
}

#[tokio::test]
async fn a_log_is_rotated_continued_after_a_kill_and_checked() {
    let root = tempfile::tempdir().unwrap();
    let [log, old] = ["audit.log", "audit.log.1"].map(|name| root.path().join(name));
    let path = log.display().to_string();
    let settings = [NO_ENGINE, ("AUDIT_LOG", path.as_str())];
    let mut server = Server::start(root.path(), &settings).await;
    server.upload("first.txt", b"1").await;
    lines(&log, 3).await;
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    within(WAIT, "there is a new file", async || {
        log.exists().then_some(())
    })
    .await;
    server.upload("second.txt", b"2").await;
    lines(&log, 1).await;
    // A crash in the middle of a line.
    server.signal(Signal::KILL);
    server.ended(WAIT).await;
    let mut text = fs::read(&log).unwrap();
    text.extend(br#"{"seq":5,"at":"2027-"#);
    fs::write(&log, text).unwrap();
    let torn = verify(&[&old, &log]).await;
    assert!(
        torn.0 == Some(1) && torn.1.contains("audit.log, line 2: expected a line"),
        "{}",
        torn.1
    );
    let mut server = Server::start(root.path(), &settings).await;
    assert!(
        server.log().contains("ends in the middle of a line"),
        "{}",
        server.log()
    );
    server.signal(Signal::TERM);
    assert!(server.ended(WAIT * 2).await.success());
    insta::assert_snapshot!(events_in_short(&[&old, &log]).await, @r#"
    1 server_started
    2 token_first_used
    3 file_uploaded first.txt
    4 file_uploaded second.txt
    (cut off)
    5 line_torn
    6 server_started
    7 server_stopped
    "#);
    let whole = fs::read_to_string(&old).unwrap();
    fs::write(&old, whole.replace("first.txt", "other.txt")).unwrap();
    let (code, said) = verify(&[&old, &log]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("audit.log, line 1: expected prev"), "{said}");
}

/// Number and kind of each event, and what a file is called.
async fn events_in_short(files: &[&Path]) -> String {
    let all = events(files).await;
    let short = all.lines().map(|line| {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            return line.to_owned();
        };
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let short = format!("{} {} {}", line["seq"], word("event"), word("name"));
        short.trim_end().to_owned()
    });
    short.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_log_that_can_be_written_again_says_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let (place, real) = (root.path().join("place"), root.path().join("real"));
    fs::create_dir(&real).unwrap();
    // The folder may be a link, the file itself may not.
    symlink("/dev", &place).unwrap();
    let path = place.join("full").display().to_string();
    let settings = [
        NO_ENGINE,
        ("AUDIT_LOG", path.as_str()),
        ("AUDIT_REQUIRED", "1"),
    ];
    let mut server = Server::start(root.path(), &settings).await;
    let refused = server.upload("first.txt", b"1").await;
    assert_eq!(refused["code"], "audit_unavailable");
    let refused = server.upload("first.txt", b"1").await;
    assert_eq!(refused["code"], "audit_unavailable");
    fs::remove_file(&place).unwrap();
    symlink(&real, &place).unwrap();
    server.signal(Signal::HUP);
    let log = real.join("full");
    within(WAIT, "there is a file", async || log.exists().then_some(())).await;
    let stored = server.upload("first.txt", b"1").await;
    assert_eq!(stored["success"], true, "{stored}");
    server.signal(Signal::TERM);
    assert!(server.ended(WAIT * 2).await.success());
    insta::assert_snapshot!(events(&[&log]).await, @r#"
    {"seq":1,"event":"events_lost","count":2}
    {"seq":2,"event":"file_uploaded","tenant":"default","subject":"48904f832917","via":"upload_file","conversation":"d37f9d488864","name":"first.txt","bytes":1}
    {"seq":3,"event":"server_stopped"}
    "#);
    let said = server.log();
    assert_eq!(
        said.matches("the audit log cannot be written").count(),
        1,
        "{said}"
    );
    assert_eq!(
        said.matches("the audit log is written again").count(),
        1,
        "{said}"
    );
}

#[tokio::test]
async fn standard_output_can_be_the_log_but_not_beside_the_protocol() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(root.path(), &[NO_ENGINE, ("AUDIT_LOG", "stdout")]).await;
    server.signal(Signal::TERM);
    assert!(server.ended(WAIT * 2).await.success());
    let said = server.log();
    let lines = said
        .lines()
        .filter(|line| line.starts_with(r#"{"seq":"#))
        .count();
    assert_eq!(lines, 2, "{said}");
    let output = call(&["stdio"], &[("AUDIT_LOG", "stdout")]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    insta::assert_snapshot!(said.lines().last().unwrap(), @"AUDIT_LOG=stdout is not possible: a client reads the protocol there: name a file");
}

#[tokio::test]
async fn a_log_that_is_not_usable_stops_the_start() {
    for (settings, told) in [
        (
            &[("AUDIT_LOG", "/nowhere/audit.log")][..],
            "AUDIT_LOG=/nowhere/audit.log cannot be opened for writing",
        ),
        (
            &[("AUDIT_REQUIRED", "1")],
            "AUDIT_REQUIRED=1 is not valid: it must be 0 without AUDIT_LOG",
        ),
    ] {
        let output = call(&["serve"], settings).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(told), "{said}");
    }
}

#[tokio::test]
async fn runs_that_cannot_be_recorded_are_counted_as_refused() {
    let root = tempfile::tempdir().unwrap();
    let settings = [
        NO_ENGINE,
        ("AUDIT_LOG", "/dev/full"),
        ("AUDIT_REQUIRED", "1"),
    ];
    let server = Server::start(root.path(), &settings).await;
    let refused = server.run("echo").await.unwrap();
    assert_eq!(refused["code"], "audit_unavailable", "{refused}");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let metrics = client.get(format!("http://{}/metrics", server.addr()));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let counted = metrics
        .lines()
        .filter(|line| line.starts_with("mcp_sandbox_runs_total{") && !line.ends_with(" 0"));
    let counted: Vec<_> = counted.collect();
    assert_eq!(
        counted,
        [r#"mcp_sandbox_runs_total{language="unknown",status="failed"} 1"#]
    );
}
