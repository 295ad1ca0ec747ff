//! The selftest on the real engine: everything holds there, and each control is seen to fail in a sandbox that lacks
//! what the control is made of.

mod weaker;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::app::App;
use mcp_code_sandbox::checks::selftest::{Report, Row, Verdict, Warmth};
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use serde_json::Value;

use self::weaker::{KEPT_UP, NO_LANDLOCK, SHARED, WEAKER, Weaker, host, leave_network};
use crate::support::dockerd::Dockerd;
use crate::support::engines::TestEngine;
use crate::support::server::{Server, call};
use crate::support::wait::within;
use crate::support::weak::{WeakExecutor, Weaken};
use crate::support::{TestApp, config};

/// How long the check at the start may take on a busy machine.
const CHECK: Duration = Duration::from_secs(30);

pub(crate) async fn selftest(
    executor: Arc<impl TestEngine>,
    settings: &[(&str, &str)],
    only: &[Control],
) -> Report {
    let root = tempfile::tempdir().unwrap();
    let config = config(root.path(), settings);
    let report = App::run_selftest_on(executor.of(&config), config, only, &|_| {}).await;
    report.unwrap().unwrap()
}

fn table(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| format!("\n{row}"));
    rows.collect()
}

#[tokio::test]
async fn every_control_holds_cold_and_warm() {
    // The network is tried where there are rules for it, in `docker_network`. Here it is refused.
    let settings = [("SANDBOX_REUSE", "conversation")];
    let report = selftest(Arc::new(DockerExecutor::new(None)), &settings, &[]).await;
    assert_eq!(report.exit_code(), 0, "{}", table(&report.controls));
    let tried = |way| report.controls.iter().filter(|row| row.way == way).count();
    assert_eq!(tried(Warmth::Cold), Control::ALL.len());
    assert_eq!(tried(Warmth::Warm), Control::ALL.len() - 3);
    let mut rows = report.controls.iter();
    let warm = rows.find(|row| row.control == Control::Residue && row.way == Warmth::Warm);
    // It would say so if the second run had been a cold one.
    assert!(
        !warm.unwrap().found.contains("new sandbox"),
        "{}",
        table(&report.controls)
    );
}

/// Small, so that what nothing stops is over soon.
const SMALL: &[(&str, &str)] = &[
    ("RUN_MEMORY", "64m"),
    ("RUN_PIDS", "8"),
    ("RUN_FILE_SIZE", "1m"),
    ("ALLOW_NETWORK", "1"),
];
/// For programs that take more of the processor than they may: they do so on a busy machine too.
const SLOW: (&str, &str) = ("RUN_CPUS", "0.05");

/// With it, conversations share less, and more is tried.
const USERS: (&str, &str) = ("SANDBOX_UIDS", "70000-79999");

#[tokio::test]
async fn with_users_of_their_own_conversations_share_no_table() {
    let executor = Arc::new(DockerExecutor::new(None));
    let report = selftest(executor, &[USERS], &[Control::SharedTables]).await;
    assert_eq!(report.exit_code(), 0, "{}", table(&report.controls));
}

#[tokio::test]
async fn a_weaker_sandbox_is_noticed() {
    for weaker in WEAKER.iter().chain(SHARED) {
        let Weaker {
            what,
            weaken,
            noticed,
        } = weaker;
        let only: Vec<_> = noticed.iter().map(|(control, _)| *control).collect();
        let executor = Arc::new(WeakExecutor::new(*weaken).await);
        let mut settings = SMALL.to_vec();
        settings.extend(only.contains(&Control::Processor).then_some(SLOW));
        settings.extend(only.contains(&Control::SharedTables).then_some(USERS));
        let report = selftest(executor, &settings, &only).await;
        assert_eq!(report.exit_code(), 1, "{what}: {}", table(&report.controls));
        #[expect(clippy::print_stdout, reason = "shown when it fails")]
        {
            println!("{what}: {}", table(&report.controls));
        }
        for (control, found) in *noticed {
            let mut rows = report.controls.iter();
            let row = rows.find(|row| row.control == *control).unwrap();
            assert!(
                matches!(&row.verdict, Verdict::Fail(_)) && row.found.contains(found),
                "{what}: {row}"
            );
        }
    }
}

#[tokio::test]
async fn pid_1_keeps_up_what_the_engine_leaves_out() {
    for &(what, weaken, control) in KEPT_UP {
        let executor = Arc::new(WeakExecutor::new(weaken).await);
        let report = selftest(executor, SMALL, &[control]).await;
        let [row] = &report.controls[..] else {
            panic!("{what}: {}", table(&report.controls));
        };
        assert!(matches!(&row.verdict, Verdict::Pass(_)), "{what}: {row}");
    }
}

