//! Names whose addresses change or are private, by a resolver of the test's own: the server is in a network namespace
//! from which another one stands for the internet, so that it asks and dials as it does on a host.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use hickory_proto::op::{Message, Query};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::hosts;
use crate::support::netns::{in_namespace, shell};
use crate::support::stdio::{PROGRAM, StdioServer};

/// Namespaces of the server, and of what stands for the internet and for a private network behind it.
const HERE: &str = "sbxhere";
const THERE: &str = "sbxthere";
/// In a range for documentation, as if on the internet.
const PUBLIC: &str = "198.51.100.2";
const PRIVATE: &str = "10.99.8.2";
/// The server's own host has it.
const OWN: &str = "198.51.100.9";
const PORT: u16 = 5432;

/// What names resolve to, lookup for lookup. The last one stays.
const NAMES: [(&str, &[&[&str]]); 7] = [
    (
        "flips.test",
        &[&[PUBLIC], &[PRIVATE], &[PUBLIC], &[PRIVATE]],
    ),
    ("mixed.test", &[&[PRIVATE, "127.0.0.1", PUBLIC]]),
    ("own.test", &[&[OWN]]),
    ("loopback.test", &[&["127.0.0.1"]]),
    ("metadata.test", &[&["169.254.169.254"]]),
    ("mapped.test", &[&["::ffff:10.99.8.2"]]),
    ("translated.test", &[&["64:ff9b::a63:802"]]),
];

/// The namespaces. Dropping it removes them.
struct Namespaces;

impl Namespaces {
    fn new() -> Self {
        take_down();
        shell(&format!(
            "ip netns add {HERE}
            ip netns add {THERE}
            ip link add eth0 netns {HERE} type veth peer name eth0 netns {THERE}
            ip -n {HERE} address add 10.99.8.1/30 dev eth0
            ip -n {HERE} address add {OWN}/32 dev lo
            ip -n {THERE} address add {PRIVATE}/30 dev eth0
            ip -n {THERE} address add {PUBLIC}/32 dev lo
            ip -n {THERE} address add 169.254.169.254/32 dev lo
            for it in {HERE} {THERE}; do ip -n $it link set lo up; ip -n $it link set eth0 up; done
            ip -n {HERE} route add default via {PRIVATE}"
        ))
        .unwrap();
        Self
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        take_down();
    }
}

fn take_down() {
    for namespace in [HERE, THERE] {
        // It may not be there.
        let _ = shell(&format!("ip netns delete {namespace}"));
    }
}

/// What answers in the namespaces: a resolver, and hosts that say by which address they were reached.
struct Internet {
    /// The names that were asked for, once for each lookup.
    lookups: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Internet {
    fn new() -> Self {
        let mut serving = JoinSet::new();
        for namespace in [HERE, THERE] {
            let listener = in_namespace(namespace, || TcpListener::bind(("::", PORT)).unwrap());
            serving.spawn(say_address(listener));
        }
        let lookups = Arc::<Mutex<Vec<String>>>::default();
        let resolver = in_namespace(HERE, || UdpSocket::bind("127.0.0.1:53").unwrap());
        serving.spawn(resolve(resolver, Arc::clone(&lookups)));
        Self {
            lookups,
            _serving: serving,
        }
    }
}

async fn say_address(listener: TcpListener) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((mut stream, _)) = listener.accept().await {
        let address = stream.local_addr().unwrap().ip().to_canonical();
        let _ = stream.write_all(address.to_string().as_bytes()).await;
    }
}

async fn resolve(socket: UdpSocket, lookups: Arc<Mutex<Vec<String>>>) {
    socket.set_nonblocking(true).unwrap();
    let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
    let mut names: BTreeMap<_, _> = NAMES.map(|(name, lookups)| (name, lookups.iter())).into();
    let mut current = BTreeMap::new();
    let mut bytes = [0; 512];
    while let Ok((length, asker)) = socket.recv_from(&mut bytes).await {
        let asked = Message::from_vec(&bytes[..length]).unwrap();
        let query = asked.queries[0].clone();
        let name = query.name.to_ascii().trim_end_matches('.').to_owned();
        // A lookup asks for both kinds of addresses, the fourth version first.
        if query.query_type == RecordType::A {
            if let Some(next) = names.get_mut(name.as_str()).and_then(Iterator::next) {
                current.insert(name.clone(), *next);
            }
            lookups.lock().push(name.clone());
        }
        let addresses = current.get(&name).copied().unwrap_or_default();
        let answer = answer(&asked, &query, addresses);
        socket.send_to(&answer, asker).await.unwrap();
    }
}

