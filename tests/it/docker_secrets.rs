//! What programs find where they may use secrets: placeholders, and certificates to trust. The values are nowhere.

use axum::body::Body;
use axum::http::Request;
use mcp_code_sandbox::access::TokenCommand;
use serde_json::{Value, json};

use crate::secrets::SecretFiles;
use crate::support::server::Server;
use crate::support::{TOKEN, TestApp, eventually};

const VALUE: &str = "ghp_Zq3fV8nTx0aPz7mB5kLw2rYc";
const FILE: &str = r#"
[[secret]]
name = "github"
env = "GITHUB_TOKEN"
from_file = "DIR/github"
hosts = ["api.test"]
prefix = "ghp_"

[[secret]]
name = "other"
env = "OTHER_KEY"
from_file = "DIR/other"
hosts = ["api.test"]
"#;

fn files() -> SecretFiles {
    let files = SecretFiles::new(FILE);
    files.write("github", VALUE);
    files.write("other", "0123456789abcdef0123");
    files
}

async fn server(files: &SecretFiles) -> TestApp {
    let file = files.setting();
    let settings = [
        ("NETWORK_ALLOW", "api.test,www.test"),
        ("SECRETS_FILE", &*file),
        ("SANDBOX_REUSE", "conversation"),
    ];
    TestApp::on_docker_with(&settings).await
}

async fn call(app: &TestApp, language: &str, code: &str, more: Value) -> Value {
    let mut arguments = json!({ "conversationId": "demo", "language": language, "code": code });
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    app.call("run_code", arguments).await
}

const SECRETS: &str = "GITHUB_TOKEN";

