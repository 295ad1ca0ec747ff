//! Runs that wait before they begin: whatever they wait for, they can be stopped, they are checked again when their
//! turn comes, and nobody's call takes forever.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::gate::admission::Start;
use mcp_code_sandbox::gate::proof::{ProofState, Weakness};
use mcp_code_sandbox::principal::Principal;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

/// A server that is still checking its sandbox.
async fn unproved() -> TestApp {
    let fake = FakeExecutor::with_languages(&["shell"]);
    TestApp::unproved(&[], Arc::new(fake)).await
}

async fn run_in(app: &TestApp, conversation: &str, code: &str) -> Value {
    let arguments = json!({ "conversationId": conversation, "language": "shell", "code": code });
    app.call("run_code", arguments).await
}

#[tokio::test]
async fn a_deletion_ends_a_run_that_waits_for_the_check() {
    let app = unproved().await;
    let delete = async {
        eventually("the run waits", || app.app.parts.gate.count() == 1).await;
        let gone = app
            .call("delete_conversation", json!({ "conversationId": "demo" }))
            .await;
        app.app.parts.gate.proof.set(ProofState::Held);
        gone
    };
    let (outcome, gone) = tokio::join!(app.run("shell", "echo hi > f"), delete);
    assert_eq!(
        (&outcome["status"], &gone["success"]),
        (&json!("cancelled"), &json!(true))
    );
    assert!(!app.workspace("demo").exists());
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_run_that_waits_for_the_check() {
    let app = unproved().await;
    let stop = async {
        eventually("the run waits", || app.app.parts.gate.count() == 1).await;
        app.app.shut_down().await;
    };
    let began = tokio::time::Instant::now();
    let (outcome, ()) = tokio::join!(app.run("shell", "echo hi"), stop);
    assert_eq!(outcome["status"], "cancelled");
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_lets_nobody_wait_for_the_check() {
    let app = unproved().await;
    app.app.parts.gate.close();
    let began = tokio::time::Instant::now();
    assert_eq!(app.run("shell", "echo hi").await["code"], "stopping");
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_refused_late_was_in_no_session() {
    let app = unproved().await;
    let body = json!({ "code": "echo hi", "language": "shell" });
    let refused = app.rest(Method::POST, "/api/v1/execute", &body).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.json()["error"]["code"], "sandbox_not_proven");
    let sessions = app.ask(Method::GET, "/api/v1/sessions").await;
    assert_eq!(sessions.json()["total"], 0);
}

#[tokio::test]
async fn a_run_whose_turn_comes_is_asked_anew() {
    let app = TestApp::on_fake_with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let weaken = async {
        eventually("one runs, one waits", || {
            app.app.parts.gate.admission.waiting() == 1
        })
        .await;
        let weakness = Weakness {
            control: Control::Syscalls,
            found: "bpf".to_owned(),
            was_tried: true,
        };
        app.app
            .parts
            .gate
            .proof
            .set(ProofState::Broken(vec![weakness]));
    };
    let (first, second, ()) = tokio::join!(
        run_in(&app, "a", "sleep 0.5"),
        run_in(&app, "b", "echo hi"),
        weaken
    );
    assert_eq!(
        (&first["status"], &second["code"]),
        (&json!("ok"), &json!("sandbox_not_proven"))
    );
    app.assert_nothing_is_left().await;
}

/// The check is a run like the others, and is last in the queue.
#[tokio::test]
async fn runs_that_wait_for_the_check_leave_it_a_place() {
    let app = TestApp::on_fake_with(&[("MAX_CONCURRENT_RUNS", "1")]).await;
    let parts = &app.app.parts;
    let check = async {
        eventually("one runs, one waits", || {
            parts.gate.admission.waiting() == 1
        })
        .await;
        parts.gate.proof.set(ProofState::Pending);
        let (files, caller) = (&app.app.parts.files, Principal::local());
        let conversation = files.conversation(&caller, "check".parse().unwrap());
        let place = parts
            .gate
            .admission
            .acquire(&conversation, Start::Ready, |_| ())
            .await;
        parts.gate.proof.set(ProofState::Held);
        place.map(drop)
    };
    let (first, second, checked) = tokio::join!(
        run_in(&app, "a", "sleep 0.5"),
        run_in(&app, "b", "echo hi"),
        check
    );
    assert_eq!(
        (&first["status"], &second["status"]),
        (&json!("ok"), &json!("ok"))
    );
    assert_eq!(checked, Ok(()));
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_run_waits_for_its_turn_is_answered() {
    let settings = [("CALL_BUDGET", "1s"), ("RUN_TIMEOUT", "1s")];
    let app = TestApp::on_fake_with_notebook(&settings).await;
    let cell = |code: &str, more: Value| {
        let mut arguments = json!({ "language": "notebook", "code": code, "stateful": true });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        app.call("run_code", arguments)
    };
    let first = cell(
        "sleep 60",
        json!({ "timeoutSeconds": 100, "conversationId": "demo" }),
    )
    .await;
    assert_eq!(first["status"], "running");
    let began = tokio::time::Instant::now();
    let second = cell("echo hi", json!({ "wait": true, "conversationId": "demo" })).await;
    assert_eq!(second["status"], "running", "{second}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // The answer is there once its turn has come.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let ended = app
        .call("get_run", json!({ "runId": second["runId"] }))
        .await;
    assert_eq!(
        (&ended["status"], &ended["stdout"]),
        (&json!("ok"), &json!("hi\n"))
    );
}
