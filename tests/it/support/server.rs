//! The real program as a process of its own, called over the network.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use reqwest::{Client, Response};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::TOKEN;
use super::dockerd::signal;
use super::wait::within;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-code-sandbox");
/// How long the server may take to listen.
const START: Duration = Duration::from_secs(10);
/// How long a command may take, such as a selftest on a busy machine.
const COMMAND: Duration = Duration::from_mins(5);

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    process: Child,
    addr: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts a server on the directory `root/data` and waits until it answers.
    pub(crate) async fn start(root: &Path, settings: &[(&str, &str)]) -> Self {
        Self::start_at(free_address().await, root, settings).await
    }

    /// The same at a given address, such as that of a server that has ended.
    pub(crate) async fn start_at(addr: SocketAddr, root: &Path, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::begin_at(addr, root, settings);
        let listens = async || {
            let ended = server.process.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "it ended: {}",
                fs::read_to_string(&server.log).unwrap()
            );
            client()
                .get(format!("http://{addr}/healthz"))
                .send()
                .await
                .ok()
                .map(drop)
        };
        within(START, "the server listens", listens).await;
        server
    }

    /// The same without waiting.
    pub(crate) fn begin_at(addr: SocketAddr, root: &Path, settings: &[(&str, &str)]) -> Self {
        let log = root.join(format!("{}.log", addr.port()));
        let file = fs::File::create(&log).unwrap();
        let mut command = command(root, settings);
        command
            .env("MCP_HTTP_ADDR", addr.to_string())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let process = command.kill_on_drop(true).spawn().unwrap();
        Self { process, addr, log }
    }

    /// Waits until it answers at all.
    pub(crate) async fn until_listening(&self) {
        let url = format!("http://{}/healthz", self.addr);
        let listens = async || client().get(&url).send().await.ok().map(drop);
        within(START, "the server listens", listens).await;
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Status and body of a page.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = client()
            .get(format!("http://{}{path}", self.addr))
            .send()
            .await
            .unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The same of a page for those with the token.
    pub(crate) async fn get_as_client(&self, path: &str) -> (u16, Value) {
        let request = client().get(format!("http://{}{path}", self.addr));
        let response = request.bearer_auth(TOKEN).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Runs a shell program for at most 20 s. `Err` if the server no longer answers.
    pub(crate) fn run(&self, code: &str) -> impl Future<Output = reqwest::Result<Value>> + use<> {
        self.run_for(20, code)
    }

    /// The same with another time limit.
    pub(crate) fn run_for(
        &self,
        seconds: u32,
        code: &str,
    ) -> impl Future<Output = reqwest::Result<Value>> + use<> {
        let arguments = json!({ "conversationId": "demo", "language": "shell", "code": code, "timeoutSeconds": seconds });
        self.try_call("run_code", &arguments)
    }

    /// Uploads a file.
    pub(crate) async fn upload(&self, name: &str, content: &[u8]) -> Value {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        let arguments = json!({ "conversationId": "demo", "filename": name, "content": content });
        self.call("upload_file", arguments).await
    }

    /// Calls a tool and returns its structured result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.try_call(tool, &arguments).await.unwrap()
    }

    fn try_call(
        &self,
        tool: &str,
        arguments: &Value,
    ) -> impl Future<Output = reqwest::Result<Value>> + use<> {
        let params = json!({ "name": tool, "arguments": arguments });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = client()
            .post(format!("http://{}/mcp", self.addr))
            .bearer_auth(TOKEN)
            .json(&message);
        async move {
            let response: Value = request
                .send()
                .await
                .and_then(Response::error_for_status)?
                .json()
                .await?;
            let result = &response["result"]["structuredContent"];
            assert!(result.is_object(), "no result: {response}");
            Ok(result.clone())
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// KiB of memory that it has.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mut lines = status.lines();
        let resident = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits until `/readyz` says that the server is ready.
    pub(crate) async fn until_ready(&self, limit: Duration) {
        let ready = async || (self.get("/readyz").await.0 == 200).then_some(());
        within(limit, "the server is ready", ready).await;
    }

    /// Sets another limit on its open files, and returns the previous one.
    pub(crate) fn limit_files(&self, limit: Rlimit) -> Rlimit {
        let pid = Pid::from_raw(self.pid().cast_signed());
        prlimit(pid, Resource::Nofile, limit).unwrap()
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.process.id(), which);
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let ended = tokio::time::timeout(limit, self.process.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("the server is still there after {limit:?}"))
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            #[expect(
                clippy::print_stdout,
                reason = "shown with the failure that it explains"
            )]
            {
                println!("log of the server:\n{log}");
            }
        }
    }
}

/// Calls the program with arguments and waits for it to end.
pub(crate) async fn call(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let root = tempfile::tempdir().unwrap();
    call_in(root.path(), arguments, settings).await
}

/// The same in a directory, which may have a `.env`.
pub(crate) async fn call_in(
    directory: &Path,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Output {
    let mut command = command(directory, settings);
    let names_port = settings.iter().any(|(name, _)| *name == "MCP_HTTP_ADDR");
    if arguments == ["serve"] && !names_port {
        // Another test may have the usual port at this moment.
        command.env("MCP_HTTP_ADDR", "127.0.0.1:0");
    }
    let output = command.args(arguments).kill_on_drop(true).output();
    tokio::time::timeout(COMMAND, output)
        .await
        .expect("it ends by itself")
        .unwrap()
}

/// The program without the test's own environment, and with a `.env` only if the test put one there.
pub(crate) fn command(root: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(root)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("MCP_API_TOKEN", TOKEN)
        .env("FILE_SECRET", super::SECRET)
        .env("SANDBOX_ROOT", root.join("data"))
        .env("DISK_FREE_FLOOR", "1m")
        // Pages that are requested again and again are not logged.
        .env("RUST_LOG", "info,mcp_code_sandbox::http=warn")
        // Containers of the network's check must not be among those that are counted.
        .env("ALLOW_NETWORK", "1")
        .envs(settings.iter().copied())
        .stdin(Stdio::null());
    command
}

/// An address that was free a moment ago.
pub(crate) async fn free_address() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    listener.local_addr().unwrap()
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}
