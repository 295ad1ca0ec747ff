//! The real program as a process: its command line, and what it says before it serves.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::server::{Server, call};
use crate::support::{SECRET, TOKEN};

/// How long the server may take to end.
const END: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_bad_configuration_stops_the_start() {
    for arguments in [&[][..], &["serve"], &["check-config"], &["healthcheck"]] {
        let bad = [
            ("MCP_API_TOKEN", "short-token"),
            ("RUN_TIMEOUT", "soon"),
            ("FILE_SECRET", ""),
        ];
        let output = call(arguments, &bad).await;
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(64), 0),
            "{complaint}"
        );
        for text in [
            "MCP_API_TOKEN",
            "RUN_TIMEOUT=soon",
            "FILE_SECRET is not set",
        ] {
            assert!(complaint.contains(text), "{complaint}");
        }
        assert!(!complaint.contains("short-token"), "{complaint}");
    }
}

#[tokio::test]
async fn an_unusable_listen_address_says_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for (addr, told) in [
        (
            addr.as_str(),
            "is not usable. Another program listens there: stop it, or set another port, such as MCP_HTTP_ADDR=127.0.0.1:9300: Address already in use (os error 98)\n",
        ),
        (
            "192.0.2.1:8080",
            "is not usable. This machine does not have the address: `ip addr` shows those it has: Cannot assign requested address (os error 99)\n",
        ),
    ] {
        let output = call(&[], &[("MCP_HTTP_ADDR", addr)]).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.ends_with(&format!("MCP_HTTP_ADDR={addr} {told}")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_child_process_without_settings_is_pointed_to_stdio() {
    let hint = "did you mean `mcp-code-sandbox stdio`? It needs no settings.";
    let says = async |settings: &[(&str, &str)]| {
        let output = call(&[], settings).await;
        assert_eq!(output.status.code(), Some(64));
        let complaint = String::from_utf8(output.stderr).unwrap();
        complaint.lines().next().unwrap() == hint
    };
    assert!(says(&[("MCP_API_TOKEN", ""), ("FILE_SECRET", "")]).await);
    assert!(!says(&[("FILE_SECRET", "")]).await);
}

#[tokio::test]
async fn the_shown_configuration_has_no_secret() {
    let output = call(&["check-config"], &[("RUN_TIMEOUT", "7s")]).await;
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        output.status.success() && shown.contains("RUN_TIMEOUT=7s"),
        "{shown}"
    );
    assert!(!shown.contains(TOKEN) && !shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn a_health_check_asks_the_server_that_runs() {
    let root = tempfile::tempdir().unwrap();
    // Without an engine it is alive too.
    let host = format!("unix://{}/nobody", root.path().display());
    let mut server = Server::start(root.path(), &[("DOCKER_HOST", &host)]).await;
    let addr = server.addr().to_string();
    let check = async || call(&["healthcheck"], &[("MCP_HTTP_ADDR", &addr)]).await;
    assert_eq!(check().await.status.code(), Some(0));
    let second = call(&[], &[("MCP_HTTP_ADDR", &addr), ("DOCKER_HOST", &host)]).await;
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains(&format!("MCP_HTTP_ADDR={addr}")),
        "{complaint}"
    );
    server.signal(Signal::INT);
    assert!(server.ended(END).await.success());
    let output = check().await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("the server does not answer")
    );
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_named() {
    let output = call(&[], &[("SANDBOX_ROOT", "/proc/nowhere")]).await;
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("SANDBOX_ROOT=/proc/nowhere"),
        "{complaint}"
    );
}

#[tokio::test]
async fn the_help_of_every_command_has_examples_and_exit_codes() {
    for command in [
        "serve",
        "stdio",
        "check-config",
        "selftest",
        "audit",
        "healthcheck",
    ] {
        let help = String::from_utf8(call(&["help", command], &[]).await.stdout).unwrap();
        let (_, examples) = help.split_once("\nExamples:\n").expect(command);
        let (examples, _) = examples.split_once("\n\n").unwrap();
        let is_call = |line: &&str| line.contains("mcp-code-sandbox");
        assert_eq!(examples.lines().filter(is_call).count(), 2, "{examples}");
        assert!(help.contains("\nExit codes: 0 "), "{help}");
    }
    // The one that names controls names those there are.
    let only = ["selftest", "--only", "network-off,fork-bomb"];
    let nowhere = [("DOCKER_HOST", "unix:///nowhere")];
    let tried = call(&only, &nowhere).await;
    assert_eq!(tried.status.code(), Some(69), "{tried:?}");
}
