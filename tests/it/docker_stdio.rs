//! The built server as a client's child process, on the real engine.

use std::time::Duration;

use serde_json::json;
use tokio::process::Command;
use tokio::time::Instant;

use crate::sse::run;
use crate::support::stdio::StdioServer;

/// How many containers mount something below the server's root.
async fn containers(server: &StdioServer) -> usize {
    let list = Command::new("docker")
        .args(["ps", "--all", "--no-trunc", "--format", "{{.Mounts}}"])
        .output();
    let mounts = String::from_utf8(list.await.unwrap().stdout).unwrap();
    let root = server.root.path().display().to_string();
    mounts.lines().filter(|line| line.contains(&root)).count()
}

#[tokio::test]
async fn closing_the_input_ends_everything() {
    let mut server = StdioServer::start(&[]).await;
    server.send(&run(1, "echo started\nsleep 60")).await;
    while server.message().await["params"]["message"] != "started\n" {}
    assert_eq!(containers(&server).await, 1);
    let since = Instant::now();
    server.close();
    let status = server.ended(Duration::from_secs(15)).await;
    assert!(status.success(), "{status}");
    assert!(
        since.elapsed() < Duration::from_secs(3),
        "it took {:?}",
        since.elapsed()
    );
    assert_eq!(containers(&server).await, 0);
}

#[tokio::test]
async fn links_work_beside_standard_output() {
    let mut server = StdioServer::start(&[]).await;
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
    server.close();
    assert!(server.ended(Duration::from_secs(15)).await.success());
    assert_eq!(containers(&server).await, 0);
}
