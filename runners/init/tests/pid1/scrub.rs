//! What programs leave behind, and that none of it remains.

use sandbox_init::Run;

use crate::support::{Sandbox, again, memory_of, once, refusing};

const SH: &[&str] = &["sh"];
const PYTHON: &[&str] = &["python3", "-"];

/// Lists what a new sandbox does not have.
const LEFTOVERS: &str = r"
ls -A /tmp /dev/shm /dev/mqueue 2>/dev/null | grep -v ^/ | grep .
tail -q -n +2 /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg
ls /proc | grep -v '^1$' | grep '^[0-9]' | while read pid; do [ $pid = $$ ] || cat /proc/$pid/comm; done 2>/dev/null
";

#[track_caller]
fn assert_as_new(sandbox: &mut Sandbox) {
    // The pipeline's own processes have the names of its commands.
    let outcome = sandbox.run_and_clean(again(LEFTOVERS));
    let strangers: Vec<_> = outcome
        .stdout
        .lines()
        .filter(|line| !["sh", "ls", "grep", "cat"].contains(line))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// A kernel that has no Landlock.
const LACKS: &str = r#"
mkdir -p /run/lacks; mount -t tmpfs tmpfs /run/lacks; PATH=/run/lacks:$PATH
cat >/run/lacks/prlimit <<'EOF'
#!/usr/bin/env python3
import ctypes, os, struct, sys
CREATE_RULESET, REFUSE, ALLOW = 444, 0x00050026, 0x7fff0000
steps = (0x20, 0, 0, 0), (0x15, 0, 1, CREATE_RULESET), (0x06, 0, 0, REFUSE), (0x06, 0, 0, ALLOW)
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
assert ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0
os.execv("/usr/bin/prlimit", sys.argv)
EOF
chmod 755 /run/lacks/prlimit
"#;

#[test]
fn without_landlock_a_sandbox_is_not_used_again() {
    let mut sandbox = Sandbox::with_setup(LACKS, SH);
    sandbox.run(again("echo ran")).exits(0).prints("ran\n");
    let refused = sandbox.clean().unwrap_err();
    assert!(refused.starts_with("without Landlock"), "{refused}");
    assert_eq!(sandbox.exit_code(), 72);
}

#[test]
fn processes_are_gone() {
    let mut sandbox = Sandbox::start(SH);
    let code = "sleep 100 & setsid sleep 101 & (trap '' TERM HUP; setsid sh -c 'sleep 102 & sleep 103') & kill -STOP $!; exit 0";
    sandbox.run_and_clean(again(code)).exits(0);
    assert_as_new(&mut sandbox);
}

#[test]
fn what_takes_long_to_end_is_gone_too() {
    let mut sandbox = Sandbox::start(PYTHON);
    let code = "
import os, time
waiting, telling = os.pipe()
if os.fork() == 0:
    much = b'x' * (1 << 30)
    os.write(telling, b'x')
    time.sleep(100)
os.read(waiting, 1)
";
    sandbox.run_and_clean(again(code)).exits(0);
    let pid = sandbox.pid().as_raw_nonzero();
    let left = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    assert_eq!(left.unwrap(), "");
}

/// Where programs run as the user that owns everything, as with an engine without root.
#[test]
fn places_that_a_program_owns_are_as_before() {
    let setup = r#"late() { chown "$user:$user" /tmp /dev/shm /dev/mqueue; }"#;
    let setup = format!("{}{setup}", refusing("filters"));
    let mut sandbox = Sandbox::with_setup(&setup, SH);
    let look = "stat -c '%a %n' /tmp /dev/shm /dev/mqueue";
    let as_before = "1777 /tmp\n1777 /dev/shm\n1777 /dev/mqueue\n";
    for mode in ["0700", "0000", "7777"] {
        let code = format!("{look}; touch /tmp/left; chmod {mode} /tmp /dev/shm /dev/mqueue");
        sandbox
            .run_and_clean(again(&code))
            .exits(0)
            .prints(as_before);
    }
    sandbox.run(once(look)).prints(as_before);
}

#[test]
fn a_fork_bomb_is_beaten() {
    let mut sandbox = Sandbox::start(SH);
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 0.3; exit 0";
    sandbox.run_and_clean(again(bomb));
    assert_as_new(&mut sandbox);
}

#[test]
fn a_fork_bomb_is_beaten_at_the_deadline() {
    let mut sandbox = Sandbox::start(PYTHON);
    let bomb = "
import os
while True:
    try: os.fork()
    except OSError: pass
";
    let outcome = sandbox.run_and_clean(Run {
        deadline_ms: 500,
        ..again(bomb)
    });
    assert!(
        outcome.end.timed_out && outcome.end.wall_ms < 5000,
        "{:?}",
        outcome.end
    );
    sandbox.run_and_clean(again("print(1)")).prints("1\n");
}

#[test]
fn files_of_every_kind_are_gone() {
    let mut sandbox = Sandbox::start(SH);
    let code = r"
for place in /tmp /dev/shm; do
    cd $place
    mkdir -p a/b/c .hidden/d; echo x > a/b/c/file; ln -s / root; ln -s /mnt/data a/data; mkfifo pipe
    mkdir locked; echo x > locked/file; mkdir -p locked/in/in; chmod 000 locked/in/in locked/in locked
    mkdir half; echo x > half/file; chmod 500 half
    touch -- -rf 'new
line'
    printf x > $(printf 'not\377utf8')
done
echo kept > /mnt/data/kept
";
    sandbox.run_and_clean(again(code)).exits(0);
    assert_as_new(&mut sandbox);
    sandbox
        .run(once("cat /mnt/data/kept; ls -d /tmp /dev/shm"))
        .prints("kept\n/dev/shm\n/tmp\n");
}

#[test]
fn a_deep_tree_is_gone() {
    let mut sandbox = Sandbox::start(PYTHON);
    let code = "
import os
os.chdir('/tmp')
for depth in range(3000):
    if depth % 10 == 0:
        open('f', 'w').close()
        os.mkdir('y')
        os.chmod('y', 0)
    os.mkdir('x' * 200)
    os.chdir('x' * 200)
";
    sandbox.run_and_clean(again(code)).exits(0);
    sandbox
        .run(once("import os; print(os.listdir('/tmp'))"))
        .prints("[]\n");
}

#[test]
fn many_files_are_gone() {
    let mut sandbox = Sandbox::start(PYTHON);
    let code = "
import os
os.mkdir('/tmp/d')
for number in range(20000):
    open(f'/tmp/d/{number}', 'w').close()
";
    sandbox.run_and_clean(again(code)).exits(0);
    sandbox
        .run(once("import os; print(os.listdir('/tmp'))"))
        .prints("[]\n");
}

#[test]
fn system_v_objects_and_queues_are_gone() {
    let mut sandbox = Sandbox::with_setup(&refusing("filters"), PYTHON);
    let code = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for _ in range(3):
    assert libc.shmget(0, 4096, 0o1600) >= 0
    assert libc.semget(0, 2, 0o1600) >= 0
    assert libc.msgget(0, 0o1600) >= 0
assert libc.mq_open(b'/queue', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0
assert os.listdir('/dev/mqueue') == ['queue']
";
    sandbox.run_and_clean(again(code)).exits(0);
    let code = "
import os
for kind in ('shm', 'sem', 'msg'):
    print(len(open(f'/proc/sysvipc/{kind}').readlines()))
print(os.listdir('/dev/mqueue'))
";
    sandbox.run(once(code)).prints("1\n1\n1\n[]\n");
}

#[test]
fn a_connection_that_lingers_is_told() {
    let setup = "ip link set lo up";
    let mut sandbox = Sandbox::with_setup(setup, PYTHON);
    let code = "
import socket
server = socket.create_server(('127.0.0.1', 8000))
client = socket.create_connection(('127.0.0.1', 8000))
accepted, _ = server.accept()
accepted.close()
client.close()
";
    let run = again(code);
    sandbox.run(run).exits(0);
    assert_eq!(sandbox.clean(), Err("connections linger".to_owned()));
    assert_eq!(sandbox.exit_code(), 72);
}

#[test]
fn a_hundred_runs_leave_nothing_in_pid_1() {
    let mut sandbox = Sandbox::start(SH);
    sandbox.run_and_clean(again("echo x > /tmp/file"));
    let before = pid_1(&sandbox);
    for number in 0..100 {
        let code = format!("echo {number}; sleep 100 & echo x > /tmp/file; mkdir /tmp/d");
        sandbox
            .run_and_clean(again(&code))
            .exits(0)
            .prints(&format!("{number}\n"));
    }
    let after = pid_1(&sandbox);
    assert_eq!(before.0, after.0, "descriptors");
    assert!(
        after.1 < before.1 + 1024,
        "memory in KiB: {before:?} {after:?}"
    );
    assert_as_new(&mut sandbox);
}

/// Open descriptors of PID 1 and KiB of its own memory.
fn pid_1(sandbox: &Sandbox) -> (usize, usize) {
    let pid = sandbox.pid();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count();
    (descriptors, memory_of(pid))
}