/// As on an engine that gives every container a network. What else PID 1 does goes on in a user namespace of its own.
#[tokio::test]
async fn a_network_that_pid_1_leaves_is_not_there() {
    let executor = Arc::new(WeakExecutor::new(leave_network).await);
    let settings = [SMALL, &[("SANDBOX_REUSE", "conversation")]].concat();
    let only = [
        Control::Identity,
        Control::Syscalls,
        Control::KernelLevers,
        Control::PidOne,
        Control::NetworkOff,
        Control::ForkBomb,
        Control::Memory,
        Control::Background,
        Control::Residue,
    ];
    let report = selftest(executor, &settings, &only).await;
    assert_eq!(report.exit_code(), 0, "{}", table(&report.controls));
    let is_warm = |row: &&Row| row.way == Warmth::Warm;
    assert!(report.controls.iter().filter(is_warm).count() > 5);
}

#[tokio::test]
async fn missing_host_features_are_noted() {
    let weaken: Weaken = |body| {
        host(body).security_opt = Some(vec![format!("seccomp={NO_LANDLOCK}")]);
    };
    let executor = Arc::new(WeakExecutor::new(weaken).await);
    let only = [Control::WritablePaths, Control::Limits];
    let report = selftest(executor, SMALL, &only).await;
    let [paths, limits] = &report.controls[..] else {
        panic!("{}", table(&report.controls));
    };
    assert!(
        matches!(&paths.verdict, Verdict::Pass(_)) && paths.notes[0].contains("no Landlock"),
        "{paths}"
    );
    let is_newer = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    assert_eq!(limits.notes.is_empty(), is_newer, "{limits}");
}

/// A service is a user of the system, and so are its programs; engines list their own group among the others too.
#[tokio::test]
async fn programs_of_a_system_user_are_nobody_special() {
    let executor = WeakExecutor::new(|body| body.user = Some("997:997".into())).await;
    let report = selftest(Arc::new(executor), SMALL, &[Control::Identity]).await;
    assert_eq!(report.exit_code(), 0, "{}", table(&report.controls));
}

/// Programs are root on an engine that is taken for rootless, but not if it has the host's own root.
#[tokio::test]
async fn an_engine_that_is_not_rootless_is_noticed() {
    let executor = WeakExecutor::new(|_| ()).await.taken_for_rootless();
    let report = selftest(Arc::new(executor), SMALL, &[Control::Identity]).await;
    let row = &report.controls[0];
    let found = "uid 0 is the host's own, gid 0 is the host's own".to_owned();
    assert_eq!(row.verdict, Verdict::Fail(found), "{row}");
}

#[tokio::test]
async fn a_weaker_sandbox_runs_nothing_unless_it_is_allowed() {
    let weaken: Weaken = |body| {
        host(body).group_add = Some(vec!["101".into()]);
    };
    let executor = || async { Arc::new(WeakExecutor::new(weaken).await) };
    let app = TestApp::unproved(&[], executor().await).await;
    app.app.prove();
    let refused = app.run("shell", "echo hi").await;
    assert_eq!(refused["code"], "sandbox_not_proven", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("control identity failed (is in group 101"),
        "{message}"
    );
    assert_eq!(message.matches("failed").count(), 1, "{message}");
    let answer = app.get("/readyz").await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["reason"].as_str()),
        (503, Some(message))
    );
    app.assert_nothing_is_left().await;

    let settings = [("ALLOW_WEAKER_SANDBOX", "identity")];
    let app = TestApp::unproved(&settings, executor().await).await;
    app.app.prove();
    assert_eq!(app.run("shell", "echo hi").await["stdout"], "hi\n");
    assert_eq!(app.get("/readyz").await.status, 200);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_run_right_after_the_start_waits_for_the_check() {
    let app = TestApp::unproved(&[], Arc::new(DockerExecutor::new(None))).await;
    app.app.prove();
    let (first, second) = tokio::join!(app.run("shell", "echo 1"), app.run("python", "print(2)"));
    assert_eq!(
        (&first["stdout"], &second["stdout"]),
        (&"1\n".into(), &"2\n".into())
    );
    app.assert_nothing_is_left().await;
}

