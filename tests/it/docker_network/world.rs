//! What stands for the host's network and the internet: a network namespace to which a routing rule sends all that
//! leaves lanes, so that nothing gets any further; and the firewall rules of this machine.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;

use mcp_code_sandbox::executor::spec::LANE_PREFIX;
use rustix::fs::{FlockOperation, flock};
use tokio::io::AsyncWriteExt as _;

use crate::support::netns::{in_namespace, shell};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/firewall.sh");
/// Name of the namespace, and of the interface on the host that leads there.
const WORLD: &str = "sbxworld";
/// Lanes whose packets go there. Other servers on this machine may have some of them.
const LANES: std::ops::Range<u32> = 0..32;
/// In a private network, and the programs' resolver.
pub(crate) const PRIVATE: &str = "10.99.0.2";
/// Where clouds keep what programs must not see.
pub(super) const METADATA: &str = "169.254.169.254";
/// In a range for documentation, as if on the internet.
pub(crate) const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// A name that the resolver resolves to `PUBLIC`.
pub(crate) const NAME: &str = "somewhere.example";
pub(crate) const WEB: u16 = 80;
pub(crate) const DNS: u16 = 53;

/// The namespace, and what is done to the host's rules. Dropping it leaves the host as it was.
pub(crate) struct World {
    /// The resolvers of the rules that were there.
    before: Option<Vec<String>>,
    /// All of this affects the whole machine: one test at a time, in whatever process.
    _turn: File,
}

impl World {
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "only root can set up networks and rules"
        );
        let turn = File::create(std::env::temp_dir().join("mcp-sandbox-network-test")).unwrap();
        flock(&turn, FlockOperation::LockExclusive).unwrap();
        let world = Self {
            before: resolvers_of_the_rules(),
            _turn: turn,
        };
        // What a killed test left behind.
        take_down();
        let lanes = LANES
            .map(|lane| format!("ip rule add iif {LANE_PREFIX}{lane} lookup 7399 priority 7399\n"));
        let rules: String = lanes.collect();
        shell(&format!(
            "ip netns add {WORLD}
            ip link add {WORLD} type veth peer name eth0 netns {WORLD}
            ip address add 10.99.0.1/30 dev {WORLD}
            ip link set {WORLD} up
            ip -n {WORLD} address add {PRIVATE}/30 dev eth0
            ip -n {WORLD} address add {METADATA}/32 dev lo
            ip -n {WORLD} address add {PUBLIC}/32 dev lo
            ip -n {WORLD} link set lo up
            ip -n {WORLD} link set eth0 up
            ip route add {PRIVATE} dev {WORLD} table 7399
            ip route add {METADATA} via {PRIVATE} dev {WORLD} table 7399
            ip route add {PUBLIC} via {PRIVATE} dev {WORLD} table 7399
            ip route add unreachable default table 7399
            {rules}
            # Answers may come from where the host itself would not look for them.
            echo 2 >/proc/sys/net/ipv4/conf/{WORLD}/rp_filter"
        ))
        .unwrap();
        world
    }
}

impl Drop for World {
    fn drop(&mut self) {
        take_down();
        let action = match &self.before {
            Some(resolvers) => format!("install {}", resolvers.join(" ")),
            None => "remove".to_owned(),
        };
        let restored = shell(&format!("bash {SCRIPT} {action}"));
        assert!(std::thread::panicking() || restored.is_ok(), "{restored:?}");
    }
}

/// Lets the host have a network, which goes with the world.
pub(super) fn add_route(network: &str) {
    shell(&format!("ip route add {network} dev {WORLD}")).unwrap();
}

/// For the resolver of the test and not for those of the host.
pub(crate) fn install_rules() {
    shell(&format!("bash {SCRIPT} install {PRIVATE}")).unwrap();
}

pub(super) fn remove_rules() {
    shell(&format!("bash {SCRIPT} remove")).unwrap();
}

fn take_down() {
    // There may be nothing to take down.
    let _ = shell(&format!(
        "exec 2>/dev/null
        while ip rule delete priority 7399; do :; done
        ip route flush table 7399 || :
        ip link delete {WORLD} || :
        ip netns delete {WORLD} || :"
    ));
}

fn resolvers_of_the_rules() -> Option<Vec<String>> {
    let output = Command::new("iptables")
        .args(["-w", "-S", "MCP-SANDBOX"])
        .output()
        .unwrap();
    let rules = String::from_utf8(output.stdout).unwrap();
    let resolver = |rule: &str| {
        let (address, rest) = rule
            .strip_prefix("-A MCP-SANDBOX -d ")?
            .split_once("/32 ")?;
        rest.starts_with("-p udp").then(|| address.to_owned())
    };
    output
        .status
        .success()
        .then(|| rules.lines().filter_map(resolver).collect())
}

/// Does something, such as opening a socket, inside the namespace.
pub(crate) fn in_the_world<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    in_namespace(WORLD, work)
}

pub(crate) fn tcp(port: u16) -> TcpListener {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()
}

pub(crate) fn udp(address: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((address, port)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Tells every caller that we were reached. Never ends.
pub(super) async fn answer(listener: TcpListener) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        // A caller that went away was not told.
        let _ = stream.write_all(b"reached").await;
    }
}

/// Answers every question about an IPv4 address with `PUBLIC`, and others with an empty answer. Never ends.
pub(crate) async fn resolve(socket: UdpSocket) {
    let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
    let mut query = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut query).await.unwrap();
        if let Some(response) = response(&query[..length]) {
            socket.send_to(&response, client).await.unwrap();
        }
    }
}

fn response(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    // Labels up to the empty one, then type and class.
    let name = query.get(HEADER..)?.iter().position(|byte| *byte == 0)? + 1;
    let question = query.get(HEADER..HEADER + name + 4)?;
    let is_address = question[name..] == [0, 1, 0, 1];
    let mut response = query[..2].to_vec();
    response.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    response.extend(question);
    if is_address {
        // The name asked for, an IPv4 address, for a minute, of four bytes.
        response.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        response.extend(PUBLIC.octets());
    }
    Some(response)
}
