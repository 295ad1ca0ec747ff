//! What programs see of PID 1's environment: all of it but what is for PID 1, and what Kubernetes puts into every
//! container, which tells where its own interface is.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use sandbox_init::variables;

/// Variables that only PID 1 has.
const OWN: [&str; 2] = [variables::LIMITS, variables::NO_NETWORK];
/// How the names of those begin that Kubernetes adds.
const OF_KUBERNETES: &[u8] = b"KUBERNETES_";

/// What PID 1 is told by one of its own variables; empty if it is not there.
#[expect(clippy::disallowed_methods, reason = "nothing else in PID 1 does")]
pub(crate) fn told(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_default()
}

/// Where Kubernetes says that its own interface is, if it does.
pub(crate) fn kubernetes() -> Option<SocketAddr> {
    let part = |name: &str| told(name).into_string().ok();
    let ip: IpAddr = part("KUBERNETES_SERVICE_HOST")?.parse().ok()?;
    let port = part("KUBERNETES_SERVICE_PORT")?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

/// A command in the environment of programs, to which those of a run are added.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if is_hidden(&name) {
            command.env_remove(&name);
        }
    }
    command
}

fn is_hidden(name: &OsStr) -> bool {
    OWN.iter().any(|own| name == *own) || name.as_bytes().starts_with(OF_KUBERNETES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_pid_1_and_of_kubernetes_are_hidden() {
        for hidden in ["SANDBOX_LIMITS", "KUBERNETES_PORT", "KUBERNETES_"] {
            assert!(is_hidden(OsStr::new(hidden)), "{hidden}");
        }
        for seen in [
            "HOME",
            "SANDBOX_LIMITS_2",
            "MY_KUBERNETES_PORT",
            "KUBERNETES",
        ] {
            assert!(!is_hidden(OsStr::new(seen)), "{seen}");
        }
    }
}
