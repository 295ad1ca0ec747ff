//! Programs that take all there is of the disk: bytes, files, names.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use super::{Target, assert_nothing_is_out_of_sight, end};
use crate::support::TestApp;
use crate::support::engines::Engine;

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn the_quota_stops_many_large_files(#[case] engine: Engine) {
    let target = Target::on(engine, &[("WORKSPACE_QUOTA", "50m")]).await;
    let result = target.attack("many_large_files.py", 30).await;
    assert_eq!(end(&result), ("disk_limit", None), "{result}");
    // Checks are some milliseconds apart, more on a busy machine, and a fast disk takes a lot in that time.
    let taken = size_of(&target.app.workspace("demo"));
    assert!(taken < 562 << 20, "{} MiB", taken >> 20);
    let full = target.app.upload("one-more", b"x").await;
    assert_eq!(full["code"], "quota_exceeded", "{full}");
    assert_eq!(target.app.run("shell", "rm -f *").await["status"], "ok");
    assert_eq!(target.app.upload("one-more", b"x").await["success"], true);
    target.settle().await;
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn the_limit_on_files_stops_many_small_ones(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let result = target.run("many_small_files.py", 60, json!({})).await;
    assert_eq!(end(&result), ("disk_limit", None), "{result}");
    assert!(
        result["hint"]
            .as_str()
            .unwrap()
            .contains("more than 100000 files"),
        "{result}"
    );
    target.settle().await;
    // What is left of the conversation can still be looked at, tidied up, and deleted.
    list_is_short(&target.app).await;
    let tidy = target
        .app
        .run(
            "shell",
            "cd many && printf '%s\\0' * | xargs -0 rm && cd .. && rmdir many && echo tidy",
        )
        .await;
    assert_eq!(
        (end(&tidy), &tidy["stdout"]),
        (("ok", Some(0)), &json!("tidy\n")),
        "{tidy}"
    );
    delete_is_quick(&target.app).await;
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn the_quota_holds_where_nobody_looks(#[case] engine: Engine) {
    for place in ["deep", "behind many names"] {
        let target = Target::on(engine, &[("WORKSPACE_QUOTA", "20m")]).await;
        let mut last = json!(null);
        // A check may come too late for one of them, but none begins once the files are 512 MiB over the quota. The
        // first makes the names that the others hide behind.
        for number in 1..=4 {
            last = target
                .run("hidden_bytes.py", 60, json!({ "WHERE": place }))
                .await;
            target.settle().await;
            if number > 1 && last["status"] == "disk_limit" {
                break;
            }
        }
        assert_eq!(last["status"], "disk_limit", "{place}: {last}");
        let taken = size_of(&target.app.workspace("demo"));
        // None hides more than 400 MiB.
        assert!(taken < 935 << 20, "{place}: {} MiB", taken >> 20);
        target.finish().await;
    }
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_long_list_of_files_is_cut(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let result = target.attack("long_list.py", 30).await;
    assert_eq!(
        (end(&result), &result["filesTruncated"]),
        (("ok", Some(0)), &json!(true))
    );
    // Their names are long: fewer than 100 fit.
    let (listed, left_out) = (&result["files"], &result["filesLeftOut"]);
    let listed = listed.as_array().unwrap().len() as u64;
    assert!((10..100).contains(&listed), "{listed}");
    assert_eq!(listed + left_out.as_u64().unwrap(), 1_000);
    assert!(
        result.to_string().len() < 45_000,
        "{}",
        result.to_string().len()
    );
    list_is_short(&target.app).await;
    delete_is_quick(&target.app).await;
    target.finish().await;
}

async fn list_is_short(app: &TestApp) {
    let started = Instant::now();
    let list = app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert!(list["truncated"].is_string(), "{}", list["truncated"]);
    assert!(list["files"].as_array().unwrap().len() <= 1000);
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

async fn delete_is_quick(app: &TestApp) {
    let started = Instant::now();
    let deleted = app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(deleted["existed"], true);
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    app.app
        .parts
        .files
        .workspaces
        .wait_for_background_work()
        .await;
    assert_nothing_is_out_of_sight(app);
}

/// Bytes of disk of all files below a directory, some of which may disappear during the count.
pub(super) fn size_of(directory: &Path) -> u64 {
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}
