//! The networks that runs have one each of, on the fake engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_code_sandbox::executor::fake::{FakeExecutor, Trouble};
use mcp_code_sandbox::executor::spec::{LaneSpec, NetworkAccess, lane_subnet};
use mcp_code_sandbox::executor::{ErrorKind, Executor as _, LaneId};
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

/// A server whose runs may use the network, once it has its first lane.
async fn app_with(subnets: &str) -> (TestApp, FakeExecutor) {
    let settings = [("ALLOW_NETWORK", "1"), ("RUN_SUBNETS", subnets)];
    let app = TestApp::on_fake_with(&settings).await;
    let fake = app.fake.clone().unwrap();
    let policy = &app.app.parts.gate.network;
    eventually("the network is checked", || !policy.is_unknown()).await;
    (app, fake)
}

async fn run(app: &TestApp, conversation: &str, code: &str) -> Value {
    let arguments = json!({
        "conversationId": conversation, "language": "shell", "code": code, "network": true,
    });
    app.call("run_code", arguments).await
}

/// The lanes of the containers that there are.
fn used(fake: &FakeExecutor) -> Vec<LaneId> {
    fake.specs()
        .into_iter()
        .filter_map(|spec| spec.lane)
        .collect()
}

/// A lane of somebody else's.
async fn foreign(fake: &FakeExecutor, number: u32, root: &str, server: &str) -> LaneId {
    let labels = [("sandbox.root", root), ("sandbox.server", server)];
    let range = "198.19.0.0/16".parse().unwrap();
    let lane = LaneSpec {
        number,
        subnet: lane_subnet(range, number).unwrap(),
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    fake.make_lane(&lane).await.unwrap()
}

#[tokio::test]
async fn an_engine_that_needs_no_lanes_is_asked_for_none() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    fake.go_without_lanes();
    let app = TestApp::build(&[("ALLOW_NETWORK", "1")], Arc::new(fake.clone())).await;
    let policy = &app.app.parts.gate.network;
    eventually("the network is checked", || !policy.is_unknown()).await;
    let looked = async {
        eventually("it runs", || fake.container_count() == 1).await;
        let spec = fake.specs().remove(0);
        assert!(matches!(spec.network, NetworkAccess::Bridge { .. }));
        assert_eq!(spec.lane, None);
    };
    let (result, ()) = tokio::join!(run(&app, "a", "sleep 1"), looked);
    assert_eq!(result["status"], "ok", "{result}");
    assert_eq!(fake.lanes().1, 0);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn runs_at_once_have_a_network_each_and_later_ones_reuse_them() {
    let (app, fake) = app_with("198.19.0.0/16").await;
    for _ in 0..3 {
        assert_eq!(run(&app, "a", "echo hi").await["stdout"], "hi\n");
        eventually("its container is removed", || fake.container_count() == 0).await;
    }
    assert_eq!(fake.lanes().1, 1);

    let both = async {
        eventually("both run", || used(&fake).len() == 2).await;
        let lanes = used(&fake);
        assert_ne!(lanes[0], lanes[1]);
    };
    tokio::join!(run(&app, "a", "sleep 1"), run(&app, "b", "sleep 1"), both);
    eventually("their containers are removed", || {
        fake.container_count() == 0
    })
    .await;
    tokio::join!(run(&app, "a", "echo hi"), run(&app, "b", "echo hi"));
    assert_eq!(fake.lanes().1, 2);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_network_is_not_reused_before_its_container_is_removed() {
    let (app, fake) = app_with("198.19.0.0/16").await;
    let hold = async {
        eventually("it runs", || used(&fake).len() == 1).await;
        let engine = app.app.parts.launcher.labels(&[]);
        let label = ("sandbox.server", engine["sandbox.server"].as_str());
        let containers = fake.containers(label.0, label.1).await.unwrap();
        fake.hold_on_to(&containers[0].id, ErrorKind::Refused);
    };
    tokio::join!(run(&app, "a", "sleep 0.5"), hold);
    assert_eq!(run(&app, "b", "echo hi").await["stdout"], "hi\n");
    assert_eq!(fake.lanes().1, 2);
}

#[tokio::test]
async fn a_network_that_somebody_removed_is_made_anew() {
    let (app, fake) = app_with("198.19.0.0/16").await;
    fake.prune();
    assert_eq!(run(&app, "a", "echo hi").await["stdout"], "hi\n");
    assert_eq!(fake.lanes().1, 2);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_network_on_which_a_start_failed_is_not_used_again() {
    let (app, fake) = app_with("198.19.0.0/16").await;
    fake.trouble(Trouble {
        engine_down: false,
        failing: Some("start a container"),
    });
    assert_eq!(run(&app, "a", "echo hi").await["status"], "engine_lost");
    fake.trouble(Trouble::default());
    assert_eq!(run(&app, "a", "echo hi").await["stdout"], "hi\n");
    assert_eq!(fake.lanes().1, 2);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn networks_of_others_stay_theirs_and_those_of_dead_servers_are_removed() {
    let (app, fake) = app_with("198.19.0.0/16").await;
    let labels = app.app.parts.launcher.labels(&[]);
    let root = labels["sandbox.root"].as_str();
    let other_root = foreign(&fake, 1, "0123456789abcdef", "gone").await;
    let other_server = foreign(&fake, 2, root, "alive").await;
    foreign(&fake, 3, root, "gone").await;
    let both = async { eventually("both run", || used(&fake).len() == 2).await };
    tokio::join!(run(&app, "a", "sleep 1"), run(&app, "b", "sleep 1"), both);
    let numbers = || {
        let lanes = fake.lanes().0.into_iter();
        lanes
            .map(|lane| (lane.number, lane.id))
            .collect::<BTreeMap<_, _>>()
    };
    assert!(numbers().into_keys().eq(0..5), "{:?}", numbers());
    app.app
        .parts
        .launcher
        .reap(|server| server == "gone")
        .await
        .unwrap();
    assert!(numbers().into_keys().eq([0, 1, 2, 4]), "{:?}", numbers());
    app.assert_nothing_is_left().await;
    assert!(numbers().into_values().eq([other_root, other_server]));
}

#[tokio::test]
async fn without_free_subnets_a_run_is_refused_and_shares_no_network() {
    let (app, fake) = app_with("198.19.0.0/24").await;
    for number in 1..64 {
        foreign(&fake, number, "0123456789abcdef", "alive").await;
    }
    let second = async {
        eventually("the first runs", || used(&fake).len() == 1).await;
        run(&app, "b", "echo hi").await
    };
    let (first, second) = tokio::join!(run(&app, "a", "sleep 1"), second);
    assert_eq!(first["status"], "ok");
    assert_eq!(second["status"], "engine_lost");
    insta::assert_snapshot!(second["hint"].as_str().unwrap(), @"The server could not run the program, through no fault of it: failed to start a sandbox: failed to make a network for a run: all networks that RUN_SUBNETS=198.19.0.0/24 has room for are in use: its operator can set a larger range. Try again in a few seconds.");
    assert_eq!(run(&app, "b", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}
