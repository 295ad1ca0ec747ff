//! Images that a test makes for itself.

use std::fs;
use std::process::Command;

/// An image. Dropping it removes it, however the test ends; its layers stay, for the next time.
pub(crate) struct TestImage(&'static str);

impl TestImage {
    /// Builds one by a `Dockerfile`, which may copy `busybox`.
    pub(crate) fn build(name: &'static str, dockerfile: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Dockerfile"), dockerfile).unwrap();
        fs::copy("/bin/busybox", dir.path().join("busybox")).unwrap();
        let image = Self(name);
        docker(&["build", "-q", "-t", name, dir.path().to_str().unwrap()]);
        image
    }
}

impl Drop for TestImage {
    fn drop(&mut self) {
        let removed = docker_client(&["rmi", "-f", "--no-prune", self.0]).output();
        assert!(std::thread::panicking() || removed.is_ok_and(|output| output.status.success()));
    }
}

/// Calls the engine's own client, which has to succeed. Returns what it prints.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let output = docker_client(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn docker_client(arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.args(arguments).env("DOCKER_BUILDKIT", "0");
    command
}
