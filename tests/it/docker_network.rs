//! Programs on the network. The firewall rules close the host, private networks and neighbours to them, and leave the
//! rest open; without the rules there is no network.
//!
//! All that is dialled belongs to the test: listeners on this host, and addresses in a network namespace. Needs root.

mod neighbours;
mod world;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::checks::network;
use mcp_code_sandbox::control::Control;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::gate::network::NetworkState;
use serde_json::{Value, json};

pub(crate) use self::world::{
    DNS, NAME, PRIVATE, PUBLIC, WEB, World, in_the_world, install_rules, resolve, tcp, udp,
};
use self::world::{METADATA, answer, remove_rules};
use crate::docker_selftest::selftest;
use crate::support::netns::shell;
use crate::support::wait::within;
use crate::support::{TestApp, config};

const NEIGHBOUR: u16 = 8000;
/// How long the server may take to check the network: it waits for each address of the host in turn.
const CHECK: Duration = Duration::from_mins(1);
/// How long a program may take to begin.
const BEGINNING: Duration = Duration::from_secs(20);

/// Says which of `TARGETS` answer, and sends each a datagram.
const DIAL: &str = r#"
dial() { exec 3<>"/dev/tcp/$1/$2" && [ "$(head -c 7 <&3)" = reached ] && echo "$1:$2"; }
export -f dial
for target in $TARGETS; do timeout 5 bash -c "dial ${target/:/ }" 2>/dev/null & done
for target in $TARGETS; do echo hello >"/dev/udp/${target/://}" & done 2>/dev/null
wait
"#;

/// Listens, makes sure of it, and says where, until it is told to stop.
const LISTEN: &str = r#"
import os, socket, threading, time
listener = socket.create_server(("", 8000))
def serve():
    while True:
        listener.accept()[0].sendall(b"reached")
threading.Thread(target=serve, daemon=True).start()
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(("10.99.0.2", 53))
address = own.getsockname()[0]
assert socket.create_connection((address, 8000)).recv(7) == b"reached"
with open("address.new", "w") as file:
    file.write(address)
os.rename("address.new", "address")
while not os.path.exists("stop"):
    time.sleep(0.05)
"#;

/// The server itself reads the rules back.
pub(crate) const RULES: (&str, &str) = ("FIREWALL_REPORT", "");

/// One after another in a single test: each needs the machine's rules to itself, and would keep a thread waiting.
#[tokio::test]
async fn programs_reach_the_internet_only_and_without_the_rules_nothing() {
    with_the_rules_programs_reach_the_internet_only().await;
    a_kernel_with_the_network_reaches_the_internet_only().await;
    neighbours::a_program_learns_nothing_of_another_from_the_resolver().await;
    without_the_rules_the_network_must_be_allowed().await;
}

async fn with_the_rules_programs_reach_the_internet_only() {
    let _world = World::new();
    install_rules();
    let app = TestApp::on_docker_with(&[RULES, ("RUN_DNS", PRIVATE)]).await;
    assert_eq!(checked(&app).await, Ok(()));
    the_selftest_finds_the_rules_in_place().await;
    take_the_lanes_away(&app).await;
    let found = dial_everything(&app).await;
    let open = [
        format!("{PRIVATE}:{DNS}"),
        format!("{PUBLIC}:{WEB}"),
        format!("{NAME}:{WEB}"),
    ];
    assert_eq!(found.reached, BTreeSet::from(open));
    assert_eq!(found.datagrams, [false; 3]);
    few_of_many_connections_at_once_get_through(&app).await;
    addresses_that_the_host_uses_are_not_for_programs(&app).await;
    app.assert_nothing_is_left().await;
}

/// Sends a datagram from each of a thousand sockets, which are as many connections to the host.
const FLOOD: &str = r#"
import socket, time
begun = time.monotonic()
for _ in range(1000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"hello", ("198.51.100.2", 8000))
print(time.monotonic() - begun)
"#;

async fn few_of_many_connections_at_once_get_through(app: &TestApp) {
    let listener = in_the_world(|| udp(&PUBLIC.to_string(), NEIGHBOUR));
    let flood = call(app, "flood", "python", FLOOD, "").await;
    assert_eq!(flood["status"], "ok", "{flood}");
    let took: f64 = flood["stdout"].as_str().unwrap().trim().parse().unwrap();
    let mut arrived = 0;
    while listener.recv(&mut [0; 16]).is_ok() {
        arrived += 1;
    }
    // 200 at once, and 50 more in each second.
    let most = 201.0 + 50.0 * took;
    assert!(
        arrived >= 100 && f64::from(arrived) <= most,
        "{arrived} in {took} s"
    );
}

