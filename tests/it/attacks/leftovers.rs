//! Programs that attack the next program of their conversation, which may get the same sandbox again.

use rstest::rstest;
use serde_json::json;

use super::{SAFE, Target, assert_safe, verdict};
use crate::support::engines::Engine;
use crate::support::eventually;

in_cold_and_warm_sandboxes! {
    traces_are_gone,
    other_processes_can_be_meddled_with_in_vain,
    other_processes_can_be_interrupted_in_vain,
    descriptors_of_others_are_nowhere,
    sockets_cannot_be_made_in_data,
    other_processes_can_be_killed_in_vain,
    other_processes_can_be_stopped_in_vain,
    traces_of_typescript_are_gone_too,
    files_of_the_workspace_do_not_run_by_themselves,
}

async fn traces_are_gone(target: &Target) {
    leaves_nothing(target, "leave_traces.py").await;
    // One for each of the two conversations.
    let kept = if target.warm { 2 } else { 0 };
    assert_eq!(
        target.app.app.parts.pool.count().1,
        kept,
        "it came back clean"
    );
}

async fn other_processes_can_be_meddled_with_in_vain(target: &Target) {
    leaves_nothing(target, "meddle_with_others.py").await;
}

async fn other_processes_can_be_interrupted_in_vain(target: &Target) {
    for _ in 0..target.rounds(3) {
        leaves_nothing(target, "interrupt_others.py").await;
    }
}

async fn descriptors_of_others_are_nowhere(target: &Target) {
    for _ in 0..target.rounds(20) {
        assert_safe(&target.attack("foreign_descriptors.py", 20).await);
    }
}

async fn sockets_cannot_be_made_in_data(target: &Target) {
    assert_safe(&target.attack("sockets_in_data.py", 10).await);
}

async fn other_processes_can_be_killed_in_vain(target: &Target) {
    leaves_nothing(target, "kill_others.py").await;
}

async fn other_processes_can_be_stopped_in_vain(target: &Target) {
    leaves_nothing(target, "stop_others.py").await;
}

async fn traces_of_typescript_are_gone_too(target: &Target) {
    for _ in 0..target.rounds(2) {
        assert_safe(&target.attack("leave_traces.ts", 20).await);
    }
}

/// Runs an attack and then the program that looks for its traces.
async fn leaves_nothing(target: &Target, file: &str) {
    assert_eq!(verdict(&target.attack(file, 10).await), SAFE, "{file}");
    for _ in 0..target.rounds(3) {
        target.settle().await;
        // It needs libraries: in a sandbox that was started a moment ago, it waits until they are loaded, which takes a
        // second of processor time and on a busy machine ten.
        let next = target.run("find_traces.py", 30, json!({})).await;
        assert_eq!(verdict(&next), SAFE, "after {file}: {next}");
    }
    target.settle().await;
}

async fn files_of_the_workspace_do_not_run_by_themselves(target: &Target) {
    let names = [
        "sitecustomize.py",
        "usercustomize.py",
        "planted.pth",
        "json.py",
        "os.py",
        "numpy.py",
        ".bashrc",
        ".profile",
        "bunfig.toml",
        ".env",
    ];
    for name in names {
        target
            .app
            .upload(name, b"import builtins; print('PLANTED')\n")
            .await;
    }
    for _ in 0..target.rounds(2) {
        for (language, code) in [
            ("python", "import json, numpy\nprint(1)"),
            ("shell", "echo 1"),
            ("typescript", "console.log(1)"),
        ] {
            let result = target.app.run(language, code).await;
            assert_eq!(
                (&result["output"], &result["status"]),
                (&json!("1\n"), &json!("ok")),
                "{language}: {result}"
            );
            target.settle().await;
        }
    }
}

/// After a run in a new container, the large libraries are loaded alongside the next programs.
#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn the_driver_that_loads_is_closed_to_programs(#[case] engine: Engine) {
    let app = engine.server(&[("SANDBOX_REUSE", "conversation")]).await;
    let is_kept = || app.app.parts.pool.count().1 == 1;
    assert_eq!(app.run("python", "").await["status"], "ok");
    eventually("the conversation has a sandbox", is_kept).await;
    let poison = r#"
import os, time

def open_to_all(pid):
    try:
        return bool(os.open(f"/proc/{pid}/mem", os.O_RDWR))
    except OSError:
        return False

def used(pid):
    """Processor time in hundredths of a second."""
    try:
        return sum(map(int, open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13]))
    except OSError:
        return 0

others = [pid for pid in os.listdir("/proc") if pid.isdigit() and pid != str(os.getpid())]
print(len(others), [pid for pid in others if open_to_all(pid)])
SETTINGS = [directory + "/matplotlibrc" for directory in (os.environ["MPLCONFIGDIR"], "/data")]
MODULES = ["/data/numexpr.py", "/data/bottleneck.py"]
begin = last = time.monotonic()
busy = 0
# Until nothing is loaded any more, which takes as long as others leave it the processor.
while (now := time.monotonic()) < begin + 4 or (now < last + 2 and now < begin + 25):
    for path in SETTINGS:
        with open(path, "w") as file:
            file.write("lines.linewidth: 77\n")
    for path in MODULES:
        with open(path, "w") as file:
            file.write("__version__ = '99'\nopen('/tmp/planted', 'w')\n")
    if os.path.exists("/tmp/planted"):
        print("PLANTED")
        break
    if busy != (busy := sum(map(used, others))):
        last = now
    time.sleep(0.01)
for path in ["/data/matplotlibrc", *MODULES]:
    os.remove(path)
"#;
    let poisoned = app.run("python", poison).await;
    // PID 1, the driver and its helper.
    assert_eq!(poisoned["stdout"], "3 []\n", "{poisoned}");
    eventually("it came back clean", is_kept).await;
    let look = "import matplotlib.pyplot as plt\nprint(plt.rcParams['lines.linewidth'], plt.matplotlib.get_configdir())";
    let result = app.run("python", look).await;
    assert_eq!(result["stdout"], "1.5 /tmp/.matplotlib\n", "{result}");
    app.assert_nothing_is_left().await;
}
