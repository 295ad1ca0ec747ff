//! `mcp-code-sandbox admin` against a real server.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::ADMIN_TOKEN;
use crate::support::server::{Server, call_in, free_address};
use crate::support::wait::within;

/// No engine is needed to store files.
const NO_ENGINE: (&str, &str) = ("DOCKER_HOST", "unix:///nowhere/engine.sock");
const ON: (&str, &str) = ("ADMIN_TOKEN", ADMIN_TOKEN);
const WAIT: Duration = Duration::from_secs(20);

/// Exit code and output of the command.
async fn admin(root: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> (i32, String) {
    let arguments = [&["admin"], arguments].concat();
    let output = call_in(root, &arguments, settings).await;
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

/// Times and keys as they look, but not as they are.
fn masked(text: &str) -> String {
    let is_time = |word: &str| {
        word.len() == 10 && word.as_bytes()[4] == b'-' || word.ends_with('Z') && word.len() == 9
    };
    let is_key = |word: &str| word.len() == 64;
    let mask = |word: &str| match word {
        time if is_time(time) => "T".repeat(time.len()),
        key if is_key(key) => "KEY".to_owned(),
        other => other.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_command_shows_and_ends_what_a_running_server_has() {
    let root = tempfile::tempdir().unwrap();
    let log = root.path().join("audit.log").display().to_string();
    let settings = [NO_ENGINE, ON, ("AUDIT_LOG", &*log)];
    let mut server = Server::start(root.path(), &settings).await;
    server.upload("a.txt", b"hi").await;
    let addr = server.addr().to_string();
    let settings = [ON, ("MCP_HTTP_ADDR", &*addr)];
    let ask = async |arguments: &[&str]| {
        let (code, said) = admin(root.path(), arguments, &settings).await;
        assert_eq!(code, 0, "{said}");
        said
    };
    let tenants = async || {
        let said = ask(&["tenants"]).await;
        said.contains("4 KiB").then_some(said)
    };
    insta::assert_snapshot!(masked(&within(WAIT, "it is measured", tenants).await), @"
    TENANT   TOKENS         CONVERSATIONS  STORED  RUNNING  RUNS 24 H  CPU 24 H
    default  MCP_API_TOKEN  1              4 KiB   0        0          0.0 s
    ");
    insta::assert_snapshot!(masked(&ask(&["conversations", "--limit", "5"]).await), @"
    LAST USED             TENANT   STORED  WARM  KERNELS  RUNNING  KEY
    TTTTTTTTTT TTTTTTTTT  default  4 KiB   0     -        0        KEY
    ");
    let json: Value = serde_json::from_str(&ask(&["conversations", "--json"]).await).unwrap();
    let key = json["conversations"][0]["key"].as_str().unwrap();
    insta::assert_snapshot!(masked(&ask(&["conversation", key]).await), @"
    LAST USED             TENANT   STORED  WARM  KERNELS  RUNNING  KEY
    TTTTTTTTTT TTTTTTTTT  default  4 KiB   0     -        0        KEY

    SIZE  TYPE        FILE
    2 B   text/plain  a.txt
    ");
    insta::assert_snapshot!(masked(&ask(&["usage", "--group", "tenant"]).await), @"
    TENANT   DAY  LANGUAGE  CPU    TIME   INSTALLS  UP   DOWN  RUNS
    default  -    -         0.0 s  0.0 s  0         2 B  0 B   -
    ");
    insta::assert_snapshot!(masked(&ask(&["runs", "--all"]).await), @"BEGAN  TENANT  TOKEN  LANGUAGE  STATUS  CPU  ID");
    assert!(
        ask(&["audit", "--limit", "1"])
            .await
            .contains("file_uploaded")
    );
    assert_eq!(
        ask(&["conversation", key, "--delete"]).await,
        format!("deleted {key}\n")
    );
    let (code, said) = admin(root.path(), &["conversation", key], &settings).await;
    assert_eq!(
        (code, said.trim()),
        (
            1,
            &*format!(
                "there is no conversation with the key {key}: GET /admin/v1/conversations lists them"
            )
        )
    );
    server.signal(Signal::TERM);
    assert!(server.ended(WAIT).await.success());
}

#[tokio::test]
async fn what_keeps_the_command_from_an_answer_is_said() {
    let root = tempfile::tempdir().unwrap();
    let nobody = free_address().await.to_string();
    let plain = Server::start(root.path(), &[NO_ENGINE]).await;
    let dir = tempfile::tempdir().unwrap();
    let other = Server::start(
        dir.path(),
        &[NO_ENGINE, ("ADMIN_TOKEN", "another-one-0123456789")],
    )
    .await;
    let addresses = [nobody, plain.addr().to_string(), other.addr().to_string()];
    let mut said = Vec::new();
    for addr in &addresses {
        let settings = [ON, ("MCP_HTTP_ADDR", addr.as_str())];
        let (code, text) = admin(dir.path(), &["tenants"], &settings).await;
        said.push(format!(
            "{code} {}",
            text.replace(addr.as_str(), "ADDR").trim()
        ));
    }
    let (code, text) = admin(dir.path(), &["tenants"], &[]).await;
    said.push(format!("{code} {}", text.trim()));
    let (code, text) = admin(
        dir.path(),
        &["tenants"],
        &[ON, ("MCP_HTTP_ADDR", "nowhere")],
    )
    .await;
    said.push(format!("{code} {}", text.trim()));
    insta::assert_snapshot!(said.join("\n"), @"
    1 no server answers at ADDR: start it, or set MCP_HTTP_ADDR to where it listens: error sending request for url (http://ADDR/admin/v1/tenants?limit=100): client error (Connect): tcp connect error: Connection refused (os error 111)
    1 the server at ADDR has no administration: give it ADMIN_TOKEN, and start it again
    1 the server at ADDR has another ADMIN_TOKEN: give the one that it was started with
    64 ADMIN_TOKEN is not set: give it in the environment or in .env, as the server has it
    64 MCP_HTTP_ADDR=nowhere is not valid: it must be an address such as `127.0.0.1:8080`, or `:8080` for all IPv4 interfaces
    ");
}

#[tokio::test]
async fn help_has_examples() {
    let root = tempfile::tempdir().unwrap();
    let (code, said) = admin(root.path(), &["--help"], &[]).await;
    assert_eq!(code, 0);
    assert!(
        said.contains("Examples:\n  mcp-code-sandbox admin conversations"),
        "{said}"
    );
    for name in [
        "tenants",
        "conversations",
        "conversation",
        "runs",
        "cancel",
        "usage",
        "audit",
    ] {
        let (code, said) = admin(root.path(), &[name, "--help"], &[]).await;
        assert_eq!(code, 0, "{said}");
    }
}