async fn addresses_that_the_host_uses_are_not_for_programs(app: &TestApp) {
    world::add_route("198.18.77.0/24");
    let settings = [
        RULES,
        ("RUN_DNS", PRIVATE),
        ("RUN_SUBNETS", "198.18.0.0/16"),
    ];
    let engine = config(app.root(), &settings).engine;
    let found = network::by_the_rules(&engine, &app.app.parts).await;
    let NetworkState::Closed(reason) = found.unwrap() else {
        panic!("the network is open");
    };
    let (_, found) = reason.split_once('(').unwrap();
    let (found, _) = found.split_once(')').unwrap();
    insta::assert_snapshot!(found, @"the host uses addresses of RUN_SUBNETS=198.18.0.0/16, so set another range: 198.18.77.0/24 dev sbxworld scope link");
}

async fn the_selftest_finds_the_rules_in_place() {
    let executor = Arc::new(DockerExecutor::new(None));
    let settings = [RULES, ("RUN_DNS", PRIVATE)];
    let report = selftest(executor, &settings, &[Control::NetworkOn]).await;
    let [row] = &report.controls[..] else {
        panic!("{:?}", report.controls);
    };
    assert_eq!(row.verdict.into_str(), "pass", "{row}");
    assert!(row.found.ends_with("the rules are in place"), "{row}");
}

