//! Programs that take all there is of something: processes, memory, output, time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use super::disk::size_of;
use super::{Target, assert_safe, end};
use crate::support::engines::Engine;
use crate::support::eventually;
use crate::support::image::{TestImage, docker};

in_cold_and_warm_sandboxes! {
    everything_has_a_limit,
    kernel_memory_outside_the_memory_limit_is_limited,
    a_server_with_many_clients_is_left_alone,
    forking_has_a_limit,
    every_end_has_its_status,
    the_memory_limit_holds_for_all_processes_together,
    a_flood_is_stopped,
    a_daemon_ends_with_its_program,
}

async fn everything_has_a_limit(target: &Target) {
    let attacks = [
        ("huge_file.py", 30),
        ("sparse_files.py", 10),
        ("reserved_files.py", 20),
        ("processes_and_descriptors.py", 30),
    ];
    target.assert_harmless(&attacks).await;
}

const FILL_SOCKETS: &str = include_str!("../../../src/checks/selftest/programs/socket_memory.py");

/// Each socket is small and each program has few descriptors, but there can be many processes.
async fn kernel_memory_outside_the_memory_limit_is_limited(target: &Target) {
    // A network of sandbox-init's own lets nobody ping.
    let ping = (!target.engine.is_kubernetes()).then_some("ping");
    for kind in ["tcp", "reset", "udp", "netlink"].into_iter().chain(ping) {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": FILL_SOCKETS, "timeoutSeconds": 60,
            "environment": { "KINDS": kind, "COUNT": "4000" },
        });
        let result = target.app.call("run_code", arguments).await;
        assert_eq!(result["status"], "out_of_memory", "{kind}: {result}");
    }
    let result = target.attack("terminals.py", 20).await;
    assert_eq!(
        (end(&result), result["hint"].as_str()),
        (
            ("out_of_memory", Some(137)),
            Some(
                "The program was stopped because it had more than 64 terminals: close those that are no longer needed."
            )
        ),
    );
    target.assert_nobody_is_harmed("python").await;
}

/// 490 clients of a server in the same program, each of which has sent more than a connection holds.
const MANY_CLIENTS: &str = r"
import asyncio

async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def send(writer):
    writer.write(bytes(200_000))
    await writer.drain()
    writer.write_eof()

async def client(address):
    reader, writer = await asyncio.open_connection(*address)
    sending = asyncio.create_task(send(writer))
    received = 0
    while data := await reader.read(65536):
        received += len(data)
    await sending
    writer.close()
    return received

async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 0, backlog=1024)
    address = server.sockets[0].getsockname()
    print(sum(await asyncio.gather(*(client(address) for _ in range(490)))))
    server.close()

asyncio.run(main())
";

async fn a_server_with_many_clients_is_left_alone(target: &Target) {
    if target.engine.is_kubernetes() {
        // There the buffers of so many may be more than a sandbox may have: the largest size of one is up to its node.
        return;
    }
    let arguments = json!({
        "conversationId": "demo", "language": "python", "code": MANY_CLIENTS, "timeoutSeconds": 60,
    });
    let result = target.app.call("run_code", arguments).await;
    let seen = (result["status"].as_str(), result["stdout"].as_str());
    assert_eq!(seen, (Some("ok"), Some("98000000\n")), "{result}");
}

async fn forking_has_a_limit(target: &Target) {
    let result = target.attack("fork_bomb.py", 20).await;
    // An interpreter that was parked has more to copy: there, the limit of memory can come before that of processes.
    if target.warm && result["status"] == "out_of_memory" {
        return;
    }
    assert_safe(&result);
    if target.engine.is_kubernetes() {
        // Nothing counts there how often it was refused one.
        return;
    }
    let hint = "The program ended well, but had reached the limit of 128 processes and threads: some were not started.";
    assert_eq!(result["hint"], hint, "{result}");
}

