//! Lists of tenants over REST, and what the audit log says of them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use axum::body::Body;
use axum::http::Request;
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};

use super::world::World;
use super::{PYTHON, hosts, server};
use crate::support::{TOKEN, TestApp, eventually};

/// A tenant that reaches one host of those that the server lists, and its token.
fn tenant(file: &Path) -> String {
    let new = TokenCommand::New {
        tenant: "research".parse().unwrap(),
        name: "n8n".parse().unwrap(),
        expires: None,
        scopes: Vec::new(),
    };
    let token = new.run(Some(file)).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let name = "name = \"research\"\n";
    let limited = format!("{name}network_allow = [\"api.test\"]\n");
    fs::write(file, text.replacen(name, &limited, 1)).unwrap();
    token
}

/// What came of a program over REST that reaches for two hosts.
async fn execute(app: &TestApp, token: &str, ca: &str, hosts: &[&str]) -> Value {
    let code = format!(
        "ca = {ca:?}\nopen('/data/ca.pem', 'w').write(ca)\n{PYTHON}\
         print(*[tried(lambda: get(f'https://{{host}}/')) for host in ('api.test', 'other.test')])"
    );
    let body = json!({ "code": code, "stateful": false, "hosts": hosts });
    let request = Request::post("/api/v1/execute")
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    let answer = app.send(request.body(Body::from(body.to_string())).unwrap());
    let answer = answer.await.text();
    let last = answer.lines().last().unwrap();
    let mut last: Value = serde_json::from_str(last).unwrap();
    if last.get("result").is_some() {
        last["result"].take()
    } else {
        last["error"].take()
    }
}

#[tokio::test]
async fn each_tenant_on_docker_reaches_its_own_list_and_the_audit_log_says_so() {
    let world = World::new().await;
    let directory = tempfile::tempdir().unwrap();
    let [file, log] = ["access.toml", "audit.log"].map(|name| directory.path().join(name));
    let research = tenant(&file);
    let [file, path] = [&file, &log].map(|path| path.display().to_string());
    let app = server(&world, &[("ACCESS_FILE", &file), ("AUDIT_LOG", &path)]).await;
    let mut told = String::new();
    for (who, token, wanted) in [
        ("default", TOKEN, &["api.test", "other.test"][..]),
        ("research", &research, &["api.test"]),
        ("research", &research, &["other.test"]),
    ] {
        let outcome = execute(&app, token, &world.ca, wanted).await;
        let said = [&outcome["stdout"], &outcome["message"]];
        let said = said.iter().find_map(|it| it.as_str()).unwrap().trim_end();
        writeln!(told, "{who}: {said}\n{}", hosts(&outcome)).unwrap();
    }
    insta::assert_snapshot!(told, @r#"
    default: api.test / other.test /
    api.test:443 allowed  [1, 0]
    other.test:443 allowed  [1, 0]

    research: api.test / URLError
    api.test:443 allowed  [1, 0]
    other.test denied not_listed [0, 2]

    research: hosts: "other.test" is not among the hosts that programs may reach: api.test: name listed ones, or leave hosts out for all of them
    "#);
    let reached = || -> Vec<String> {
        let log = fs::read_to_string(&log).unwrap();
        // The last line may be under way.
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let told = events.filter_map(|event: Value| {
            let hosts = event["reached"]["hosts"].as_array()?.iter();
            let hosts: Vec<_> = hosts
                .map(|row| format!("{} {}", row["host"], row["verdict"]))
                .collect();
            Some(format!("{}: {}", event["tenant"], hosts.join(", ")))
        });
        told.collect()
    };
    eventually("both runs are in the log", || reached().len() == 2).await;
    insta::assert_snapshot!(reached().join("\n"), @r#"
    "default": "api.test" "allowed", "other.test" "allowed"
    "research": "api.test" "allowed", "other.test" "denied"
    "#);
    app.assert_nothing_is_left().await;
}
