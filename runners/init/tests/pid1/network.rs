//! The network that PID 1 leaves, or does not.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use sandbox_init::{Network, Ready, Run};

use crate::support::{Sandbox, again, map, once, parked_after, refusing};

const FORK: &str = include_str!("drivers/fork.py");
const PYTHON: &[&str] = &["python3", "-"];

/// What an engine gives: an interface with an address, and a route to everywhere.
const ENGINES: &str = "late() {
    ip link add eth0 type veth peer name eth1
    ip address add 192.0.2.2/30 dev eth0
    ip link set eth0 up
    ip link set eth1 up
    ip route add default via 192.0.2.1
}
";
/// The same, for PID 1 to leave.
const LEFT: &str = "export SANDBOX_NO_NETWORK=require\n";

/// The program of the selftest, and what it found.
fn look() -> String {
    let program = include_str!("../../../../src/checks/selftest/programs/network_off.py");
    format!("tried, found, notes = [], [], []\n{program}\nprint(found)")
}

/// What PID 1 says of the network, and what a program finds.
#[track_caller]
fn seen(mut sandbox: Sandbox) -> (Option<Network>, String) {
    let network = sandbox.park(&[], &[]).unwrap();
    let outcome = sandbox.run_and_clean(again(&look()));
    (network, outcome.exits(0).stdout.clone())
}

#[test]
fn what_pid_1_has_left_is_not_there() {
    let sandbox = Sandbox::with_setup(&format!("{ENGINES}{LEFT}"), PYTHON);
    assert_eq!(seen(sandbox), (Some(Network::None), "[]\n".to_owned()));
    let (network, found) = seen(Sandbox::with_setup(ENGINES, PYTHON));
    assert_eq!(network, Some(Network::Engine));
    assert!(found.contains("interface eth0 is up"), "{found}");
    assert!(found.contains("'a route'"), "{found}");
    // As with an engine that gives none.
    assert_eq!(seen(Sandbox::start(PYTHON)).0, Some(Network::None));
}

#[test]
fn where_it_may_not_leave_it_ends_or_says_so() {
    let setup = |word| {
        let refusing = refusing("namespaces");
        format!("{ENGINES}{refusing}export SANDBOX_NO_NETWORK={word}\n")
    };
    let mut required = Sandbox::with_setup(&setup("require"), PYTHON);
    assert_eq!(required.exit_code(), 73);
    let (network, found) = seen(Sandbox::with_setup(&setup("try"), PYTHON));
    assert_eq!(network, Some(Network::Engine));
    assert!(found.contains("interface eth0 is up"), "{found}");
    let mut mistaken = Sandbox::with_setup("export SANDBOX_NO_NETWORK=1", PYTHON);
    assert_eq!(mistaken.exit_code(), 73);
}

#[test]
fn programs_have_a_loopback_and_no_capability() {
    let code = "
import os, socket
with socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
    server.bind(('127.0.0.1', 0))
    client.sendto(b'hello', server.getsockname())
    print(server.recv(5).decode())
for line in open('/proc/self/status'):
    if line.startswith(('Cap', 'NoNewPrivs')):
        print(line.split(), end=' ')
print([name for name in os.environ if name.startswith('SANDBOX_')])
";
    let said = "hello\n\
        ['CapInh:', '0000000000000000'] ['CapPrm:', '0000000000000000'] ['CapEff:', '0000000000000000'] \
        ['CapBnd:', '0000000000000000'] ['CapAmb:', '0000000000000000'] ['NoNewPrivs:', '1'] []\n";
    let mut plain = Sandbox::with_setup(LEFT, PYTHON);
    plain.run_and_clean(again(code)).exits(0).prints(said);
    let mut warm = parked_after(LEFT, FORK);
    warm.run_and_clean(again(code)).exits(0).prints(said);
    warm.run_and_clean(again(code)).exits(0).prints(said);
}

#[test]
fn files_belong_to_the_user_that_they_would_belong_to() {
    let mut sandbox = parked_after(LEFT, FORK);
    let code =
        "import os; open('file', 'w'); print(os.getuid(), os.getgid(), os.stat('file').st_uid)";
    let said = sandbox.run_and_clean(again(code)).exits(0).stdout.clone();
    let file = format!("/proc/{}/root/mnt/data/file", sandbox.pid());
    let file = std::fs::metadata(file).unwrap();
    let (user, group) = (file.uid(), file.gid());
    assert_eq!(said, format!("{user} {group} {user}\n"));
}

/// Forks until that is refused, and says how often it was not.
const FORKS: &str = "
import os, signal
children = []
try:
    while len(children) < 60:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print(len(children))
";