async fn every_end_has_its_status(target: &Target) {
    for (file, seconds, status, exit_code) in [
        ("fork_bomb.sh", 2, "timeout", None),
        ("ignored_signals.py", 1, "timeout", None),
        ("memory.py", 20, "out_of_memory", Some(137)),
        ("memory_files.py", 30, "out_of_memory", Some(137)),
        ("crash.py", 10, "error", Some(139)),
    ] {
        let result = target.next_attack(file, seconds).await;
        assert_eq!(end(&result), (status, exit_code), "{file}: {result}");
    }
    target.assert_nobody_is_harmed("python").await;
}

/// A conversation does not pay for the end of its program: it keeps its sandbox, which is scrubbed as after any other.
#[rstest]
#[case::on_warm_docker(Engine::WarmDocker)]
#[case::on_warm_kubernetes(Engine::WarmKubernetes)]
#[tokio::test]
async fn a_sandbox_outlives_every_end_of_its_program(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    target.warm_up("python").await;
    let before = target.containers().await;
    for (file, seconds, status) in [
        ("ignored_signals.py", 1, "timeout"),
        ("memory.py", 20, "out_of_memory"),
        ("flood.py", 30, "output_limit"),
    ] {
        let result = target.run(file, seconds, json!({})).await;
        assert_eq!(result["status"], status, "{file}: {result}");
        assert!(result["usage"]["cpuMs"].is_u64(), "{file}: {result}");
        target.settle().await;
        target.assert_well("demo", "python").await;
        target.settle().await;
        assert_eq!(target.containers().await, before, "after {file}");
    }
    target.finish().await;
}

async fn the_memory_limit_holds_for_all_processes_together(target: &Target) {
    let result = target.attack("memory_of_children.py", 30).await;
    assert_eq!(result["status"], "out_of_memory", "{result}");
    assert!(
        result["hint"]
            .as_str()
            .unwrap()
            .contains("memory limit of 256 MiB"),
        "{result}"
    );
}

