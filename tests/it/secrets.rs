//! Secrets, before any program runs: what stops the start, who is told of which, and what is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::Request;
use mcp_code_sandbox::access::TokenCommand;
use mcp_code_sandbox::app::App;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::call_in;
use crate::support::{TOKEN, TestApp, config};

const ALLOW: &str = "api.github.com,*.weather.example,plain.example:80";
const VALUE: &str = "ghp_0123456789abcdef0123456789abcdef";

/// A directory with a file of secrets, and the value of the first.
pub(crate) struct SecretFiles {
    dir: TempDir,
}

impl SecretFiles {
    /// With this file, in which `DIR` stands for the directory.
    pub(crate) fn new(text: &str) -> Self {
        let files = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let dir = files.dir.path().display().to_string();
        files.write("secrets.toml", &text.replace("DIR", &dir));
        files.write("github", VALUE);
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// `SECRETS_FILE`.
    pub(crate) fn setting(&self) -> String {
        self.path("secrets.toml").display().to_string()
    }
}

const FILE: &str = r#"
[[secret]]
name = "github"
env = "GITHUB_TOKEN"
from_file = "DIR/github"
hosts = ["api.github.com"]
prefix = "ghp_"

[[secret]]
name = "weather"
env = "WEATHER_KEY"
from_file = "DIR/weather"
hosts = ["api.weather.example", "old.weather.example"]
header = "x-api-key"
tenants = ["default", "research"]

[[secret]]
name = "sales"
env = "SALES_KEY"
from_env = "NOBODY_SETS_THIS"
hosts = ["api.weather.example"]
tenants = ["sales"]
"#;

async fn server(files: &SecretFiles, more: &[(&str, &str)]) -> TestApp {
    let file = files.setting();
    let own = [("NETWORK_ALLOW", ALLOW), ("SECRETS_FILE", &*file)];
    let settings: Vec<_> = own.iter().chain(more).copied().collect();
    TestApp::on_fake_with(&settings).await
}

/// The words of `run_code` about the network, and of its argument.
async fn told(app: &TestApp, token: &str) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let request = Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    let answer = app.send(request.body(message.to_string().into()).unwrap());
    let tools = answer.await.json()["result"]["tools"].take();
    let tools = tools.as_array().unwrap().iter();
    let tool = tools.clone().find(|tool| tool["name"] == "run_code");
    let tool = tool.unwrap();
    let description = tool["description"].as_str().unwrap();
    let (_, network) = description.split_once("of code, ").unwrap();
    let (network, _) = network.split_once(". Example").unwrap();
    let argument = &tool["inputSchema"]["properties"]["secrets"];
    format!("{network}\n{argument}")
}

