//! Files of the server's own that engines need below `SANDBOX_ROOT`, each under a name that depends on its content, so
//! that servers of two versions do not collide.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::docker::request::SECCOMP_PROFILE;

/// The directory below `SANDBOX_ROOT` that they are in.
pub const PROGRAMS: &str = ".bin";

/// PID 1 of every sandbox, built with the server. Not to be read: whoever can read a file can watch it, and this one is
/// the same in all sandboxes.
pub const INIT: Installed = Installed {
    name: "sandbox-init",
    content: include_bytes!(env!("SANDBOX_INIT")),
    mode: 0o111,
};
/// The system call filter, for engines that want it as a file.
pub const SECCOMP: Installed = Installed {
    name: "seccomp",
    content: SECCOMP_PROFILE.as_bytes(),
    mode: 0o444,
};

/// A file of the server's own.
#[derive(Clone, Copy, Debug)]
pub struct Installed {
    name: &'static str,
    /// What is in it.
    pub content: &'static [u8],
    /// Its permissions.
    pub mode: u32,
}

impl Installed {
    /// Where it is below `SANDBOX_ROOT`.
    pub fn path(&self) -> PathBuf {
        let digest = hex::encode(Sha256::digest(self.content));
        PathBuf::from(PROGRAMS).join(format!("{}-{}", self.name, &digest[..12]))
    }
}
