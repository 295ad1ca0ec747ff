//! What a sandbox that was not proved means for callers. The fake engine's programs are not Python, so a control that
//! is tried there does not hold.

use std::sync::Arc;

use mcp_code_sandbox::app::App;
use mcp_code_sandbox::checks::selftest::Verdict;
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::fake::{FakeExecutor, Trouble};
use mcp_code_sandbox::gate::proof::ProofState;
use serde_json::{Value, json};

use crate::support::engines::TestEngine as _;
use crate::support::{TestApp, config, eventually};

/// The controls that are tried at every start.
const AT_START: &str =
    "identity,syscalls,writable-paths,kernel-levers,secrets,pid-1,limits,network-off";
/// A word of the program that tries them.
const INSPECTION: &str = "def inspect";

/// From now on, all controls that are tried at the start hold.
pub(crate) fn held(fake: &FakeExecutor) {
    let holds = AT_START
        .split(',')
        .map(|control| json!({ "control": control, "tried": 1, "found": [] }))
        .map(|report| format!("echo {report}\n"));
    fake.imitate(INSPECTION, &holds.collect::<String>());
}

async fn readiness(app: &TestApp) -> (u16, Value) {
    let answer = app.get("/readyz").await;
    (answer.status.as_u16(), answer.json()["reason"].clone())
}

#[tokio::test]
async fn a_control_that_fails_is_named_and_refuses_runs() {
    let fake = FakeExecutor::with_languages(&["python", "shell"]);
    let app = TestApp::unproved(&[], Arc::new(fake)).await;
    app.app.prove();
    let result = app.run("shell", "echo hi").await;
    assert_eq!(result["code"], "sandbox_not_proven", "{result}");
    let message = result["message"].as_str().unwrap();
    assert!(
        message.contains(&format!(
            "controls {} failed (the inspection did not report",
            AT_START.replace(',', ", ")
        )),
        "{message}"
    );
    assert!(message.contains("mcp-code-sandbox selftest"), "{message}");
    let (status, reason) = readiness(&app).await;
    assert_eq!((status, reason.as_str()), (503, Some(message)));
    assert_eq!(app.get("/healthz").await.status, 200);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn allowed_weaknesses_refuse_no_runs() {
    let allowed = AT_START.replace("syscalls,", "");
    for (allowed, refused) in [(AT_START, None), (allowed.as_str(), Some("syscalls"))] {
        let fake = FakeExecutor::with_languages(&["python", "shell"]);
        let app = TestApp::unproved(&[("ALLOW_WEAKER_SANDBOX", allowed)], Arc::new(fake)).await;
        app.app.prove();
        let result = app.run("shell", "echo hi").await;
        match refused {
            None => assert_eq!(result["stdout"], "hi\n", "{result}"),
            Some(control) => {
                let message = result["message"].as_str().unwrap();
                assert!(
                    message.contains(&format!("control {control} failed")),
                    "{message}"
                );
                assert_eq!(message.matches("failed").count(), 1, "{message}");
            }
        }
        app.assert_nothing_is_left().await;
    }
}

#[tokio::test]
async fn runs_wait_until_the_check_is_over() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    let app = TestApp::unproved(&[], Arc::new(fake.clone())).await;
    let (status, reason) = readiness(&app).await;
    assert_eq!(status, 503);
    assert!(
        reason.as_str().unwrap().contains("still checking"),
        "{reason}"
    );
    let run = app.run("shell", "echo hi");
    let prove = async {
        eventually("it waits", || app.app.parts.gate.count() == 1).await;
        assert_eq!(fake.made(), 0);
        app.app.prove();
    };
    let (result, ()) = tokio::join!(run, prove);
    assert_eq!(result["stdout"], "hi\n", "{result}");
    assert_eq!(readiness(&app).await.0, 200);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn an_engine_is_checked_when_it_comes_back() {
    for lose in [FakeExecutor::restart, go_down] {
        let fake = FakeExecutor::with_languages(&["python", "shell"]);
        held(&fake);
        go_down(&fake);
        let app = TestApp::unproved(&[], Arc::new(fake.clone())).await;
        app.app.prove();
        assert_eq!(app.run("shell", "echo hi").await["status"], "engine_lost");
        fake.trouble(Trouble::default());
        let ready = || app.app.parts.gate.proof.now().is_ok();
        eventually("the sandbox is proved", ready).await;
        assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");

        // What comes back may be another engine, whose sandbox does not hold.
        fake.imitate(INSPECTION, "exit 1");
        lose(&fake);
        eventually("the loss is seen", || {
            app.app.parts.gate.proof.now().is_err()
        })
        .await;
        fake.trouble(Trouble::default());
        let up = || app.app.parts.gate.catalog.engine().is_up();
        eventually("the engine is seen", up).await;
        assert_eq!(
            app.run("shell", "echo hi").await["code"],
            "sandbox_not_proven"
        );
        app.assert_nothing_is_left().await;
    }
}

fn go_down(fake: &FakeExecutor) {
    fake.trouble(Trouble {
        engine_down: true,
        failing: None,
    });
}

#[tokio::test]
async fn an_image_that_is_taken_away_takes_its_failure_with_it() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    let app = TestApp::unproved(&[], Arc::new(fake.clone())).await;
    app.app.prove();
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");

    fake.add_image("awk", "python", 2);
    let refused = || app.app.parts.gate.proof.now().is_err();
    eventually("the failure is seen", refused).await;
    fake.remove_images("awk");
    let ready = || app.app.parts.gate.proof.now().is_ok();
    eventually("the sandbox is proved again", ready).await;
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn without_the_runner_that_tries_them_controls_are_skipped() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    let root = tempfile::tempdir().unwrap();
    let only = [Control::Identity, Control::ForkBomb, Control::Residue];
    let config = config(root.path(), &[]);
    let report =
        App::run_selftest_on(Arc::new(fake.clone()).of(&config), config, &only, &|_| {}).await;
    let report = report.unwrap().unwrap();
    assert_eq!((report.passed, report.failed, report.skipped), (0, 0, 3));
    assert_eq!(report.exit_code(), 75);
    let reason = "there is no python runner, in which this is tried".to_owned();
    for row in &report.controls {
        assert_eq!(row.verdict, Verdict::Skipped(reason.clone()));
    }
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(
        json["controls"][0],
        json!({
            "control": "identity",
            "way": "cold",
            "tried": Control::Identity.about().tried,
            "verdict": "skipped",
            "found": reason,
            "advice": "build the runner images with ./build.sh, then try again",
        })
    );
    assert_eq!(fake.container_count(), 0);
}

