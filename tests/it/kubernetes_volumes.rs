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

use crate::support::{TestApp, eventually};

/// A directory, mounted at another place, where attributes are remembered for a minute.
struct Volume {
    /// As another machine has it.
    served: TempDir,
    /// As the server has it.
    mounted: Arc<TempDir>,
}

impl Volume {
    fn new() -> Self {
        let (served, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let done = Command::new("bindfs")
            .args(["-o", "attr_timeout=60,entry_timeout=60"])
            .args([served.path(), mounted.path()])
            .status()
            .expect("bindfs is there: ./test.sh cluster installs it");
        assert!(done.success());
        Self {
            served,
            mounted: Arc::new(mounted),
        }
    }

    /// What the other machine finds in the directory of a conversation.
    fn served(&self, app: &TestApp, conversation: &str) -> std::path::PathBuf {
        let workspace = app.workspace(conversation);
        self.served.path().join(workspace.file_name().unwrap())
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