/// A kernel keeps the network that it was started with, and what it has open. One without a network only gets it by
/// being started anew.
async fn a_kernel_with_the_network_reaches_the_internet_only() {
    let _world = World::new();
    install_rules();
    let app = TestApp::on_docker_with(&[RULES, ("RUN_DNS", PRIVATE)]).await;
    assert_eq!(checked(&app).await, Ok(()));
    let (web, closed) = (in_the_world(|| tcp(WEB)), in_the_world(|| tcp(NEIGHBOUR)));
    let told = tokio::select! {
        told = use_kernels(&app) => told,
        () = async { tokio::join!(answer(web), answer(closed)); } => unreachable!(),
    };
    insta::assert_snapshot!(told, @r"
    true false: ('reac', 'TimeoutError')
    true false: ('reac', 'hed')
    false false: kernel_differs
    false true: ('OSError', 'OSError')
    true false: kernel_differs
    ");
    app.assert_nothing_is_left().await;
}

async fn use_kernels(app: &TestApp) -> String {
    let dial = format!(
        "import socket\n\
        def dial(address, port):\n    \
            global open\n    \
            try: open = socket.create_connection((address, port), 5)\n    \
            except OSError as error: return type(error).__name__\n    \
            return open.recv(4).decode()\n\
        dial('{PUBLIC}', {WEB}), dial('{PRIVATE}', {NEIGHBOUR})"
    );
    let mut told = String::new();
    for (code, network, restart) in [
        (dial.as_str(), true, false),
        (
            "dial('198.51.100.2', 80), open.recv(4).decode()",
            true,
            false,
        ),
        ("open", false, false),
        (dial.as_str(), false, true),
        ("1", true, false),
    ] {
        let arguments = json!({
            "conversationId": "demo", "language": "python", "code": code, "stateful": true, "network": network,
            "restart": restart,
        });
        let outcome = app.call("run_code", arguments).await;
        let words = outcome["output"].as_str().or(outcome["code"].as_str());
        writeln!(told, "{network} {restart}: {}", words.unwrap().trim_end()).unwrap();
    }
    told
}

async fn without_the_rules_the_network_must_be_allowed() {
    let _world = World::new();
    remove_rules();
    let app = TestApp::on_docker_with(&[RULES, ("RUN_DNS", PRIVATE)]).await;
    assert!(checked(&app).await.unwrap_err().contains("firewall"));
    let refused = call(&app, "demo", "shell", DIAL, "").await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(
        (&refused["success"], &refused["code"]),
        (&json!(false), &json!("network_refused"))
    );
    for text in [
        "MCP-SANDBOX",
        "scripts/firewall.sh install 10.99.0.2`",
        "ALLOW_NETWORK=1",
    ] {
        assert!(message.contains(text), "{message}");
    }
    insta::assert_snapshot!(found_with_a_report_of_rules(&app).await, @"a program on that network can reach the host: the firewall rules do not work");
    app.assert_nothing_is_left().await;

    // This also shows that there is something to close: all of it answers.
    let app = TestApp::on_docker_with(&[("RUN_DNS", PRIVATE), ("ALLOW_NETWORK", "1")]).await;
    assert_eq!(checked(&app).await, Ok(()));
    let found = dial_everything(&app).await;
    assert_eq!(found.reached, found.all_but_the_neighbour);
    assert_eq!(found.datagrams, [true; 3]);
    app.assert_nothing_is_left().await;
}

/// Why the network is closed although a report says that the rules are there.
async fn found_with_a_report_of_rules(app: &TestApp) -> String {
    let report = tempfile::NamedTempFile::new().unwrap();
    fs::write(report.path(), "in place\n").unwrap();
    let settings = [
        ("FIREWALL_REPORT", report.path().to_str().unwrap()),
        ("RUN_DNS", PRIVATE),
    ];
    let engine = config(app.root(), &settings).engine;
    match network::check(&engine, &app.app.parts).await {
        Ok(NetworkState::Closed(reason)) => reason,
        found => panic!("{found:?}"),
    }
}

/// As `docker network prune` does, which removes unused networks.
async fn take_the_lanes_away(app: &TestApp) {
    let server = &app.app.parts.launcher.labels(&[])["sandbox.server"];
    let own = format!("docker network ls --quiet --filter label=sandbox.server={server}");
    let remove = format!("test \"$({own})\" && docker network rm $({own}) >/dev/null");
    within(CHECK, "nothing is on the networks", async || {
        shell(&remove).ok()
    })
    .await;
}

/// Whether the server lets programs use the network, once it knows.
pub(crate) async fn checked(app: &TestApp) -> Result<(), String> {
    within(CHECK, "the network is checked", async || {
        match app.app.parts.gate.network.access() {
            Err(reason) if reason.contains("not checked yet") => None,
            answer => Some(answer.map(drop)),
        }
    })
    .await
}

/// What a program found.
struct Found {
    reached: BTreeSet<String>,
    all_but_the_neighbour: BTreeSet<String>,
    /// Whether datagrams came to the host, a private network and the cloud's address.
    datagrams: [bool; 3],
}

/// Dials everything from a program: the host by all of its names, the world, and another program.
async fn dial_everything(app: &TestApp) -> Found {
    let host = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = host.local_addr().unwrap().port();
    let [web, dns] = [WEB, DNS].map(|port| in_the_world(|| tcp(port)));
    let resolver = in_the_world(|| udp(PRIVATE, DNS));
    let [private, metadata] = [PRIVATE, METADATA].map(|address| in_the_world(|| udp(address, WEB)));
    let closed = [udp("0.0.0.0", port), private, metadata];

    let interfaces = if_addrs::get_if_addrs().unwrap();
    let own = interfaces.iter().map(if_addrs::Interface::ip);
    let own = own.filter(|address| address.is_ipv4() && !address.is_loopback());
    let mut targets: BTreeSet<_> = own.map(|address| format!("{address}:{port}")).collect();
    for address in [PRIVATE, METADATA, &PUBLIC.to_string(), NAME] {
        targets.insert(format!("{address}:{WEB}"));
    }
    targets.insert(format!("{PRIVATE}:{DNS}"));

    let data = app.workspace("neighbour");
    let neighbour = call(app, "neighbour", "python", LISTEN, "");
    let dial = async {
        let address = within(BEGINNING, "the neighbour listens", async || {
            fs::read_to_string(data.join("address")).ok()
        })
        .await;
        let all = targets.iter().cloned().collect::<Vec<_>>().join(" ");
        let with_neighbour = format!("{all} {address}:{NEIGHBOUR}");
        let result = call(app, "demo", "shell", DIAL, &with_neighbour).await;
        fs::write(data.join("stop"), "").unwrap();
        result
    };
    let (neighbour, result) = tokio::select! {
        results = async { tokio::join!(neighbour, dial) } => results,
        () = async { tokio::join!(answer(host), answer(web), answer(dns), resolve(resolver)); } => unreachable!(),
    };
    assert_eq!(neighbour["status"], "ok", "{neighbour}");
    assert_eq!(result["status"], "ok", "{result}");
    let reached = result["stdout"].as_str().unwrap().lines();
    let arrived = |socket: &UdpSocket| socket.recv(&mut [0; 16]).is_ok();
    Found {
        reached: reached.map(str::to_owned).collect(),
        all_but_the_neighbour: targets,
        datagrams: closed.map(|socket| arrived(&socket)),
    }
}

async fn call(
    app: &TestApp,
    conversation: &str,
    language: &str,
    code: &str,
    targets: &str,
) -> Value {
    let arguments = json!({
        "conversationId": conversation,
        "language": language,
        "code": code,
        "network": true,
        "timeoutSeconds": 60,
        "environment": { "TARGETS": targets },
    });
    app.call("run_code", arguments).await
}
