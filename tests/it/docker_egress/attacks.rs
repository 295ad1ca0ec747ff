//! Programs that try to get past the list, by other ways than naming another host: each is denied and in the ledger, and
//! what is listed works afterwards.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::world::World;
use super::{PYTHON, call, hosts, python, server};
use crate::support::eventually;

/// The resolver answers by the list alone, whatever is asked for: nothing that a question says leaves the machine.
#[tokio::test]
async fn questions_on_docker_tell_nobody_anything() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let code = r#"
import struct
def ask(name, kind, head=None):
    parts = b"".join(bytes([len(part)]) + part for part in name.encode("latin-1").split(b".") if part)
    question = (head or struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0)) + parts + b"\0" + struct.pack(">HH", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        asking.connect(("127.0.0.1", 53))
        asking.send(question)
        answer = asking.recv(2048)
    return f"{['ok', 'malformed', '2', 'unknown', 'not done'][answer[3] & 15]} {struct.unpack('>H', answer[6:8])[0]}"
A, NULL, TXT, AAAA, HTTPS, ANY = 1, 10, 16, 28, 65, 255
print("A", ask("api.test", A), ask("API.tESt", A), ask("any.wild.test", A))
print("others", [ask("api.test", kind) for kind in (AAAA, TXT, NULL, HTTPS, ANY)])
secret = ".".join(["x" * 60] * 3)
print("unlisted", [ask(secret + ".evil.test", kind) for kind in (A, TXT, NULL, AAAA)])
print("below what is listed", ask(secret + ".api.test", A))
print("no names", ask("a b.test", A), ask("\xff.test", A), ask("", A))
"#;
    let outcome = python(&app, code).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    A ok 1 ok 1 ok 1
    others ['ok 0', 'ok 0', 'ok 0', 'ok 0', 'ok 0']
    unlisted ['unknown 0', 'unknown 0', 'unknown 0', 'unknown 0']
    below what is listed unknown 0
    no names unknown 0 unknown 0 unknown 0
    ");
    let told = hosts(&outcome).replace(&"x".repeat(60), "60x");
    insta::assert_snapshot!(told, @r"
    (invalid) denied not_listed [0, 3]
    60x.60x.60x.api.test denied not_listed [0, 1]
    60x.60x.60x.evil.test denied not_listed [0, 4]
    ");
    let junk = r#"
import random
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    for _ in range(2000):
        asking.sendto(random.randbytes(random.randrange(600)), ("127.0.0.1", 53))
print(get("https://api.test/after"))
"#;
    let outcome = python(&app, junk).await;
    assert_eq!(outcome["stdout"], "api.test /after\n", "{outcome}");
    app.assert_nothing_is_left().await;
}

/// What a connection begins with is bounded in time and size, and cannot name a host in two ways.
#[tokio::test]
async fn beginnings_of_connections_on_docker_are_bounded() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let code = r#"
import time
def raw(pieces, pause=0):
    with socket.create_connection(("api.test", 443), 20) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            return connection.recv(1) or "closed"
        except ConnectionError:
            return "closed"
record = lambda data: b"\x16\x03\x01" + len(data).to_bytes(2, "big") + data
begun = time.monotonic()
print("slow", raw([b"\x16"] * 8, 1), 4 < time.monotonic() - begun < 9)
print("long", raw([record(b"\x01\x00\xff\xff" + b"x" * 16000)] + [record(b"x" * 16000)] * 1000))
print("empty records", raw([record(b"")] * 100))
def hello(name):
    context = ssl._create_unverified_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
ours = hello("api.test")
print("as it is", raw([ours]) != "closed")
for other in (b"api.tes\0", b"api.tes.", b"evi.test", b"api\xc0test", b"*pi.test", b"API.TEST"):
    print(other, raw([ours.replace(b"api.test", other)]) != "closed")
print("two hellos", raw([ours, hello("evil.test")]) != "closed")
print("after", get("https://api.test/after"))
"#;
    let outcome = python(&app, code).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    slow closed True
    long closed
    empty records closed
    as it is True
    b'api.tes\x00' False
    b'api.tes.' False
    b'evi.test' False
    b'api\xc0test' False
    b'*pi.test' False
    b'API.TEST' True
    two hellos True
    after api.test /after
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    api.tes:443 denied sni_mismatch [1, 0]
    api.test:443 allowed  [4, 0]
    api.test:443 denied not_tls [6, 0]
    evi.test:443 denied sni_mismatch [1, 0]
    ");
    assert_eq!(world.seen(), ["api.test /after"]);
    app.assert_nothing_is_left().await;
}

