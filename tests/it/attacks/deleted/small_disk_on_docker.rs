//! The same where the disk is nearly full: each server has a small one for itself.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{attack, cell, innocent};
use crate::support::server::Server;
use crate::support::wait::within;

/// How long a server may take to be ready, and to stop.
const READY: Duration = Duration::from_mins(1);

/// A file system of 256 MiB, until it is dropped, of which 100 must stay free.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256m,nosuid,nodev", "tmpfs"])
            .arg(dir.path().join("data"))
            .status();
        assert!(mount.unwrap().success());
        Self(dir)
    }

    fn free(&self) -> u64 {
        let system = rustix::fs::statvfs(self.0.path().join("data")).unwrap();
        (system.f_bavail * system.f_frsize) >> 20
    }

    async fn server(&self) -> Server {
        let settings = [
            ("DISK_FREE_FLOOR", "100m"),
            ("WORKSPACE_QUOTA", "60m"),
            ("POOL_SIZE", "0"),
        ];
        let server = Server::start(self.0.path(), &settings).await;
        server.until_ready(READY).await;
        server
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path().join("data"))
            .status();
    }
}

#[tokio::test]
async fn idle_kernels_that_hold_deleted_files_go_first_when_the_disk_is_nearly_full() {
    let disk = SmallDisk::new();
    let mut server = disk.server().await;
    for (conversation, mebibytes) in [("small", "20"), ("large", "50")] {
        let kept = server
            .call(
                "run_code",
                attack(conversation, true, &json!({ "MIB": mebibytes })),
            )
            .await;
        assert_eq!(kept["status"], "ok", "{kept}");
    }
    let before = disk.free();
    // 256 - 70 - 45 - 50 is below the floor.
    let (first, second) = tokio::join!(
        server.call("run_code", innocent("first", 45, 4.0)),
        server.call("run_code", innocent("second", 50, 3.0)),
    );
    for innocent in [first, second] {
        assert_eq!(innocent["output"], "fine\n", "{before}: {innocent}");
    }
    assert!(disk.free() > 100);
    let upload = server.upload("file", b"x").await;
    assert_eq!(upload["success"], true, "{upload}");
    let cell = async |conversation: &str| {
        let mut cell = cell("'kept' in globals()");
        cell["conversationId"] = json!(conversation);
        server.call("run_code", cell).await
    };
    let small = cell("small").await;
    assert_eq!(small.get("kernelRestarted"), None, "{small}");
    let large = cell("large").await;
    let reason = large["kernelRestartReason"].as_str().unwrap();
    assert!(
        reason.starts_with("The server's disk was nearly full, and the kernel"),
        "{large}"
    );
    server.signal(Signal::TERM);
    assert!(server.ended(READY).await.success());
}

#[tokio::test]
async fn at_the_floor_only_the_largest_taker_is_ended() {
    let disk = SmallDisk::new();
    let mut server = disk.server().await;
    for (stateful, how) in [
        (false, "open"),
        (true, "open"),
        (false, "mapped"),
        (false, "hidden"),
    ] {
        let environment = json!({ "MIB": "200", "HOW": how, "SECONDS": "20" });
        let (first, second, hostile) = tokio::join!(
            server.call("run_code", innocent("first", 15, 6.0)),
            server.call("run_code", innocent("second", 0, 6.0)),
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                server
                    .call("run_code", attack("demo", stateful, &environment))
                    .await
            },
        );
        assert_eq!(hostile["status"], "disk_limit", "{how}: {hostile}");
        let hint = hostile["hint"].as_str().unwrap();
        assert!(hint.contains("it had taken most"), "{how}: {hint}");
        for innocent in [first, second] {
            assert_eq!(innocent["output"], "fine\n", "{how}: {innocent}");
        }
        let freed = async || (disk.free() > 200).then_some(());
        within(READY, "its space is free", freed).await;
    }
    server.signal(Signal::TERM);
    assert!(server.ended(READY).await.success());
}

#[tokio::test]
async fn after_the_largest_taker_the_others_go_on() {
    let disk = SmallDisk::new();
    let mut server = disk.server().await;
    let late = async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.call("run_code", innocent("late", 20, 5.0)).await
    };
    // 256 - 55 - 2 * 45 - 20 is below the floor, and what has a name stays.
    let (largest, first, second, late) = tokio::join!(
        server.call("run_code", innocent("largest", 55, 8.0)),
        server.call("run_code", innocent("first", 45, 8.0)),
        server.call("run_code", innocent("second", 45, 8.0)),
        late(),
    );
    assert_eq!(largest["status"], "disk_limit", "{largest}");
    for innocent in [first, second, late] {
        assert_eq!(innocent["output"], "fine\n", "{innocent}");
    }
    let refused = server.call("run_code", innocent("new", 0, 0.0)).await;
    assert_eq!(refused["code"], "disk_full", "{refused}");
    let arguments = json!({ "conversationId": "largest" });
    server.call("delete_conversation", arguments).await;
    let allowed = async || {
        let run = server.call("run_code", innocent("new", 0, 0.0)).await;
        (run["output"] == "fine\n").then_some(())
    };
    within(READY, "there is room again", allowed).await;
    server.signal(Signal::TERM);
    assert!(server.ended(READY).await.success());
}
