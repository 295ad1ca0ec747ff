//! What clients of other servers send, as their documents have it, and whole answers.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{SECRET, TestApp, eventually};

/// The key that `mcp-code-runner` has for a conversation: the first half of the first half of the hash.
fn older_key(conversation: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(format!("{conversation}{SECRET}"));
    hex::encode(hash)[..16].to_owned()
}

#[tokio::test]
async fn files_and_links_of_mcp_code_runner_carry_over() {
    use std::os::unix::fs::PermissionsExt as _;
    let app = TestApp::on_fake().await;
    let root = app.workspace("session-123");
    let root = root.parent().unwrap();
    let key = older_key("session-123");
    // As it makes them: open to all, and files as an upload leaves them.
    let dir = root.join(&key);
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(dir.join("data.csv"), "name,age\nAlice,30\n").unwrap();
    let link = format!("/files/{key}/data.csv");
    assert_eq!(app.get(&link).await.text(), "name,age\nAlice,30\n");
    let list = json!({ "conversationId": "session-123" });
    let list = app.call("list_files", list).await;
    assert_eq!(list["files"][0]["name"], "data.csv");
    let arguments = json!({
        "conversationId": "session-123",
        "language": "shell",
        "code": "cat data.csv\necho made > made.txt"
    });
    let ran = app.call("sandbox.run_code", arguments).await;
    assert_eq!(
        (&ran["success"], &ran["stdout"], &ran["files"][0]["name"]),
        (
            &true.into(),
            &"name,age\nAlice,30\n".into(),
            &"made.txt".into()
        )
    );
    for (file, text) in [("data.csv", "name,age\nAlice,30\n"), ("made.txt", "made\n")] {
        let answer = app.get(&format!("/files/{key}/{file}")).await;
        assert_eq!(answer.text(), text);
    }
    // A part of the key of another conversation leads nowhere.
    app.call(
        "run_code",
        json!({ "conversationId": "other", "language": "shell", "code": "echo > f" }),
    )
    .await;
    let other = format!("/files/{}/f", older_key("other"));
    assert_eq!(app.get(&other).await.status, StatusCode::NOT_FOUND);
    let runners = app.call("sandbox.list_runners", json!({})).await;
    assert_eq!(runners["languages"][0]["language"], "shell");
    app.call(
        "delete_conversation",
        json!({ "conversationId": "session-123" }),
    )
    .await;
    assert_eq!(app.get(&link).await.status, StatusCode::NOT_FOUND);
}

