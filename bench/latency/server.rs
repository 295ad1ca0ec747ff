//! The release binary as a child process, and a client on one kept-alive connection.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

const TOKEN: &str = "b3f1a97c20de4586a1c8e7f5";

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) client: reqwest::Client,
    port: u16,
    root: tempfile::TempDir,
}

/// One program.
pub(crate) struct Program {
    pub(crate) language: &'static str,
    pub(crate) code: &'static str,
    pub(crate) prints: &'static str,
    pub(crate) stateful: bool,
}

impl Server {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new(env!("CARGO_BIN_EXE_mcp-code-sandbox"))
            .current_dir(root.path())
            .env("MCP_HTTP_ADDR", format!("127.0.0.1:{port}"))
            .env("MCP_API_TOKEN", TOKEN)
            .env("FILE_SECRET", "5e0d7c41b69f48a3920fbc6de17a83f4")
            .env("SANDBOX_ROOT", root.path().join("sandboxes"))
            .env("RUST_LOG", "warn")
            .envs(settings.iter().copied())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .build()
            .unwrap();
        let server = Self {
            child,
            client,
            port,
            root,
        };
        server
            .until(|answer| answer.is_some_and(|status| status.is_success()))
            .await;
        server
    }

    async fn until(&self, ready: impl Fn(Option<reqwest::StatusCode>) -> bool) {
        loop {
            let answer = self
                .client
                .get(format!("http://127.0.0.1:{}/readyz", self.port))
                .send()
                .await;
            if ready(answer.ok().map(|answer| answer.status())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the pool has had time to fill: the number of containers has not changed for four seconds.
    pub(crate) async fn wait_until_full(&self) {
        let count = || {
            let output = Command::new("docker").args(["ps", "-q"]).output().unwrap();
            output.stdout.split(|byte| *byte == b'\n').count()
        };
        let mut seen = (count(), 0);
        while seen.1 < 8 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = count();
            seen = if now == seen.0 {
                (now, seen.1 + 1)
            } else {
                (now, 0)
            };
        }
    }

    /// The directory with all its files.
    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.root.path().join("sandboxes")
    }

    /// Runs a program and checks its output.
    pub(crate) async fn run(&self, conversation: &str, program: &Program) {
        let arguments = json!({ "conversationId": conversation, "language": program.language, "code": program.code,
            "stateful": program.stateful });
        let answer = self.call("run_code", arguments).await;
        assert!(
            answer["stdout"]
                .as_str()
                .is_some_and(|output| output.contains(program.prints)),
            "{answer}"
        );
    }

    /// Calls a tool and returns its structured answer.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } });
        let request = self
            .client
            .post(format!("http://127.0.0.1:{}/mcp", self.port))
            .bearer_auth(TOKEN);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        answer["result"]["structuredContent"].take()
    }

    /// Memory and processor time while idle.
    pub(crate) async fn idle(&self) -> String {
        let before = self.used();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let busy = self.used().saturating_sub(before).as_secs_f64() * 10.0;
        format!("{} kB resident, {busy:.1} % of one core", self.resident())
    }

    /// The processor time that it has taken.
    pub(crate) fn used(&self) -> Duration {
        let stat = self.read("stat");
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum();
        // A tick is 10 ms wherever containers run.
        Duration::from_millis(ticks * 10)
    }

    /// The memory that it has, in kB.
    pub(crate) fn resident(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap()
    }

    /// Stops it, and waits until it has.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

/// A measurement that fails leaves no server, and so no sandboxes.
impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
