//! What the server's log has, and what it never has.

use std::time::Duration;

use base64::Engine as _;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::TOKEN;
use crate::support::server::Server;
use crate::support::wait::within;

/// Words that are in programs, files and variables, and nowhere else.
const CODE: &str = "CODEWORD-IN-A-PROGRAM";
const VALUE: &str = "CODEWORD-IN-A-VARIABLE";
const CONTENT: &str = "CODEWORD-IN-A-FILE";
const CONVERSATION: &str = "codeword-in-an-id";

/// The log of a server with that filter, after calls with secrets, and the keys of the links that were answered.
async fn log_of(filter: (&str, &str)) -> (String, String) {
    let root = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/nowhere", root.path().display());
    let settings = [("DOCKER_HOST", &*nowhere), ("RUST_LOG", ""), filter];
    let server = Server::start(root.path(), &settings).await;
    let content = base64::engine::general_purpose::STANDARD.encode(CONTENT);
    let upload = server
        .call(
            "upload_file",
            json!({ "conversationId": CONVERSATION, "filename": "a.txt", "content": content }),
        )
        .await;
    let url = upload["file"]["url"].as_str().unwrap().to_owned();
    let key = url.split('/').rev().nth(1).unwrap().to_owned();
    assert_eq!(key.len(), 64, "{url}");
    let read = json!({ "conversationId": CONVERSATION, "filename": "a.txt" });
    let content = server.call("read_file", read).await.to_string();
    assert!(content.contains(CONTENT), "{content}");
    let run = json!({
        "conversationId": CONVERSATION,
        "language": "python",
        "code": format!("print('{CODE}')"),
        "environment": { "SECRET": VALUE },
    });
    assert_eq!(server.call("run_code", run).await["status"], "engine_lost");
    (server.log(), key)
}

#[tokio::test]
async fn no_level_writes_programs_files_variables_or_keys() {
    for filter in [
        ("RUST_LOG", "debug"),
        ("RUST_LOG", "trace"),
        ("LOG_LEVEL", "DEBUG"),
    ] {
        let (log, key) = log_of(filter).await;
        assert!(log.contains(" INFO "), "{log}");
        for secret in [CODE, VALUE, CONTENT, CONVERSATION, &key] {
            assert!(!log.contains(secret), "{filter:?}: {secret}: {log}");
        }
    }
}

#[tokio::test]
async fn a_library_that_is_named_says_everything() {
    let (log, _) = log_of(("RUST_LOG", "info,rmcp=trace")).await;
    assert!(log.contains(CODE), "{log}");
}

#[tokio::test]
async fn a_refused_host_is_logged_once_with_the_setting_that_allows_it() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/nowhere", root.path().display());
    let settings = [("DOCKER_HOST", &*nowhere), ("RUST_LOG", "warn")];
    let server = Server::start(root.path(), &settings).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for host in ["box.lan:8080", "BOX.lan", "box.lan", "other.lan"] {
        let address = format!("http://{}/healthz", server.addr());
        let answer = client.get(address).header("host", host).send().await;
        assert_eq!(answer.unwrap().status(), 403, "{host}");
    }
    let told = || {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("another host"));
        let lines = lines.filter_map(|line| Some(line.split_once("WARN ")?.1.to_owned()));
        lines.collect::<Vec<_>>()
    };
    let both = async || (told().len() == 2).then_some(());
    within(Duration::from_secs(5), "both are told", both).await;
    insta::assert_snapshot!(told().join("\n"), @r#"
    mcp_code_sandbox::http::refused_hosts: refused a request for another host http.host="box.lan" advice="if this is a name of this server, add it to ALLOWED_HOSTS"
    mcp_code_sandbox::http::refused_hosts: refused a request for another host http.host="other.lan" advice="if this is a name of this server, add it to ALLOWED_HOSTS"
    "#);
}

/// They come every few seconds, and would be most of the log.
#[tokio::test]
async fn health_checks_that_go_well_are_details() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/nowhere", root.path().display());
    let settings = [("DOCKER_HOST", &*nowhere), ("RUST_LOG", "debug")];
    let server = Server::start(root.path(), &settings).await;
    for path in ["/healthz", "/metrics", "/readyz", "/"] {
        let address = format!("http://{}{path}", server.addr());
        reqwest::get(address).await.unwrap();
    }
    let level = |route: &str| {
        let log = server.log();
        let route = format!("http.route=\"{route}\"");
        let line = log.lines().rfind(|line| line.contains(&route))?;
        let level = ["DEBUG", "INFO"]
            .iter()
            .find(|level| line.contains(**level));
        level.map(|level| (*level).to_owned())
    };
    let last = async || level("/");
    within(Duration::from_secs(5), "the last one is logged", last).await;
    // Without an engine there is no readiness.
    let levels = ["/healthz", "/metrics", "/readyz", "/"].map(|route| level(route).unwrap());
    assert_eq!(levels, ["DEBUG", "DEBUG", "INFO", "INFO"]);
}

/// A client that hangs up is no error of the server's, and not worth a line.
#[tokio::test]
async fn a_client_that_hangs_up_makes_no_error() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}/nowhere", root.path().display());
    let settings = [("DOCKER_HOST", &*nowhere), ("RUST_LOG", "")];
    let server = Server::start(root.path(), &settings).await;
    let hang_up = async |number: u32| {
        let body = json!({
            "jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": { "name": "list_files", "arguments": { "conversationId": "away" } },
        })
        .to_string();
        let length = body.len();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(server.addr()).await.unwrap();
        let request = [head.as_bytes(), body.as_bytes()].concat();
        stream.write_all(&request).await.unwrap();
        // Gone before, while or after there is an answer.
        tokio::time::sleep(Duration::from_millis(u64::from(number) / 4)).await;
    };
    for number in 0..40 {
        hang_up(number).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let log = server.log();
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(log.contains(" INFO ") && errors.is_empty(), "{errors:#?}");
}