/// Runtimes of the test's own engine: runc under another name, and one that does not do what it is asked to.
fn engine_with_runtimes() -> Dockerd {
    let engine = Dockerd::new();
    let broken = engine.path("broken-runtime");
    // Creates the container, but then does not start what is in it.
    fs::write(
        &broken,
        "#!/bin/sh\ncase \" $* \" in *' start '*) exit 1 ;; esac\nexec runc \"$@\"\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&broken, mode).unwrap();
    // Where engine packages put it.
    let places = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"];
    let runc = places.iter().find(|place| Path::new(place).exists());
    let runc = format!("--add-runtime=other={}", runc.expect("runc is installed"));
    let broken = format!("--add-runtime=broken={}", broken.display());
    engine.with_option(&runc).with_option(&broken)
}

/// What the engine says about a sandbox that was started ahead.
async fn inspect_pooled(engine: &Dockerd, format: &str) -> String {
    let pooled = async || engine.containers("sandbox.slot").await.pop();
    let container = within(CHECK, "a sandbox is started ahead", pooled).await;
    let arguments = ["inspect", "--format", format, &container];
    let inspected = engine.docker(&arguments).await;
    inspected.expect("the engine knows it")
}

#[tokio::test]
async fn a_runtime_is_used_after_it_was_proved() {
    let mut engine = engine_with_runtimes();
    engine.start().await;
    engine.add_shell().await;
    let root = tempfile::tempdir().unwrap();
    let host = engine.host();
    let settings = [("DOCKER_HOST", host.as_str()), ("POOL_SIZE", "1")];
    let with = |runtime| [settings.as_slice(), &[("SANDBOX_RUNTIME", runtime)]].concat();

    let server = Server::start(root.path(), &with("other")).await;
    server.until_ready(CHECK).await;
    assert_eq!(server.run("echo hi").await.unwrap()["stdout"], "hi\n");
    let runtime = inspect_pooled(&engine, "{{.HostConfig.Runtime}}").await;
    assert_eq!(runtime, "other\n");
    drop(server);
    let only = ["selftest", "--json", "--only", "runtime,identity"];
    let output = call(&only, &with("other")).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runtime"], "other");
    // The runtime holds; identity needs Python, cold and warm, and is skipped.
    let numbers = ["passed", "failed", "skipped"].map(|name| report[name].clone());
    assert_eq!(numbers, [1, 0, 2].map(Value::from), "{report}");
    assert_eq!(output.status.code(), Some(75));

    for (runtime, why) in [
        ("nowhere", "it did not start"),
        ("broken", "it did not start"),
    ] {
        let server = Server::start(root.path(), &with(runtime)).await;
        let refused = async || {
            let (status, body) = server.get("/readyz").await;
            let reason = body["reason"].as_str().unwrap_or_default().to_owned();
            (status == 503 && reason.contains("control runtime failed")).then_some(reason)
        };
        let reason = within(CHECK, "the runtime is refused", refused).await;
        assert!(reason.contains(why), "{reason}");
        let result = server.run("echo hi").await.unwrap();
        assert_eq!(result["code"], "sandbox_not_proven", "{result}");
        assert!(
            result["message"]
                .as_str()
                .unwrap()
                .contains("control runtime failed")
        );
    }
}

#[tokio::test]
async fn sandboxes_are_in_the_control_group_of_the_operator() {
    // The other driver accepts only slices of systemd.
    let mut engine = Dockerd::new().with_option("--exec-opt=native.cgroupdriver=cgroupfs");
    engine.start().await;
    engine.add_shell().await;
    let root = tempfile::tempdir().unwrap();
    let host = engine.host();
    let settings = [
        ("DOCKER_HOST", host.as_str()),
        ("POOL_SIZE", "1"),
        ("SANDBOX_CGROUP_PARENT", "/"),
    ];
    let server = Server::start(root.path(), &settings).await;
    server.until_ready(CHECK).await;
    assert_eq!(server.run("echo hi").await.unwrap()["stdout"], "hi\n");
    let inspected = inspect_pooled(&engine, "{{.State.Pid}} {{.Id}}").await;
    let (pid, id) = inspected.trim().split_once(' ').unwrap();
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(
        groups
            .lines()
            .any(|line| line.ends_with(&format!(":/{id}"))),
        "{groups}"
    );
}

#[tokio::test]
async fn the_exit_code_says_what_could_be_tried() {
    let nobody = [("DOCKER_HOST", "unix:///nonexistent/docker.sock")];
    let output = call(&["selftest", "--json"], &nobody).await;
    assert_eq!(output.status.code(), Some(69));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("nothing could be tried: failed to reach"),
        "{said}"
    );

    let output = call(&["selftest", "--only", "everything"], &[]).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("the controls are runtime, workspace, identity"),
        "{said}"
    );

    let output = call(&["selftest"], &[("RUN_MEMORY", "much")]).await;
    assert_eq!(output.status.code(), Some(64));

    let secrets = [("MCP_API_TOKEN", ""), ("FILE_SECRET", "")];
    let output = call(
        &["selftest", "--json", "--only", "identity,limits"],
        &secrets,
    )
    .await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    // Cold and warm.
    assert_eq!(
        (&report["passed"], &report["failed"]),
        (&4.into(), &0.into()),
        "{report}"
    );
}
