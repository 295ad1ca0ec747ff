//! Runs while they live: output as it comes, cancellation, and runs that outlive their call.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::sse::{EventStream, Session, call, post_sse, run};
use crate::support::engines::Engine;
use crate::support::{TestApp, eventually, post};

fn progress(messages: &[Value]) -> Vec<(f64, Option<&str>)> {
    let progress = messages
        .iter()
        .filter(|message| message["method"] == "notifications/progress");
    progress
        .map(|message| {
            (
                message["params"]["progress"].as_f64().unwrap(),
                message["params"]["message"].as_str(),
            )
        })
        .collect()
}

#[tokio::test]
async fn output_comes_while_the_program_prints() {
    let app = TestApp::on_fake().await;
    let code = "echo one\nsleep 0.2\necho two >&2\nsleep 0.2\necho three\nsleep 0.2";
    let mut stream = EventStream::open(&app, post_sse(&run(1, code))).await;
    let messages = stream.rest().await;
    let told = progress(&messages);
    let texts: Vec<_> = told.iter().filter_map(|(_, text)| *text).collect();
    assert_eq!(texts, ["one\n", "two\n", "three\n"]);
    assert!(
        told.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{told:?}"
    );
    assert_eq!(
        messages.last().unwrap()["result"]["structuredContent"]["output"],
        "one\ntwo\nthree\n"
    );
}

/// A call by a client that wants the streams distinguished.
fn in_pieces(mut message: Value, offset: usize) -> Value {
    message["params"]["_meta"] =
        json!({ "progressToken": "live", "mcp-code-sandbox/output": { "offset": offset } });
    message
}

/// What such a client received: offset, next offset and pieces of each notification.
fn pieces(messages: &[Value]) -> Vec<Value> {
    let told = messages.iter().filter_map(|message| {
        let told = &message["params"]["_meta"]["mcp-code-sandbox/output"];
        told.is_object().then(|| {
            let pieces = told["pieces"].as_array().unwrap().iter();
            let pieces: Vec<_> = pieces
                .map(|piece| {
                    format!(
                        "{}: {}",
                        piece["stream"].as_str().unwrap(),
                        piece["text"].as_str().unwrap()
                    )
                })
                .collect();
            json!([told["offset"], told["nextOffset"], pieces])
        })
    });
    told.collect()
}

#[tokio::test]
async fn raw_output_has_stream_and_colours() {
    let app = TestApp::on_fake().await;
    let code = "sleep 0.3\necho \u{1b}[31mone\nsleep 0.3\necho two >&2\nsleep 0.3\necho three\necho four >&2";
    let mut message = in_pieces(run(1, code), 0);
    // A whole number, as some clients write it.
    message["params"]["_meta"]["mcp-code-sandbox/output"]["offset"] = json!(0.0);
    let messages = EventStream::open(&app, post_sse(&message))
        .await
        .rest()
        .await;
    let told = pieces(&messages);
    // The run's id comes first of all; what was printed just before the end comes before the answer.
    let lines: Vec<_> = told.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    [0,0,[]]
    [0,9,["stdout: \u001b[31mone\n"]]
    [9,13,["stderr: two\n"]]
    [13,24,["stdout: three\n","stderr: four\n"]]
    "#);
    let id = &messages[0]["params"]["_meta"]["mcp-code-sandbox/output"]["runId"];
    let outcome = &messages.last().unwrap()["result"]["structuredContent"];
    assert_eq!(id, &outcome["runId"]);
    assert!(
        messages
            .iter()
            .all(|message| message["params"]["message"].is_null())
    );
}