#[tokio::test]
async fn models_are_told_which_secrets_their_tenant_may_use() {
    let files = SecretFiles::new(FILE);
    let access = files.path("access.toml");
    let token = |tenant: &str| {
        let command = TokenCommand::New {
            tenant: tenant.parse().unwrap(),
            name: "n8n".parse().unwrap(),
            expires: None,
            scopes: Vec::new(),
        };
        command.run(Some(&access)).unwrap()
    };
    let [research, sales, open] = ["research", "sales", "open"].map(token);
    let text = fs::read_to_string(&access).unwrap();
    let narrow = "name = \"research\"\nnetwork_allow = [\"old.weather.example\"]";
    let text = text.replacen("name = \"research\"", narrow, 1);
    files.write("access.toml", &text);
    let access = access.display().to_string();
    let app = server(&files, &[("ACCESS_FILE", &access)]).await;
    insta::assert_snapshot!(told(&app, TOKEN).await, @r#"
    no internet; network: true reaches only api.github.com, plain.example:80, *.weather.example (HTTPS, unless a port is given); secrets: GITHUB_TOKEN for api.github.com, WEATHER_KEY for api.weather.example and old.weather.example
    {"type":"array","items":{"type":"string"},"description":"Variables of secrets that the program may use at their hosts and cannot read: in each it finds a placeholder, which it sends as if it were the secret; implies network."}
    "#);
    insta::assert_snapshot!(told(&app, &research).await, @r#"
    no internet; network: true reaches only old.weather.example (HTTPS, unless a port is given); secrets: WEATHER_KEY for old.weather.example
    {"type":"array","items":{"type":"string"},"description":"Variables of secrets that the program may use at their hosts and cannot read: in each it finds a placeholder, which it sends as if it were the secret; implies network."}
    "#);
    insta::assert_snapshot!(told(&app, &sales).await, @r#"
    no internet; network: true reaches only api.github.com, plain.example:80, *.weather.example (HTTPS, unless a port is given); secrets: SALES_KEY for api.weather.example
    {"type":"array","items":{"type":"string"},"description":"Variables of secrets that the program may use at their hosts and cannot read: in each it finds a placeholder, which it sends as if it were the secret; implies network."}
    "#);
    insta::assert_snapshot!(told(&app, &open).await, @r"
    no internet; network: true reaches only api.github.com, plain.example:80, *.weather.example (HTTPS, unless a port is given)
    null
    ");
    let without = TestApp::on_fake_with(&[("NETWORK_ALLOW", ALLOW)]).await;
    insta::assert_snapshot!(told(&without, TOKEN).await, @r"
    no internet; network: true reaches only api.github.com, plain.example:80, *.weather.example (HTTPS, unless a port is given)
    null
    ");
}

async fn refusal(app: &TestApp, more: Value) -> String {
    let mut arguments = json!({ "language": "shell", "code": "echo hello" });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    let outcome = app.call("run_code", arguments).await;
    let code = outcome["code"].as_str().unwrap_or("no error");
    format!(
        "{code}: {}",
        outcome["message"].as_str().unwrap_or_default()
    )
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_what_to_do() {
    let files = SecretFiles::new(FILE);
    let app = server(&files, &[]).await;
    let github = json!({ "secrets": ["GITHUB_TOKEN"] });
    let mut refusals = Vec::new();
    for asked in [
        json!({ "secrets": ["SALES_KEY"] }),
        json!({ "secrets": ["GITHUB_TOKEN", "\u{202e}\n"] }),
        json!({ "secrets": ["GITHUB_TOKEN"], "hosts": ["api.weather.example"] }),
        json!({ "secrets": ["GITHUB_TOKEN"], "hosts": ["evil.example"] }),
        json!({ "secrets": ["GITHUB_TOKEN"], "environment": { "GITHUB_TOKEN": "mine" } }),
        json!({ "secrets": ["WEATHER_KEY"] }),
        json!({ "secrets": { "GITHUB_TOKEN": "mine" } }),
        // The control: all that is missing is an engine that hands sockets over.
        github.clone(),
    ] {
        refusals.push(refusal(&app, asked).await);
    }
    // What is in the file counts at once.
    for value in [
        "ghp_short",
        "gho_0123456789abcdef",
        "ghp_0123456789abcdef\n\n",
    ] {
        files.write("github", value);
        refusals.push(refusal(&app, github.clone()).await);
    }
    files.write("github", &format!("{VALUE}\n"));
    refusals.push(refusal(&app, github).await);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    unknown_secret: secrets: "SALES_KEY" is none that programs may use here: name one of GITHUB_TOKEN, WEATHER_KEY
    unknown_secret: secrets: "\u{202e}\n" is none that programs may use here: name one of GITHUB_TOKEN, WEATHER_KEY
    host_not_listed: hosts leaves out all hosts of the secret GITHUB_TOKEN, api.github.com: add one, or leave hosts out for all of them
    host_not_listed: hosts: "evil.example" is not among the hosts that programs may reach: api.github.com, plain.example:80, *.weather.example: name listed ones, or leave hosts out for all of them
    invalid_arguments: environment sets GITHUB_TOKEN, which is the variable of a secret: leave it out of environment or of secrets
    secret_unavailable: the secret WEATHER_KEY cannot be used now, which the server's operator has to see to: its log says why. Run without it
    invalid_arguments: run_code: secrets: invalid type: map, expected an array
    network_failed: the server failed to open the network: no socket comes out of sandboxes of this engine: its runtime may not let them through, and NETWORK=open does without: try again, and tell its operator if it stays
    secret_unavailable: the secret GITHUB_TOKEN cannot be used now, which the server's operator has to see to: its log says why. Run without it
    secret_unavailable: the secret GITHUB_TOKEN cannot be used now, which the server's operator has to see to: its log says why. Run without it
    secret_unavailable: the secret GITHUB_TOKEN cannot be used now, which the server's operator has to see to: its log says why. Run without it
    network_failed: the server failed to open the network: no socket comes out of sandboxes of this engine: its runtime may not let them through, and NETWORK=open does without: try again, and tell its operator if it stays
    "#);
    assert_eq!(app.run("shell", "echo hello").await["status"], "ok");
}

#[tokio::test]
async fn without_secrets_none_can_be_named() {
    let asked = json!({ "secrets": ["GITHUB_TOKEN"] });
    let mut refusals = Vec::new();
    for settings in [&[][..], &[("NETWORK_ALLOW", ALLOW)], &[("NETWORK", "off")]] {
        let app = TestApp::on_fake_with(settings).await;
        refusals.push(refusal(&app, asked.clone()).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    unknown_secret: secrets: "GITHUB_TOKEN" is none that programs may use here: there are none, so leave secrets out
    unknown_secret: secrets: "GITHUB_TOKEN" is none that programs may use here: there are none, so leave secrets out
    unknown_secret: secrets: "GITHUB_TOKEN" is none that programs may use here: there are none, so leave secrets out
    "#);
}

#[tokio::test]
async fn the_rest_interface_refuses_the_same() {
    let files = SecretFiles::new(FILE);
    let app = server(&files, &[]).await;
    let mut answers = Vec::new();
    for (path, secret) in [
        ("/api/v1/execute", "SALES_KEY"),
        ("/api/v1/execute_sync", "SALES_KEY"),
        ("/api/v1/execute_sync", "WEATHER_KEY"),
        ("/api/v1/execute_sync", "GITHUB_TOKEN"),
    ] {
        let body = json!({ "language": "shell", "code": "echo", "secrets": [secret] });
        let request = Request::post(path)
            .header("host", "localhost:8080")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = app.send(request).await;
        answers.push(format!("{} {}", answer.status, answer.text()));
    }
    insta::assert_snapshot!(answers.join("\n"), @r#"
    400 Bad Request {"error":{"code":"unknown_secret","message":"secrets: \"SALES_KEY\" is none that programs may use here: name one of GITHUB_TOKEN, WEATHER_KEY"}}
    400 Bad Request {"error":{"code":"unknown_secret","message":"secrets: \"SALES_KEY\" is none that programs may use here: name one of GITHUB_TOKEN, WEATHER_KEY"}}
    503 Service Unavailable {"error":{"code":"secret_unavailable","message":"the secret WEATHER_KEY cannot be used now, which the server's operator has to see to: its log says why. Run without it","retryAfterSeconds":5}}
    503 Service Unavailable {"error":{"code":"network_failed","message":"the server failed to open the network: no socket comes out of sandboxes of this engine: its runtime may not let them through, and NETWORK=open does without: try again, and tell its operator if it stays","retryAfterSeconds":5}}
    "#);
}

/// What stops the start.
fn refused(files: &SecretFiles, settings: &[(&str, &str)]) -> String {
    let file = files.setting();
    let own = [("NETWORK_ALLOW", ALLOW), ("SECRETS_FILE", &*file)];
    let settings: Vec<_> = settings.iter().chain(&own).copied().collect();
    let config = config(Path::new("/nowhere"), &settings);
    let access = App::access(&config).unwrap();
    let error = App::secrets(&config, &access).unwrap_err().to_string();
    error.replace(&file, "…")
}

#[test]
fn a_mistake_in_the_file_stops_the_start() {
    let mut told = Vec::new();
    for (field, wrong) in [
        ("prefix = \"ghp_\"", "value = \"ghp_inline\""),
        (
            "hosts = [\"api.github.com\"]",
            "hosts = [\"api.githb.com\"]",
        ),
        (
            "hosts = [\"api.github.com\"]",
            "hosts = [\"plain.example\"]",
        ),
        (
            "hosts = [\"api.github.com\"]",
            "hosts = [\"weather.example\"]",
        ),
        ("header = \"x-api-key\"", "header = \"Transfer-Encoding\""),
        ("name = \"sales\"", "name = \"sales\"\nother = 1"),
    ] {
        let files = SecretFiles::new(&FILE.replace(field, wrong));
        told.push(refused(&files, &[]));
    }
    let files = SecretFiles::new(FILE);
    told.push(refused(&files, &[("NETWORK", "off")]));
    fs::set_permissions(files.path("secrets.toml"), Permissions::from_mode(0o644)).unwrap();
    told.push(refused(&files, &[]));
    fs::remove_file(files.path("secrets.toml")).unwrap();
    told.push(refused(&files, &[]));
    insta::assert_snapshot!(told.join("\n"), @r#"
    SECRETS_FILE is not valid: the secret github has the field "value", which is none. A value does not belong in the file, where backups and whoever helps with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`
    SECRETS_FILE is not valid: the secret github has the host api.githb.com, which none of its tenants reaches on port 443: add api.githb.com to NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant
    SECRETS_FILE is not valid: the secret github has the host plain.example, which none of its tenants reaches on port 443: add plain.example to NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant
    SECRETS_FILE is not valid: the secret github has the host weather.example, which none of its tenants reaches on port 443: add weather.example to NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant
    SECRETS_FILE is not valid: the secret weather has the `header` transfer-encoding, which the server sets itself: name another one, such as `authorization`
    SECRETS_FILE is not valid: the secret sales has the field "other", which is none. A value does not belong in the file, where backups and whoever helps with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`
    SECRETS_FILE is not valid: the secret github has the host api.github.com, which none of its tenants reaches on port 443: add api.github.com to NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant
    SECRETS_FILE=… is open to others (mode 644): run `chmod 600 …`
    SECRETS_FILE=… cannot be read
    "#);
}

#[tokio::test]
async fn check_config_names_the_secrets_and_shows_no_value() {
    let files = SecretFiles::new(FILE);
    let (file, nowhere) = (files.setting(), files.path("nowhere").display().to_string());
    let engine = format!("unix://{nowhere}");
    let own = [("SECRETS_FILE", &*file), ("DOCKER_HOST", &*engine)];
    let checked = async |more: &[(&str, &str)]| {
        let settings: Vec<_> = own.iter().chain(more).copied().collect();
        let output = call_in(files.dir.path(), &["check-config"], &settings).await;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(&VALUE[4..]), "{text}");
        let lines = text.lines().filter(|line| {
            line.contains("SECRETS_FILE") || line.contains("NETWORK_CA") || line.starts_with('#')
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        let dir = files.dir.path().display().to_string();
        format!("{:?}\n{}", output.status.code(), lines.replace(&dir, "…"))
    };
    insta::assert_snapshot!(checked(&[("NETWORK_ALLOW", ALLOW), ("NETWORK_CA_BUNDLE", "")]).await, @r"
    Some(0)
    SECRETS_FILE=…/secrets.toml
    NETWORK_CA_BUNDLE=
    # the secret github: GITHUB_TOKEN for api.github.com, from …/github, for the tenants default
    # the secret weather: WEATHER_KEY for api.weather.example, old.weather.example, from …/weather, for the tenants default, research
    # the secret sales: SALES_KEY for api.weather.example, from $NOBODY_SETS_THIS, for the tenants sales
    ");
    insta::assert_snapshot!(checked(&[]).await, @r"
    Some(64)
    SECRETS_FILE=…/secrets.toml is not valid: it must be left out where no hosts are listed, since secrets are for listed hosts: set NETWORK_ALLOW, and leave NETWORK out
    ");
    insta::assert_snapshot!(checked(&[("NETWORK_ALLOW", "api.github.com")]).await, @r"
    Some(64)
    SECRETS_FILE is not valid: the secret weather has the host api.weather.example, which none of its tenants reaches on port 443: add api.weather.example to NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant
    ");
    insta::assert_snapshot!(checked(&[("NETWORK_ALLOW", ALLOW), ("NETWORK_CA_BUNDLE", &nowhere)]).await, @r"
    Some(64)
    NETWORK_CA_BUNDLE=…/nowhere is not usable: No such file or directory (os error 2)
    ");
}
