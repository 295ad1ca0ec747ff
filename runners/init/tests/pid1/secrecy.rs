//! What programs of the same user can learn about PID 1 and do to it.

use crate::support::{Sandbox, again, once, parked};

#[test]
fn pid_1_is_closed_to_its_own_user() {
    let code = "
import os
assert os.getuid() != 0
for name in ('mem', 'environ', 'maps', 'auxv', 'fd', 'fdinfo', 'fd/0', 'cwd', 'exe', 'root', 'stack', 'syscall', 'io'):
    try:
        path = '/proc/1/' + name
        if name in ('fd', 'fdinfo'): os.listdir(path)
        elif name in ('cwd', 'exe', 'root'): os.readlink(path)
        else: open(path, 'rb').read(1)
        print('open:', name)
    except PermissionError: pass
    except FileNotFoundError: pass
for name in ('oom_score_adj', 'coredump_filter', 'timerslack_ns', 'autogroup', 'clear_refs'):
    try:
        os.write(os.open('/proc/1/' + name, os.O_WRONLY), b'1')
        print('writable:', name)
    except (PermissionError, FileNotFoundError): pass
";
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    sandbox.run_and_clean(again(code)).exits(0).prints("");
    sandbox.run(once(code)).exits(0).prints("");
}

#[test]
fn pid_1_cannot_be_traced() {
    let code = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
print(libc.ptrace(PTRACE_SEIZE, 1, 0, 0), os.strerror(ctypes.get_errno()))
fd = os.open('/proc/1', os.O_RDONLY)
print(libc.syscall(438, fd, 0, 0), os.strerror(ctypes.get_errno()))
class IoVec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
one = IoVec(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
print(libc.process_vm_readv(1, ctypes.byref(one), 1, ctypes.byref(one), 1, 0), os.strerror(ctypes.get_errno()))
";
    let refused = "-1 Operation not permitted\n".repeat(3);
    Sandbox::start(&["python3", "-"])
        .run(once(code))
        .exits(0)
        .prints(&refused);
}

#[test]
fn pid_1_is_not_ended_by_a_signal_that_lost_its_sender() {
    // If the user has no room for one more pending signal, the kernel sends it without its sender.
    let code = "
import ctypes, os, resource, signal
libc = ctypes.CDLL(None)
hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
resource.setrlimit(resource.RLIMIT_SIGPENDING, (hard, hard))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
while libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0: pass
SYS_tgkill = {'x86_64': 234, 'aarch64': 131}[os.uname().machine]
print(libc.syscall(SYS_tgkill, 1, 1, signal.SIGTERM))
";
    let setup = "prlimit --pid $$ --sigpending=1000";
    let mut plain = Sandbox::with_setup(setup, &["python3", "-"]);
    plain.run_and_clean(again(code)).exits(0).prints("0\n");
    plain.run(once("print(1)")).exits(0);
    let mut warm = Sandbox::with_setup(setup, &["false"]);
    let driver = include_str!("drivers/fork.py");
    warm.park(&["python3", "-c", driver], &[]).unwrap();
    warm.run_and_clean(again(code)).exits(0).prints("0\n");
}

#[test]
fn the_stream_to_the_server_is_nobody_elses() {
    let code = "
import os
for pid in os.listdir('/proc'):
    if not pid.isdigit(): continue
    try: numbers = os.listdir(f'/proc/{pid}/fd')
    except PermissionError: continue
    for number in numbers:
        try: print(os.readlink(f'/proc/{pid}/fd/{number}'))
        except OSError: pass
";
    let fork = include_str!("drivers/fork.py");
    let exec = include_str!("drivers/exec.py");
    for mut sandbox in [
        Sandbox::start(&["python3", "-"]),
        parked(fork),
        parked(exec),
    ] {
        let secret = sandbox.pipe.clone();
        let first = sandbox.run_and_clean(again(code));
        let second = sandbox.run(once(code));
        for outcome in [&first, &second] {
            assert!(outcome.exits(0).stdout.contains("pipe:["), "{outcome:?}");
            assert!(!outcome.stdout.contains(&secret), "{outcome:?}");
        }
        assert_ne!(first.stdout, second.stdout, "streams of their own");
    }
}

#[test]
fn pid_1_is_not_ended_by_a_signal_with_a_forged_sender() {
    let code = "
import ctypes, os, signal, struct
SYS_rt_sigqueueinfo = {'x86_64': 129, 'aarch64': 138}[os.uname().machine]
SI_QUEUE, NOBODY = -1, 0
forged = struct.pack('6i', signal.SIGTERM, 0, SI_QUEUE, 0, NOBODY, 0).ljust(128, b'\\0')
print(ctypes.CDLL(None).syscall(SYS_rt_sigqueueinfo, 1, signal.SIGTERM, forged))
";
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    sandbox.run_and_clean(again(code)).exits(0).prints("0\n");
    sandbox.run(once("print(1)")).exits(0);
}

#[test]
fn what_the_engine_left_open_is_nobody_elses() {
    let code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[3:-1])";
    // Descriptor 3 is where a driver has its socket.
    for left in [
        "exec 7>&1",
        "exec 3>&1",
        "exec 3>&1 4</dev/null 9</dev/null",
    ] {
        let mut sandbox = Sandbox::with_setup(left, &["python3", "-"]);
        sandbox.run_and_clean(again(code)).exits(0).prints("[]\n");
        sandbox.run(once(code)).exits(0).prints("[]\n");
        for driver in [
            include_str!("drivers/fork.py"),
            include_str!("drivers/exec.py"),
        ] {
            let mut sandbox = Sandbox::with_setup(left, &["false"]);
            sandbox.park(&["python3", "-c", driver], &[]).unwrap();
            sandbox.run(once(code)).exits(0).prints("[]\n");
        }
    }
}
