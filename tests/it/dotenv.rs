//! The `.env` of an operator: which one is read, and which value counts if it and the environment differ.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::TOKEN;
use crate::support::server::{Server, call_in};

/// What `check-config` says about some settings in that directory.
async fn effective(directory: &Path, settings: &[(&str, &str)], names: &[&str]) -> String {
    let output = call_in(directory, &["check-config"], settings).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    let is_asked = |line: &&str| {
        names
            .iter()
            .any(|name| line.starts_with(&format!("{name}=")))
    };
    shown
        .lines()
        .filter(is_asked)
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn the_last_of_repeated_settings_counts() {
    let directory = tempfile::tempdir().unwrap();
    let lines = [
        "RUN_TIMEOUT=7s",
        "RUN_PIDS=100",
        "RUN_TIMEOUT=9s",
        "RUN_PIDS=",
        "export DOCKER_HOST='unix:///one'",
        "DOCKER_HOST=unix:///two",
        "LOG_FORMAT=json",
        "RUN_CPUS=2",
    ];
    fs::write(directory.path().join(".env"), lines.join("\n")).unwrap();
    // What the environment sets takes precedence over the file, but not what it sets to nothing.
    let settings = [("RUN_CPUS", "1"), ("LOG_FORMAT", ""), ("RUST_LOG", " ")];
    let names = [
        "DOCKER_HOST",
        "RUN_TIMEOUT",
        "RUN_CPUS",
        "RUN_PIDS",
        "LOG_FORMAT",
        "RUST_LOG",
    ];
    insta::assert_snapshot!(effective(directory.path(), &settings, &names).await, @"
    DOCKER_HOST=unix:///two
    RUN_TIMEOUT=9s
    RUN_CPUS=1
    RUN_PIDS=128
    LOG_FORMAT=json
    RUST_LOG=info,rmcp=warn,rmcp::service=off
    ");
}

#[tokio::test]
async fn a_token_that_follows_an_empty_one_is_the_token() {
    let directory = tempfile::tempdir().unwrap();
    // As in a copy of .env.example to which the token was appended.
    let lines = format!("MCP_API_TOKEN=\nDOCKER_HOST=unix:///nowhere\nMCP_API_TOKEN={TOKEN}\n");
    fs::write(directory.path().join(".env"), lines).unwrap();
    let server = Server::start(directory.path(), &[("MCP_API_TOKEN", "")]).await;
    let listed = server
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(
        listed,
        json!({ "files": [], "total": 0, "truncated": null, "skipped": 0 })
    );
    let (status, ready) = server.get("/readyz").await;
    assert_eq!(status, 503, "{ready}");
}

#[tokio::test]
async fn a_file_counts_in_its_own_directory_only() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(directory.path().join(".env"), "RUN_TIMEOUT=7s\n").unwrap();
    let timeout = async |directory: &Path| effective(directory, &[], &["RUN_TIMEOUT"]).await;
    assert_eq!(timeout(directory.path()).await, "RUN_TIMEOUT=7s");
    assert_eq!(timeout(&below).await, "RUN_TIMEOUT=30s");
    // A directory of that name is not a file of settings.
    fs::create_dir(below.join(".env")).unwrap();
    assert_eq!(timeout(&below).await, "RUN_TIMEOUT=30s");
}

#[tokio::test]
async fn a_line_that_is_no_setting_is_reported_without_its_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for text in [
        &b"# Settings\n\nFILE_SECRET=hunter2 hunter3\n"[..],
        b"FILE_SECRET='hunter2\n",
        b"FILE_SECRET=\xff\n",
    ] {
        fs::write(directory.path().join(".env"), text).unwrap();
        let output = call_in(directory.path(), &["check-config"], &[]).await;
        let said = String::from_utf8(output.stderr).unwrap();
        seen.push(format!("{} {said}", output.status.code().unwrap()));
    }
    insta::assert_snapshot!(seen.concat(), @"
    64 FILE_SECRET, line 3 of .env, is no setting: it must be FILE_SECRET=value, with a value that has spaces or signs in single quotes
    64 FILE_SECRET, line 1 of .env, is no setting: it must be FILE_SECRET=value, with a value that has spaces or signs in single quotes
    64 .env cannot be read: stream did not contain valid UTF-8
    ");
}

#[tokio::test]
async fn lines_that_are_no_settings_hide_no_other_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let lines = "CONVERSATION_TTL=1 week\nRUN_TIMEOUT=9m\nhello there\nMCP_HTTP_ADDRESS=:9000\n";
    fs::write(directory.path().join(".env"), lines).unwrap();
    let output = call_in(directory.path(), &["check-config"], &[]).await;
    assert_eq!(output.status.code(), Some(64));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    warning: MCP_HTTP_ADDRESS is no setting and is ignored: is MCP_HTTP_ADDR meant?
    CONVERSATION_TTL, line 1 of .env, is no setting: it must be CONVERSATION_TTL=value, with a value that has spaces or signs in single quotes
    line 3 of .env is no setting: it must be NAME=value, with a value that has spaces or signs in single quotes
    RUN_TIMEOUT=9m is not valid: it must be a duration of at most RUN_TIMEOUT_MAX, which is 5m
    ");
}

#[tokio::test]
async fn a_misspelt_setting_in_a_file_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".env"), "RUN_TIMOUT=5s\n").unwrap();
    let settings = [("RUN_TIMOUT", "6s")];
    let output = call_in(directory.path(), &["check-config"], &settings).await;
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"warning: RUN_TIMOUT is no setting and is ignored: is RUN_TIMEOUT meant?");
}