/// The lines of a stream, the last of which is the result.
async fn execute(app: &TestApp, body: Value) -> Vec<Value> {
    let answer = app.rest(Method::POST, "/api/v1/execute", &body).await;
    let text = answer.text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn the_requests_of_a_client_of_sandbox_mcp_get_what_it_looks_for() {
    let app = TestApp::on_fake_speaking(&["python"], &[("HEALTH_COUNTS", "true")]).await;
    let health = app.get("/api/v1/health").await.json();
    assert_eq!(
        (&health["status"], &health["active_sessions"]),
        (&"healthy".into(), &0.into())
    );
    let body = json!({ "code": "echo Hello from sandbox!", "session_id": "example-session" });
    let lines = execute(&app, body).await;
    assert_eq!(lines[0]["text"], "Hello from sandbox!\n");
    let sessions = app.ask(Method::GET, "/api/v1/sessions").await.json();
    assert_eq!(sessions["total"], 1);
    let session = &sessions["sessions"]["example-session"];
    assert_eq!(
        (&session["execution_count"], &session["is_busy"]),
        (&1.into(), &false.into())
    );
    assert!(session["created_at"].as_f64() <= session["last_activity"].as_f64());
    let failing = "echo This will work\necho Traceback (most recent call last): >&2\n\
        echo NameError: undefined_variable >&2\nexit 1";
    let lines = execute(&app, json!({ "code": failing })).await;
    assert_eq!(
        lines[0],
        json!({ "text": "This will work\n", "stream": "stdout" })
    );
    // The traceback is in the error and nowhere else.
    assert_eq!(lines[1]["error"], "NameError: undefined_variable");
    assert_eq!(lines[1]["traceback"].as_array().unwrap().len(), 2);
    assert_eq!(lines[2]["result"]["success"], false);
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn a_traceback_before_the_end_is_text() {
    let app = TestApp::on_fake().await;
    let code = "echo Traceback (most recent call last): >&2\necho handled >&2\necho on";
    let lines = execute(&app, json!({ "code": code, "language": "shell" })).await;
    let told = |stream| {
        let texts = lines.iter().filter(move |line| line["stream"] == stream);
        texts
            .map(|line| line["text"].as_str().unwrap())
            .collect::<String>()
    };
    assert_eq!(
        told("stderr"),
        "Traceback (most recent call last):\nhandled\n"
    );
    assert_eq!(told("stdout"), "on\n");
}

/// An interrupt, by a caller or at the time limit, makes the shell of a kernel print a traceback.
#[tokio::test]
async fn a_traceback_of_a_stopped_program_comes_once() {
    let app = TestApp::on_fake().await;
    for (timeout, is_its_end) in [(0.3, true), (2.0, false)] {
        let code =
            "echo Traceback (most recent call last): >&2\necho KeyboardInterrupt >&2\nsleep 60";
        let body = json!({ "code": code, "language": "shell", "timeout": timeout });
        let lines = execute(&app, body).await;
        let texts = lines.iter().filter_map(|line| line["text"].as_str());
        let text: String = texts.collect();
        let error = lines.iter().find(|line| line.get("error").is_some());
        let traceback = error.unwrap()["traceback"].as_array().unwrap();
        assert_eq!(text.is_empty(), is_its_end, "{lines:?}");
        assert_eq!(traceback.len(), if is_its_end { 2 } else { 0 }, "{lines:?}");
    }
}

#[tokio::test]
async fn a_session_is_made_shown_and_ended() {
    let app = TestApp::on_fake_speaking(&["python"], &[]).await;
    let make =
        json!({ "session_id": "mine", "file_urls": ["https://www.example.com/"], "timeout": 30 });
    let made = app.rest(Method::POST, "/api/v1/sessions", &make).await;
    insta::assert_json_snapshot!(made.json(), @r#"
    {
      "resultCode": 0,
      "resultMsg": "success",
      "data": {
        "session_id": "mine",
        "working_directory": "/data",
        "downloaded_files": [],
        "errors": [
          "https://www.example.com/ was not fetched, since this server downloads nothing for programs: send the file with PUT /api/v1/conversations/{session_id}/files/{name}"
        ]
      }
    }
    "#);
    let body = json!({ "code": "echo x > f\necho 2", "session_id": "mine" });
    let answer = app
        .rest(Method::POST, "/api/v1/execute_sync", &body)
        .await
        .json();
    assert_eq!(
        (
            &answer["resultCode"],
            &answer["data"]["texts"],
            &answer["data"]["errors"]
        ),
        (&0.into(), &json!(["2\n"]), &json!([]))
    );
    let shown = app.ask(Method::GET, "/api/v1/sessions/mine").await.json();
    insta::assert_json_snapshot!(shown, { ".created_at" => "…", ".last_activity" => "…" }, @r#"
    {
      "session_id": "mine",
      "is_busy": false,
      "status": "idle",
      "created_at": "…",
      "last_activity": "…",
      "execution_count": 1,
      "working_directory": "/data",
      "files": [
        {
          "id": "f",
          "filename": "f",
          "exists": true,
          "size": 2,
          "path": "/data/f"
        }
      ],
      "total_files": 1
    }
    "#);
    let body = json!({ "code": "sleep 60", "session_id": "mine" });
    let long = app.rest(Method::POST, "/api/v1/execute_sync", &body);
    let interrupted = async {
        eventually("it runs", || app.app.parts.gate.count() == 1).await;
        app.rest(Method::POST, "/api/v1/sessions/mine/interrupt", &json!({}))
            .await
    };
    let (long, interrupted) = tokio::join!(long, interrupted);
    assert_eq!(long.json()["data"]["result"]["status"], "cancelled");
    let done = json!({ "success": true, "message": "Session mine interrupted" });
    assert_eq!(interrupted.json(), done);
    let ended = app
        .ask(Method::DELETE, "/api/v1/sessions/mine")
        .await
        .json();
    let done = json!({ "success": true, "message": "Session mine terminated" });
    assert_eq!(ended, done);
    for (method, path) in [
        (Method::GET, "/api/v1/sessions/mine"),
        (Method::POST, "/api/v1/sessions/mine/interrupt"),
    ] {
        let gone = app.ask(method, path).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_session_may_be_made_without_a_name_and_before_its_first_program() {
    let app = TestApp::on_fake().await;
    let empty = app.rest(Method::POST, "/api/v1/sessions", &json!({})).await;
    assert_eq!(empty.status, StatusCode::OK);
    // A body where nothing has to be said may be left out.
    let made = app.ask(Method::POST, "/api/v1/sessions").await.json();
    let id = made["data"]["session_id"].as_str().unwrap();
    let sessions = app.ask(Method::GET, "/api/v1/sessions").await.json();
    assert_eq!(sessions["sessions"][id]["execution_count"], 0);
    // A refused program does not end it.
    let refused = json!({ "code": "echo", "language": "?", "session_id": id });
    assert_eq!(
        app.rest(Method::POST, "/api/v1/execute", &refused)
            .await
            .status,
        400
    );
    let ended = app
        .ask(Method::DELETE, &format!("/api/v1/sessions/{id}"))
        .await;
    assert_eq!(ended.status, StatusCode::OK);
}