/// Two conversations at once, each with what it asked for, and one of them with another list from run to run.
#[tokio::test]
async fn conversations_on_docker_reach_what_each_has_asked_for() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let ca = json!({ "conversationId": "other", "filename": "ca.pem", "content": STANDARD.encode(&world.ca) });
    app.call("upload_file", ca).await;
    let code = format!(
        "{PYTHON}import time\n\
         for _ in range(5):\n    print(*[tried(lambda: get(f'https://{{name}}.test/')) for name in ('api', 'other')])\n    time.sleep(0.2)"
    );
    let with =
        |conversation: &str, host: &str| json!({ "conversationId": conversation, "hosts": [host] });
    for (ours, theirs) in [("api.test", "other.test"), ("other.test", "api.test")] {
        let (here, there) = tokio::join!(
            call(&app, "python", &code, with("demo", ours)),
            call(&app, "python", &code, with("other", theirs)),
        );
        for (outcome, host) in [(here, ours), (there, theirs)] {
            let expected = match host {
                "api.test" => "api.test / URLError\n",
                _ => "URLError other.test /\n",
            };
            assert_eq!(outcome["stdout"], expected.repeat(5), "{outcome}");
        }
    }
    app.assert_nothing_is_left().await;
}

/// A thousand connections at once: each answers, and none is left. One that is too many is closed, and not kept waiting.
#[tokio::test]
async fn a_thousand_connections_on_docker_all_answer() {
    let world = World::new().await;
    let app = server(&world, &[("NETWORK_CONNECTIONS", "900")]).await;
    let code = r"
many = [socket.create_connection(('db.test', 5432), 60) for _ in range(1000)]
def echo(number, one):
    one.settimeout(60)
    one.sendall(b'%4d' % number)
    return one.recv(4) == b'%4d' % number
print(sum(tried(lambda: echo(number, one)) is True for number, one in enumerate(many)))
";
    let more = json!({ "timeoutSeconds": 60 });
    let outcome = call(&app, "python", &format!("{PYTHON}{code}"), more).await;
    assert_eq!(outcome["stdout"], "900\n", "{outcome}");
    insta::assert_snapshot!(hosts(&outcome), @r"
    db.test:5432 allowed  [900, 0]
    db.test:5432 denied limit [100, 0]
    ");
    eventually("the connections are closed", || world.open() == 0).await;
    app.assert_nothing_is_left().await;
}

/// However a run ends, its connections end with it, and the next one finds nobody listening.
#[tokio::test]
async fn however_a_run_on_docker_ends_its_connections_do_too() {
    let world = World::new().await;
    let app = server(&world, &[]).await;
    let held = format!(
        "{PYTHON}import time\nheld = [socket.create_connection(('db.test', 5432)) for _ in range(9)]\nprint(len(held), flush=True)\n"
    );
    let ends = [
        ("by itself", "import os; os._exit(0)", json!({})),
        (
            "by a signal",
            "import os; os.kill(os.getpid(), 9)",
            json!({}),
        ),
        ("too late", "time.sleep(60)", json!({ "timeoutSeconds": 2 })),
        // Written, since the kernel may refuse what is only asked for.
        ("with its memory", "x = b'x' * (1 << 30)", json!({})),
        (
            "with a child that stays",
            "import os\nif os.fork() == 0: os.setsid(); time.sleep(60)",
            json!({}),
        ),
    ];
    let mut told = String::new();
    for (how, end, more) in ends {
        let outcome = call(&app, "python", &format!("{held}{end}"), more).await;
        assert_eq!(outcome["stdout"], "9\n", "{how}: {outcome}");
        eventually("the connections are closed", || world.open() == 0).await;
        // What closes may take a moment for its last packet.
        let look = "import socket, time\n\
            def listens(port):\n    with socket.socket() as probe: return probe.connect_ex(('127.77.0.3', port)) == 0\n\
            def left(): return [line for line in open('/proc/net/tcp') if '4D7F:' in line]\n\
            for _ in range(100):\n    if left(): time.sleep(0.05)\n\
            print([port for port in (53, 80, 443, 5432) if listens(port)], left())";
        let next = call(&app, "python", look, json!({ "network": false })).await;
        writeln!(told, "{how}: {} {}", outcome["status"], next["stdout"]).unwrap();
    }
    insta::assert_snapshot!(told, @r#"
    by itself: "ok" "[] []\n"
    by a signal: "error" "[] []\n"
    too late: "timeout" "[] []\n"
    with its memory: "out_of_memory" "[] []\n"
    with a child that stays: "ok" "[] []\n"
    "#);
    app.assert_nothing_is_left().await;
}
