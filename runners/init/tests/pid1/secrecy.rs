//! What programs of the same user can learn about PID 1 and do to it.

use crate::support::{Sandbox, again, once};

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
fd = os.pidfd_open(1)
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
import ctypes, os, signal
libc = ctypes.CDLL(None)
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
fn a_record_cannot_be_read_out_of_the_pipe() {
    // What a run leaves behind may read the pipe that it shares with PID 1.
    let code = "
import os, time
if os.fork() == 0:
    os.setsid()
    pipe = os.open('/proc/self/fd/1', os.O_RDONLY)
    stolen = open('stolen', 'wb', buffering=0)
    while True: stolen.write(os.read(pipe, 4096))
while not os.path.exists('stolen'): time.sleep(0.01)
for _ in range(9):
    time.sleep(0.01)
    os.write(1, b'.')
time.sleep(0.01)
";
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    for _ in 0..20 {
        sandbox.run_and_clean(again(code)).exits(0);
        let look = "import os; print(set(open('stolen').read()) <= {'.'}); os.remove('stolen')";
        sandbox.run_and_clean(again(look)).exits(0).prints("True\n");
    }
    sandbox.run(once(code)).exits(0);
}