#[test]
fn processes_of_the_same_user_elsewhere_do_not_count() {
    let others = "export SANDBOX_LIMITS=nproc=20
late() { for other in $(seq 30); do setpriv --reuid \"$user\" sleep 60 <&- >&- & done; }
";
    let setup = format!("{LEFT}{others}");
    let mut sandbox = Sandbox::with_setup(&setup, PYTHON);
    // PID 1 and the program are two of them.
    sandbox.run(once(FORKS)).exits(0).prints("18\n");
    // In the engine's user namespace they would, so that the limit is left out.
    let mut sandbox = Sandbox::with_setup(others, PYTHON);
    sandbox.run(once(FORKS)).exits(0).prints("60\n");
}

/// The same as an engine gives, with somebody who listens, and somebody who closes the way to a port in his own words.
const REACHED: &str = "late() {
    ip link add eth0 type veth peer name eth1
    ip address add 192.0.2.2/30 dev eth0
    ip link set eth0 up
    ip link set eth1 up
    ip route add prohibit 198.51.100.0/24
    iptables --append OUTPUT --protocol tcp --dport 6 --jump REJECT
    iptables --append OUTPUT --protocol tcp --dport 7 --jump REJECT --reject-with tcp-reset
    iptables --append OUTPUT --protocol tcp --dport 8 --jump DROP
    python3 -c 'import socket, time
open(\"/mnt/data/listens\", \"w\").write(str(socket.create_server((\"192.0.2.2\", 5))))
time.sleep(60)' <&- >&- &
}
";

#[test]
fn what_answers_in_any_way_is_reached() {
    let mut sandbox = Sandbox::with_setup(REACHED, PYTHON);
    sandbox.park(&[], &[]).unwrap();
    sandbox.file("mnt/data/listens");
    let [listens, refuses, is_reset] = ["192.0.2.2:5", "192.0.2.2:9", "192.0.2.2:7"];
    let closed = [
        "192.0.2.2:6",
        "192.0.2.2:8",
        // Nobody has this one, and nobody may go to that one.
        "192.0.2.1:5",
        "198.51.100.1:5",
    ];
    for (dialled, reached) in [
        (&[listens, refuses, is_reset][..], 3),
        (&[listens], 1),
        (&[refuses], 1),
        (&[is_reset], 1),
        (&closed[..], 0),
        (&closed[..1], 0),
    ] {
        let Ready {
            network,
            reached: found,
        } = sandbox.dial(dialled);
        assert_eq!(network, Some(Network::Engine));
        let mut found: Vec<_> = found.unwrap().iter().map(ToString::to_string).collect();
        found.sort_by_key(|it| dialled.iter().position(|dialled| dialled == it));
        assert_eq!(found, dialled[..reached]);
    }
    let all = [&closed[..], &[listens]].concat();
    let begun = Instant::now();
    assert_eq!(sandbox.dial(&all).reached.unwrap().len(), 1);
    // As long as what drops everything has time to answer, and no longer.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    sandbox.run(once("print(1)")).exits(0).prints("1\n");
}

#[test]
fn what_a_cluster_tells_of_is_tried_too() {
    let told = "export KUBERNETES_SERVICE_HOST=192.0.2.2 KUBERNETES_SERVICE_PORT=";
    let dialled = |port: u16, addresses: &[&str]| {
        let mut sandbox = Sandbox::with_setup(&format!("{REACHED}{told}{port}"), PYTHON);
        sandbox.dial(addresses).reached
    };
    let refuses = "192.0.2.2:9".parse().unwrap();
    assert_eq!(dialled(9, &["192.0.2.1:5"]), Some(vec![refuses]));
    assert_eq!(dialled(8, &["192.0.2.1:5"]), Some(Vec::new()));
    // Nobody asks.
    assert_eq!(dialled(9, &[]), None);
}

#[test]
fn the_program_of_the_selftest_finds_the_same() {
    let mut sandbox = Sandbox::with_setup(REACHED, PYTHON);
    sandbox.park(&[], &[]).unwrap();
    sandbox.file("mnt/data/listens");
    let all = "192.0.2.2:5 192.0.2.2:9 192.0.2.2:7 192.0.2.2:6 192.0.2.2:8 192.0.2.1:5";
    let run = Run {
        env: map(&[("MUST_NOT_REACH", all)]),
        ..once(&look())
    };
    let reached =
        "['192.0.2.2:5 is reached', '192.0.2.2:9 is reached', '192.0.2.2:7 is reached']\n";
    sandbox.run(run).exits(0).prints(reached);
}

#[test]
fn the_program_of_the_selftest_accepts_a_network_that_is_closed_where_it_may_be() {
    let finds = |addresses: &str| {
        let mut sandbox = Sandbox::with_setup(REACHED, PYTHON);
        let env = map(&[("MUST_NOT_REACH", addresses)]);
        let run = Run {
            env,
            ..once(&look())
        };
        sandbox.run(run).exits(0).stdout.clone()
    };
    assert_eq!(finds("192.0.2.2:6 192.0.2.2:8 192.0.2.1:5"), "[]\n");
    assert!(finds("").contains("interface eth0 is up"));
}

#[test]
fn nothing_is_tried_where_there_is_nothing_to_reach_or_nobody_asks() {
    let mut left = Sandbox::with_setup(&format!("{REACHED}{LEFT}"), PYTHON);
    let ready = left.dial(&["192.0.2.2:9"]);
    assert_eq!((ready.network, ready.reached), (Some(Network::None), None));
    let mut unasked = Sandbox::with_setup(REACHED, PYTHON);
    let ready = unasked.dial(&[]);
    assert_eq!(
        (ready.network, ready.reached),
        (Some(Network::Engine), None)
    );
}

#[test]
fn what_cannot_be_tried_is_not_taken_for_closed() {
    // With room for nothing but what PID 1 has open.
    let setup = format!("{REACHED}export SANDBOX_LIMITS=nofile=NUMBER");
    let opened = |number: u32| {
        let mut sandbox =
            Sandbox::with_setup(&setup.replace("NUMBER", &number.to_string()), PYTHON);
        sandbox.dial(&["192.0.2.1:5"; 8]).reached
    };
    assert_eq!(opened(64), Some(Vec::new()));
    assert_eq!(opened(14), None);
}
