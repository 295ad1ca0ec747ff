//! Whether runs may use the network, on the fake engine and by a report that the rules are in place.

use std::fs;
use std::sync::Arc;

use mcp_code_sandbox::checks::network::{self, CheckError};
use mcp_code_sandbox::executor::fake::{FakeExecutor, Trouble};
use mcp_code_sandbox::gate::network::NetworkState;
use rstest::rstest;
use sandbox_init::Network;
use serde_json::json;

use crate::support::{TestApp, config, eventually};

/// A word of the program that tries to reach the host, which the fake engine's shell cannot run.
const PROBE: &str = "/dev/tcp";

async fn check(app: &TestApp, settings: &[(&str, &str)]) -> Result<NetworkState, CheckError> {
    let engine = config(app.root(), settings).engine;
    network::check(&engine, &app.app.parts).await
}

/// What it prints if every address of the host is closed: that it dialled those that it was given, which may change
/// while the test runs, and what its own loopback answers.
const CLOSED: [&str; 2] = [
    "each TARGETS dialled\n",
    "echo main.sh: line 4: /dev/tcp/127.0.0.1/4000: Connection refused\n",
];

#[tokio::test]
async fn an_open_network_is_closed_when_its_rules_or_its_engine_are_gone() {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [("FIREWALL_REPORT", report.path().to_str().unwrap())];
    let app = TestApp::on_fake_with(&settings).await;
    let (fake, policy) = (app.fake.as_ref().unwrap(), &app.app.parts.gate.network);
    fake.imitate(PROBE, &(CLOSED.concat() + "echo done"));
    // Any change at the engine is a reason to check.
    fake.add_image("python", "", 1);
    eventually("the network is open", || policy.access().is_ok()).await;
    let containers = fake.made();

    fs::write(report.path(), "missing: a rule\n").unwrap();
    fake.add_image("python", "", 2);
    let closed = |why| move || policy.access().is_err_and(|reason| reason.contains(why));
    eventually("the rules are missed", closed("missing: a rule")).await;
    assert_eq!(fake.made(), containers, "that takes no program");

    fs::write(report.path(), "in place\n").unwrap();
    fake.add_image("python", "", 3);
    eventually("the network is open again", || policy.access().is_ok()).await;
    fake.trouble(Trouble {
        engine_down: true,
        failing: None,
    });
    eventually("the engine is missed", closed("the fake engine is down")).await;
    fake.trouble(Trouble::default());
    eventually("it is tried anew", || policy.access().is_ok()).await;
    assert_eq!(fake.made(), containers + 2);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_run_waits_until_the_network_of_an_engine_that_came_back_is_checked() {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [
        ("FIREWALL_REPORT", report.path().to_str().unwrap()),
        ("MAX_CONCURRENT_RUNS", "1"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let (fake, policy) = (app.fake.as_ref().unwrap(), &app.app.parts.gate.network);
    let probe = CLOSED.concat();
    fake.imitate(PROBE, &format!("sleep 2\n{probe}echo done"));
    for trouble in [true, false] {
        fake.trouble(Trouble {
            engine_down: trouble,
            failing: None,
        });
        let seen = || app.app.parts.gate.catalog.engine().is_up() != trouble;
        eventually("the catalogue sees it", seen).await;
        let told = || {
            policy
                .access()
                .is_err_and(|reason| reason.contains("is down"))
        };
        eventually("the policy has seen the loss", told).await;
    }
    let result = app
        .call(
            "run_code",
            json!({ "language": "shell", "code": "echo hi", "network": true }),
        )
        .await;
    assert_eq!(result["stdout"], "hi\n", "{result}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_server_that_is_too_busy_to_try_keeps_its_network_open() {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [
        ("FIREWALL_REPORT", report.path().to_str().unwrap()),
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "0"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let policy = &app.app.parts.gate.network;
    eventually("the server's own check is over", || {
        policy.access().is_err_and(|reason| !reason.contains("yet"))
    })
    .await;
    let fake = app.fake.as_ref().unwrap();
    // One that dialled nothing proves nothing, and neither does one whose shell cannot dial.
    let [dialled, found] = CLOSED.map(str::to_owned);
    for (said, why) in [
        (String::new(), "bash that can dial"),
        (dialled.clone(), "bash that can dial"),
        (found.clone(), "did not dial every address"),
        (
            dialled.replacen("dialled", "reached", 1) + found.as_str(),
            "can reach the host",
        ),
    ] {
        fake.imitate(PROBE, &(said + "echo done"));
        let closed = check(&app, &settings).await.unwrap();
        assert!(
            matches!(&closed, NetworkState::Closed(reason) if reason.contains(why)),
            "{closed:?}"
        );
    }
    fake.imitate(PROBE, &(dialled + found.as_str() + "echo done"));
    let open = check(&app, &settings).await.unwrap();
    assert!(matches!(open, NetworkState::Open { .. }), "{open:?}");

    let busy = async {
        eventually("the run is in progress", || app.workspace("demo").exists()).await;
        let closed = check(&app, &settings).await;
        policy.set(open);
        (closed, check(&app, &settings).await)
    };
    let (_, (closed, kept)) = tokio::join!(app.run("shell", "sleep 0.5"), busy);
    let Ok(NetworkState::Closed(reason)) = closed else {
        panic!("{closed:?}");
    };
    insta::assert_snapshot!(reason, @"whether programs can reach the host was not found out: the server is busy: 1 runs and 0 waiting; try again in 2 s");
    insta::assert_snapshot!(kept.unwrap_err(), @"no program could try to reach the host: the server is busy: 1 runs and 0 waiting; try again in 2 s");

    // What the rules' keeper says still counts.
    fs::write(report.path(), "missing: a rule\n").unwrap();
    let closed = check(&app, &settings).await.unwrap();
    assert!(matches!(closed, NetworkState::Closed(reason) if reason.contains("missing: a rule")));
}

#[tokio::test]
async fn the_probe_takes_longer_than_callers_may() {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [
        ("FIREWALL_REPORT", report.path().to_str().unwrap()),
        ("RUN_TIMEOUT", "100ms"),
        ("RUN_TIMEOUT_MAX", "100ms"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let probe = CLOSED.concat();
    let fake = app.fake.as_ref().unwrap();
    fake.imitate(PROBE, &format!("sleep 0.3\n{probe}echo done"));
    let open = check(&app, &settings).await.unwrap();
    assert!(matches!(open, NetworkState::Open { .. }), "{open:?}");
}

#[tokio::test]
async fn a_stop_in_the_middle_of_the_check_leaves_nothing() {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [("FIREWALL_REPORT", report.path().to_str().unwrap())];
    let fake = FakeExecutor::with_languages(&["shell"]);
    fake.imitate(PROBE, "echo > begun\nsleep 60");
    let app = TestApp::unproved(&settings, Arc::new(fake.clone())).await;
    let conversations = || {
        let entries = fs::read_dir(app.root()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names
            .filter(|name| !name.starts_with('.'))
            .collect::<Vec<_>>()
    };
    let begun = |name: &String| app.root().join(name).join("begun").exists();
    eventually("the check runs", || conversations().iter().any(begun)).await;
    app.app.shut_down().await;
    assert_eq!((conversations(), fake.container_count()), (Vec::new(), 0));
}

/// Where the engine gives every sandbox a network, PID 1 has to leave it, and to say that it did.
#[rstest]
#[case::left(Some(Network::None), "ok")]
#[case::kept(Some(Network::Engine), "engine_lost")]
#[case::not_said(None, "engine_lost")]
#[tokio::test]
async fn no_program_runs_on_a_network_that_it_is_not_to_have(
    #[case] seen: Option<Network>,
    #[case] status: &str,
    #[values("0", "shell=1")] pool: &str,
) {
    let fake = FakeExecutor::with_languages(&["shell"]);
    fake.leave_network(seen);
    let app = TestApp::build(&[("POOL_SIZE", pool)], Arc::new(fake)).await;
    // Of two runs the second has a sandbox that stays.
    for _ in 0..2 {
        let outcome = app.run("shell", "echo hi").await;
        assert_eq!(outcome["status"], status, "{outcome}");
        let hint = outcome["hint"].as_str().unwrap_or_default();
        let is_told = hint.contains("failed to keep the sandbox from the network");
        assert_eq!(is_told, status != "ok", "{hint}");
    }
}

#[tokio::test]
async fn whoever_allows_it_has_programs_on_a_network() {
    let fake = FakeExecutor::with_languages(&["shell"]);
    fake.leave_network(Some(Network::Engine));
    let settings = [("ALLOW_WEAKER_SANDBOX", "network-off")];
    let app = TestApp::build(&settings, Arc::new(fake)).await;
    for _ in 0..2 {
        assert_eq!(app.run("shell", "echo hi").await["status"], "ok");
    }
}
