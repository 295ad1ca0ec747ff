//! Mistakes of clients and our own: each has an answer that says what was wrong, and whose fault it was.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{TestApp, eventually, post};

async fn refusal(app: &TestApp, tool: &str, arguments: Value) -> String {
    let answer = app.call(tool, arguments).await;
    assert_eq!(answer["success"], false, "{answer}");
    format!(
        "{}: {}",
        answer["code"].as_str().unwrap(),
        answer["message"].as_str().unwrap()
    )
}

#[tokio::test]
async fn json_that_cannot_be_held_is_refused_with_the_id_of_its_request() {
    let app = TestApp::on_fake().await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let mut seen = Vec::new();
    for (id, value) in [("7", r#""\ud800""#), (r#""a""#, "1e999"), ("8", &deep)] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"run_code","arguments":{{"language":"shell","code":{value}}}}}}}"#
        );
        let answer = app.post(body).await;
        let error = answer.json();
        assert_eq!(error["id"].to_string(), id);
        seen.push(format!("{} {}", answer.status.as_u16(), error["error"]));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 {"code":-32600,"message":"the message is not one of the protocol: unexpected end of hex escape at line 1 column 121: half of a surrogate pair, numbers beyond 64 bits and more than 127 levels are not taken"}
    400 {"code":-32600,"message":"the message is not one of the protocol: number out of range at line 1 column 120: half of a surrogate pair, numbers beyond 64 bits and more than 127 levels are not taken"}
    400 {"code":-32600,"message":"the message is not one of the protocol: recursion limit exceeded at line 1 column 238: half of a surrogate pair, numbers beyond 64 bits and more than 127 levels are not taken"}
    "#);
}

#[tokio::test]
async fn a_body_that_is_said_to_be_too_large_is_not_waited_for() {
    let app = TestApp::on_fake().await;
    let request = post().header("content-length", "99999999999");
    // It never comes.
    let endless = futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>();
    let body = axum::body::Body::from_stream(endless);
    let answer = app.send(request.body(body).unwrap());
    let answer = tokio::time::timeout(Duration::from_secs(10), answer).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.json()["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn large_requests_share_a_bounded_room() {
    use axum::body::{Body, Bytes};
    use futures::{StreamExt as _, stream};

    let app = TestApp::on_fake_with(&[("MAX_UPLOAD_BYTES", "4m")]).await;
    let large = || Bytes::from(vec![b' '; 1 << 20]);
    let (tasks, mut held) = (tokio_util::task::TaskTracker::new(), Vec::new());
    for _ in 0..4 {
        // Their final size is unknown.
        let (pieces, receiver) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(1);
        pieces.send(Ok(large())).await.unwrap();
        let body = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let request = post().body(Body::from_stream(body)).unwrap();
        let sent = tasks.spawn(tower::ServiceExt::oneshot(app.router.clone(), request));
        // The first piece was accepted, and there is room in memory for all.
        pieces.reserve().await.unwrap();
        // It goes on, but slowly.
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        let trickle = async move {
            while let (_, Ok(())) = (beat.tick().await, pieces.send(Ok(Bytes::from(" "))).await) {}
        };
        held.push((
            tokio_util::task::AbortOnDropHandle::new(tasks.spawn(trickle)),
            sent,
        ));
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let padded = || stream::iter([Ok(large()), std::io::Result::Ok(Bytes::from(ping))]);
    let refused = app.post(Body::from_stream(padded())).await;
    assert_eq!(
        (refused.status.as_u16(), refused.header("retry-after")),
        (503, "5")
    );
    insta::assert_snapshot!(refused.text(), @r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too many large requests at the same time: try again in 5 s"}}"#);
    // Small requests are still answered, and large ones too once there is room.
    assert_eq!(app.post(ping).await.status, StatusCode::OK);
    for (trickle, sent) in held {
        drop(trickle);
        assert_eq!(
            sent.await.unwrap().unwrap().status(),
            StatusCode::BAD_REQUEST
        );
    }
    let answer = app.post(Body::from_stream(padded().boxed())).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn large_requests_that_stop_coming_give_their_room_up() {
    use axum::body::{Body, Bytes};
    use futures::{StreamExt as _, future, stream};

    let app = TestApp::on_fake_with(&[("MAX_UPLOAD_BYTES", "4m")]).await;
    let large = || std::io::Result::Ok(Bytes::from(vec![b' '; 1 << 20]));
    let stopped = || {
        let body = stream::iter([large()]).chain(stream::pending());
        app.post(Body::from_stream(body))
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let whole = stream::iter([large(), Ok(Bytes::from(ping))]);
    // They come first, and would keep their room for minutes.
    let (refused, answer) = tokio::join!(
        future::join_all((0..4).map(|_| stopped())),
        app.post(Body::from_stream(whole))
    );
    assert_eq!(answer.status, StatusCode::OK);
    for answer in refused {
        assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT);
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no more of the body came for 20 s: send it again"}}"#);
        }
    }
}

#[tokio::test]
async fn a_tool_that_panics_has_an_answer() {
    // A budget beyond all time: no variable can set it.
    let app = TestApp::on_fake_changed(|config| {
        config.limits.call_budget = Duration::from_secs(u64::MAX / 2);
        config.limits.timeout_max = Duration::from_secs(u64::MAX / 10 * 9);
    })
    .await;
    let arguments = json!({ "language": "shell", "code": "sleep 60", "timeoutSeconds": 1e19 });
    let params = json!({ "name": "run_code", "arguments": arguments });
    insta::assert_json_snapshot!(app.rpc("tools/call", params).await, @r#"
    {
      "jsonrpc": "2.0",
      "id": 1,
      "error": {
        "code": -32603,
        "message": "the server made a mistake: its log has the details"
      }
    }
    "#);
    eventually("its run has ended", || app.app.parts.gate.count() == 0).await;
    // Other calls work as always.
    assert_eq!(app.upload("in", b"on").await["success"], true);
}

#[tokio::test]
async fn a_refused_call_is_not_the_latest_run() {
    let app = TestApp::on_fake().await;
    let latest = json!({ "conversationId": "demo" });
    refusal(
        &app,
        "run_code",
        json!({ "conversationId": "demo", "language": "lisp", "code": "" }),
    )
    .await;
    insta::assert_snapshot!(refusal(&app, "get_run", latest.clone()).await, @"run_not_found: there is no run of this conversation of yours: outcomes are kept for 10 minutes after the end, and only for the caller that started the run");
    let run = app.run("shell", "echo this one").await;
    refusal(
        &app,
        "run_code",
        json!({ "conversationId": "demo", "language": "lisp", "code": "" }),
    )
    .await;
    let found = app.call("get_run", latest).await;
    assert_eq!(
        (&found["runId"], &found["output"]),
        (&run["runId"], &"this one\n".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_cut_to_what_a_call_may_take() {
    let short = [
        ("RUN_TIMEOUT", "5s"),
        ("RUN_TIMEOUT_MAX", "20s"),
        ("CALL_BUDGET", "2s"),
    ];
    let app = TestApp::on_fake_with(&short).await;
    let code = json!({ "language": "shell", "code": "sleep 15", "timeoutSeconds": 20 });
    let run = app.call("run_code", code).await;
    assert!(run["hint"].as_str().unwrap().contains("waitSeconds\": 30"));
    // What that hint recommends is more than any run may take here.
    for wait in [json!(30), json!(600), json!(1e300)] {
        let asked = Instant::now();
        let arguments = json!({ "runId": run["runId"], "waitSeconds": wait });
        let answer = app.call("get_run", arguments).await;
        assert_eq!(
            (&answer["status"], asked.elapsed().as_secs()),
            (&"running".into(), 2),
            "{wait} {answer}"
        );
    }
    let negative = json!({ "runId": run["runId"], "waitSeconds": -0.5 });
    insta::assert_snapshot!(refusal(&app, "get_run", negative).await, @"invalid_arguments: get_run: waitSeconds is -0.5: it must be at least 0");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn whole_numbers_may_be_written_with_a_point() {
    let app = TestApp::on_fake().await;
    let run = app
        .run("shell", "echo 0123456789 > f\necho 0123456789")
        .await;
    let read = |offset: Value, length: Value| json!({ "conversationId": "demo", "filename": "f", "offset": offset, "length": length });
    let piece = app.call("read_file", read(json!(2.0), json!(3e0))).await;
    assert_eq!(
        (&piece["content"], &piece["offset"], &piece["length"]),
        (&"234".into(), &2.into(), &3.into())
    );
    let page = |offset: Value| json!({ "runId": run["runId"], "offset": offset });
    let answer = app.call("get_run", page(json!(7.0))).await;
    assert_eq!(answer["page"]["text"], "789\n");
    let mut seen = Vec::new();
    for offset in [
        json!(1.5),
        json!(-1),
        json!(-1.0),
        json!(1e300),
        json!("-1"),
        json!("1k"),
        json!(true),
    ] {
        seen.push(refusal(&app, "get_run", page(offset.clone())).await);
        seen.push(refusal(&app, "read_file", read(offset, json!(1))).await);
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    invalid_arguments: get_run: offset: invalid value: floating point `1.5`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid value: floating point `1.5`, expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid value: integer `-1`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid value: integer `-1`, expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid value: floating point `-1.0`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid value: floating point `-1.0`, expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid value: floating point `1e+300`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid value: floating point `1e+300`, expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid value: integer `-1`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid value: integer `-1`, expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid type: string "1k", expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid type: string "1k", expected a whole number from 0 on
    invalid_arguments: get_run: offset: invalid type: boolean `true`, expected a whole number from 0 on
    invalid_arguments: read_file: offset: invalid type: boolean `true`, expected a whole number from 0 on
    "#);
}

#[tokio::test]
async fn null_is_as_good_as_nothing() {
    let app = TestApp::on_fake().await;
    let arguments = json!({
        "conversationId": null, "language": "shell", "code": "echo x > f", "network": null,
        "environment": null, "timeoutSeconds": null,
    });
    let run = app.call("run_code", arguments).await;
    assert_eq!(run["status"], "ok");
    let id = &run["conversationId"];
    let read = json!({ "conversationId": id, "filename": "f", "offset": null, "length": null });
    assert_eq!(app.call("read_file", read).await["content"], "x\n");
    let get = json!({ "runId": null, "conversationId": id, "waitSeconds": null, "stream": null });
    assert_eq!(app.call("get_run", get).await["status"], "ok");
    let needed = json!({ "language": "shell", "code": null });
    insta::assert_snapshot!(refusal(&app, "run_code", needed).await, @"invalid_arguments: run_code: missing field `code`");
}

#[tokio::test]
async fn misspelt_arguments_are_named_and_those_of_clients_ignored() {
    let app = TestApp::on_fake().await;
    let misspelt = json!({ "conversatonId": "demo", "language": "shell", "code": "echo" });
    insta::assert_snapshot!(refusal(&app, "run_code", misspelt).await, @r#"invalid_arguments: run_code: there is no argument "conversatonId": did you mean conversationId? It takes conversationId, language, code, stdin, network, hosts, secrets, environment, timeoutSeconds, stateful, wait, restart"#);
    // What a workflow engine passes along with every call.
    let engine = json!({
        "language": "shell", "code": "echo on", "toolCallId": "call_1", "sessionId": "1", "chatInput": "hi",
        "action": "sendMessage", "tool": "run_code",
    });
    assert_eq!(app.call("run_code", engine).await["output"], "on\n");
}

#[tokio::test]
async fn base64_may_have_lines() {
    let app = TestApp::on_fake().await;
    let content = "aGVs\r\nbG8g\n d29y\tbGQ=\n";
    let arguments = json!({ "conversationId": "demo", "filename": "f", "content": content });
    assert_eq!(app.call("upload_file", arguments).await["file"]["size"], 11);
    assert_eq!(app.run("shell", "cat f").await["output"], "hello world");
}

#[tokio::test]
async fn hints_do_not_point_to_an_empty_stream() {
    let app = TestApp::on_fake().await;
    let quiet = app.run("shell", "exit 3").await;
    assert_eq!(
        quiet["hint"],
        "The program ended with exit code 3 and printed nothing to stderr."
    );
    let loud = app.run("shell", "echo no >&2\nexit 3").await;
    assert_eq!(
        loud["hint"],
        "The program ended with exit code 3: see stderr."
    );
}
