//! Nothing is left behind: many runs of all kinds, and the server, the engine and the disk before and after.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::wait::within;

const RUNS: usize = 300;
const CONVERSATIONS: usize = 3;
const AT_ONCE: usize = 3;
const SETTINGS: &[(&str, &str)] = &[
    ("POOL_SIZE", "python=1,shell=1,typescript=1"),
    ("RUN_OUTPUT_LIMIT", "64k"),
];
/// One of each language.
const POOLED: usize = 3;
const SETTLE: Duration = Duration::from_mins(1);

/// Programs with their expected status.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("python", "print(1)", "ok"),
    (
        "python",
        "import pandas; print(pandas.DataFrame({'a': [1]}).a.sum())",
        "ok",
    ),
    ("typescript", "console.log(1)", "ok"),
    ("shell", "echo 1", "ok"),
    ("python", "raise ValueError(1)", "error"),
    ("python", "import sys; sys.exit(137)", "error"),
    (
        "python",
        "open('f', 'w').write('x' * 10000); open('/tmp/f', 'w').write('x')",
        "ok",
    ),
    ("shell", "sleep 1000 & exit 3", "error"),
    (
        "python",
        "import os\nif os.fork() == 0:\n    while True: pass",
        "ok",
    ),
    ("python", "import os; os.kill(os.getpid(), 9)", "error"),
    ("typescript", "throw new Error('x')", "error"),
    ("shell", "yes", "output_limit"),
    ("python", "while True: pass", "timeout"),
    (
        "python",
        "x = []\nwhile True: x.append(bytearray(b'x' * (8 << 20)))",
        "out_of_memory",
    ),
];

#[tokio::test]
async fn hundreds_of_runs_leave_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(root.path(), SETTINGS).await;
    server.until_ready(SETTLE).await;
    // The first ones make what is made only once.
    many(&server, 60).await;
    clear(&server, root.path()).await;
    let before = Footprint::of(&server);
    many(&server, RUNS).await;
    clear(&server, root.path()).await;
    let after = Footprint::of(&server);
    assert!(
        after.descriptors <= before.descriptors + 4,
        "{before:?} {after:?}"
    );
    assert!(
        after.resident <= before.resident + (20 << 10),
        "KiB: {before:?} {after:?}"
    );
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended(Duration::from_secs(30)).await.success());
    assert_eq!(containers(root.path()), 0);
    assert_eq!(directories(root.path()), Vec::<String>::new());
}

/// Runs programs in turn, some at the same time, and checks the outcome of each.
async fn many(server: &Server, count: usize) {
    let runs = (0..count).map(async |number| {
        let (language, code, status) = PROGRAMS[number % PROGRAMS.len()];
        let conversation = format!("leaks-{}", number % CONVERSATIONS);
        let timeout = if status == "timeout" { 0.3 } else { 20.0 };
        let arguments = json!({
            "conversationId": conversation, "language": language, "code": code, "timeoutSeconds": timeout
        });
        let result = server.call("run_code", arguments).await;
        assert_eq!(result["status"], status, "{language} {code}: {result}");
        if number % 40 == 39 {
            let arguments = json!({ "conversationId": format!("leaks-once-{number}") });
            let mut run = arguments.clone();
            run["language"] = "shell".into();
            run["code"] = "touch x".into();
            server.call("run_code", run).await;
            server.call("delete_conversation", arguments).await;
        }
    });
    futures::stream::iter(runs)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
}

/// Deletes the conversations and waits until only the pool is left.
async fn clear(server: &Server, root: &Path) {
    for number in 0..CONVERSATIONS {
        let arguments = json!({ "conversationId": format!("leaks-{number}") });
        let deleted: Value = server.call("delete_conversation", arguments).await;
        assert_eq!(deleted["existed"], true, "{deleted}");
    }
    let only_the_pool = async || (containers(root) == POOLED).then_some(());
    within(SETTLE, "only the pool is left", only_the_pool).await;
    let slots = async || (slots(root) == POOLED).then_some(());
    within(SETTLE, "only the pool's slots are left", slots).await;
    assert_eq!(directories(root), Vec::<String>::new());
}

/// What the server's process holds.
#[derive(Debug)]
struct Footprint {
    descriptors: usize,
    /// KiB.
    resident: u64,
}

impl Footprint {
    fn of(server: &Server) -> Self {
        let process = format!("/proc/{}", server.pid());
        Self {
            descriptors: fs::read_dir(format!("{process}/fd")).unwrap().count(),
            resident: server.resident(),
        }
    }
}

/// The containers of this server's directory, in whatever state.
fn containers(root: &Path) -> usize {
    let id = fs::read_to_string(root.join("data/.root-id")).unwrap();
    let filter = format!("label=sandbox.root={id}");
    let output = Command::new("docker")
        .args(["ps", "-aq", "--filter", &filter])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().count()
}

fn slots(root: &Path) -> usize {
    fs::read_dir(root.join("data/.tmp")).unwrap().count()
}

/// The directories of conversations.
fn directories(root: &Path) -> Vec<String> {
    let names = fs::read_dir(root.join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .map(|name| name.into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect()
}
