//! Nodes that leave sandboxes without a network a way to what they must not reach.

use std::sync::Arc;

use mcp_code_sandbox::executor::fake::FakeExecutor;
use rstest::rstest;
use sandbox_init::Network;
use serde_json::{Value, json};

use crate::selftest::held;
use crate::support::{TestApp, eventually};

/// What answers there.
const ANSWERED: &str = "192.0.2.1:443";

/// An engine that gives every container a network.
fn engine(nodes: &[(&str, bool)]) -> FakeExecutor {
    let fake = FakeExecutor::with_languages(&["python", "shell"]);
    fake.leave_network(Some(Network::Engine));
    fake.set_nodes(nodes);
    fake
}

async fn avoided(app: &TestApp) -> Value {
    app.get("/readyz").await.json()["avoidedNodes"].clone()
}

fn hint(run: &Value) -> &str {
    run["hint"].as_str().unwrap_or_default()
}

#[rstest]
#[tokio::test]
async fn a_sandbox_that_reaches_something_runs_nothing_and_its_node_is_named(
    #[values("0", "shell=1")] pool: &str,
) {
    let fake = engine(&[("n1", true)]);
    let app = TestApp::build(&[("POOL_SIZE", pool)], Arc::new(fake.clone())).await;
    for _ in 0..2 {
        let run = app.run("shell", "echo hi").await;
        assert_eq!(run["status"], "engine_lost", "{run}");
        assert_eq!(run["stdout"], "", "{run}");
        let named = [
            ANSWERED,
            "n1",
            "failed to keep the sandbox from the network",
        ];
        assert!(named.iter().all(|it| hint(&run).contains(it)), "{run}");
    }
    assert_eq!(avoided(&app).await, json!({ "n1": ANSWERED }));
    eventually("it is removed", || fake.container_count() == 0).await;
    app.assert_nothing_is_left().await;
}

#[rstest]
#[tokio::test]
async fn programs_run_on_nodes_that_close_the_network(#[values("0", "shell=1")] pool: &str) {
    let fake = engine(&[("n1", true), ("n2", false)]);
    let app = TestApp::build(&[("POOL_SIZE", pool)], Arc::new(fake.clone())).await;
    for _ in 0..3 {
        let run = app.run("shell", "echo hi").await;
        assert_eq!(run["stdout"], "hi\n", "{run}");
    }
    assert_eq!(app.get("/readyz").await.status, 200);
    assert_eq!(avoided(&app).await, json!({ "n1": ANSWERED }));
    let avoid = fake.specs();
    assert!(avoid.iter().all(|spec| spec.avoided_nodes == ["n1"]));
}

#[tokio::test]
async fn what_nothing_is_to_close_runs_nothing() {
    let fake = engine(&[("n1", false)]);
    fake.lose_rules(Some("no NetworkPolicy selects them"));
    let app = TestApp::build(&[], Arc::new(fake.clone())).await;
    let run = app.run("shell", "echo hi").await;
    assert_eq!(run["status"], "engine_lost", "{run}");
    assert!(
        hint(&run).contains("no NetworkPolicy selects them"),
        "{run}"
    );
    // That is no fault of the node.
    assert_eq!(avoided(&app).await, Value::Null);
    fake.lose_rules(None);
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
}

#[tokio::test]
async fn the_check_at_the_start_names_the_node() {
    let fake = engine(&[("n1", true)]);
    let app = TestApp::unproved(&[], Arc::new(fake)).await;
    app.app.prove();
    let run = app.run("shell", "echo hi").await;
    assert_eq!(run["code"], "sandbox_not_proven", "{run}");
    let said = run["message"].as_str().unwrap();
    let named = [
        "control network-off failed (a sandbox was not used:",
        "192.0.2.1:443 answered on n1",
    ];
    assert!(named.iter().all(|it| said.contains(it)), "{said}");
    let ready = app.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["reason"], said);
    app.assert_nothing_is_left().await;
}

#[rstest]
#[tokio::test]
async fn rules_that_are_lost_refuse_runs_in_sandboxes_that_are_there(
    #[values(true, false)] has_python: bool,
) {
    let fake = engine(&[("n1", false)]);
    if has_python {
        held(&fake);
    } else {
        fake.remove_images("python");
    }
    let kept = [("SANDBOX_REUSE", "conversation")];
    let app = TestApp::unproved(&kept, Arc::new(fake.clone())).await;
    app.app.prove();
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
    let kept = || app.app.parts.pool.count().1 == 1;
    eventually("the conversation keeps its sandbox", kept).await;
    fake.lose_rules(Some("somebody took them away"));
    let another = json!({ "conversationId": "other", "language": "shell", "code": "echo hi" });
    assert_eq!(app.call("run_code", another).await["status"], "engine_lost");
    let refused = || app.app.parts.gate.proof.now().is_err();
    eventually("the check is repeated", refused).await;
    let run = app.run("shell", "echo hi").await;
    assert_eq!(run["code"], "sandbox_not_proven", "{run}");
    let said = run["message"].as_str().unwrap();
    assert!(said.contains("control network-off failed"), "{said}");
    assert!(said.contains("somebody took them away"), "{said}");
}
