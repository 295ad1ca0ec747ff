//! Whether runs may use the network, on the fake engine and by a report that the rules are in place.

use std::fs;
use std::sync::Arc;

use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::network::{self, CheckError, State};

use crate::support::{TestApp, config, eventually};

/// A word of the program that tries to reach the host, of whose shell the fake engine knows nothing.
const PROBE: &str = "/dev/tcp";

async fn check(app: &TestApp, settings: &[(&str, &str)]) -> Result<State, CheckError> {
    let engine = config(app.root(), settings).engine;
    let fake: &FakeExecutor = app.fake.as_ref().unwrap();
    network::check(&engine, fake, &app.app.runs).await
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
    let policy = &app.app.runs.network;
    eventually("the server's own check is over", || {
        policy.access().is_err_and(|reason| !reason.contains("yet"))
    })
    .await;
    app.fake.as_ref().unwrap().imitate(PROBE, "echo done");
    let open = check(&app, &settings).await.unwrap();
    assert!(matches!(open, State::Open { .. }), "{open:?}");

    let busy = async {
        eventually("the run is in progress", || app.workspace("demo").exists()).await;
        let closed = check(&app, &settings).await;
        policy.set(open);
        (closed, check(&app, &settings).await)
    };
    let (_, (closed, kept)) = tokio::join!(app.run("shell", "sleep 0.5"), busy);
    let Ok(State::Closed(reason)) = closed else {
        panic!("{closed:?}");
    };
    insta::assert_snapshot!(reason, @"whether programs can reach the host was not found out: the server is busy: 1 runs and 0 waiting; try again in 2 s");
    insta::assert_snapshot!(kept.unwrap_err(), @"no program could try to reach the host: the server is busy: 1 runs and 0 waiting; try again in 2 s");

    // What the rules' keeper says counts all the same.
    fs::write(report.path(), "missing: a rule\n").unwrap();
    let closed = check(&app, &settings).await.unwrap();
    assert!(matches!(closed, State::Closed(reason) if reason.contains("missing: a rule")));
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
