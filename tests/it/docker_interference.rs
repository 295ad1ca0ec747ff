//! What others do to the server's things while it runs: containers that are removed or paused, a full disk, a server
//! that is stopped for a while.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit};
use serde_json::json;

use crate::support::TestApp;
use crate::support::server::Server;
use crate::support::wait::within;

const WARM: &[(&str, &str)] = &[
    ("POOL_SIZE", "shell=1"),
    ("SANDBOX_REUSE", "conversation"),
    ("ALLOW_NETWORK", "1"),
];
const READY: Duration = Duration::from_secs(30);

/// Runs a command, which has to succeed. Returns what it prints.
fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {complaint}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The containers that have a directory below this one as `/data`.
fn containers(root: &Path) -> Vec<String> {
    let all = command(
        "docker",
        &["ps", "--all", "--quiet", "--filter", "label=sandbox.root"],
    );
    let of_root = |id: &&str| {
        let format = "{{range .Mounts}}{{.Source}} {{end}}";
        // Other containers come and go.
        let output = Command::new("docker")
            .args(["inspect", "--format", format, id])
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).contains(root.to_str().unwrap())
    };
    all.lines().filter(of_root).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_sandbox_that_somebody_removed_is_replaced() {
    let app = TestApp::on_docker_with(WARM).await;
    app.parked("shell", 1).await;
    for container in containers(app.root()) {
        command("docker", &["rm", "--force", &container]);
    }
    runs_again(&app).await;
    // The conversation's own, too.
    for container in containers(app.root()) {
        command("docker", &["rm", "--force", &container]);
    }
    runs_again(&app).await;
    app.assert_nothing_is_left().await;
}

/// A run that gets a sandbox whose end was not noticed yet is told to try again, and the next one runs.
async fn runs_again(app: &TestApp) {
    let mut result = app.run("shell", "echo new").await;
    if result["status"] == "engine_lost" {
        assert!(result["hint"].as_str().unwrap().contains("Try again"));
        result = app.run("shell", "echo new").await;
    }
    assert_eq!(result["stdout"], "new\n", "{result}");
}

#[tokio::test]
async fn a_sandbox_that_somebody_paused_is_not_the_programs_fault() {
    let app = TestApp::on_docker_with(WARM).await;
    app.parked("shell", 1).await;
    for container in containers(app.root()) {
        // runc gives up if the processes do not stop at once.
        let pause = async || {
            let output = Command::new("docker").args(["pause", &container]).output();
            output.unwrap().status.success().then_some(())
        };
        within(READY, "the container is paused", pause).await;
    }
    let arguments = json!({
        "conversationId": "demo", "language": "shell", "code": "echo hi", "timeoutSeconds": 1,
    });
    let paused = app.call("run_code", arguments.clone()).await;
    assert_eq!(paused["status"], "engine_lost", "{paused}");
    let hint = paused["hint"].as_str().unwrap();
    assert!(
        hint.contains("paused") && hint.contains("Try again"),
        "{hint}"
    );
    let again = app.call("run_code", arguments).await;
    assert_eq!(again["stdout"], "hi\n", "{again}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_server_that_was_stopped_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let mut server = Server::start(root.path(), WARM).await;
    server.until_ready(READY).await;
    let run = server.run("touch started; sleep 1; echo done");
    let stop = async {
        within(READY, "the program runs", async || {
            let mut entries = fs::read_dir(root.path().join("data")).ok()?.flatten();
            entries
                .any(|entry| entry.path().join("started").exists())
                .then_some(())
        })
        .await;
        server.signal(Signal::STOP);
        // Until after the program's end.
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Nor can it open anything any more, not even the directory of the program.
        let before = server.limit_files(Rlimit {
            current: Some(0),
            ..getrlimit(Resource::Nofile)
        });
        server.signal(Signal::CONT);
        before
    };
    let (result, files) = tokio::join!(run, stop);
    server.limit_files(files);
    let result = result.unwrap();
    assert_eq!(result["stdout"], "done\n");
    // What the program did still counts.
    assert_eq!(
        (&result["status"], &result["filesTruncated"]),
        (&json!("ok"), &json!(true))
    );
    assert!(
        result["hint"].as_str().unwrap().contains("list_files"),
        "{result}"
    );
    assert_eq!(server.run("echo hi").await.unwrap()["stdout"], "hi\n");
    server.signal(Signal::TERM);
    assert!(server.ended(READY).await.success());
    assert_eq!(containers(root.path()), [""; 0]);
}

/// A small file system, until it is dropped.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(at: &'a Path) -> Self {
        let at_text = at.to_str().unwrap();
        command(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                "size=32m,nosuid,nodev",
                "tmpfs",
                at_text,
            ],
        );
        Self(at)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_named_and_the_server_goes_on() {
    // With a floor, and when not a byte is left.
    for (floor, filler) in [("4m", 29 << 20), ("0", 64 << 20)] {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        fs::create_dir(&data).unwrap();
        let _mount = Mount::new(&data);
        let settings = [
            ("DISK_FREE_FLOOR", floor),
            ("POOL_SIZE", "0"),
            ("ALLOW_NETWORK", "1"),
        ];
        let mut server = Server::start(root.path(), &settings).await;
        server.until_ready(READY).await;
        assert_eq!(server.run("echo hi > file").await.unwrap()["status"], "ok");
        // As much as fits.
        let _ = fs::write(data.join(".filler"), vec![b'x'; filler]);
        // Once the program's own system calls report it, and once the server notices.
        let code = "head -c 8m /dev/zero > big || exit 1";
        let run = server.run(code).await.unwrap();
        if floor == "0" {
            assert_eq!(run["status"], "error", "{run}");
        } else {
            assert_eq!(run["code"], "disk_full", "{run}");
        }
        let upload = server.upload("more", &vec![b'x'; 4096]).await;
        assert_eq!(upload["code"], "disk_full", "{upload}");
        let ready = if floor == "0" { 200 } else { 503 };
        assert_eq!(server.get("/readyz").await.0, ready);
        fs::remove_file(data.join(".filler")).unwrap();
        assert_eq!(server.get("/readyz").await.0, 200);
        let again = server.run("rm -f big; echo again").await.unwrap();
        assert_eq!(again["stdout"], "again\n", "{again}");
        let upload = server.upload("more", &vec![b'x'; 4096]).await;
        assert_eq!(upload["success"], true, "{upload}");
        server.signal(Signal::TERM);
        assert!(server.ended(READY).await.success());
    }
}
