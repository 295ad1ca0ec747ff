//! What is said where hosts are listed, before any program runs: to models, to callers, and for each tenant.

use serde_json::{Value, json};

use crate::support::TestApp;

const ALLOW: (&str, &str) = (
    "NETWORK_ALLOW",
    "api.example.org,*.example.net,db.example.org:5432",
);

async fn refusal(app: &TestApp, more: Value) -> String {
    let mut arguments = json!({ "language": "shell", "code": "echo hello" });
    arguments
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let outcome = app.call("run_code", arguments).await;
    format!(
        "{}: {}",
        outcome["code"].as_str().unwrap_or("no error"),
        outcome["message"]
    )
}

/// What a model reads of the network, and whether it can name hosts.
async fn told(app: &TestApp) -> String {
    let tools = app.rpc("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "run_code")
        .unwrap();
    let description = tool["description"].as_str().unwrap();
    let (_, network) = description.split_once("of code, ").unwrap();
    let (network, _) = network.split_once(". Example").unwrap();
    let hosts = &tool["inputSchema"]["properties"]["hosts"]["description"];
    format!("{network}\n{hosts}")
}

#[tokio::test]
async fn models_are_told_which_hosts_there_are() {
    let app = TestApp::on_fake_with(&[ALLOW]).await;
    insta::assert_snapshot!(told(&app).await, @r#"
    no internet; network: true reaches only api.example.org, db.example.org:5432, *.example.net (HTTPS, unless a port is given)
    "With network: the listed hosts that the program may reach, if it needs fewer than all; implies network."
    "#);
    let app = TestApp::on_fake_with(&[("NETWORK", "listed")]).await;
    insta::assert_snapshot!(told(&app).await, @r#"
    no internet
    "With network: the listed hosts that the program may reach, if it needs fewer than all; implies network."
    "#);
    let app = TestApp::on_fake_with(&[ALLOW, ("NETWORK_ASK", "1")]).await;
    insta::assert_snapshot!(told(&app).await, @r#"
    no internet; network: true reaches only api.example.org, db.example.org:5432, *.example.net (HTTPS, unless a port is given); hosts can name others, for which the person is asked
    "With network: the listed hosts that the program may reach, if it needs fewer than all; implies network."
    "#);
    let app = TestApp::on_fake_with(&[("NETWORK_ASK", "1")]).await;
    insta::assert_snapshot!(told(&app).await, @r#"
    no internet; hosts can name others, for which the person is asked
    "With network: the listed hosts that the program may reach, if it needs fewer than all; implies network."
    "#);
    let app = TestApp::on_fake().await;
    insta::assert_snapshot!(told(&app).await, @"
    no internet unless network is true
    null
    ");
}

/// The hosts of packages are among them, where settings or, on other engines, the clients say which these are.
#[tokio::test]
async fn presets_stand_for_the_hosts_of_packages() {
    let settings = [
        (
            "NETWORK_ALLOW",
            "@python-packages,@npm-packages,api.example.org",
        ),
        ("PIP_INDEX_URL", "https://index.example/simple"),
        ("PIP_EXTRA_INDEX_URL", "https://more.example:8443/simple"),
        ("NPM_CONFIG_REGISTRY", "http://192.0.2.1/"),
        ("PACKAGE_HOSTS", "files.example"),
    ];
    let app = TestApp::on_fake_with(&settings).await;
    let hosts = json!({ "hosts": ["evil.example"] });
    insta::assert_snapshot!(refusal(&app, hosts).await, @r#"host_not_listed: "hosts: \"evil.example\" is not among the hosts that programs may reach: api.example.org, files.example, index.example, more.example:8443: name listed ones, or leave hosts out for all of them""#);
    insta::assert_snapshot!(told(&app).await, @r#"
    no internet; network: true reaches only api.example.org, files.example, index.example, more.example:8443 (HTTPS, unless a port is given)
    "With network: the listed hosts that the program may reach, if it needs fewer than all; implies network."
    "#);
}

/// Only containers for programs that may reach hosts have a hatch, and without a list there are none of these.
#[tokio::test]
async fn sandboxes_have_a_hatch_where_hosts_are_listed() {
    for (settings, has_hatch) in [(&[ALLOW][..], true), (&[], false)] {
        let settings = [settings, &[("SANDBOX_REUSE", "conversation")]].concat();
        let app = TestApp::on_fake_with(&settings).await;
        app.run("shell", "echo hello").await;
        let specs = app.fake.as_ref().unwrap().specs();
        assert!(!specs.is_empty());
        for spec in specs {
            assert_eq!(spec.hatch.name().is_some(), has_hatch);
        }
    }
}

#[tokio::test]
async fn hosts_that_are_not_listed_are_refused_by_name() {
    let app = TestApp::on_fake_with(&[ALLOW]).await;
    let asked = [
        json!({ "hosts": ["evil.example"] }),
        json!({ "hosts": ["api.example.org", "example.net"], "network": true }),
        json!({ "hosts": ["api.example.org:80"] }),
        json!({ "hosts": ["192.0.2.1"] }),
        json!({ "hosts": ["\u{202e}\n"] }),
        json!({ "hosts": "api.example.org, evil.example" }),
        json!({ "hosts": "[\"evil.example\"]" }),
    ];
    let mut refusals = Vec::new();
    for asked in asked {
        refusals.push(refusal(&app, asked).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    host_not_listed: "hosts: \"evil.example\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"example.net\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"api.example.org:80\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"192.0.2.1\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"\\u{202e}\\n\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"evil.example\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    host_not_listed: "hosts: \"evil.example\" is not among the hosts that programs may reach: api.example.org, db.example.org:5432, *.example.net: name listed ones, or leave hosts out for all of them"
    "#);
}

#[tokio::test]
async fn without_a_list_no_host_can_be_named() {
    let app = TestApp::on_fake().await;
    let hosts = json!({ "hosts": ["api.example.org"] });
    insta::assert_snapshot!(refusal(&app, hosts).await, @r#"network_refused: "network: true is refused: this server has no list of hosts, so none can be named: leave hosts out. Run without it, with data that was uploaded""#);
    let app = TestApp::on_fake_with(&[("NETWORK", "off")]).await;
    insta::assert_snapshot!(refusal(&app, json!({ "network": true })).await, @r#"network_refused: "network: true is refused: programs have none here, which the server's operator can change. Run without it, with data that was uploaded""#);
    let app = TestApp::on_fake_with(&[("NETWORK", "listed")]).await;
    insta::assert_snapshot!(refusal(&app, json!({ "network": true })).await, @r#"network_refused: "network: true is refused: no host is listed that programs may reach, which the server's operator can change. Run without it, with data that was uploaded""#);
}

/// An engine through which no socket comes is said to be the reason, and a run without the network is as ever.
#[tokio::test]
async fn where_no_socket_comes_out_the_network_fails() {
    let app = TestApp::on_fake_with(&[ALLOW]).await;
    insta::assert_snapshot!(refusal(&app, json!({ "network": true })).await, @r#"network_failed: "the server failed to open the network: no socket comes out of sandboxes of this engine: its runtime may not let them through, and NETWORK=open does without: try again, and tell its operator if it stays""#);
    assert_eq!(app.run("shell", "echo hello").await["status"], "ok");
}

#[test]
fn a_mistake_in_the_list_stops_the_start() {
    let refused = |name: &'static str, value: &'static str| {
        let lookup = |asked: &str| match asked {
            "MCP_API_TOKEN" => Some(crate::support::TOKEN.to_owned()),
            "FILE_SECRET" => Some(crate::support::SECRET.to_owned()),
            _ => (asked == name).then(|| value.to_owned()),
        };
        mcp_code_sandbox::config::Config::from_lookup(&lookup)
            .unwrap_err()
            .to_string()
    };
    let refusals = [
        refused("NETWORK", "allowlist"),
        refused("NETWORK_ALLOW", "api.example.org,*"),
        refused("NETWORK_ALLOW", "192.0.2.1"),
        refused("NETWORK_ALLOW", "https://api.example.org"),
        refused("NETWORK_ALLOW", "@github,@forge"),
        refused("PACKAGE_HOSTS", "@github"),
        refused("NETWORK_PRIVATE", "10.0.0.0"),
        refused("NETWORK_HOSTS", "db.internal"),
        refused("NETWORK_BYTES", "1"),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    NETWORK=allowlist is not valid: it must be `off`, `listed` or `open`
    NETWORK_ALLOW=api.example.org,* is not valid: it must be names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ("*" is no entry: not all hosts can be listed at once)
    NETWORK_ALLOW=192.0.2.1 is not valid: it must be names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ("192.0.2.1" is no entry: hosts are listed by name, not by address)
    NETWORK_ALLOW=https://api.example.org is not valid: it must be names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ("https://api.example.org" is no entry: a port is a number from 1 to 65535)
    NETWORK_ALLOW=@github,@forge is not valid: it must be names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ("@forge" is no preset: there are @github, @python-packages, @npm-packages)
    PACKAGE_HOSTS=@github is not valid: it must be names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ("@github" is no entry: a host is a name such as `api.example.org`: letters, digits, `-` and dots)
    NETWORK_PRIVATE=10.0.0.0 is not valid: it must be ranges of addresses separated by commas, such as `10.0.0.0/8`
    NETWORK_HOSTS=db.internal is not valid: it must be names with their addresses separated by commas, such as `db.internal=10.0.0.7` or `api.test=127.0.0.1:8443`
    NETWORK_BYTES=1 is not valid: it must be a size of at least 1k, such as `512k`, `256m` or `1g`
    "#);
}
