//! A user for each conversation, where no program has to run as it. Needs root, as the setting does.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::process::Output;

use mcp_code_sandbox::config::UidRange;
use mcp_code_sandbox::executor::host_paths::MountSource;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{SECRET, TOKEN, TestApp, eventually};

const UIDS: (&str, &str) = ("SANDBOX_UIDS", "70000-99999");

/// The program as seen by a user namespace, in which root is nobody, or root and nobody else.
async fn in_a_namespace(options: &[&str], argument: &str) -> Output {
    let root = tempfile::tempdir().unwrap();
    Command::new("unshare")
        .args(["--user"])
        .args(options)
        .args([env!("CARGO_BIN_EXE_mcp-code-sandbox"), argument])
        .current_dir(root.path())
        .env_clear()
        .envs([("MCP_API_TOKEN", TOKEN), ("FILE_SECRET", SECRET), UIDS])
        .env("SANDBOX_ROOT", root.path().join("data"))
        .env("MCP_HTTP_ADDR", "127.0.0.1:0")
        .env("DOCKER_HOST", "unix:///nowhere/engine.sock")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn sandbox_uids_without_root_are_refused_at_the_start() {
    for argument in ["check-config", "serve", "selftest"] {
        let output = in_a_namespace(&[], argument).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{argument}: {said}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @"SANDBOX_UIDS=70000-99999 is not valid: the server is user 65534, and only root can give files to other users. Leave SANDBOX_UIDS out, or run the server as root");
        }
    }
}

#[tokio::test]
async fn sandbox_uids_without_chown_are_refused_at_the_start() {
    for argument in ["serve", "selftest"] {
        let output = in_a_namespace(&["--map-root-user"], argument).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{argument}: {said}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @"SANDBOX_UIDS=70000-99999 is not valid: the server cannot give a directory to another user below SANDBOX_ROOT. It needs the capabilities CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER, a user namespace that has these ids, and a file system that keeps owners, as those of networks and of Docker Desktop may not. Leave SANDBOX_UIDS out where one of them is missing: Invalid argument (os error 22)");
        }
    }
}

async fn run_in(app: &TestApp, conversation: &str, language: &str) -> Value {
    let stateful = language == "notebook";
    let arguments = json!({
        "conversationId": conversation, "language": language, "code": "echo hi", "stateful": stateful,
    });
    app.call("run_code", arguments).await
}

/// Whom a conversation's directory belongs to.
fn user(app: &TestApp, conversation: &str) -> u32 {
    app.workspace(conversation).metadata().unwrap().uid()
}

#[tokio::test]
async fn containers_have_the_user_of_their_directory() {
    let app = TestApp::on_fake_with_notebook(&[
        UIDS,
        ("POOL_SIZE", "shell=1"),
        ("SANDBOX_REUSE", "conversation"),
    ])
    .await;
    app.parked("shell", 1).await;
    let mut users = BTreeSet::new();
    for conversation in ["warm", "cold"] {
        for language in ["shell", "notebook"] {
            let outcome = run_in(&app, conversation, language).await;
            assert_eq!(outcome["stdout"], "hi\n", "{outcome}");
        }
        let uid = user(&app, conversation);
        assert!((70_000..=99_999).contains(&uid) && users.insert(uid));
    }
    assert!(app.starts("pool") > 0);
    let fake = app.fake.as_ref().unwrap();
    let (specs, paths) = (fake.specs(), fake.paths());
    let of_conversations = specs
        .iter()
        .filter(|spec| spec.labels.contains_key("sandbox.conversation"));
    assert!(of_conversations.count() >= 2);
    for spec in &specs {
        assert_eq!(spec.user.uid, spec.user.gid);
        // A slot may have become a conversation's directory since.
        let MountSource::Host(data) = paths.find(&spec.data).unwrap() else {
            panic!("{spec:?}")
        };
        let data = std::fs::metadata(data);
        let is_its_users = data.map_or_else(
            |_| users.contains(&spec.user.uid),
            |data| data.uid() == spec.user.uid,
        );
        assert!(is_its_users, "{spec:?}");
    }
    app.app.shut_down().await;
}

#[tokio::test]
async fn a_sandbox_of_a_former_user_is_not_used() {
    let app = TestApp::on_fake_with(&[UIDS, ("SANDBOX_REUSE", "conversation")]).await;
    run_in(&app, "demo", "shell").await;
    eventually("the sandbox is clean", || {
        app.app.parts.pool.count() == (0, 1)
    })
    .await;
    run_in(&app, "demo", "shell").await;
    assert_eq!((app.starts("cold"), app.starts("own")), (1, 1));
    eventually("the sandbox is clean", || {
        app.app.parts.pool.count() == (0, 1)
    })
    .await;
    // As a server without the setting does.
    let (data, before) = (app.workspace("demo"), user(&app, "demo"));
    std::os::unix::fs::chown(&data, Some(1_000), Some(1_000)).unwrap();
    assert_eq!(run_in(&app, "demo", "shell").await["stdout"], "hi\n");
    assert_eq!((app.starts("cold"), app.starts("own")), (2, 1));
    assert!(![before, 1_000].contains(&user(&app, "demo")));
    app.app.shut_down().await;
}

#[tokio::test]
async fn without_the_setting_there_is_one_user_for_all() {
    let app = TestApp::on_fake().await;
    let users = ["first", "second"].map(async |conversation| {
        run_in(&app, conversation, "shell").await;
        user(&app, conversation)
    });
    assert_eq!(futures::future::join_all(users).await, [1_000, 1_000]);
    assert!(!app.root().join(".uids").exists());
}

#[tokio::test]
async fn without_a_free_user_runs_are_refused_until_a_deletion() {
    let app = TestApp::on_fake_changed(|config| {
        config.engine.uids = Some(UidRange {
            first: 70_000,
            last: 70_001,
        });
    })
    .await;
    for conversation in ["first", "second"] {
        assert_eq!(run_in(&app, conversation, "shell").await["stdout"], "hi\n");
    }
    let upload = json!({ "conversationId": "third", "filename": "a.txt", "content": "YQ==" });
    for refused in [
        run_in(&app, "third", "shell").await,
        app.call("upload_file", upload.clone()).await,
    ] {
        assert_eq!(refused["code"], "storage_full");
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused["message"].as_str().unwrap(), @"every user id of SANDBOX_UIDS=70000-70001 belongs to a conversation: delete conversations that are over, or ask the operator for a wider range");
        }
    }
    assert_eq!(run_in(&app, "second", "shell").await["stdout"], "hi\n");
    app.call("delete_conversation", json!({ "conversationId": "first" }))
        .await;
    app.app
        .parts
        .files
        .workspaces
        .wait_for_background_work()
        .await;
    assert_eq!(app.call("upload_file", upload).await["success"], true);
    app.assert_nothing_is_left().await;
}
