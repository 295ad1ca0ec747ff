//! A container engine of the test's own, which it may stop and kill: the machine's own is never touched.
//!
//! Its processes, files and socket are below a directory of its own, and it has a network of its own, where its bridges
//! and firewall rules affect nobody. Needs root and `dockerd` in the search path.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::wait::within;

/// How long the engine may take to answer, and to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes an image of a program and its names, in the engine of the argument.
const ADD_SHELL: &str = r#"
set -o pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
cp /bin/busybox "$dir/bin/"
for name in $(/bin/busybox --list); do [ "$name" = busybox ] || ln -s busybox "$dir/bin/$name"; done
tar -C "$dir" -c . | docker --host "$1" import --change 'ENTRYPOINT ["/bin/sh"]' --change 'WORKDIR /data' \
    --change 'LABEL sandbox.runner=true sandbox.language=shell' - mcp-sandbox-shell
"#;

/// An engine. Dropping it ends it and everything it started.
pub(crate) struct Dockerd {
    dir: TempDir,
    options: Vec<String>,
    maps_users: bool,
    process: Option<Child>,
}

impl Dockerd {
    /// An engine that does not run yet.
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "only root can start an engine of its own"
        );
        let dir = tempfile::Builder::new()
            .prefix("dockerd-")
            .tempdir()
            .unwrap();
        // The settings of the machine's engine do not apply to this one.
        fs::write(dir.path().join("daemon.json"), "{}").unwrap();
        Self {
            dir,
            options: Vec::new(),
            maps_users: false,
            process: None,
        }
    }

    /// The same with a further option for `dockerd`.
    pub(crate) fn with_option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// The same, mapping the users of containers to others of the host.
    pub(crate) fn mapping_users(mut self) -> Self {
        // Which ones is in a file of the machine's own, in whose place this engine sees another.
        let ids = "nobody:200000:65536\nnogroup:200000:65536\n";
        fs::write(self.path("subids"), ids).unwrap();
        // Containers look up what is mounted, in directories that belong to the engine's root user.
        fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        self.maps_users = true;
        self.with_option("--userns-remap=nobody:nogroup")
    }

    /// The value of `DOCKER_HOST` that leads to it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.path("socket").display())
    }

    /// Starts it and waits until it answers.
    pub(crate) async fn start(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        // After a kill it would find its own file, and take whatever process has that id now for itself.
        let _ = fs::remove_file(self.path("pid"));
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let name = self.dir.path().file_name().unwrap().to_str().unwrap();
        let mut command = Command::new("unshare");
        command.arg("--net");
        if self.maps_users {
            let mount =
                r#"mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@""#;
            command.args(["--mount", "bash", "-c", mount]);
            command.arg(self.path("subids"));
        }
        command
            .args([
                "dockerd",
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
                "--ip-forward=false",
            ])
            .args([
                "--containerd-namespace",
                name,
                "--containerd-plugins-namespace",
                &format!("{name}-plugins"),
            ])
            .arg("--config-file")
            .arg(self.path("daemon.json"))
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--pidfile")
            .arg(self.path("pid"))
            .args(["--host", &self.host()])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.process = Some(command.spawn().expect("unshare and dockerd are installed"));
        let answers = async || {
            let ended = self.process.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none(),
                "dockerd ended: {}",
                fs::read_to_string(self.path("log")).unwrap()
            );
            self.docker(&["version"]).await
        };
        within(PATIENCE, "the engine answers", answers).await;
    }

    /// Gives it a shell runner that is just `BusyBox`: the machine's own is many times as large.
    pub(crate) async fn add_shell(&self) {
        let output = Command::new("bash")
            .args(["-ec", ADD_SHELL, "add", &self.host()])
            .output()
            .await
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, which: Signal) {
        signal(self.process.as_ref().and_then(Child::id), which);
    }

    /// Kills it without a warning. What it had started goes on.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().await.unwrap();
        // Its containerd goes with it, and must not seem to be running still because nobody has waited for it.
        let pid_file = self.path("exec").join("containerd").join("containerd.pid");
        if let Ok(pid) = fs::read_to_string(&pid_file) {
            signal(pid.trim().parse().ok(), Signal::KILL);
            fs::remove_file(pid_file).unwrap();
        }
    }

    /// All containers, whatever their state, with a label if that is not empty.
    pub(crate) async fn containers(&self, label: &str) -> Vec<String> {
        let filter = format!("label={label}");
        let mut arguments = vec!["ps", "--all", "--quiet", "--no-trunc"];
        if !label.is_empty() {
            arguments.extend(["--filter", &filter]);
        }
        let output = self.docker(&arguments).await.expect("the engine answers");
        output.lines().map(str::to_owned).collect()
    }

    /// The command line of the engine's client; `None` when it fails.
    pub(crate) async fn docker(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("docker");
        command
            .args(["--host", &self.host()])
            .args(arguments)
            .kill_on_drop(true);
        let output = command.output().await.unwrap();
        output
            .status
            .success()
            .then(|| String::from_utf8(output.stdout).unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            signal(process.id(), Signal::CONT);
            signal(process.id(), Signal::TERM);
            for _ in 0..500 {
                if process.try_wait().is_ok_and(|status| status.is_some()) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // There is nobody left to report to.
            let _ = process.start_kill();
        }
        // Only after a failure is anything left: containerd and its shims, recognised by our directory in their
        // arguments.
        for pid in processes_of(self.dir.path()) {
            signal(Some(pid), Signal::KILL);
        }
        unmount_below(self.dir.path());
    }
}

/// Sends a signal to a process that this process, or an engine of its own, has started.
pub(crate) fn signal(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let Some(pid) = pid {
        // It may just have ended.
        let _ = kill_process(pid, signal);
    }
}

fn processes_of(dir: &Path) -> Vec<u32> {
    let dir = dir.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        program.starts_with("containerd") && String::from_utf8_lossy(&arguments).contains(&dir)
    };
    pids.filter(ours).collect()
}

fn unmount_below(dir: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut points: Vec<_> = points
        .filter(|point| Path::new(point).starts_with(dir))
        .collect();
    points.reverse();
    for point in points {
        let _ = std::process::Command::new("umount")
            .args(["--lazy", point])
            .status();
    }
}