async fn a_flood_is_stopped(target: &Target) {
    let result = target.attack("flood.py", 30).await;
    assert_eq!(result["status"], "output_limit", "{}", result["hint"]);
    assert!(result.to_string().len() < 100_000, "an answer is short");
    assert!(result["truncated"]["stdout"].as_u64().unwrap() > 10 << 20);
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_warm_docker(Engine::WarmDocker)]
#[tokio::test]
async fn a_flood_is_never_on_disk(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let logs = docker(&["info", "--format", "{{.DockerRootDir}}"]);
    let logs = Path::new(logs.trim()).join("containers");
    assert!(
        logs.is_dir(),
        "the engine keeps its logs elsewhere: {}",
        logs.display()
    );
    let before = size_of(&logs);
    let mut most = before;
    let sample = async {
        loop {
            most = most.max(size_of(&logs));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = a_flood_is_stopped(&target) => (),
        () = sample => unreachable!(),
    }
    // Other tests' containers have their small files there too.
    assert!(most < before + (2 << 20), "{before} bytes grew to {most}");
    target.finish().await;
}

async fn a_daemon_ends_with_its_program(target: &Target) {
    let started = Instant::now();
    let result = target.run("daemon.py", 30, json!({})).await;
    assert_eq!(
        (end(&result), &result["stdout"]),
        (("ok", Some(0)), &json!("main done\n")),
        "{result}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "it waited for the daemon: {:?}",
        started.elapsed()
    );
    target.settle().await;
    let beat = target.app.workspace("demo").join("beat");
    let beats = fs::metadata(&beat).unwrap().len();
    // Long enough for several of its beats: nothing reports that nothing happens.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fs::metadata(&beat).unwrap().len(), beats);
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn a_busy_program_gets_its_share_and_leaves_others_theirs(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let neighbour = async {
        eventually("the program runs", || {
            target.app.app.parts.gate.count() == 1
        })
        .await;
        target.assert_well("another", "shell").await;
    };
    let (result, ()) = tokio::join!(target.run("busy.py", 20, json!({})), neighbour);
    assert_eq!(end(&result), ("ok", Some(0)), "{result}");
    let of_usage = |name: &str| result["usage"][name].as_f64().unwrap();
    let share = of_usage("cpuMs") / of_usage("wallMs");
    assert!(
        // Less if others keep the cores busy.
        (0.05..0.6).contains(&share),
        "half a core is the limit: {share} in {result}"
    );
    target.settle().await;
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn a_crash_leaves_no_core(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let result = target.run("crash.py", 10, json!({})).await;
    assert_eq!(
        (end(&result), &result["files"]),
        (("error", Some(139)), &json!([])),
        "{result}"
    );
    assert!(result["hint"].as_str().unwrap().contains("signal 11"));
    assert_eq!(
        fs::read_dir(target.app.workspace("demo")).unwrap().count(),
        0
    );
    target.settle().await;
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_program_need_not_read_its_code(#[case] engine: Engine) {
    let target = Target::on(engine, &[("MAX_CODE_BYTES", "4m")]).await;
    let language = "test-deaf";
    let dockerfile = format!(
        "FROM mcp-sandbox-shell:latest\nLABEL sandbox.language={language} sandbox.aliases=\n\
         ENTRYPOINT [\"bash\", \"-c\", \"eval \\\"$DO\\\"\"]\n"
    );
    let _image = TestImage::build("mcp-sandbox-test-deaf", &dockerfile);
    let catalog = &target.app.app.parts.gate.catalog;
    eventually("the image is seen", || {
        catalog.view().runners.contains_key(language)
    })
    .await;
    let mut ends = Vec::new();
    for action in ["exit 7", "exec <&-; sleep 0.2; exit 8", "sleep 60"] {
        let code = "#".repeat(2 << 20);
        let arguments = json!({ "conversationId": "demo", "language": language, "code": code, "environment": { "DO": action }, "timeoutSeconds": 2 });
        let result = target.app.call("run_code", arguments).await;
        ends.push((result["status"].clone(), result["exitCode"].clone()));
        target.settle().await;
    }
    assert_eq!(
        json!(ends),
        json!([["error", 7], ["error", 8], ["timeout", null]])
    );
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn one_attack_of_each_kind_at_the_same_time(#[case] engine: Engine) {
    let target = Target::on(engine, &[("WORKSPACE_QUOTA", "50m")]).await;
    // Those that share a conversation may be stopped for the files of one of them.
    let attacks = [
        ("memory", "memory.py", 20, &["out_of_memory"][..]),
        ("flood", "flood.py", 20, &["output_limit"]),
        ("demo", "many_large_files.py", 20, &["disk_limit"]),
        ("demo", "fork_bomb.sh", 6, &["timeout", "disk_limit"]),
        ("demo", "ignored_signals.py", 6, &["timeout", "disk_limit"]),
        ("demo", "busy.py", 6, &["ok", "timeout", "disk_limit"]),
    ];
    let runs = attacks.map(|(conversation, file, seconds, expected)| {
        let run = target.run_in(conversation, file, seconds, json!({}));
        async move { (run.await, expected) }
    });
    for (result, expected) in futures::future::join_all(runs).await {
        assert!(expected.contains(&end(&result).0), "{expected:?}: {result}");
    }
    target.settle().await;
    target.assert_well("another", "shell").await;
    target.finish().await;
}

#[test]
fn every_attack_is_carried_out() {
    let tests = concat!(
        include_str!("deleted.rs"),
        include_str!("disk.rs"),
        include_str!("exhaustion.rs"),
        include_str!("isolation.rs"),
        include_str!("streams.rs"),
        include_str!("files.rs"),
        include_str!("leftovers.rs"),
        include_str!("neighbours.rs"),
        include_str!("../docker_egress.rs")
    );
    for entry in fs::read_dir(super::ATTACKS).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            tests.contains(&format!("\"{name}\"")),
            "{name} is in no test"
        );
    }
}