#[tokio::test]
async fn a_selftest_needs_an_engine() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    fake.trouble(Trouble {
        engine_down: true,
        failing: None,
    });
    let root = tempfile::tempdir().unwrap();
    let config = config(root.path(), &[]);
    let report = App::run_selftest_on(Arc::new(fake).of(&config), config, &[], &|_| {}).await;
    let reason = report.unwrap().unwrap_err();
    assert!(reason.contains("the fake engine is down"), "{reason}");
}

#[tokio::test]
async fn a_runtime_that_nobody_tried_is_not_used() {
    let fake = FakeExecutor::with_languages(&["lisp"]);
    let app = TestApp::unproved(&[("SANDBOX_RUNTIME", "other")], Arc::new(fake)).await;
    app.app.prove();
    let refused = || {
        app.app
            .parts
            .gate
            .proof
            .now()
            .is_err_and(|error| error.to_string().contains("control runtime"))
    };
    eventually("the runtime is refused", refused).await;
    assert_eq!(
        app.run("lisp", "echo hi").await["code"],
        "sandbox_not_proven"
    );
    // The pool would start sandboxes with it, too.
    assert_eq!(app.app.parts.pool.count(), (0, 0));
    app.app.parts.gate.proof.set(ProofState::Held);
    assert_eq!(app.run("lisp", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[test]
fn the_threat_model_names_every_control() {
    let threats = include_str!("../../docs/threat-model.md");
    let missing = controls_missing_in(threats);
    assert!(
        missing.is_empty(),
        "docs/threat-model.md does not name {missing:?}"
    );
}

#[test]
fn every_promise_names_a_control_and_every_control_proves_a_promise() {
    let security = include_str!("../../SECURITY.md");
    let (_, section) = security.split_once("\n## What we promise\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let promises: Vec<_> = section
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    assert!(promises.len() > 5, "there are promises");
    for promise in promises {
        assert!(
            controls_missing_in(promise).len() < Control::ALL.len(),
            "no control proves: {promise}"
        );
    }
    let missing = controls_missing_in(section);
    assert!(missing.is_empty(), "{missing:?} prove no promise");
}

/// The controls that a text does not name, as documents write them.
fn controls_missing_in(text: &str) -> Vec<String> {
    (Control::ALL.iter())
        .map(|control| format!("`{control}`"))
        .filter(|name| !text.contains(name))
        .collect()
}
