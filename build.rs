//! Builds `sandbox-init` as a static program, for `include_bytes!(env!("SANDBOX_INIT"))` in the server, and records the
//! commit that the server is built from.
//!
//! Cargo cannot yet make one package's binary an input of another, so this calls it a second time, with a separate
//! target directory because the outer call holds the lock on the usual one. `SANDBOX_INIT_BIN` names a prebuilt program
//! to use instead.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by its environment"
)]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "sandbox-init";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=runners/init/src");
    println!("cargo::rerun-if-changed=runners/init/Cargo.toml");
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=SANDBOX_INIT_BIN");
    let program = match env::var_os("SANDBOX_INIT_BIN") {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", Path::new(&path).display());
            fs::canonicalize(&path)
                .map_err(|error| format!("SANDBOX_INIT_BIN {}: {error}", path.display()))?
        }
        None => build()?,
    };
    check_static(&program)?;
    println!("cargo::rustc-env=SANDBOX_INIT={}", program.display());
    println!("cargo::rustc-env=BUILD_COMMIT={}", commit());
    Ok(())
}

/// The commit being built: from `SOURCE_COMMIT`, for builds without a repository, or else from git.
fn commit() -> String {
    println!("cargo::rerun-if-env-changed=SOURCE_COMMIT");
    // The log grows with every commit and checkout. Naming a file that is missing would rebuild each time. Naming the
    // log for a debug build would rebuild that after each commit, so its commit is that of the last full build.
    let log = Path::new(".git/logs/HEAD");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release && log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let given = env::var("SOURCE_COMMIT").unwrap_or_default();
    let git = || {
        let output = Command::new("git")
            .args(["rev-parse", "--short=12", "HEAD"])
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let commit = Some(given)
        .filter(|given| !given.trim().is_empty())
        .or_else(git);
    commit.map_or_else(
        || "unknown".to_owned(),
        |commit| commit.trim().chars().take(12).collect(),
    )
}

/// Calls cargo for the same target, optimised for size whatever the server's profile is.
fn build() -> Result<PathBuf, Box<dyn Error>> {
    let target = env::var("TARGET")?;
    let directory = PathBuf::from(env::var("OUT_DIR")?).join(PACKAGE);
    let mut flags = match env::var_os("CARGO_CFG_FUZZING") {
        // A fuzzer's flags are only for programs that contain the fuzzer.
        Some(_) => String::new(),
        None => env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default(),
    };
    if !flags.is_empty() {
        flags.push('\x1f');
    }
    flags.push_str("-Ctarget-feature=+crt-static");
    let status = Command::new(env::var("CARGO")?)
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            PACKAGE,
            "--bin",
            PACKAGE,
        ])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&directory)
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // The compiler wrapper of clippy and coverage is meant for the server only.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()?;
    if !status.success() {
        return Err(format!("building {PACKAGE} for {target} failed: {status}").into());
    }
    Ok(directory.join(target).join("release").join(PACKAGE))
}

/// Refuses a program with an interpreter (`PT_INTERP`), which would not start in an image without a C library.
fn check_static(program: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    match has_interpreter(&bytes) {
        Some(false) => Ok(()),
        Some(true) => Err(format!(
            "{} is not static: install the static C library of the target",
            program.display()
        )
        .into()),
        None => Err(format!(
            "{} is not a 64-bit little-endian ELF program",
            program.display()
        )
        .into()),
    }
}

fn has_interpreter(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| {
        Some(usize::from(u16::from_le_bytes(
            elf.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(word(0x20)?).ok()?;
    let (size, count) = (half(0x36)?, half(0x38)?);
    let mut kinds = (0..count).map(|number| word(table + number * size));
    kinds.try_fold(false, |found, kind| Some(found || kind? == PT_INTERP))
}
