//! The whole server with its sandboxes on a cluster.

use std::time::Duration;

use mcp_code_sandbox::app::App;
use mcp_code_sandbox::control::Control;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::support::cluster::{Share, object};
use crate::support::engines::Engine;
use crate::support::server::Server;
use crate::support::wait::within;
use crate::support::{TestApp, config};

/// How long a pod may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn runs_have_the_files_of_their_conversation() {
    let app = TestApp::on_kubernetes_with(&[]).await;
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
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn sandboxes_that_were_started_ahead_take_the_files_of_their_conversation() {
    let warm = [
        ("POOL_SIZE", "shell=1"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_WARM_SANDBOXES", "2"),
    ];
    let app = TestApp::on_kubernetes_with(&warm).await;
    app.parked("shell", 1).await;
    let first = app.run("shell", "echo one > a; pwd").await;
    assert_eq!(first["stdout"], "/data\n", "{first}");
    let second = app.run("shell", "cat a; echo two > b").await;
    assert_eq!(second["stdout"], "one\n", "{second}");
    assert_eq!((app.starts("pool"), app.starts("own")), (1, 1));
    let seen = std::fs::read_to_string(app.workspace("demo").join("b"));
    assert_eq!(seen.unwrap(), "two\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn shown_figures_become_files() {
    let app = Engine::Kubernetes.server(&[]).await;
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()";
    for stateful in [false, true] {
        let drawn = json!({
            "conversationId": "demo", "language": "python", "code": code, "stateful": stateful, "timeoutSeconds": 60,
        });
        let drawn = app.call("run_code", drawn).await;
        assert_eq!(drawn["files"][0]["mimeType"], "image/png", "{drawn}");
        let figure = app.download(&drawn["files"][0]["url"]).await;
        assert!(figure.body.starts_with(b"\x89PNG"), "{drawn}");
    }
    app.assert_nothing_is_left().await;
}

/// A server as a process of its own.
async fn process(share: &Share) -> Server {
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
    server
}

/// How much a server may grow by what programs print, in KiB: beside what it keeps, there is what is on the way.
const GROWTH: u64 = 16 << 10;

#[tokio::test]
async fn a_gibibyte_of_output_is_stopped_and_never_in_memory() {
    let share = Share::new();
    let server = process(&share).await;
    let small = server
        .run("head -c 2097152 /dev/zero | tr '\\0' x")
        .await
        .unwrap();
    assert_eq!(small["truncated"]["stdout"], 1 << 20, "{}", small["hint"]);
    let before = server.resident();
    let mut most = before;
    let sample = async {
        loop {
            most = most.max(server.resident());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let flood = server.run_for(60, "head -c 1073741824 /dev/zero | tr '\\0' x");
    let result = tokio::select! {
        result = flood => result.unwrap(),
        () = sample => unreachable!(),
    };
    assert_eq!(result["status"], "output_limit", "{}", result["hint"]);
    let left_out = result["truncated"]["stdout"].as_u64().unwrap();
    assert!((15 << 20..1 << 30).contains(&left_out), "{left_out}");
    assert!(most <= before + GROWTH, "{before} KiB grew to {most}");
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing_behind() {
    let share = Share::new();
    let server = process(&share).await;
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
    let next = process(&share).await;
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
async fn the_volume_is_tried_with_two_pods() {
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
    // Where the second pod goes is up to the cluster: a busy node may be left out.
    let found = report["controls"][0]["found"].as_str().unwrap();
    assert!(
        found.starts_with("it follows the directory, tried on "),
        "{report}"
    );
}
