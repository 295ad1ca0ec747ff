//! What a conversation's programs have had loaded does not stay for ever.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::server::Server;
use crate::support::wait::within;

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
