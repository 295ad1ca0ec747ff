//! A server that is told to stop.

use std::time::Duration;

use rustix::process::Signal;
use tokio::net::UnixListener;

use crate::support::server::{Server, free_address};

#[tokio::test]
async fn a_signal_that_comes_during_the_start_is_heard() {
    let root = tempfile::tempdir().unwrap();
    // The start waits for an engine that says nothing.
    let socket = root.path().join("engine.sock");
    let engine = UnixListener::bind(&socket).unwrap();
    let host = format!("unix://{}", socket.display());
    let settings = [("DOCKER_HOST", host.as_str())];
    let mut server = Server::begin_at(free_address().await, root.path(), &settings);
    let _silent = engine.accept().await.unwrap();
    server.signal(Signal::TERM);
    let status = server.ended(Duration::from_secs(20)).await;
    assert_eq!(status.code(), Some(0), "{status}");
}
