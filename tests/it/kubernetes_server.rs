//! The whole server with its sandboxes on a cluster.

use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::app::App;
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::gate::proof::ProofState;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::support::cluster::{Share, object};
use crate::support::engines::Configured;
use crate::support::server::Server;
use crate::support::wait::within;
use crate::support::{TestApp, config};

/// How long a pod may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server whose sandbox counts as proved.
pub(crate) async fn server(more: &[(&str, &str)]) -> TestApp {
    let share = Share::new();
    let settings = share.settings("");
    let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
    // The first of two values counts.
    let settings: Vec<_> = more.iter().copied().chain(settings).collect();
    let app = TestApp::at(share.into_root(), &settings, Arc::new(Configured)).await;
    app.app.parts.gate.proof.set(ProofState::Held);
    let view = app.app.parts.gate.catalog.view();
    assert!(view.find("shell").is_some(), "{:?}", view.engine);
    app
}

/// The pods of a server.
async fn pods(app: &TestApp) -> usize {
    let server = &app.app.parts.launcher.labels(&[])["sandbox.server"];
    let selector = format!("sandbox.server={server}");
    let pods = object(&["get", "pods", "--selector", &selector]).await;
    pods["items"].as_array().unwrap().len()
}

pub(crate) async fn shut_down(app: &TestApp) {
    app.app.shut_down().await;
    assert_eq!(app.app.parts.launcher.live_count(), 0);
    assert_eq!(pods(app).await, 0);
}

#[tokio::test]
async fn runs_have_the_files_of_their_conversation() {
    let app = server(&[]).await;
    app.upload("a.txt", b"from outside").await;
    let run = app
        .run("shell", "cat a.txt; echo made > b.txt; exit 3")
        .await;
    assert_eq!(
        (&run["stdout"], &run["exitCode"]),
        (&"from outside".into(), &3.into()),
        "{run}"
    );
    assert_eq!(run["files"][0]["name"], "b.txt", "{run}");
    let made = app.download(&run["files"][0]["url"]).await;
    assert_eq!(made.text(), "made\n");
    let slow = app.call(
        "run_code",
        json!({
            "conversationId": "demo", "language": "shell", "code": "sleep 60", "timeoutSeconds": 1,
        }),
    );
    assert_eq!(slow.await["status"], "timeout");
    let greedy = app
        .run("shell", "head -c 1073741824 /dev/zero | tail")
        .await;
    assert_eq!(greedy["status"], "out_of_memory", "{greedy}");
    let gone = app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(gone["existed"], true, "{gone}");
    shut_down(&app).await;
}

#[tokio::test]
async fn sandboxes_that_were_started_ahead_take_the_files_of_their_conversation() {
    let warm = [
        ("POOL_SIZE", "shell=1"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_WARM_SANDBOXES", "2"),
    ];
    let app = server(&warm).await;
    app.parked("shell", 1).await;
    let first = app.run("shell", "echo one > a; pwd").await;
    assert_eq!(first["stdout"], "/data\n", "{first}");
    let second = app.run("shell", "cat a; echo two > b").await;
    assert_eq!(second["stdout"], "one\n", "{second}");
    assert_eq!((app.starts("pool"), app.starts("own")), (1, 1));
    let seen = std::fs::read_to_string(app.workspace("demo").join("b"));
    assert_eq!(seen.unwrap(), "two\n");
    shut_down(&app).await;
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing_behind() {
    let share = Share::new();
    let settings = share.settings("data");
    // What holds is another test's matter.
    let weaker = "limits,network-off,secrets,syscalls,writable-paths";
    let mut settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    settings.extend([
        ("ALLOW_WEAKER_SANDBOX", weaker),
        ("ALLOW_NETWORK", "0"),
        ("POOL_SIZE", "0"),
    ]);
    let server = Server::start(share.path(), &settings).await;
    server.until_ready(PATIENCE).await;
    let files = share.path().join("data");
    let tick = || {
        let mut directories = std::fs::read_dir(&files).unwrap();
        let found = directories
            .find_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("tick")).ok());
        found.unwrap_or_default()
    };
    let run = server.run("while :; do date +%s%N > tick; sleep 0.01; done");
    let run = TaskTracker::new().spawn(run);
    let begun = async || (!tick().is_empty()).then_some(());
    within(PATIENCE, "the program runs", begun).await;
    drop(server);
    assert!(run.await.unwrap().is_err());
    let ended = async || {
        let last = tick();
        tokio::time::sleep(Duration::from_millis(200)).await;
        (tick() == last).then_some(())
    };
    within(PATIENCE, "the program has ended", ended).await;
    // The next server removes what is left.
    let next = Server::start(share.path(), &settings).await;
    let root = std::fs::read_to_string(files.join(".root-id")).unwrap();
    let selector = format!("sandbox.root={root}");
    let none = async || {
        let pods = object(&["get", "pods", "--selector", &selector]).await;
        pods["items"].as_array().unwrap().is_empty().then_some(())
    };
    within(PATIENCE, "no pod is left", none).await;
    drop(next);
}

#[tokio::test]
async fn the_volume_is_tried_on_both_nodes() {
    let share = Share::new();
    let settings = share.settings("");
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let config = config(share.path(), &settings);
    let only = [Control::Workspace];
    let report = App::run_selftest(config, &only, &|_| {}).await;
    let report = serde_json::to_value(report.unwrap().unwrap()).unwrap();
    assert_eq!(
        report["controls"][0]["found"], "it follows the directory, tried on 2 nodes",
        "{report}"
    );
}
