//! What no control group counts: PID 1 ends a program that has too much of it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use sandbox_init::{Excess, Run, Status};

use crate::support::{Sandbox, again, cell, map, once, parked};

const PYTHON: &[&str] = &["python3", "-"];

/// Fills sockets in as many processes as it takes, and then does nothing for a while.
/// Fewer than may be there, so that what they hold is what counts.
const FILL: &str = include_str!("../../../../src/checks/selftest/programs/socket_memory.py");

fn fill(kind: &str, count: u32) -> Run {
    let count = count.to_string();
    Run {
        env: map(&[("KINDS", kind), ("COUNT", &count)]),
        ..once(FILL)
    }
}

#[test]
fn the_buffers_of_all_sockets_together_have_a_limit() {
    for kind in ["udp", "tcp", "reset", "ping", "netlink"] {
        let mut sandbox = Sandbox::start(PYTHON);
        let outcome = sandbox.run(fill(kind, 4_000));
        assert_eq!(outcome.end.status, Status::Signal(9), "{kind}: {outcome:?}");
        assert_eq!(outcome.end.excess, Some(Excess::Sockets), "{kind}");
    }
}

#[test]
fn full_sockets_that_are_few_are_left_alone() {
    for kind in ["udp", "tcp", "ping", "netlink"] {
        let mut sandbox = Sandbox::start(PYTHON);
        let outcome = sandbox.run(fill(kind, 100));
        outcome.exits(0).prints("past 100\n");
        assert_eq!(outcome.end.excess, None, "{kind}");
    }
}

/// Each cell is over before PID 1 looks the next time.
#[test]
fn what_many_short_cells_fill_is_found_at_their_ends() {
    let mut sandbox = parked(concat!(
        include_str!("drivers/cells.py"),
        include_str!("drivers/fork.py")
    ));
    let code = r"
import os, socket, time
done, tell = os.pipe()
if os.fork() == 0:
    held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
    for one in held:
        one.bind(('127.0.0.1', 0))
        for _ in range(5):
            one.sendto(bytes(60_000), one.getsockname())
    os.write(tell, b'.')
    time.sleep(60)
os.read(done, 1)
";
    let ends = (0..8).map(|_| sandbox.cell(cell(code)).end);
    let last = ends.take_while(|end| end.lives).count();
    assert!((2..8).contains(&last), "{last}");
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn terminals_have_a_limit() {
    let open = |count: u32| {
        let code = format!(
            "import os, time\nheld = [os.openpty() for _ in range({count})]\ntime.sleep(0.5)\nprint('lives')"
        );
        Sandbox::start(PYTHON).run(once(&code))
    };
    open(64).exits(0).prints("lives\n");
    let outcome = open(65);
    assert_eq!(outcome.end.status, Status::Signal(9), "{outcome:?}");
    assert_eq!(outcome.end.excess, Some(Excess::Terminals));
}

/// Puts as many descriptors under way as `argv[1]` lets its user have, and keeps them there.
const UNDER_WAY: &str = r"
import resource, socket, sys, time
own = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (own, own))
pairs = []
try:
    while True:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        socket.send_fds(pairs[-1][0], [b'.'], [1] * 250)
except OSError as error:
    print(error.strerror, flush=True)
time.sleep(60)
";

#[test]
fn others_of_the_user_cannot_keep_a_program_from_its_streams() {
    let mut sandbox = parked(include_str!("drivers/fork.py"));
    let code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])";
    let limit = sandbox.run_and_clean(again(code)).stdout;
    assert_eq!(limit, "256\n", "a quarter of what PID 1 has");
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid())).unwrap();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:\t"));
    let user = user.unwrap().split('\t').next().unwrap();
    let mut other = Command::new("setpriv")
        .args([
            "--reuid",
            user,
            "--regid",
            user,
            "--clear-groups",
            "python3",
        ])
        .args(["-c", UNDER_WAY, limit.trim()])
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = BufReader::new(other.stdout.take().unwrap()).read_line(&mut line);
    assert!(
        said.is_ok() && line.starts_with("Too many references"),
        "{line}"
    );
    sandbox
        .run_and_clean(again("print('well')"))
        .prints("well\n");
    other.kill().unwrap();
    other.wait().unwrap();
}
