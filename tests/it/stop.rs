//! A server that is told to stop.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;

use crate::support::server::{Server, command, free_address};

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

/// As in `./start.sh 2>&1 | tee log`, where Ctrl-C ends both.
#[tokio::test]
async fn a_log_that_nobody_reads_any_more_does_not_end_it() {
    let root = tempfile::tempdir().unwrap();
    let addr = free_address().await.to_string();
    let settings = [
        ("DOCKER_HOST", "unix:///nowhere/engine.sock"),
        ("MCP_HTTP_ADDR", &addr),
    ];
    let mut server = command(root.path(), &settings)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    while !log
        .next_line()
        .await
        .unwrap()
        .unwrap()
        .contains("listening")
    {}
    drop(log);
    let pid = Pid::from_raw(server.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), server.wait());
    let status = ended.await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
}

/// As in `mcp-code-sandbox selftest | head -1`: what it made has to be removed when it ends.
#[tokio::test]
async fn output_that_nobody_reads_does_not_end_a_command() {
    let root = tempfile::tempdir().unwrap();
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let mut check = command(root.path(), &[]);
    let status = check
        .arg("check-config")
        .stdout(write)
        .status()
        .await
        .unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
}
