//! What a conversation's programs have loaded holds up no others, and does not stay for ever.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::server::Server;
use crate::support::wait::within;
use crate::support::{TestApp, eventually};

const SETTINGS: &[(&str, &str)] = &[("POOL_SIZE", "0"), ("SANDBOX_LOADED_TTL", "5s")];
const SETTLE: Duration = Duration::from_mins(1);
/// KiB: less than an interpreter with pandas takes, and more than one without.
const LOADED: u64 = 50 << 10;

#[tokio::test]
async fn libraries_that_no_program_names_any_more_are_given_back() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), SETTINGS).await;
    let run = async |code: &str| {
        let arguments = json!({ "conversationId": "a", "language": "python", "code": code });
        let result = server.call("run_code", arguments).await;
        assert_eq!(result["stdout"], "3\n", "{result}");
    };
    run("print(3)").await;
    let own = sandboxes(root.path());
    assert_eq!(own.len(), 1, "{own:?}");
    for _ in 0..2 {
        let loaded = async || (largest(&own[0]) > LOADED).then_some(());
        let given_back = async || (largest(&own[0]) < LOADED).then_some(());
        run("import pandas; print(pandas.Series([1, 2]).sum())").await;
        within(SETTLE, "it is loaded", loaded).await;
        within(SETTLE, "it is given back", given_back).await;
        run("print(3)").await;
        assert_eq!(sandboxes(root.path()), own);
    }
}

#[tokio::test]
async fn runs_that_load_libraries_leave_a_place_to_others() {
    let app = TestApp::on_docker_with(&[("MAX_CONCURRENT_RUNS", "2"), ("POOL_SIZE", "0")]).await;
    let run = async |conversation: &str, code: &str| {
        let arguments =
            json!({ "conversationId": conversation, "language": "python", "code": code });
        app.call("run_code", arguments).await["stdout"].clone()
    };
    assert_eq!(run("other", "print(1)").await, "1\n");
    let admission = &app.app.parts.gate.admission;
    let counts = || (admission.running(), admission.waiting());
    let pandas = "import pandas; print(pandas.Series([1, 2]).sum())";
    let passes = async {
        eventually("one loads, one waits", || counts() == (1, 1)).await;
        (run("other", "print(2)").await, counts())
    };
    let (first, second, passed) = tokio::join!(run("a", pandas), run("b", pandas), passes);
    assert_eq!((first, second), (json!("3\n"), json!("3\n")));
    assert_eq!(passed, (json!("2\n"), (1, 1)));
}

fn docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Those of conversations.
fn sandboxes(root: &Path) -> Vec<String> {
    let id = std::fs::read_to_string(root.join("data/.root-id")).unwrap();
    let root = format!("label=sandbox.root={id}");
    let ours = ["--filter", &root, "--filter", "label=sandbox.conversation"];
    let list = docker(&[&["ps", "-q"], &ours[..]].concat());
    list.lines().map(str::to_owned).collect()
}

/// KiB that the largest process of a container takes.
fn largest(container: &str) -> u64 {
    let list = docker(&["top", container, "-eo", "pid,rss"]);
    let sizes = list
        .lines()
        .filter_map(|line| line.split_whitespace().last()?.parse().ok());
    sizes.max().unwrap_or(0)
}
