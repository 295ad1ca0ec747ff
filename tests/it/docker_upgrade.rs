//! Data of an earlier version: served as it was, and left so that that version can serve it again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::json;

use crate::support::server::Server;

/// A `SANDBOX_ROOT` of version 0.1 without what a backup leaves out: two conversations, one with a package.
const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/data-0.1.tar.gz"
);
const DEMO: &str = "d37f9d4888643a678de0b9cfeea7f508a68a3ba3ec1decbd3b6e12c0f01bf527";
const OTHER: &str = "bc9e2e9c2745c86866b14d07005ab637f5f2b2ddba1c3aa6d52201f0427c17e8";
/// All that version 0.1 has in that directory. What it does not know it would not take care of.
const KNOWN: [&str; 8] = [
    ".bin",
    ".older",
    ".packages",
    ".root-id",
    ".servers",
    ".tmp",
    ".used",
    DEMO,
];
const READY: Duration = Duration::from_mins(1);

fn unpack(data: &Path) {
    fs::create_dir(data).unwrap();
    let status = Command::new("tar")
        .args([
            "--extract",
            "--numeric-owner",
            "--file",
            DATA,
            "--directory",
        ])
        .arg(data)
        .status()
        .unwrap();
    assert!(status.success());
    let now = SystemTime::now();
    for (conversation, last_use) in [(DEMO, now), (OTHER, now - Duration::from_hours(48))] {
        let note = fs::File::options()
            .write(true)
            .open(data.join(".used").join(conversation))
            .unwrap();
        note.set_modified(last_use).unwrap();
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn data_of_an_earlier_version_is_served_and_can_be_served_by_it_again() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    unpack(&data);
    let owner = fs::metadata(data.join(DEMO)).unwrap().uid();
    let note = fs::read_to_string(data.join(".used").join(DEMO)).unwrap();
    let mut server = Server::start(
        root.path(),
        &[("POOL_SIZE", "0"), ("CONVERSATION_TTL", "1d")],
    )
    .await;
    server.until_ready(READY).await;

    let listed = server
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    let files: Vec<_> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["name"])
        .collect();
    assert_eq!(files, ["notes.txt", "sub/größe.txt"]);
    // By the very link that the earlier version gave.
    let link = format!("http://{}/files/{DEMO}/notes.txt", server.addr());
    assert_eq!(
        reqwest::get(link).await.unwrap().text().await.unwrap(),
        "hello\n"
    );
    let code = "import tinyone\nprint(tinyone.VALUE, open('sub/größe.txt').read().strip())\nopen('more.txt', 'w').write('x')";
    let run = json!({ "conversationId": "demo", "language": "python", "code": code });
    let ran = server.call("run_code", run).await;
    assert_eq!(ran["stdout"], "one 1.0 made\n", "{ran}");
    // Its last use was known, and long ago.
    assert!(!data.join(OTHER).exists() && !data.join(".used").join(OTHER).exists());

    server.signal(Signal::TERM);
    assert!(server.ended(READY).await.success());
    assert_eq!(names(&data), KNOWN.map(str::to_owned).into());
    assert_eq!(
        names(&data.join(".used")),
        BTreeSet::from([DEMO.to_owned()])
    );
    assert_eq!(
        fs::read_to_string(data.join(".used").join(DEMO)).unwrap(),
        note
    );
    assert_eq!(fs::metadata(data.join(DEMO)).unwrap().uid(), owner);
    assert!(data.join(DEMO).join("more.txt").exists());
}
