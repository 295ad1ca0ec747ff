//! The real program as a client's child process.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::dockerd::signal;

/// The server.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-code-sandbox");

/// A server that reads our lines. Dropping it kills it.
pub(crate) struct StdioServer {
    process: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    pub(crate) root: TempDir,
}

impl StdioServer {
    /// Starts a server and says hello.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let mut server = Self::begin(settings);
        server.hello().await;
        server
    }

    /// Says hello, as every client does first.
    pub(crate) async fn hello(&mut self) {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        self.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
            .await;
        assert_eq!(
            self.message().await["result"]["protocolVersion"],
            "2025-06-18"
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
    }

    /// The same without the greeting.
    pub(crate) fn begin(settings: &[(&str, &str)]) -> Self {
        Self::begin_in(Path::new("/"), settings)
    }

    /// The same in the directory that a client works in.
    pub(crate) fn begin_in(directory: &Path, settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("stdio").current_dir(directory);
        Self::begin_by(command, settings)
    }

    /// The same by a command that becomes the server.
    pub(crate) fn begin_by(mut command: Command, settings: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut process = command
            .env_clear()
            .env("SANDBOX_ROOT", root.path())
            .env("POOL_SIZE", "0")
            // Without the containers of the network's probe.
            .env("ALLOW_NETWORK", "1")
            .env("DISK_FREE_FLOOR", "1m")
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self {
            process,
            input,
            output: BufReader::new(output).lines(),
            root,
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// The next line of standard output, which has nothing but messages.
    pub(crate) async fn message(&mut self) -> Value {
        let line = timeout(Duration::from_mins(1), self.output.next_line()).await;
        serde_json::from_str(&line.expect("the server is silent").unwrap().unwrap()).unwrap()
    }

    /// Bytes that it has written and that nobody has read.
    pub(crate) fn unread(&mut self) -> u64 {
        rustix::io::ioctl_fionread(self.output.get_ref().get_ref()).unwrap()
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.process.id(), which);
    }

    /// Closes the server's input, as a client that goes away does.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Waits until it has ended. What it writes until then is not read.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let ended = timeout(limit, self.process.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("the server is still there after {limit:?}"))
            .unwrap()
    }
}
