//! Secrets that are used by the clients that people use: the host gets the value, and the program never does, wherever it
//! looks for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::world::World;
use super::{call, hosts};
use crate::secrets::SecretFiles;
use crate::support::TestApp;

const VALUE: &str = "ghp_Zq3fV8nTx0aPz7mB5kLw2rYc";
const FILE: &str = r#"
[[secret]]
name = "github"
env = "GITHUB_TOKEN"
from_file = "DIR/github"
hosts = ["api.test"]
paths = ["/echo", "/repo/*", "/bare.git/*"]
prefix = "ghp_"
"#;

async fn server(world: &World) -> (TestApp, SecretFiles) {
    let files = SecretFiles::new(FILE);
    files.write("github", VALUE);
    files.write("ca.pem", &world.ca);
    let (file, ca) = (files.setting(), files.path("ca.pem").display().to_string());
    let mut settings = world.settings();
    settings.extend([("SECRETS_FILE", file), ("NETWORK_CA_BUNDLE", ca)]);
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    (TestApp::on_docker_with(&settings).await, files)
}

async fn with_token(app: &TestApp, language: &str, code: &str) -> Value {
    let outcome = call(app, language, code, json!({ "secrets": ["GITHUB_TOKEN"] })).await;
    assert_never(&outcome.to_string());
    outcome
}

/// The value is not in a text, in any form.
fn assert_never(text: &str) {
    let value = &VALUE[4..];
    let forms = [
        value.to_owned(),
        hex::encode(value),
        value.chars().rev().collect(),
    ];
    for form in forms {
        assert!(!text.contains(&form), "{text}");
    }
    for before in ["", "x", "xx"] {
        let form = STANDARD.encode(format!("{before}{VALUE}"));
        assert!(!text.contains(&form[4..form.len() - 4]), "{text}");
    }
}

