//! Who is turned away and in what words, and what waiting callers are told.

use serde_json::json;

use crate::sse::{EventStream, post_sse, run};
use crate::support::{TestApp, eventually};

#[tokio::test]
async fn too_many_requests_answer_429_with_retry_after() {
    let app = TestApp::on_fake_with(&[("RATE_LIMIT", "2/h")]).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for _ in 0..2 {
        assert_eq!(app.post(ping.clone()).await.status, 200);
    }
    let refused = app.post(ping).await;
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=1801).contains(&seconds), "{seconds}");
    insta::assert_json_snapshot!(refused.json(), {
        ".error.message" => insta::dynamic_redaction(move |text, _| {
            assert_eq!(text.as_str().unwrap(), format!("too many requests (RATE_LIMIT): try again in {seconds} s"));
            "…"
        }),
        ".error.data.retryAfterSeconds" => "…",
    }, @r#"
    {
      "jsonrpc": "2.0",
      "id": null,
      "error": {
        "code": -32000,
        "message": "…",
        "data": {
          "retryAfterSeconds": "…"
        }
      }
    }
    "#);
    // What needs no token is not counted.
    assert_eq!(app.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_full_queue_answers_when_to_come_back() {
    let settings = [("MAX_CONCURRENT_RUNS", "1"), ("MAX_QUEUED_RUNS", "0")];
    let app = TestApp::on_fake_with(&settings).await;
    let second = async {
        eventually("the run is in progress", || app.workspace("demo").exists()).await;
        app.post(run(1, "echo hi").to_string()).await
    };
    let (first, refused) = tokio::join!(app.run("shell", "sleep 0.5\necho done"), second);
    assert_eq!(first["stdout"], "done\n");
    assert_eq!(
        (refused.status.as_u16(), refused.header("retry-after")),
        (200, "2")
    );
    insta::assert_json_snapshot!(refused.json()["result"]["structuredContent"], @r#"
    {
      "success": false,
      "code": "busy",
      "message": "the server is busy: 1 runs and 0 waiting; try again in 2 s",
      "retryAfterSeconds": 2
    }
    "#);
}

#[tokio::test]
async fn progress_names_the_position_in_the_queue() {
    let app = TestApp::on_fake_with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let second = async {
        eventually("the run is in progress", || app.workspace("demo").exists()).await;
        let mut stream = EventStream::open(&app, post_sse(&run(1, "echo mine"))).await;
        stream.rest().await
    };
    let (first, messages) = tokio::join!(app.run("shell", "sleep 1\necho done"), second);
    assert_eq!(first["stdout"], "done\n");
    let told = messages
        .iter()
        .find_map(|message| message["params"]["message"].as_str());
    assert_eq!(told, Some("[waiting for a place: number 1 in the queue]\n"));
    let answer = &messages.last().unwrap()["result"]["structuredContent"];
    assert_eq!(answer["output"], "mine\n");
}

#[tokio::test]
async fn a_waiting_run_says_for_what_it_waits() {
    let app = TestApp::on_fake_with(&[("MAX_CONCURRENT_RUNS", "1"), ("CALL_BUDGET", "1")]).await;
    let hint = async |arguments: serde_json::Value| {
        let outcome = app.call("run_code", arguments).await;
        assert_eq!(outcome["status"], "running");
        assert_eq!(outcome["durationMs"], 0, "{outcome}");
        let hint = outcome["hint"].as_str().unwrap();
        hint.split_once(": call get_run").unwrap().0.to_owned()
    };
    let nap = json!({ "language": "shell", "code": "sleep 25" });
    let (_, waits) = tokio::join!(app.call("run_code", nap.clone()), async {
        eventually("it runs", || app.app.parts.launcher.live_count() == 1).await;
        hint(nap.clone()).await
    });
    insta::assert_snapshot!(waits, @"The run waits for a place: it is number 1 in the queue");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_with_a_hundred_runs_does_not_keep_another_waiting() {
    let settings = [
        ("MAX_CONCURRENT_RUNS", "2"),
        ("MAX_RUNS_PER_CONVERSATION", "2"),
        ("MAX_QUEUED_RUNS", "400"),
        ("MAX_QUEUE_WAIT", "1h"),
        ("CALL_BUDGET", "1h"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let many = futures::future::join_all((0..100).map(|_| app.run("shell", "sleep 10")));
    let other = async {
        eventually("all are there", || {
            app.app.parts.gate.admission.waiting() == 98
        })
        .await;
        let asked = tokio::time::Instant::now();
        let arguments =
            json!({ "conversationId": "other", "language": "shell", "code": "echo hi" });
        let result = app.call("run_code", arguments).await;
        assert_eq!(result["stdout"], "hi\n");
        asked.elapsed().as_secs()
    };
    let (results, waited) = tokio::join!(many, other);
    assert!(results.iter().all(|result| result["status"] == "ok"));
    assert!(
        waited <= 20,
        "{waited} s are more than one run after those there are"
    );
}

#[tokio::test]
async fn an_engine_without_room_is_a_busy_server() {
    let app = TestApp::on_fake().await;
    app.fake.as_ref().unwrap().fill_up();
    let turned_away = app.run("shell", "echo hi").await;
    assert_eq!(turned_away["code"], "busy", "{turned_away}");
    insta::assert_snapshot!(turned_away["message"].as_str().unwrap(), @"the server is busy: there is no room for another sandbox now; try again in 10 s (failed to create a container: there is no room)");
    app.assert_nothing_is_left().await;
}
