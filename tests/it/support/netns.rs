//! Network namespaces of the tests' own, so that what stands for the internet is on no machine's network.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does something, such as opening a socket, inside a named namespace.
pub(crate) fn in_namespace<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(Path::new("/run/netns").join(namespace)).unwrap();
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Runs commands up to the first that fails; returns what that one says.
pub(crate) fn shell(script: &str) -> Result<(), String> {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(complaint)
}
