//! The built server as a client's child process, on the real engine.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::sse::run;

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    root: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-code-sandbox"))
            .arg("stdio")
            .env_clear()
            .env("SANDBOX_ROOT", root.path())
            .env("POOL_SIZE", "0")
            // Without the containers of the network's probe.
            .env("ALLOW_NETWORK", "1")
            .env("DISK_FREE_FLOOR", "1m")
            .current_dir(root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        let mut server = Self {
            child,
            input,
            output,
            root,
        };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        server
            .send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
            .await;
        assert_eq!(
            server.message().await["result"]["protocolVersion"],
            "2025-06-18"
        );
        server
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        server
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    /// The next line of standard output, which holds messages and nothing else.
    async fn message(&mut self) -> Value {
        let line = timeout(Duration::from_mins(1), self.output.next_line()).await;
        serde_json::from_str(&line.expect("the server is silent").unwrap().unwrap()).unwrap()
    }

    /// How many containers mount something below our root.
    async fn containers(&self) -> usize {
        let list = Command::new("docker")
            .args(["ps", "--all", "--no-trunc", "--format", "{{.Mounts}}"])
            .output();
        let mounts = String::from_utf8(list.await.unwrap().stdout).unwrap();
        let root = self.root.path().display().to_string();
        mounts.lines().filter(|line| line.contains(&root)).count()
    }
}

#[tokio::test]
async fn closing_the_input_ends_everything() {
    let mut server = Server::start().await;
    server.send(&run(1, "echo started\nsleep 60")).await;
    while server.message().await["params"]["message"] != "started\n" {}
    assert_eq!(server.containers().await, 1);
    let since = Instant::now();
    drop(server.input.take());
    let status = timeout(Duration::from_secs(15), server.child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success(), "{status}");
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "it took {:?}",
        since.elapsed()
    );
    assert_eq!(server.containers().await, 0);
}

#[tokio::test]
async fn links_work_beside_standard_output() {
    let mut server = Server::start().await;
    server.send(&run(1, "echo made > out.txt")).await;
    let answer = loop {
        let message = server.message().await;
        if message["id"] == 1 {
            break message;
        }
    };
    let url = answer["result"]["structuredContent"]["files"][0]["url"]
        .as_str()
        .unwrap()
        .to_owned();
    let links: Vec<_> = answer["result"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "resource_link")
        .collect();
    assert_eq!(
        (links.len(), links[0]["uri"].as_str()),
        (1, Some(url.as_str()))
    );
    assert_eq!(
        reqwest::get(&url).await.unwrap().text().await.unwrap(),
        "made\n"
    );
    server
        .send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/list" }))
        .await;
    let resources = server.message().await["result"]["resources"].clone();
    assert_eq!(resources[0]["uri"], "sandbox://demo/out.txt");
    server.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": { "uri": "sandbox://demo/out.txt" } })).await;
    assert_eq!(
        server.message().await["result"]["contents"][0]["text"],
        "made\n"
    );
}
