//! The REST interface: programs, sessions and failures.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::support::{Answer, TOKEN, TestApp, eventually, stable};

/// A request with the token.
pub(crate) fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {TOKEN}"))
}

impl TestApp {
    /// Sends a request with the token and a JSON body.
    pub(crate) async fn rest(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = request(method, path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into()).unwrap())
            .await
    }

    /// The same without a body.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> Answer {
        self.send(request(method, path).body(Body::empty()).unwrap())
            .await
    }

    async fn execute(&self, body: Value) -> Answer {
        self.rest(Method::POST, "/api/v1/execute", &body).await
    }
}

/// The lines of a stream, without what differs from run to run.
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    assert_eq!(answer.header("x-accel-buffering"), "no");
    let text = answer.text();
    let parsed = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line.get("result").is_some() {
            line["result"] = stable(line["result"].take());
        }
        line
    });
    parsed.collect()
}

fn code(answer: &Answer) -> String {
    let body = answer.json();
    let message = body["error"]["message"].as_str().unwrap();
    let code = body["error"]["code"].as_str().unwrap();
    format!("{} {code}: {message}", answer.status.as_u16())
}

#[tokio::test]
async fn a_run_is_a_stream_of_lines_and_its_result_is_the_last() {
    let app = TestApp::on_fake().await;
    let answer = app
        .execute(json!({ "code": "echo out\necho err >&2\necho x > made.txt", "language": "shell", "session_id": "demo" }))
        .await;
    insta::assert_json_snapshot!(lines(&answer), @r#"
    [
      {
        "text": "out\n",
        "stream": "stdout"
      },
      {
        "text": "err\n",
        "stream": "stderr"
      },
      {
        "result": {
          "session_id": "demo",
          "success": true,
          "output": "out\nerr\n",
          "stdout": "out\n",
          "stderr": "err\n",
          "exitCode": 0,
          "status": "ok",
          "durationMs": "…",
          "usage": "…",
          "truncated": {
            "stdout": 0,
            "stderr": 0
          },
          "files": [
            {
              "name": "made.txt",
              "url": "…/made.txt",
              "size": 2,
              "mimeType": "text/plain",
              "new": true
            }
          ],
          "filesTruncated": false,
          "conversationId": "demo",
          "runId": "…"
        }
      }
    ]
    "#);
}

#[tokio::test]
async fn a_program_waits_for_the_variables_of_its_session_or_begins_without_them() {
    let app = TestApp::on_fake_with_notebook(&[]).await;
    let body = |code: &str, more: Value| {
        let mut body = json!({ "code": code, "language": "notebook", "session_id": "demo" });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    app.execute(body("X=41", json!({}))).await;
    let long = app.execute(body("sleep 1", json!({})));
    let others = async {
        eventually("it runs", || app.app.parts.gate.count() == 1).await;
        let refused = app.execute(body("echo $X", json!({}))).await;
        let waited = app.execute(body("echo $X", json!({ "wait": true }))).await;
        (code(&refused), lines(&waited)[0]["text"].clone())
    };
    let (_, (refused, waited)) = tokio::join!(long, others);
    insta::assert_snapshot!(refused, @"409 session_busy: another run of this conversation has the notebook kernel: call with wait: true to wait in turn, or end that run first (cancel_run over MCP)");
    assert_eq!(waited, "41\n");
    let fresh = json!({ "restart": true });
    let fresh = app.execute(body("echo $X", fresh)).await;
    assert_eq!(lines(&fresh)[0]["text"], "\n");
}

#[tokio::test]
async fn an_error_after_long_output_is_whole() {
    let app = TestApp::on_fake_with(&[("OUTPUT_FOR_MODEL", "2000")]).await;
    let traceback: Vec<_> = (0..20)
        .map(|line| format!("echo   File main.py, line {line} >&2\n"))
        .collect();
    let program = format!(
        "{}echo Traceback (most recent call last): >&2\n{}echo NameError: x >&2\nexit 1",
        "echo and so on\n".repeat(500),
        traceback.concat()
    );
    let body = json!({ "code": program, "language": "shell" });
    let lines = lines(&app.execute(body).await);
    let error = lines.iter().find(|line| line.get("error").is_some());
    let error = error.unwrap();
    assert_eq!(error["error"], "NameError: x");
    assert_eq!(error["traceback"].as_array().unwrap().len(), 22, "{error}");
}

#[tokio::test]
async fn a_program_that_fails_has_a_line_with_its_error_before_the_result() {
    let app = TestApp::on_fake().await;
    let program = "echo Traceback (most recent call last): >&2\necho   File main.py >&2\necho NameError: x >&2\nexit 1";
    let body = json!({ "code": program, "language": "shell" });
    let lines = lines(&app.execute(body).await);
    let error = lines.iter().find(|line| line.get("error").is_some());
    insta::assert_json_snapshot!(error, @r#"
    {
      "error": "NameError: x",
      "traceback": [
        "Traceback (most recent call last):",
        "File main.py",
        "NameError: x"
      ]
    }
    "#);
    let slow = json!({ "code": "sleep 60", "language": "shell", "timeout": 0.2 });
    let lines = self::lines(&app.execute(slow).await);
    insta::assert_json_snapshot!(lines[0], @r#"
    {
      "error": "The program was stopped after its time limit of 0.2 s: make it faster, or give timeout up to 300.",
      "traceback": []
    }
    "#);
}

#[tokio::test]
async fn a_session_that_is_not_named_is_made_and_told() {
    let app = TestApp::on_fake().await;
    let first = lines(
        &app.execute(json!({ "code": "echo x > here", "language": "shell" }))
            .await,
    );
    let result = &first.last().unwrap()["result"];
    let session = result["session_id"].as_str().unwrap();
    assert!(session.len() > 32, "{session}");
    assert_eq!(result["conversationId"], session);
    let again = json!({ "code": "cat here", "language": "shell", "session_id": session });
    assert_eq!(lines(&app.execute(again).await)[0]["text"], "x\n");
    let other = json!({ "code": "cat here", "language": "shell" });
    let other = lines(&app.execute(other).await);
    assert_eq!(other.last().unwrap()["result"]["success"], false);
}

#[tokio::test]
async fn output_comes_while_the_program_runs_and_going_away_ends_it() {
    let app = TestApp::on_fake().await;
    let body = json!({ "code": "echo first\nsleep 60", "language": "shell" });
    let request = request(Method::POST, "/api/v1/execute").body(Body::from(body.to_string()));
    let response = app.router.clone().oneshot(request.unwrap()).await.unwrap();
    let mut stream = response.into_body();
    let line = tokio::time::timeout(Duration::from_secs(10), stream.frame()).await;
    let line = line.unwrap().unwrap().unwrap().into_data().unwrap();
    assert_eq!(line, "{\"text\":\"first\\n\",\"stream\":\"stdout\"}\n");
    assert_eq!(app.app.parts.gate.count(), 1);
    drop(stream);
    eventually("the run has ended", || app.app.parts.gate.count() == 0).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_output_is_not_kept_any_more_shows_that_it_lives() {
    let app = TestApp::on_fake_with(&[("RUN_OUTPUT_LIMIT", "1k")]).await;
    let kept = "echo 0123456789abcde\n".repeat(64);
    let program = format!("{kept}{}", "sleep 0.25\necho dropped\n".repeat(88));
    let lines = lines(
        &app.execute(json!({ "code": program, "language": "shell" }))
            .await,
    );
    let silent = |line: &&Value| line["text"] == "";
    assert_eq!(lines.iter().filter(silent).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn refusals_have_a_status_a_code_and_a_sentence() {
    let app = TestApp::on_fake_with(&[("MAX_CODE_BYTES", "1k")]).await;
    let long = "#".repeat(1025);
    let mut seen = Vec::new();
    for body in [
        json!({ "code": "echo", "language": "cobol" }),
        json!({ "code": long, "language": "shell" }),
        json!({ "code": "echo", "language": "shell", "timeout": 0 }),
        json!({ "code": "echo", "language": "shell", "timeout": 1e300 }),
        json!({ "code": "echo", "language": "shell", "session_id": "a\0" }),
        json!({ "code": "echo", "language": "shell", "stateful": true }),
        json!({ "code": 1 }),
        json!({ "language": "shell" }),
        json!({ "code": "echo", "sesion_id": "a" }),
    ] {
        seen.push(code(&app.execute(body).await));
    }
    let post = || request(Method::POST, "/api/v1/execute");
    for request in [
        post().body("{".into()),
        post().body("{\"code\": \"\\ud800\"}".into()),
        post()
            .header("content-type", "text/plain")
            .body("{}".into()),
        // As `curl -d` sends it.
        post()
            .header("content-type", "application/x-www-form-urlencoded")
            .body("{}".into()),
        post()
            .header("content-length", "99999999999")
            .body("{}".into()),
        post().body("x".repeat(100_000).into()),
        Request::post("/api/v1/execute")
            .header("host", "localhost")
            .body("{}".into()),
        request(Method::GET, "/api/v1/execute").body("{}".into()),
        request(Method::GET, "/api/v1/nothing").body("{}".into()),
        request(Method::DELETE, "/api/v1/sessions/nobody").body("{}".into()),
        request(Method::DELETE, "/api/v1/sessions/%ff").body("{}".into()),
    ] {
        seen.push(code(&app.send(request.unwrap()).await));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 unknown_language: language "cobol" has no runner here: use one of shell
    413 code_too_large: code has 1025 bytes, the limit is 1024: upload data as a file and read it from /data
    400 invalid_arguments: timeout is 0.0: it must be greater than 0 and at most 300 seconds
    400 invalid_arguments: timeout is 1e300: it must be greater than 0 and at most 300 seconds
    400 invalid_arguments: session_id contains a NUL character: remove it
    400 stateful_unavailable: stateful: true is not available for shell here: no language keeps variables, so leave stateful out
    400 invalid_arguments: the body does not fit: code: invalid type: integer `1`, expected a string
    400 invalid_arguments: the body does not fit: missing field `code`
    400 invalid_arguments: the body does not fit: there is no argument "sesion_id": did you mean session_id? It takes code, stdin, language, session_id, timeout, stateful, wait, restart, hosts, secrets, variables
    400 invalid_arguments: the body does not fit: EOF while parsing an object at line 1 column 1
    400 invalid_arguments: the body does not fit: unexpected end of hex escape at line 1 column 17
    415 unsupported_media_type: the body must be JSON: send it with the header Content-Type: application/json
    400 invalid_arguments: the body does not fit: missing field `code`
    413 body_too_large: the body has more than 71680 bytes, which is the limit
    413 body_too_large: the body has more than 71680 bytes, which is the limit
    401 unauthorized: the bearer token is missing or wrong: send the header `Authorization: Bearer <MCP_API_TOKEN>`
    405 method_not_allowed: this address takes other methods, see the header Allow; MCP clients connect to /mcp
    404 no_such_route: there is nothing here: MCP clients connect to /mcp, and the REST interface is described at /docs
    404 session_not_found: there is no such session: it has ended already, or it never ran a program
    400 invalid_arguments: the address has a part that is not UTF-8: percent-encode it as UTF-8
    "#);
}

#[tokio::test]
async fn a_rate_above_the_limit_answers_429_with_retry_after() {
    let app = TestApp::on_fake_with(&[("RATE_LIMIT", "1/h")]).await;
    assert_eq!(app.ask(Method::GET, "/api/v1/sessions").await.status, 200);
    let refused = app.ask(Method::GET, "/api/v1/sessions").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.json()["error"]["code"], "rate_limited");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert_eq!(refused.json()["error"]["retryAfterSeconds"], wait);
}

#[tokio::test]
async fn a_run_without_a_place_answers_429_with_retry_after() {
    let one = [("MAX_CONCURRENT_RUNS", "1"), ("MAX_QUEUED_RUNS", "0")];
    let app = TestApp::on_fake_with(&one).await;
    let quick = json!({ "code": "echo", "language": "shell", "session_id": "other" });
    app.execute(quick).await;
    let long =
        app.execute(json!({ "code": "sleep 60", "language": "shell", "session_id": "long" }));
    let refused = async {
        eventually("it runs", || app.app.parts.gate.count() == 1).await;
        let body = json!({ "code": "echo", "language": "shell", "session_id": "other" });
        let refused = app.execute(body).await;
        let sessions = app.ask(Method::GET, "/api/v1/sessions").await.json();
        app.ask(Method::DELETE, "/api/v1/sessions/long").await;
        (refused, sessions)
    };
    let (long, (refused, sessions)) = tokio::join!(long, refused);
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.json()["error"]["code"], "busy");
    assert_eq!(refused.header("retry-after"), "2");
    let seen = |id: &str| {
        let session = &sessions["sessions"][id];
        json!([session["status"], session["execution_count"]])
    };
    assert_eq!(
        (seen("long"), seen("other")),
        (json!(["busy", 1]), json!(["idle", 1]))
    );
    // Its session has ended.
    assert_eq!(
        lines(&long).last().unwrap()["result"]["status"],
        "cancelled"
    );
}

#[tokio::test]
async fn sessions_are_listed_and_end_with_their_files() {
    let app = TestApp::on_fake().await;
    // MCP clients' names for their conversations are not shown to others, and what was refused was in no session.
    app.run("shell", "echo").await;
    app.execute(json!({ "code": "", "language": "?" })).await;
    for session in ["a/b", "a/b", "c"] {
        let body = json!({ "code": "echo x > f", "language": "shell", "session_id": session });
        lines(&app.execute(body).await);
    }
    let list = app.ask(Method::GET, "/api/v1/sessions").await.json();
    insta::assert_json_snapshot!(list, { ".sessions.*.created_at" => "…", ".sessions.*.last_activity" => "…" }, @r#"
    {
      "sessions": {
        "a/b": {
          "session_id": "a/b",
          "is_busy": false,
          "status": "idle",
          "created_at": "…",
          "last_activity": "…",
          "execution_count": 2
        },
        "c": {
          "session_id": "c",
          "is_busy": false,
          "status": "idle",
          "created_at": "…",
          "last_activity": "…",
          "execution_count": 1
        }
      },
      "total": 2
    }
    "#);
    let end = app.ask(Method::DELETE, "/api/v1/sessions/a%2Fb").await;
    assert_eq!(
        (end.status, end.json()["success"].clone()),
        (StatusCode::OK, true.into())
    );
    assert!(!app.workspace("a/b").exists());
    let again = app.ask(Method::DELETE, "/api/v1/sessions/a%2Fb").await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
    assert_eq!(
        app.ask(Method::GET, "/api/v1/sessions").await.json()["total"],
        1
    );
}

#[tokio::test]
async fn health_says_more_to_everybody_if_the_operator_wants_it() {
    let app = TestApp::on_fake_with(&[("HEALTH_COUNTS", "true")]).await;
    let health = app.get("/api/v1/health").await.json();
    assert_eq!(
        (&health["status"], &health["active_sessions"]),
        (&"healthy".into(), &0.into())
    );
    assert!(health["uptime"].as_f64().unwrap() >= 0.0);
}

#[tokio::test]
async fn health_counts_need_the_token() {
    let app = TestApp::on_fake().await;
    let health = app.get("/api/v1/health").await;
    assert_eq!(health.status, StatusCode::OK);
    insta::assert_json_snapshot!(health.json(), { ".version" => "…" }, @r#"
    {
      "status": "healthy",
      "version": "…",
      "active_sessions": null,
      "uptime": null
    }
    "#);
    let health = app.ask(Method::GET, "/api/v1/health").await;
    insta::assert_json_snapshot!(health.json(), { ".version" => "…", ".uptime" => "…" }, @r#"
    {
      "status": "healthy",
      "version": "…",
      "active_sessions": 0,
      "uptime": "…"
    }
    "#);
}

#[tokio::test]
async fn a_python_program_has_one_answer() {
    let app = TestApp::on_fake_speaking(&["python"], &[]).await;
    let execute = async |body| app.rest(Method::POST, "/execute", &body).await;
    let answer = execute(json!({ "code": "echo out\necho err >&2\necho x > f\nexit 3" })).await;
    insta::assert_json_snapshot!(answer.json(), { ".execution_time" => "…" }, @r#"
    {
      "stdout": "out\n",
      "stderr": "err\n",
      "exit_code": 3,
      "execution_time": "…",
      "success": false
    }
    "#);
    // All share a directory.
    let answer = execute(json!({ "code": "cat f" })).await;
    assert_eq!(
        (
            answer.json()["stdout"].clone(),
            answer.json()["success"].clone()
        ),
        ("x\n".into(), true.into())
    );
    let answer = execute(json!({ "code": "echo a\nsleep 9", "timeout": 0.2 })).await;
    insta::assert_json_snapshot!(answer.json(), { ".execution_time" => "…" }, @r#"
    {
      "stdout": "a\n",
      "stderr": "The program was stopped after its time limit of 0.2 s: make it faster, or give timeout up to 120.",
      "exit_code": -1,
      "execution_time": "…",
      "success": false
    }
    "#);
    let refused = execute(json!({ "code": "echo", "timeout": 121 })).await;
    insta::assert_snapshot!(code(&refused), @"400 invalid_arguments: timeout is 121.0: it must be greater than 0 and at most 120 seconds");
}