/// What the variable is in a run that asks for it.
async fn placeholder(app: &TestApp, language: &str, code: &str, conversation: &str) -> String {
    let more = json!({ "secrets": [SECRETS], "conversationId": conversation });
    let outcome = call(app, language, code, more).await;
    assert_eq!(outcome["status"], "ok", "{outcome}");
    assert!(!outcome.to_string().contains(&VALUE[4..]), "{outcome}");
    let found = outcome["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!((found.len(), &found[..4]), (VALUE.len(), "ghp_"), "{found}");
    assert_ne!(found, VALUE);
    found
}

#[tokio::test]
async fn programs_on_docker_find_placeholders_in_place_of_secrets() {
    let files = files();
    let app = server(&files).await;
    let python = "import os; print(os.environ['GITHUB_TOKEN'])";
    let first = placeholder(&app, "python", python, "demo").await;
    // The same for the conversation, whatever its programs are written in, and another one for others.
    let shell = "echo $GITHUB_TOKEN";
    let bun = "console.log(process.env.GITHUB_TOKEN)";
    assert_eq!(placeholder(&app, "shell", shell, "demo").await, first);
    assert_eq!(placeholder(&app, "typescript", bun, "demo").await, first);
    assert_ne!(placeholder(&app, "shell", shell, "demo2").await, first);
    // Not even a child has more, and who does not ask for it has nothing.
    let look = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c GITHUB; grep -rl 'Zq3fV8nTx[0]' /data /tmp";
    let outcome = call(&app, "shell", look, json!({})).await;
    assert_eq!(outcome["stdout"], "0\n", "{outcome}");
    // A value that is replaced counts at once.
    files.write("github", "ghp_0000000000000000000000000");
    let outcome = call(&app, "shell", shell, json!({ "secrets": [SECRETS] })).await;
    let replaced = outcome["stdout"].as_str().unwrap().trim();
    assert_eq!(replaced.len(), 29, "{outcome}");
    assert_ne!(replaced[..20], first[..20]);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_kernel_on_docker_keeps_its_secrets() {
    let files = files();
    let app = server(&files).await;
    let print = "import os; os.environ.get('GITHUB_TOKEN')";
    let mut told = Vec::new();
    let mut found = Vec::new();
    for more in [
        json!({ "secrets": [SECRETS] }),
        json!({ "secrets": [SECRETS] }),
        json!({ "secrets": [SECRETS, "OTHER_KEY"] }),
        json!({ "hosts": ["api.test"], "secrets": [SECRETS] }),
        json!({ "network": true }),
        json!({}),
        json!({ "network": true, "restart": true }),
        json!({ "secrets": ["OTHER_KEY"] }),
    ] {
        let mut more = more;
        more["stateful"] = true.into();
        let outcome = call(&app, "python", print, more).await;
        let message = outcome["message"].as_str().unwrap_or_default();
        told.push(format!(
            "{} {message}",
            outcome["code"].as_str().unwrap_or("ok")
        ));
        found.push(outcome["stdout"].as_str().unwrap_or_default().to_owned());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    ok 
    ok 
    kernel_differs the kernel of this conversation was started with other secrets, GITHUB_TOKEN: give the same, or restart: true for a new kernel without its variables
    kernel_differs the kernel of this conversation was started with other hosts, api.test, www.test: give the same, or restart: true for a new kernel without its variables
    kernel_differs the kernel of this conversation was started with other secrets, GITHUB_TOKEN: give the same, or restart: true for a new kernel without its variables
    kernel_differs the kernel of this conversation was started with network: true: give the same, or restart: true for a new kernel without its variables
    ok 
    kernel_differs the kernel of this conversation was started with other secrets, none: give the same, or restart: true for a new kernel without its variables
    ");
    assert!(found[0].starts_with("'ghp_"), "{found:?}");
    assert_eq!(found[0], found[1]);
    let cell = json!({ "secrets": [SECRETS], "stateful": true, "restart": true });
    assert_eq!(call(&app, "python", print, cell).await["status"], "ok");
    files.write("github", "ghp_0000000000000000000000000");
    let cell = json!({ "secrets": [SECRETS], "stateful": true });
    let outcome = call(&app, "python", print, cell).await;
    insta::assert_snapshot!(outcome["message"], @r#""the value of GITHUB_TOKEN has changed since the kernel of this conversation was started: give restart: true for a new kernel without its variables""#);
    app.assert_nothing_is_left().await;
}

/// The same conversation of another tenant has another placeholder, by whatever interface a program comes.
#[tokio::test]
async fn tenants_on_docker_have_placeholders_of_their_own() {
    let text = FILE.replace("prefix = \"ghp_\"", "tenants = [\"default\", \"research\"]");
    let files = SecretFiles::new(&text);
    files.write("github", VALUE);
    let access = files.path("access.toml");
    let command = TokenCommand::New {
        tenant: "research".parse().unwrap(),
        name: "n8n".parse().unwrap(),
        expires: None,
        scopes: Vec::new(),
    };
    let research = command.run(Some(&access)).unwrap();
    let (file, access) = (files.setting(), access.display().to_string());
    let app = TestApp::on_docker_with(&[
        ("NETWORK_ALLOW", "api.test"),
        ("SECRETS_FILE", &file),
        ("ACCESS_FILE", &access),
    ])
    .await;
    let mut found = Vec::new();
    for token in [TOKEN, &research] {
        let body = json!({ "session_id": "demo", "language": "shell", "code": "echo $GITHUB_TOKEN",
            "secrets": [SECRETS] });
        for path in ["/api/v1/execute_sync", "/api/v1/execute"] {
            let request = Request::post(path)
                .header("host", "localhost:8080")
                .header("authorization", format!("Bearer {token}"))
                .header("content-type", "application/json");
            let request = request.body(Body::from(body.to_string())).unwrap();
            let answer = app.send(request).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let text = answer.text();
            assert!(!text.contains(VALUE), "{text}");
            let mut words = text.split(|it: char| !it.is_ascii_alphanumeric());
            let placeholder = words.find(|word| word.len() == VALUE.len());
            found.push(placeholder.unwrap().to_owned());
        }
    }
    assert_eq!((&found[0], &found[2]), (&found[1], &found[3]));
    assert_ne!(found[0], found[2]);
    app.assert_nothing_is_left().await;
}

/// A parked interpreter has read what it trusts before it has a program.
#[tokio::test]
async fn sandboxes_on_docker_trust_what_secrets_need_from_their_start() {
    let files = files();
    let app = server(&files).await;
    let code = r#"
import os, ssl
names = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE",
         "CARGO_HTTP_CAINFO", "NODE_EXTRA_CA_CERTS", "DENO_CERT"]
print({os.environ[name] for name in names}, len(ssl.create_default_context().get_ca_certs()) > 100)
try:
    open("/.sandbox-ca.pem", "a")
except OSError as error:
    print(error.strerror)
"#;
    for _ in 0..2 {
        let outcome = call(&app, "python", code, json!({})).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
            {'/.sandbox-ca.pem'} True
            Permission denied
            ");
        }
        eventually("a sandbox waits", || app.app.parts.pool.count().1 > 0).await;
    }
    assert_eq!((app.starts("cold"), app.starts("own")), (1, 1));
    let bun = "console.log(process.env.NODE_EXTRA_CA_CERTS, (await Bun.file('/.sandbox-ca.pem').text()).includes('BEGIN'))";
    let outcome = call(&app, "typescript", bun, json!({})).await;
    assert_eq!(outcome["stdout"], "/.sandbox-ca.pem true\n", "{outcome}");
    let installed = || {
        let programs = std::fs::read_dir(app.root().join(".bin")).unwrap();
        let names = programs.map(|it| it.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with("certificates-"))
            .count()
    };
    assert_eq!(installed(), 1);
    app.assert_nothing_is_left().await;
    // Without secrets, there is nothing of it.
    let plain = TestApp::on_docker_with(&[("NETWORK_ALLOW", "api.test")]).await;
    let look = "ls /.sandbox-ca.pem 2>&1; env | grep -c sandbox-ca";
    let outcome = call(&plain, "shell", look, json!({})).await;
    insta::assert_snapshot!(outcome["output"], @r#""ls: cannot access '/.sandbox-ca.pem': No such file or directory\n0\n""#);
    plain.assert_nothing_is_left().await;
}

/// The whole program with every line that it can log, an audit log, a value in a variable and one in a file.
#[tokio::test]
async fn no_value_is_in_a_log_or_an_answer_on_docker() {
    let from_env = FILE.replace("from_file = \"DIR/other\"", "from_env = \"OTHER_VALUE\"");
    let files = SecretFiles::new(&from_env);
    files.write("github", VALUE);
    let value = "Wm4eU9dKs1jRv6gTb3hN";
    let (file, audit) = (
        files.setting(),
        files.path("audit.log").display().to_string(),
    );
    let settings = [
        ("NETWORK_ALLOW", "api.test"),
        ("SECRETS_FILE", &*file),
        ("OTHER_VALUE", value),
        ("RUST_LOG", "trace"),
        ("AUDIT_LOG", &*audit),
    ];
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), &settings).await;
    server.until_ready(std::time::Duration::from_mins(2)).await;
    let code = "import os; print(os.environ['GITHUB_TOKEN'], os.environ['OTHER_KEY'])";
    let mut answers = String::new();
    for (code, more) in [
        (code, json!({ "secrets": [SECRETS, "OTHER_KEY"] })),
        (
            code,
            json!({ "secrets": [SECRETS, "OTHER_KEY"], "stateful": true }),
        ),
        ("1 / 0", json!({ "secrets": [SECRETS] })),
    ] {
        let mut arguments = json!({ "conversationId": "demo", "language": "python", "code": code });
        let more = more.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(more);
        let outcome = server.call("run_code", arguments).await;
        assert!(outcome["exitCode"].is_number(), "{outcome}");
        answers += &outcome.to_string();
    }
    files.write("github", &VALUE[..12]);
    let arguments = json!({ "language": "python", "code": code, "secrets": [SECRETS] });
    answers += &server.call("run_code", arguments).await.to_string();
    assert!(answers.contains("secret_unavailable"), "{answers}");
    let log = server.log();
    assert!(
        log.contains("a secret cannot be used secret.name=github"),
        "{log}"
    );
    assert!(log.contains(" DEBUG "), "{log}");
    let audit = std::fs::read_to_string(&audit).unwrap();
    assert!(audit.contains("\"run_ended\""), "{audit}");
    for (what, text) in [("log", &log), ("audit", &audit), ("answers", &answers)] {
        for part in [&VALUE[4..12], &value[..12], TOKEN] {
            assert!(!text.contains(part), "{part} is in the {what}: {text}");
        }
    }
}
