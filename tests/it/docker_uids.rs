//! A user for each conversation, on the real engine.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::docker_packages::Host;
use crate::support::{TestApp, eventually};

const UIDS: (&str, &str) = ("SANDBOX_UIDS", "70000-79999");
const WARM: [(&str, &str); 2] = [("POOL_SIZE", "python=1"), ("SANDBOX_REUSE", "conversation")];

async fn run_with(
    app: &TestApp,
    conversation: &str,
    language: &str,
    code: &str,
    stateful: bool,
) -> String {
    let arguments = json!({
        "conversationId": conversation, "language": language, "code": code, "stateful": stateful,
    });
    let outcome = app.call("run_code", arguments).await;
    assert_eq!(outcome["status"], "ok", "{outcome}");
    outcome["output"].as_str().unwrap().trim().to_owned()
}

async fn run(app: &TestApp, conversation: &str, language: &str, code: &str) -> String {
    run_with(app, conversation, language, code, false).await
}

fn owner(path: &Path) -> String {
    let stat = std::fs::symlink_metadata(path).unwrap();
    format!("{} {}", stat.uid(), stat.gid())
}

/// The user of a conversation's programs, however they run, which owns what they make.
async fn user(app: &TestApp, conversation: &str) -> String {
    let python = "import os\nopen('by-python', 'w').close()\nprint(os.getuid(), os.getgid())";
    let user = run(app, conversation, "python", python).await;
    for stateful in [false, true] {
        assert_eq!(
            run_with(app, conversation, "python", python, stateful).await,
            user
        );
    }
    let shell = "mkdir -p sub\ntouch sub/by-shell\necho $(id -u) $(id -g)";
    assert_eq!(run(app, conversation, "shell", shell).await, user);
    let typescript = "import { writeFileSync } from 'node:fs';\nwriteFileSync('by-typescript', '');\n\
                      console.log(process.getuid(), process.getgid());";
    assert_eq!(run(app, conversation, "typescript", typescript).await, user);
    let upload =
        json!({ "conversationId": conversation, "filename": "up/loaded", "content": "YQ==" });
    app.call("upload_file", upload).await;
    run(
        app,
        conversation,
        "shell",
        "echo more >> up/loaded && mv up/loaded up/moved && mkdir -p up/more",
    )
    .await;
    let data = app.workspace(conversation);
    for name in [
        "",
        "by-python",
        "sub",
        "sub/by-shell",
        "by-typescript",
        "up",
        "up/moved",
    ] {
        assert_eq!(owner(&data.join(name)), user, "{name}");
    }
    user
}

#[tokio::test]
async fn conversations_keep_users_of_their_own() {
    let app = TestApp::on_docker_with(&[&[UIDS][..], &WARM].concat()).await;
    app.parked("python", 1).await;
    let first = user(&app, "first").await;
    let second = user(&app, "second").await;
    assert_ne!(first, second);
    assert!(
        first.starts_with('7') && second.starts_with('7'),
        "{first}, {second}"
    );
    let app = app.restarted_on_docker(&[UIDS]).await;
    let third = user(&app, "third").await;
    assert!(third != first && third != second, "{third}");
    assert_eq!(user(&app, "second").await, second);
    assert_eq!(user(&app, "first").await, first);
    app.app.shut_down().await;
}

#[tokio::test]
async fn the_sandbox_holds_with_users_of_their_own() {
    let app = TestApp::on_docker_with(&[UIDS]).await;
    app.app
        .parts
        .gate
        .proof
        .set(mcp_code_sandbox::gate::proof::ProofState::Pending);
    app.app.prove();
    eventually("it is checked", || !app.app.parts.gate.proof.is_pending()).await;
    run(&app, "demo", "shell", "true").await;
    app.app.shut_down().await;
}

/// Files, folders, links of both kinds, a closed folder.
const MAKE: &str = "mkdir -p a/b closed\necho one > a/b/file\nln a/b/file a/same\nln -s b/file a/link\n\
                    ln -s /etc/passwd a/out\necho two > closed/file\nchmod 0 closed/file closed\nid -u";
/// Only for who owns all of it.
const CHANGE: &str = "set -e\nchmod 700 closed\nchmod 600 closed/file\necho more >> closed/file\necho more >> a/same\n\
                      cat a/b/file a/link closed/file | tr '\\n' ' '\nln a/b/file a/third\nrm a/third\nid -u";

