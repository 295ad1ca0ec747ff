//! Volumes that other machines change too: stood for by a file system in user space, which remembers what files are for
//! as long as it was told to, and knows no flags of `renameat2`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::gate::proof::ProofState;
use serde_json::json;
use tempfile::TempDir;

use crate::support::engines::Configured;
use crate::support::{TestApp, eventually};

/// A directory, mounted at another place.
struct Volume {
    /// As another machine has it.
    served: Arc<TempDir>,
    /// As the server has it.
    mounted: Arc<TempDir>,
}

impl Volume {
    /// Which remembers attributes for a minute.
    fn new() -> Self {
        Self::mount(&["-o", "attr_timeout=60,entry_timeout=60"])
    }

    /// What the other machine finds in the directory of a conversation.
    fn served(&self, app: &TestApp, conversation: &str) -> std::path::PathBuf {
        let workspace = app.workspace(conversation);
        self.served.path().join(workspace.file_name().unwrap())
    }

    /// With what goes by paths in between: whatever is open there is lost once another machine renames it.
    fn by_paths() -> Self {
        Self::mount(&[])
    }

    fn mount(options: &[&str]) -> Self {
        let (served, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let done = Command::new("bindfs")
            .args(options)
            .args([served.path(), mounted.path()])
            .status()
            .expect("bindfs is there: ./test.sh cluster installs it");
        assert!(done.success());
        Self {
            served: Arc::new(served),
            mounted: Arc::new(mounted),
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .args(["-l".as_ref(), self.mounted.path()])
            .status();
    }
}

async fn server(volume: &Volume) -> TestApp {
    let executor = Arc::new(FakeExecutor::with_languages(&["shell"]));
    let app = TestApp::at(Arc::clone(&volume.mounted), &[], executor).await;
    app.app.parts.gate.proof.set(ProofState::Held);
    app
}

fn append(file: &Path, text: &str) {
    use std::io::Write as _;

    let file = fs::OpenOptions::new().append(true).open(file);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn what_another_machine_wrote_is_seen_at_once() {
    let volume = Volume::new();
    let app = server(&volume).await;
    app.upload("notes.txt", b"four").await;
    let file = volume.served(&app, "demo").join("notes.txt");
    let size = async || {
        let list = app.call("list_files", json!({ "conversationId": "demo" }));
        list.await["files"][0]["size"].clone()
    };
    assert_eq!(size().await, 4);
    append(&file, " more");
    // The mount itself still answers from before.
    let mounted = app.workspace("demo").join("notes.txt");
    assert_eq!(fs::metadata(&mounted).unwrap().len(), 4);
    assert_eq!(size().await, 9);
    append(&file, " and more");
    let read = json!({ "conversationId": "demo", "filename": "notes.txt" });
    assert_eq!(
        app.call("read_file", read).await["content"],
        "four more and more"
    );
    drop(app);
}

#[tokio::test]
async fn a_directory_outlives_its_files_for_a_while() {
    let volume = Volume::new();
    let app = server(&volume).await;
    app.upload("a/b/notes.txt", b"four").await;
    let deleted = json!({ "conversationId": "demo" });
    let deleted = app.call("delete_conversation", deleted).await;
    assert_eq!(deleted["existed"], true);
    // How much is in what is out of sight.
    let left = || {
        let names = fs::read_dir(volume.served.path().join(".tmp")).unwrap();
        let folders = names.map(|name| name.unwrap().path());
        folders
            .map(|folder| fs::read_dir(folder).unwrap().count())
            .collect::<Vec<_>>()
    };
    eventually("its files are deleted", || left() == [0]).await;
    drop(app);
}

/// Sandboxes that have their files by paths, on Docker: what a cluster does with such a volume is the same.
#[tokio::test]
async fn where_a_renamed_directory_is_lost_nothing_is_started_ahead() {
    let volume = Volume::by_paths();
    let mounted = volume.mounted.path().to_str().unwrap();
    let settings = [
        ("SANDBOX_HOST_PATH", mounted),
        ("POOL_SIZE", "shell=1"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_WARM_SANDBOXES", "2"),
    ];
    let app = TestApp::at(Arc::clone(&volume.served), &settings, Arc::new(Configured)).await;
    app.app.prove();
    let proof = &app.app.parts.gate.proof;
    eventually("the sandbox is proved", || proof.now().is_ok()).await;
    let pool = &app.app.parts.pool;
    assert!(!pool.follows_renames());
    // A server for tests begins before anything is proved.
    eventually("nothing is started ahead", || pool.count().0 == 0).await;
    app.upload("a.txt", b"one").await;
    let first = app.run("shell", "cat a.txt; echo two > b.txt").await;
    assert_eq!(first["stdout"], "one", "{first}");
    eventually("the sandbox is clean", || pool.count().1 == 1).await;
    assert_eq!(app.run("shell", "cat b.txt").await["stdout"], "two\n");
    assert_eq!(
        (app.starts("pool"), app.starts("cold"), app.starts("own")),
        (0, 1, 1)
    );
    let deleted = json!({ "conversationId": "demo" });
    let deleted = app.call("delete_conversation", deleted).await;
    assert_eq!(deleted["existed"], true);
    app.assert_nothing_is_left().await;
}
