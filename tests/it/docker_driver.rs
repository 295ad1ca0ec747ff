//! The races of the Python driver, forced in its own image: `runners/python/tests`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles what is preloaded, and gives its place.
fn slow_exit(tests: &Path, into: &Path) -> PathBuf {
    let library = into.join("slow_exit.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &tests.join("slow_exit.c")])
        .status()
        .unwrap();
    assert!(status.success());
    library
}

#[test]
fn no_race_of_the_driver_starts_a_wrong_program() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("runners/python/tests");
    let made = tempfile::tempdir().unwrap();
    let mount = |from: &Path, name: &str| format!("{}:/tests/{name}:ro", from.display());
    let output = Command::new("docker")
        .args(["run", "--rm", "--network", "none", "--tmpfs", "/tmp"])
        .args([
            "--volume",
            &mount(&tests.join("driver_test.py"), "driver_test.py"),
        ])
        .args([
            "--volume",
            &mount(&slow_exit(&tests, made.path()), "slow_exit.so"),
        ])
        .args(["--user", "root", "--entrypoint", "python"])
        .args(["mcp-sandbox-python", "-B", "/tests/driver_test.py"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("Ran 13 tests"), "{told}");
}
