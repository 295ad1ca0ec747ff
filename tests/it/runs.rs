//! What every executor must do, seen through `run_code`: one suite, run on the fake engine and on the real one.

use std::time::Duration;

use mcp_code_sandbox::executor::fake::Trouble;
use mcp_code_sandbox::gate::admission::Start;
use mcp_code_sandbox::principal::Principal;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::engines::Engine;
use crate::support::{TestApp, eventually, stable};

/// Of these, one conversation may have all, or half.
const FOUR_AT_ONCE: &[(&str, &str)] = &[
    ("MAX_CONCURRENT_RUNS", "4"),
    ("MAX_RUNS_PER_CONVERSATION", "4"),
    ("MAX_QUEUED_RUNS", "32"),
];

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn output_of_both_streams_comes_back(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let result = app.run("shell", "echo out\nsleep 0.1\necho err >&2").await;
    insta::allow_duplicates! {
        insta::assert_json_snapshot!(stable(result), @r#"
        {
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
          "files": [],
          "filesTruncated": false,
          "conversationId": "demo",
          "runId": "…"
        }
        "#);
    }
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn a_failing_program_is_a_result(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let result = app.run("shell", "echo before\nexit 3").await;
    let seen = (
        &result["success"],
        &result["status"],
        &result["exitCode"],
        &result["stdout"],
    );
    assert_eq!(
        seen,
        (
            &json!(false),
            &json!("error"),
            &json!(3),
            &json!("before\n")
        )
    );
    assert_eq!(
        result["hint"],
        "The program ended with exit code 3 and printed nothing to stderr."
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn a_death_by_signal_is_named(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let result = app.run("shell", "kill -9 $$").await;
    assert_eq!(
        (&result["status"], &result["exitCode"]),
        (&json!("error"), &json!(137)),
        "{result}"
    );
    assert_eq!(
        result["hint"],
        "The program was ended by signal 9 (SIGKILL, by itself or one of its own processes)."
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn exit_137_is_no_memory_limit(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let result = app.run("shell", "exit 137").await;
    assert_eq!(
        (&result["status"], &result["exitCode"]),
        (&json!("error"), &json!(137))
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn files_come_back_as_links_and_stay(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let uploaded = app.upload("in.txt", b"uploaded\n").await;
    assert_eq!(
        uploaded["message"],
        "File 'in.txt' uploaded successfully (9 bytes)"
    );
    let result = app.run("shell", "cat in.txt\necho made > out.txt").await;
    assert_eq!(result["stdout"], "uploaded\n");
    let files: Vec<_> = result["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (&file["name"], &file["new"]))
        .collect();
    assert_eq!(
        files,
        [
            (&json!("out.txt"), &json!(true)),
            (&json!("in.txt"), &json!(false))
        ]
    );
    let answer = app.download(&result["files"][0]["url"]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (200, "made\n")
    );
    let again = app.run("shell", "cat out.txt").await;
    assert_eq!(
        (&again["stdout"], &again["files"][0]["new"]),
        (&json!("made\n"), &json!(false))
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn the_servers_variables_win(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let arguments = json!({
        "conversationId": "demo", "language": "shell", "code": "echo $GREETING $N $FILE_BASE_URL",
        "environment": { "GREETING": "hello", "N": 3, "FILE_BASE_URL": "http://evil" },
    });
    let result = app.call("run_code", arguments).await;
    let key = app
        .workspace("demo")
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        result["stdout"],
        format!("hello 3 http://localhost:8080/files/{key}\n")
    );
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn a_run_ends_at_its_time_limit(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let arguments =
        json!({ "language": "shell", "code": "echo begun\nsleep 60", "timeoutSeconds": 0.5 });
    let result = app.call("run_code", arguments).await;
    let seen = (&result["status"], &result["exitCode"], &result["stdout"]);
    assert_eq!(seen, (&json!("timeout"), &Value::Null, &json!("begun\n")));
    let hint = "The program was stopped after its time limit of 0.5 s: make it faster, or give timeoutSeconds up to 300.";
    assert_eq!(result["hint"], hint);
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn output_is_cut_and_a_flood_is_stopped(#[case] engine: Engine) {
    let app = &engine.start("shell", &[("RUN_OUTPUT_LIMIT", "1k")]).await;
    let result = app.run("shell", "yes").await;
    assert_eq!(result["status"], "output_limit", "{result}");
    assert_eq!(result["stdout"].as_str().unwrap().len(), 1024);
    assert!(result["truncated"]["stdout"].as_u64().unwrap() > 15 << 10);
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn the_conversation_can_be_deleted_while_a_program_runs(#[case] engine: Engine) {
    let app = &engine.start("shell", &[]).await;
    let delete = async {
        eventually("the program runs", || {
            app.workspace("demo").join("begun").exists()
        })
        .await;
        app.call("delete_conversation", json!({ "conversationId": "demo" }))
            .await
    };
    let program = "echo yes > begun\nsleep 60";
    let (result, deleted) = tokio::join!(app.run("shell", program), delete);
    assert_eq!(
        (&result["status"], &deleted["existed"]),
        (&json!("cancelled"), &json!(true))
    );
    assert!(!app.workspace("demo").exists());
    engine.finish(app).await;
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn sixty_four_calls_at_once_get_answers(#[case] engine: Engine) {
    let app = &engine.start("shell", FOUR_AT_ONCE).await;
    let calls =
        (0..64).map(|number| app.run("shell", if number % 2 == 0 { "echo hi" } else { "exit 1" }));
    let results = futures::future::join_all(calls).await;
    let statuses: Vec<_> = results
        .iter()
        .map(|r| r["status"].as_str().or(r["code"].as_str()).unwrap())
        .collect();
    assert!(
        statuses
            .iter()
            .all(|status| ["ok", "error", "busy"].contains(status)),
        "{statuses:?}"
    );
    assert!(
        statuses.iter().filter(|status| **status != "busy").count() >= 20,
        "{statuses:?}"
    );
    let busy = results
        .iter()
        .find(|result| result["code"] == "busy")
        .unwrap();
    assert!(
        busy["message"]
            .as_str()
            .unwrap()
            .contains("try again in 2 s"),
        "{busy}"
    );
    engine.finish(app).await;
}

#[tokio::test]
async fn mistakes_are_named() {
    let app = TestApp::on_fake_with(&[("MAX_CODE_BYTES", "10")]).await;
    let mut answers = Vec::new();
    for arguments in [
        json!({}),
        json!({ "language": "shell" }),
        json!({ "language": "shell", "code": 7 }),
        json!({ "language": "cobol", "code": "" }),
        json!({ "language": "shell", "code": "echo 0123456789" }),
        json!({ "language": "shell", "code": "", "timeoutSeconds": 301 }),
        json!({ "language": "shell", "code": "", "timeoutSeconds": -1 }),
        json!({ "language": "shell", "code": "", "timeoutSeconds": 0 }),
        json!({ "language": "shell", "code": "", "timeoutSeconds": "soon" }),
        json!({ "language": "shell", "code": "", "conversationId": true }),
        json!({ "language": "shell", "code": "", "conversationId": "x".repeat(257) }),
        json!({ "language": "shell", "code": "", "environment": { "A=B": "x" } }),
        json!({ "language": "shell", "code": "", "environment": { "A": [] } }),
        json!({ "language": "shell", "code": "", "environment": "A" }),
    ] {
        let response = app
            .rpc(
                "tools/call",
                json!({ "name": "run_code", "arguments": arguments }),
            )
            .await;
        assert_eq!(response["result"]["isError"], true, "{response}");
        let error = &response["result"]["structuredContent"];
        answers.push(format!(
            "{}: {}",
            error["code"].as_str().unwrap(),
            error["message"].as_str().unwrap()
        ));
    }
    insta::assert_snapshot!(answers.join("\n"));
}

#[tokio::test]
async fn a_conversation_is_made_when_none_is_named() {
    let app = TestApp::on_fake().await;
    let first = app
        .call(
            "run_code",
            json!({ "language": "shell", "code": "echo x > a" }),
        )
        .await;
    let id = first["conversationId"].as_str().unwrap();
    assert!(id.starts_with("conv_") && id.len() == 37, "{id}");
    let again = json!({ "language": "shell", "code": "cat a", "conversationId": id });
    assert_eq!(app.call("sandbox.run_code", again).await["stdout"], "x\n");
}

#[tokio::test]
async fn runners_come_and_go_without_a_restart() {
    let app = TestApp::on_fake().await;
    let fake = app.fake.clone().unwrap();
    let languages = || {
        app.app
            .parts
            .gate
            .catalog
            .view()
            .runners
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    fake.add_image("lisp", "scheme", 1);
    eventually("lisp is there", || languages() == ["lisp", "shell"]).await;
    assert_eq!(app.run("scheme", "echo hi").await["stdout"], "hi\n");
    fake.remove_images("lisp");
    eventually("lisp is gone", || languages() == ["shell"]).await;
    assert_eq!(app.run("lisp", "echo hi").await["code"], "unknown_language");
}

#[tokio::test]
async fn a_lost_engine_is_reported_and_comes_back_by_itself() {
    let app = TestApp::on_fake().await;
    let fake = app.fake.clone().unwrap();
    let engine = app.app.parts.gate.catalog.engine();
    let lose = async {
        eventually("the run is in progress", || {
            app.workspace("demo").join("begun").exists()
        })
        .await;
        fake.trouble(Trouble {
            engine_down: true,
            failing: None,
        });
    };
    let (result, ()) = tokio::join!(app.run("shell", "echo > begun\nsleep 60"), lose);
    insta::assert_json_snapshot!((&result["status"], &result["hint"]), @r#"
    [
      "engine_lost",
      "The server could not run the program, through no fault of it: the container engine stopped answering. Try again in a few seconds."
    ]
    "#);
    eventually("the engine is seen to be down", || {
        app.app.parts.gate.catalog.engine() != engine
    })
    .await;
    assert_eq!(app.get("/readyz").await.status, 503);
    assert_eq!(app.run("shell", "echo hi").await["status"], "engine_lost");
    fake.trouble(Trouble::default());
    eventually("the engine is seen again", || {
        app.app.parts.gate.catalog.engine() == engine
    })
    .await;
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn trouble_at_every_step_leaves_nothing() {
    let app = TestApp::on_fake().await;
    let fake = app.fake.clone().unwrap();
    for operation in [
        "create a container",
        "attach to a container",
        "start a container",
    ] {
        fake.trouble(Trouble {
            engine_down: false,
            failing: Some(operation),
        });
        let result = app.run("shell", "echo hi").await;
        assert_eq!(result["status"], "engine_lost");
        assert!(
            result["hint"].as_str().unwrap().contains(operation),
            "{result}"
        );
        fake.trouble(Trouble::default());
        eventually("all containers are gone", || fake.container_count() == 0).await;
    }
}

#[tokio::test]
async fn the_engines_reason_for_ending_a_sandbox_is_in_the_hint() {
    let app = TestApp::on_fake().await;
    let fake = app.fake.as_ref().unwrap();
    let evict = async {
        eventually("there is a sandbox", || fake.container_count() == 1).await;
        fake.evict_all("its node has no room");
    };
    let (result, ()) = tokio::join!(app.run("shell", "sleep 60"), evict);
    assert_eq!(result["status"], "engine_lost");
    insta::assert_snapshot!(result["hint"].as_str().unwrap(), @"The server could not run the program, through no fault of it: the container engine ended the sandbox: its node has no room. Try again in a few seconds.");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn shutting_down_ends_runs_and_takes_no_new_ones() {
    let app = TestApp::on_fake().await;
    let stop = async {
        eventually("the run is in progress", || app.app.parts.gate.count() == 1).await;
        app.app.shut_down().await;
    };
    let (result, ()) = tokio::time::timeout(Duration::from_secs(5), async {
        tokio::join!(app.run("shell", "sleep 60"), stop)
    })
    .await
    .unwrap();
    assert_eq!(result["status"], "cancelled");
    assert_eq!(app.fake.as_ref().unwrap().container_count(), 0);
    let parts = &app.app.parts;
    let conversation = parts.files.new_conversation(&Principal::local());
    let refused = parts
        .gate
        .admission
        .acquire(&conversation, Start::Ready, |_| {})
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the server is stopping and takes no new runs; try again in a minute"
    );
}