fn answer(asked: &Message, query: &Query, addresses: &[&str]) -> Vec<u8> {
    let mut answer = Message::response(asked.metadata.id, asked.metadata.op_code);
    answer.metadata.recursion_available = true;
    answer.add_query(query.clone());
    let name: &Name = &query.name;
    for address in addresses {
        let data = match (address.parse().unwrap(), query.query_type) {
            (IpAddr::V4(address), RecordType::A) => RData::A(address.into()),
            (IpAddr::V6(address), RecordType::AAAA) => RData::AAAA(address.into()),
            _ => continue,
        };
        answer.add_answer(Record::from_rdata(name.clone(), 0, data));
    }
    answer.to_vec().unwrap()
}

/// A server in its namespace, whose resolver is that of the test.
async fn server(resolver: &NamedTempFile, settings: &[(&str, &str)]) -> StdioServer {
    let allow = NAMES.map(|(name, _)| format!("{name}:{PORT}")).join(",");
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/run/netns/{HERE}"))
        .args(["unshare", "--mount", "sh", "-ec"])
        .arg("mount --bind \"$0\" /etc/resolv.conf; exec \"$@\"")
        .arg(resolver.path())
        .args([PROGRAM, "stdio"]);
    let settings = [&[("NETWORK_ALLOW", &*allow)], settings].concat();
    let mut server = StdioServer::begin_by(command, &settings);
    server.hello().await;
    server
}

/// The outcome of a program that connects to each of these names.
async fn connect(server: &mut StdioServer, names: &[&str]) -> Value {
    let code = format!(
        "import socket
for name in {names:?}:
    try:
        with socket.create_connection((name, {PORT}), 20) as connection:
            print(name, connection.makefile().read() or 'closed')
    except OSError as error:
        print(name, type(error).__name__)"
    );
    let arguments =
        json!({ "conversationId": "demo", "language": "python", "code": code, "network": true });
    let params = json!({ "name": "run_code", "arguments": arguments });
    server
        .send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
        .await;
    loop {
        let message = server.message().await;
        if message["id"] == 1 {
            return message["result"]["structuredContent"].clone();
        }
    }
}

/// A name is looked up once for a connection, and what was checked is what is dialled: whoever answers otherwise the
/// next time is denied then.
#[tokio::test]
async fn names_on_docker_cannot_change_between_check_and_connection() {
    let _namespaces = Namespaces::new();
    let internet = Internet::new();
    let resolver = NamedTempFile::new().unwrap();
    std::fs::write(resolver.path(), "nameserver 127.0.0.1\n").unwrap();
    let flips = ["flips.test"; 4];
    let mut server = self::server(&resolver, &[]).await;
    let outcome = connect(&mut server, &flips).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    flips.test 198.51.100.2
    flips.test closed
    flips.test 198.51.100.2
    flips.test closed
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    flips.test:5432 allowed  [2, 0]
    flips.test:5432 denied private_address [2, 0]
    ");
    assert_eq!(*internet.lookups.lock(), flips);
    let outcome = connect(&mut server, &NAMES.map(|(name, _)| name)[1..]).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    mixed.test 198.51.100.2
    own.test closed
    loopback.test closed
    metadata.test closed
    mapped.test closed
    translated.test closed
    ");
    insta::assert_snapshot!(hosts(&outcome), @r"
    loopback.test:5432 denied private_address [1, 0]
    mapped.test:5432 denied private_address [1, 0]
    metadata.test:5432 denied private_address [1, 0]
    mixed.test:5432 allowed  [1, 0]
    own.test:5432 denied private_address [1, 0]
    translated.test:5432 denied private_address [1, 0]
    ");
    server.close();
    // Where private addresses are named, they are reached: nothing else than the check kept programs from them.
    let private = [(
        "NETWORK_PRIVATE",
        "10.99.8.0/24,127.0.0.0/8,169.254.0.0/16,198.51.100.9/32",
    )];
    let mut server = self::server(&resolver, &private).await;
    let outcome = connect(&mut server, &NAMES.map(|(name, _)| name)).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap_or(&outcome.to_string()), @r"
    flips.test 10.99.8.2
    mixed.test 127.0.0.1
    own.test 198.51.100.9
    loopback.test 127.0.0.1
    metadata.test 169.254.169.254
    mapped.test 10.99.8.2
    translated.test closed
    ");
    server.close();
}