#[tokio::test]
async fn a_conversation_from_before_goes_on_and_so_does_one_afterwards() {
    let app = TestApp::on_docker().await;
    assert_eq!(run(&app, "demo", "shell", MAKE).await, "1000");
    let passwd = owner(Path::new("/etc/passwd"));
    let app = app.restarted_on_docker(&[UIDS]).await;
    let said = run(&app, "demo", "shell", CHANGE).await;
    let (text, uid) = said.rsplit_once(' ').unwrap();
    assert_eq!(text, "one more one more two more");
    assert!(uid.starts_with('7'), "{said}");
    let data = app.workspace("demo");
    for name in [
        "",
        "a",
        "a/b",
        "a/b/file",
        "a/link",
        "a/out",
        "closed",
        "closed/file",
    ] {
        assert_eq!(owner(&data.join(name)), format!("{uid} {uid}"), "{name}");
    }
    // And back.
    let app = app.restarted_on_docker(&[]).await;
    let said = run(&app, "demo", "shell", CHANGE).await;
    assert_eq!(said, "one more more one more more two more more 1000");
    assert_eq!(owner(Path::new("/etc/passwd")), passwd);
    app.app.shut_down().await;
}

/// Takes all inotify instances and all bytes of POSIX message queues that its user may have, until it is told that this
/// is enough.
const TAKE_ALL: &str = "
import ctypes, os, time
libc = ctypes.CDLL(None)
taken = [0, 0]
while libc.inotify_init1(0) >= 0:
    taken[0] += 1
while libc.mq_open(b'/%d' % taken[1], os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
    taken[1] += 1
open('/data/taken', 'w').close()
while not os.path.exists('/data/enough'):
    time.sleep(0.01)
print(*taken)
";
/// Takes one of each.
const TAKE_ONE: &str = "
import ctypes, os
libc = ctypes.CDLL(None)
print(libc.inotify_init1(0) >= 0, libc.mq_open(b'/one', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0)
";

/// What one conversation gets while another has taken everything.
async fn beside_a_greedy_one(settings: &[(&str, &str)]) -> String {
    let app = TestApp::on_docker_with(settings).await;
    let all = run(&app, "greedy", "python", TAKE_ALL);
    let one = async {
        let taken = app.workspace("greedy").join("taken");
        eventually("everything is taken", || taken.exists()).await;
        let got = run(&app, "modest", "python", TAKE_ONE).await;
        let enough = json!({ "conversationId": "greedy", "filename": "enough", "content": "YQ==" });
        app.call("upload_file", enough).await;
        got
    };
    let (all, got) = tokio::join!(all, one);
    let all: Vec<u32> = all.split(' ').map(|count| count.parse().unwrap()).collect();
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
    app.app.shut_down().await;
    got
}

#[tokio::test]
async fn per_user_counts_are_per_conversation() {
    assert_eq!(beside_a_greedy_one(&[UIDS]).await, "True True");
    // Without the setting one takes it from the other: or this test would show nothing.
    assert_eq!(beside_a_greedy_one(&[]).await, "False False");
}

#[tokio::test]
async fn packages_are_installed_for_the_conversations_user() {
    let host = Host::with(&[UIDS]).await;
    let installed: Value = host.install("python", json!(["tinyone==1.0"])).await;
    assert_eq!(installed["success"], true, "{installed}");
    let uid = host
        .run("python", "import os, tinyone\nprint(os.getuid())")
        .await;
    let uid = uid.trim();
    assert!(uid.starts_with('7'), "{uid}");
    let packages = host.app.workspace("demo").join(".packages/python");
    assert_eq!(owner(&packages), format!("{uid} {uid}"));
    host.run("shell", "rm -r .packages/python/tinyone*").await;
    host.ends().await;
}

#[tokio::test]
async fn the_other_name_of_the_directory_has_the_same_user() {
    let app = TestApp::on_docker_with(&[UIDS, ("MCP_TOOLSET", "artifacts")]).await;
    let code = "import os\nopen('/mnt/data/a.txt', 'w').write('x')\nprint(os.stat('/data/a.txt').st_uid == os.getuid())";
    let params = json!({ "name": "sandbox_run_python", "arguments": { "code": code } });
    let ran = app.rpc("tools/call", params).await["result"]["structuredContent"].clone();
    assert_eq!(ran["stdout"], "True\n", "{ran}");
    app.app.shut_down().await;
}
