//! Conversations that are no longer used: what counts as a use, what is never taken away, and what goes first.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::Method;
use base64::Engine as _;
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use serde_json::{Value, json};

use crate::support::{TestApp, config, eventually};

const DAY: Duration = Duration::from_hours(24);

impl TestApp {
    /// Sweeps as if `time` had passed. Returns how many conversations were taken away.
    async fn sweep_after(&self, time: Duration) -> usize {
        sweep_after(&self.app, time).await
    }

    /// The file whose time is that of the conversation's last use.
    fn note(&self, conversation: &str) -> PathBuf {
        let workspace = self.workspace(conversation);
        self.root()
            .join(".used")
            .join(workspace.file_name().unwrap())
    }

    fn set_last_use(&self, conversation: &str, time: SystemTime) {
        File::options()
            .write(true)
            .open(self.note(conversation))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    async fn upload_to(&self, conversation: &str, bytes: usize) -> Value {
        let content = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
        let arguments =
            json!({ "conversationId": conversation, "filename": "file", "content": content });
        self.call("upload_file", arguments).await
    }

    /// Another server on the same directory, which remembers nothing.
    fn restarted(&self) -> App {
        let fake = FakeExecutor::with_languages(&["shell"]);
        App::on(Arc::new(fake), config(self.root(), &[])).unwrap()
    }
}

async fn sweep_after(app: &App, time: Duration) -> usize {
    let swept = app.expiry().sweep(SystemTime::now() + time).await.unwrap();
    swept.expired
}

#[tokio::test]
async fn unused_conversations_expire_also_after_a_restart() {
    let app = TestApp::on_fake().await;
    for conversation in ["old", "young"] {
        app.upload_to(conversation, 10).await;
    }
    app.set_last_use("old", SystemTime::now() - 2 * DAY);
    let next = app.restarted();
    assert_eq!(sweep_after(&next, 4 * DAY).await, 0);
    assert_eq!(sweep_after(&next, 6 * DAY).await, 1);
    assert!(!app.workspace("old").exists() && !app.note("old").exists());
    assert!(app.workspace("young").exists());
    assert_eq!(sweep_after(&next, 8 * DAY).await, 1);
    let listed = app
        .call("list_files", json!({ "conversationId": "young" }))
        .await;
    assert_eq!(listed["files"], json!([]));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn nothing_expires_where_that_is_switched_off() {
    let app = TestApp::on_fake_with(&[("CONVERSATION_TTL", "0")]).await;
    app.upload_to("demo", 10).await;
    assert_eq!(app.sweep_after(10_000 * DAY).await, 0);
}

#[tokio::test]
async fn runs_reads_and_downloads_are_uses_and_times_in_data_are_none() {
    let app = TestApp::on_fake().await;
    let uploaded = app.upload_to("demo", 10).await;
    let arguments = json!({ "conversationId": "demo", "filename": "file" });
    let url = uploaded["file"]["url"].as_str().unwrap();
    let uses = [
        (
            "tools/call",
            json!({ "name": "read_file", "arguments": arguments }),
        ),
        ("GET", Value::Null),
        (
            "tools/call",
            json!({ "name": "run_code", "arguments": { "conversationId": "demo", "language": "shell", "code": "echo" } }),
        ),
    ];
    for (method, params) in uses {
        app.set_last_use("demo", SystemTime::now() - 6 * DAY);
        // A server that has not noted a use within the last minute.
        let other = TestApp::beside(&app).await;
        if method == "GET" {
            assert_eq!(other.download(&json!(url)).await.status, 200);
        } else {
            assert!(other.rpc(method, params).await["result"].is_object());
        }
        assert_eq!(other.sweep_after(2 * DAY).await, 0, "{method} is a use");
    }
    app.set_last_use("demo", SystemTime::now() - 6 * DAY);
    // A program owns this directory.
    let data = File::open(app.workspace("demo")).unwrap();
    data.set_modified(SystemTime::now() + 100 * DAY).unwrap();
    fs::set_permissions(app.workspace("demo"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(app.sweep_after(2 * DAY).await, 1);
}

#[tokio::test]
async fn a_conversation_with_a_kernel_stays() {
    let settings = [
        ("CONVERSATION_TTL", "10m"),
        ("SANDBOX_IDLE_TTL", "1m"),
        ("KERNEL_TIMEOUT", "1h"),
    ];
    let app = TestApp::on_fake_with_notebook(&settings).await;
    let cell = json!({
        "conversationId": "demo", "language": "notebook", "code": "echo", "stateful": true,
    });
    assert_eq!(app.call("run_code", cell).await["status"], "ok");
    assert_eq!(app.sweep_after(Duration::from_mins(30)).await, 0);
    assert_eq!(app.sweep_after(Duration::from_hours(2)).await, 1);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn conversations_in_use_do_not_expire() {
    let warm = [("POOL_SIZE", "1"), ("SANDBOX_REUSE", "conversation")];
    let app = TestApp::on_fake_with(&warm).await;
    app.parked("shell", 1).await;
    let during = async {
        eventually("the run is in progress", || app.workspace("demo").exists()).await;
        app.sweep_after(100 * DAY).await
    };
    let (result, expired) = tokio::join!(app.run("shell", "sleep 0.5\necho done"), during);
    assert_eq!((&result["stdout"], expired), (&json!("done\n"), 0));
    let pool = &app.app.parts.pool;
    eventually("the sandbox is kept", || pool.count().1 == 1).await;
    // For as long as a conversation keeps its sandbox, plus a minute.
    assert_eq!(app.sweep_after(Duration::from_mins(5)).await, 0);
    assert_eq!(app.sweep_after(8 * DAY).await, 1);
    assert_eq!(pool.count().1, 0);
    // The same id starts anew.
    let again = app.run("shell", "echo again").await;
    assert_eq!(again["stdout"], "again\n");
    app.assert_nothing_is_left().await;
}

/// A file system without a spare inode, on which nothing can be made any more.
#[tokio::test]
async fn a_file_system_that_is_full_can_be_emptied() {
    let small = SmallDisk::new();
    let app = TestApp::on_fake_changed(|config| {
        config.storage.root = small.0.path().to_owned();
    })
    .await;
    let place = |conversation: &str| {
        let key = app.workspace(conversation);
        small.0.path().join(key.file_name().unwrap())
    };
    for conversation in ["deleted", "expired", "without a note"] {
        assert_eq!(app.upload_to(conversation, 10).await["success"], true);
        fs::create_dir(place(conversation).join("in")).unwrap();
    }
    let notes = small.0.path().join(".used");
    fs::remove_file(notes.join(place("without a note").file_name().unwrap())).unwrap();
    let fill = |conversation: &str| {
        let folder = |number| place(conversation).join(format!("in/{number}/below"));
        let full = (0..).find_map(|number| fs::create_dir_all(folder(number)).err());
        assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
    };
    fill("deleted");
    let arguments = json!({ "conversationId": "deleted" });
    let deleted = app.call("delete_conversation", arguments).await;
    assert_eq!(deleted["existed"], true, "{deleted}");
    app.app
        .parts
        .files
        .workspaces
        .wait_for_background_work()
        .await;
    fill("expired");
    assert_eq!(app.sweep_after(8 * DAY).await, 2);
    assert!(!place("expired").exists() && !place("without a note").exists());
    assert_eq!(app.upload_to("new", 10).await["success"], true);
}

/// A file system with few inodes, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                "size=8m,nr_inodes=2k,nosuid,nodev",
                "tmpfs",
            ])
            .arg(dir.path())
            .status();
        assert!(mount.unwrap().success());
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

#[tokio::test]
async fn the_least_recently_used_go_first_when_all_take_too_much() {
    let app = TestApp::on_fake_with(&[("STORAGE_LIMIT", "1m")]).await;
    let now = SystemTime::now();
    for (conversation, minutes) in [("first", 30), ("second", 20), ("third", 10)] {
        app.upload_to(conversation, 400 << 10).await;
        app.set_last_use(conversation, now - Duration::from_mins(minutes));
    }
    // The third upload woke the server's own sweep.
    eventually("the oldest one is gone", || {
        !app.workspace("first").exists()
    })
    .await;
    assert_eq!(app.sweep_after(Duration::ZERO).await, 0);
    let there = ["second", "third"].map(|name| app.workspace(name).exists());
    assert_eq!(there, [true, true]);
    assert!(app.app.parts.files.workspaces.stored() <= 1 << 20);
}

#[tokio::test]
async fn a_storage_full_of_what_is_in_use_is_named() {
    let app = TestApp::on_fake_with(&[("STORAGE_LIMIT", "1m")]).await;
    for conversation in ["first", "second"] {
        app.upload_to(conversation, 600 << 10).await;
    }
    assert_eq!(app.sweep_after(Duration::ZERO).await, 0);
    for refused in [
        app.upload_to("third", 10).await,
        app.run("shell", "echo hi").await,
    ] {
        assert_eq!(refused["code"], "storage_full");
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused["message"].as_str().unwrap(), @"the server's storage is full (STORAGE_LIMIT, 1048576 bytes) and every conversation is in use: delete conversations that are over, or try again later");
        }
    }
    app.call("delete_conversation", json!({ "conversationId": "first" }))
        .await;
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_full_storage_has_room_again_when_a_file_is_deleted() {
    let app = TestApp::on_fake_with(&[("STORAGE_LIMIT", "1m")]).await;
    for conversation in ["first", "second"] {
        app.upload_to(conversation, 600 << 10).await;
    }
    app.sweep_after(Duration::ZERO).await;
    assert_eq!(app.run("shell", "echo hi").await["code"], "storage_full");
    let list = app
        .call("list_files", json!({ "conversationId": "first" }))
        .await;
    let name = list["files"][0]["name"].as_str().unwrap();
    let file = format!("/api/v1/conversations/first/files/{name}");
    assert_eq!(app.ask(Method::DELETE, &file).await.status, 204);
    app.sweep_after(Duration::ZERO).await;
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
}

#[tokio::test]
async fn notes_of_what_is_gone_go_too_and_directories_without_one_begin_now() {
    let app = TestApp::on_fake().await;
    app.upload_to("demo", 10).await;
    fs::remove_file(app.note("demo")).unwrap();
    let orphan = app.root().join(".used").join("f".repeat(64));
    fs::write(&orphan, "").unwrap();
    assert_eq!(app.sweep_after(6 * DAY).await, 0);
    assert!(app.note("demo").exists() && !orphan.exists());
    assert_eq!(app.sweep_after(8 * DAY).await, 1);
}

#[tokio::test]
async fn trees_that_fight_back_are_deleted() {
    let app = TestApp::on_fake().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "").unwrap();
    for shape in ["shut", "deep", "many", "fixed"] {
        app.upload_to(shape, 10).await;
        let data = app.workspace(shape);
        symlink(outside.path(), data.join("link")).unwrap();
        make(shape, &data);
    }
    assert_eq!(app.sweep_after(8 * DAY).await, 3, "all but one");
    for shape in ["shut", "deep", "many"] {
        assert!(!app.workspace(shape).exists());
    }
    assert!(outside.path().join("kept").exists());
    // What the kernel refuses to delete is out of sight, and does not keep the rest from being deleted.
    assert!(!app.workspace("fixed").exists());
    let left = files_in(&app.root().join(".tmp"));
    assert_eq!(left.len(), 1, "{left:?}");
    let beside = fs::read_dir(left[0].parent().unwrap()).unwrap();
    assert_eq!(beside.count(), 1, "nor what is beside it");
    set_immutable(&left[0], false);
}

fn make(shape: &str, data: &Path) {
    match shape {
        "shut" => {
            fs::create_dir_all(data.join("a/b")).unwrap();
            fs::write(data.join("a/b/file"), "").unwrap();
            for folder in ["a/b", "a", ""] {
                let nobody = fs::Permissions::from_mode(0o0);
                fs::set_permissions(data.join(folder), nobody).unwrap();
            }
        }
        "deep" => {
            let mut dir = File::open(data).unwrap();
            for _ in 0..3_000 {
                rustix::fs::mkdirat(&dir, "d", rustix::fs::Mode::RWXU).unwrap();
                let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
                let next = rustix::fs::openat(&dir, "d", flags, rustix::fs::Mode::empty());
                dir = File::from(next.unwrap());
            }
        }
        "many" => {
            // Many names of few files: a file system takes time for each new file after many were deleted.
            for file in 0..4 {
                let first = data.join(format!("{file}"));
                fs::write(&first, "").unwrap();
                for number in 1..50_000 {
                    fs::hard_link(&first, data.join(format!("{file}-{number}"))).unwrap();
                }
            }
        }
        _ => {
            fs::create_dir(data.join("sub")).unwrap();
            for other in 0..20 {
                fs::write(data.join(format!("sub/{other}")), "").unwrap();
                fs::create_dir_all(data.join(format!("sub/folder{other}/in"))).unwrap();
            }
            fs::write(data.join("sub/fixed"), "").unwrap();
            set_immutable(&data.join("sub/fixed"), true);
        }
    }
}

/// Needs root, and a file system that knows the flag.
fn set_immutable(path: &Path, immutable: bool) {
    let file = File::open(path).unwrap();
    let mut flags = ioctl_getflags(&file).unwrap();
    flags.set(IFlags::IMMUTABLE, immutable);
    ioctl_setflags(&file, flags).unwrap();
}

/// All files below a directory.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_in(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