#[tokio::test]
async fn clients_on_docker_use_a_secret_that_they_never_see() {
    let world = World::new().await;
    let (app, _files) = server(&world).await;
    let code = r#"
import http.client, json, os, ssl, urllib.request
import requests
token = os.environ["GITHUB_TOKEN"]
bearer = {"Authorization": f"Bearer {token}"}
answer = urllib.request.urlopen(urllib.request.Request("https://api.test/echo", headers=bearer), timeout=20)
print("urllib", answer.status, token in answer.read().decode(), answer.headers["x-echo"] == bearer["Authorization"])
answer = requests.get("https://api.test/echo", headers=bearer, timeout=20)
print("requests", answer.status_code, token in answer.text)
answer = requests.get("https://api.test/echo", auth=("x-access-token", token), timeout=20)
print("basic", answer.status_code)
with requests.Session() as session:
    print("session", [session.get(f"https://api.test/repo/{n}", headers=bearer, timeout=20).status_code for n in range(3)])
print("elsewhere", requests.get("https://api.test/user", headers=bearer, timeout=20).status_code)
print("other host", requests.get("https://other.test/echo", headers=bearer, timeout=20).headers["x-echo"] == bearer["Authorization"])
print("without it", requests.get("https://api.test/user", timeout=20).text)
open("/data/token.txt", "w").write(token)
"#;
    let outcome = with_token(&app, "python", code).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    urllib 200 True True
    requests 200 True
    basic 200
    session [200, 200, 200]
    elsewhere 403
    other host True
    without it api.test /user
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    api.test:443 allowed secret_reflected [5, 0]
    api.test:443 denied secret_refused [1, 0]
    other.test:443 allowed  [1, 0]
    ");
    insta::assert_snapshot!(outcome["notes"], @r#"["network: api.test 5 connections with GITHUB_TOKEN (it sent a secret back, which was hidden), other.test 1 connection; denied: api.test (secret refused)"]"#);
    let seen = world.seen();
    let basic = STANDARD.encode(format!("x-access-token:{VALUE}"));
    assert_eq!(
        seen.iter()
            .filter(|line| **line == format!("Bearer {VALUE}"))
            .count(),
        5,
        "{seen:?}"
    );
    assert_eq!(
        seen.iter()
            .filter(|line| **line == format!("Basic {basic}"))
            .count(),
        1,
        "{seen:?}"
    );
    let bun = "
        const headers = { authorization: `token ${process.env.GITHUB_TOKEN}` };
        const answer = await fetch('https://api.test/echo', { headers });
        console.log(answer.status, (await answer.text()).includes(process.env.GITHUB_TOKEN!));
    ";
    let outcome = with_token(&app, "typescript", bun).await;
    assert_eq!(outcome["stdout"], "200 true\n", "{outcome}");
    let shell = "\
        curl -sS -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.test/echo | grep -c \"$GITHUB_TOKEN\"\n\
        curl -sS -u \"user:$GITHUB_TOKEN\" -o /dev/null -w '%{http_code}\\n' https://api.test/echo\n\
        curl -sS --http2-prior-knowledge https://api.test/echo >/dev/null 2>&1; echo $?\n\
        basic=$(printf %s \"user:$GITHUB_TOKEN\" | base64 -w0)\n\
        git -c http.extraHeader=\"Authorization: Basic $basic\" ls-remote -q https://api.test/bare.git 2>&1 | tail -1\n\
        cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep GITHUB | sort -u | wc -l";
    let outcome = with_token(&app, "shell", shell).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    1
    200
    35
    1
    ");
    let seen = world.seen();
    assert!(seen.contains(&format!("token {VALUE}")), "{seen:?}");
    let basic = format!("Basic {}", STANDARD.encode(format!("user:{VALUE}")));
    let by_basic = seen.windows(2).filter(|pair| pair[1] == basic);
    let paths: Vec<_> = by_basic
        .map(|pair| pair[0].split('?').next().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "api.test /echo",
            "api.test /bare.git/info/refs",
            "api.test /bare.git/HEAD"
        ],
        "{seen:?}"
    );
    app.assert_nothing_is_left().await;
}

/// A program that wants to see its secret looks everywhere that it can.
#[tokio::test]
async fn a_program_on_docker_finds_its_secret_nowhere() {
    let world = World::new().await;
    let (app, _files) = server(&world).await;
    let code = r#"
import gc, os, re, requests, socket, ssl
token = os.environ["GITHUB_TOKEN"]
answers = [requests.get("https://api.test/echo", headers={"Authorization": f"Bearer {token}", "X-Number": str(n)}, timeout=20) for n in range(3)]
def memory():
    """All of the interpreter's own memory that it can read."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
            if found and "[v" not in line:
                begin, end = (int(edge, 16) for edge in found.groups())
                try:
                    memory.seek(begin)
                    yield memory.read(end - begin)
                except (OSError, OverflowError):
                    pass
head = token[:4].encode()
tails = set()
for part in memory():
    for found in re.finditer(re.escape(head) + rb"[A-Za-z0-9]{24}", part):
        tails.add(found.group())
# What is there begins like the secret: all of it is the placeholder.
print(len(tails), tails == {token.encode()})
context = ssl._create_unverified_context()
with context.wrap_socket(socket.create_connection(("api.test", 443)), server_hostname="api.test") as raw:
    request = f"GET /echo HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer {token}\r\nRange: bytes=0-9\r\nConnection: close\r\n\r\n"
    for byte in request.encode():
        raw.send(bytes([byte]))
    print(token.encode() in b"".join(iter(lambda: raw.recv(4096), b"")))
"#;
    let outcome = with_token(&app, "python", code).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    1 True
    True
    ");
    let seen = world.seen();
    assert_eq!(
        seen.iter().filter(|line| line.contains(VALUE)).count(),
        4,
        "{seen:?}"
    );
    app.assert_nothing_is_left().await;
}