#[tokio::test]
async fn all_of_it_can_be_read_after_the_end() {
    let app = TestApp::on_fake_with(&[("RUN_OUTPUT_LIMIT", "300k")]).await;
    let outcome = app.run("shell", "yes").await;
    let arguments = json!({ "runId": outcome["runId"] });
    let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "get_run", "arguments": arguments } });
    let messages = EventStream::open(&app, post_sse(&in_pieces(message, 100_000)))
        .await
        .rest()
        .await;
    let told = pieces(&messages);
    assert_eq!(
        (&told[0][0], &told.last().unwrap()[1]),
        (&json!(100_000), &json!(300 << 10))
    );
    assert!(
        told.windows(2).all(|pair| pair[0][1] == pair[1][0]),
        "nothing is missing"
    );
    // Of what is not kept it is told the end, and how much is missing before that.
    let last = &messages[messages.len() - 2]["params"]["_meta"]["mcp-code-sandbox/output"];
    let pieces = last["tail"].as_array().unwrap().iter();
    let end: String = pieces
        .map(|piece| piece["text"].as_str().unwrap())
        .collect();
    assert!(
        end.starts_with("y\ny\n") && end.len() > 16_000,
        "{}",
        end.len()
    );
    let dropped = outcome["truncated"]["stdout"].as_u64().unwrap();
    assert_eq!(last["leftOut"], dropped - end.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_silent_run_shows_that_it_lives() {
    let app = TestApp::on_fake().await;
    let started = Instant::now();
    let messages = EventStream::open(&app, post_sse(&run(1, "sleep 22")))
        .await
        .rest()
        .await;
    let told = progress(&messages);
    assert_eq!(
        (told.len(), started.elapsed().as_secs()),
        (4, 22),
        "{told:?}"
    );
    assert!(told.iter().all(|(_, text)| text.is_none()));
}

#[tokio::test(start_paused = true)]
async fn an_install_shows_that_it_lives() {
    let settings = [("MAX_CONCURRENT_RUNS", "1")];
    let app = TestApp::on_fake_speaking(&["shell", "python"], &settings).await;
    let _long = EventStream::open(&app, post_sse(&run(1, "sleep 28"))).await;
    eventually("the run has the only place", || {
        app.app.parts.launcher.live_count() == 1
    })
    .await;
    let arguments = json!({ "conversationId": "other", "language": "python", "packages": ["six"] });
    let message = call(2, "install_packages", &arguments);
    let mut waiting = EventStream::open(&app, post_sse(&message)).await;
    let told = [waiting.message().await, waiting.message().await];
    assert_eq!(progress(&told), [(5.0, None), (10.0, None)]);
}

#[tokio::test]
async fn without_event_streams_there_is_one_answer() {
    let app = TestApp::on_fake().await;
    let answer = app
        .post(run(1, "echo one\nsleep 0.3\necho two").to_string())
        .await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(
        answer.json()["result"]["structuredContent"]["output"],
        "one\ntwo\n"
    );
}

#[tokio::test]
async fn pieces_are_small_and_a_flood_is_not_followed() {
    let app = TestApp::on_fake_with(&[("RUN_OUTPUT_LIMIT", "1m")]).await;
    let messages = EventStream::open(&app, post_sse(&run(1, "yes")))
        .await
        .rest()
        .await;
    let told = progress(&messages);
    assert!(
        told.iter()
            .all(|(_, text)| text.is_none_or(|text| text.len() <= 4096)),
        "{told:?}"
    );
    assert_eq!(
        messages.last().unwrap()["result"]["structuredContent"]["status"],
        "output_limit"
    );
}

const LONG: &str = "echo started\nsleep 25";

/// Waits until the only container is gone, which must be soon.
async fn container_is_gone(app: &TestApp) {
    let since = Instant::now();
    eventually("the container is gone", || {
        app.app.parts.launcher.live_count() == 0
    })
    .await;
    assert!(
        since.elapsed() < Duration::from_secs(1),
        "it took {:?}",
        since.elapsed()
    );
}

async fn started(stream: &mut EventStream) {
    while stream.message().await["params"]["message"] != "started\n" {}
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_cancelled_request_ends_its_run(#[case] engine: Engine) {
    let app = engine.start("shell", &[]).await;
    let session = Session::open(&app, "2025-06-18").await;
    let mut stream = session.send(&run(9, LONG)).await;
    started(&mut stream).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9, "reason": "test" } });
    assert_eq!(session.send(&cancel).await.status, 202);
    container_is_gone(&app).await;
    // The outcome can still be read.
    let outcome = app
        .call(
            "get_run",
            json!({ "conversationId": "demo", "waitSeconds": 5 }),
        )
        .await;
    assert_eq!(
        (&outcome["status"], &outcome["output"]),
        (&json!("cancelled"), &json!("started\n"))
    );
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_dropped_connection_ends_its_run(#[case] engine: Engine) {
    let app = engine.start("shell", &[]).await;
    let request = post().body(run(1, LONG).to_string().into()).unwrap();
    let answer = app.send(request);
    tokio::select! {
        _ = answer => panic!("the program ended by itself"),
        () = eventually("the program runs", || app.app.parts.launcher.live_count() == 1) => {}
    }
    container_is_gone(&app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_dropped_event_stream_ends_its_run(#[case] engine: Engine) {
    let app = engine.start("shell", &[]).await;
    let mut stream = EventStream::open(&app, post_sse(&run(1, LONG))).await;
    started(&mut stream).await;
    drop(stream);
    container_is_gone(&app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_closed_old_stream_ends_its_run(#[case] engine: Engine) {
    let app = engine.start("shell", &[]).await;
    let request = post()
        .method("GET")
        .uri("/sse")
        .body(axum::body::Body::empty())
        .unwrap();
    let mut stream = EventStream::open(&app, request).await;
    let endpoint = stream.next().await.unwrap().data;
    let send = async |message: Value| {
        let request = post()
            .uri(&endpoint)
            .body(message.to_string().into())
            .unwrap();
        assert_eq!(app.send(request).await.status, 202);
    };
    send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } } })).await;
    stream.message().await;
    send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    send(run(1, LONG)).await;
    started(&mut stream).await;
    drop(stream);
    container_is_gone(&app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_run_is_cancelled_by_its_id(#[case] engine: Engine) {
    let app = engine.start("shell", &[]).await;
    let session = Session::open(&app, "2025-06-18").await;
    let mut stream = session.send(&run(1, LONG)).await;
    started(&mut stream).await;
    let running = app
        .call("get_run", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(
        (&running["status"], &running["output"]),
        (&json!("running"), &json!("started\n"))
    );
    let outcome = app
        .call("cancel_run", json!({ "runId": running["runId"] }))
        .await;
    assert_eq!(outcome["status"], "cancelled");
    container_is_gone(&app).await;
    let answer = stream.rest().await;
    assert_eq!(
        answer.last().unwrap()["result"]["structuredContent"]["status"],
        "cancelled"
    );
}

#[tokio::test]
async fn a_long_run_outlives_its_call_and_runs_once() {
    let app = TestApp::on_fake_with(&[("CALL_BUDGET", "100ms")]).await;
    let arguments = json!({ "conversationId": "demo", "language": "shell", "timeoutSeconds": 60,
        "code": "echo begin\nsleep 0.5\necho end" });
    let running = app.call("run_code", arguments).await;
    assert_eq!(
        (&running["status"], &running["success"]),
        (&json!("running"), &json!(false))
    );
    let id = running["runId"].as_str().unwrap();
    assert_eq!(
        running["hint"],
        format!(
            "The program is still running: call get_run with {{\"runId\": \"{id}\", \"waitSeconds\": 30}} until status is \
         not running, or cancel_run to end it."
        )
    );
    // The budget bounds a wait, so it may take several.
    let mut outcome = running.clone();
    while outcome["status"] == "running" {
        outcome = app
            .call("get_run", json!({ "runId": id, "waitSeconds": 30 }))
            .await;
    }
    assert_eq!(
        (&outcome["status"], &outcome["output"]),
        (&json!("ok"), &json!("begin\nend\n"))
    );
    assert_eq!(
        app.call("get_run", json!({ "runId": id })).await,
        outcome,
        "it stays as it was"
    );
}

#[tokio::test]
async fn a_short_limit_is_waited_for() {
    let app = TestApp::on_fake_with(&[("CALL_BUDGET", "100ms"), ("RUN_TIMEOUT", "90ms")]).await;
    let result = app.run("shell", "sleep 3").await;
    assert_eq!(result["status"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_kept_for_ten_minutes() {
    let app = TestApp::on_fake().await;
    let id = app.run("shell", "echo hello").await["runId"].clone();
    tokio::time::advance(Duration::from_secs(590)).await;
    assert_eq!(
        app.call("get_run", json!({ "runId": id })).await["stdout"],
        "hello\n"
    );
    tokio::time::advance(Duration::from_secs(20)).await;
    let gone = app.call("get_run", json!({ "runId": id })).await;
    assert_eq!(gone["code"], "run_not_found");
}

#[tokio::test]
async fn long_output_is_read_piece_by_piece() {
    let app =
        TestApp::on_fake_with(&[("OUTPUT_FOR_MODEL", "1000"), ("RUN_OUTPUT_LIMIT", "64k")]).await;
    let code: Vec<_> = (0..300)
        .map(|line| format!("echo line {line:04}\n"))
        .collect();
    let result = app.run("shell", &code.concat()).await;
    let texts: usize = ["output", "stdout", "stderr"]
        .iter()
        .map(|field| result[*field].as_str().unwrap().len())
        .sum();
    assert!(
        texts <= 1000
            && result["output"]
                .as_str()
                .unwrap()
                .contains("characters left out"),
        "{result}"
    );
    let (mut whole, mut offset) = (String::new(), json!(0));
    loop {
        let page = app
            .call(
                "get_run",
                json!({ "runId": result["runId"], "stream": "stdout", "offset": offset }),
            )
            .await["page"]
            .clone();
        whole += page["text"].as_str().unwrap();
        offset = page["nextOffset"].clone();
        if page["more"] == false {
            break;
        }
    }
    let expected: Vec<_> = (0..300).map(|line| format!("line {line:04}\n")).collect();
    assert_eq!(whole, expected.concat());
}

#[tokio::test]
async fn mistakes_about_runs_are_explained() {
    let app = TestApp::on_fake().await;
    insta::assert_json_snapshot!(app.call("get_run", json!({})).await, @r#"
    {
      "success": false,
      "code": "invalid_arguments",
      "message": "get_run: give runId, as the answer of `run_code` names it, or conversationId for the latest run of a conversation"
    }
    "#);
    insta::assert_json_snapshot!(app.call("cancel_run", json!({ "runId": "run_x" })).await, @r#"
    {
      "success": false,
      "code": "run_not_found",
      "message": "there is no run \"run_x\" of yours: outcomes are kept for 10 minutes after the end, and only for the caller that started the run"
    }
    "#);
}
