//! The network that PID 1 leaves, or does not.

use std::os::unix::fs::MetadataExt as _;

use sandbox_init::Network;

use crate::support::{Sandbox, again, once, parked_after, refusing};

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
    format!("tried, found = [], []\n{program}\nprint(found)")
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
