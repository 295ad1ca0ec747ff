//! Where programs can write when the mounts do not keep them from it, as here, where the root is the host's own.

use crate::support::{Sandbox, again, cell, once, parked, refusing};

const FORK: &str = include_str!("drivers/fork.py");
const HELPED: &str = include_str!("drivers/helped.py");
const KERNEL: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/exec.py")
);

/// Prints what should have been the other way round.
const TRY: &str = r"
import ctypes, mmap, os, pathlib, socket, stat, tempfile
libc = ctypes.CDLL(None, use_errno=True)
LANDLOCK_CREATE_RULESET, VERSION = 444, 1
confined = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION) >= 2

def works(act, *arguments):
    try:
        act(*arguments)
        return True
    except OSError:
        return False

def write(path):
    os.close(os.open(path, os.O_WRONLY))

def make(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)

for name in 'attr/current', 'comm', 'coredump_filter', 'mem', 'oom_score_adj', 'timerslack_ns':
    if works(write, f'/proc/self/{name}') == confined:
        print(name, 'can' if confined else 'cannot', 'be written')
truncates = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION) >= 3
if works(os.truncate, '/proc/self/comm', 0) == truncates:
    print('comm', 'can' if truncates else 'cannot', 'be truncated')
for path in f'/var/tmp/{os.getpid()}', f'/run/lock/{os.getpid()}':
    if os.path.isdir(os.path.dirname(path)) and works(make, path) == confined:
        print(path, 'can' if confined else 'cannot', 'be made')

for place in '.', '/tmp', '/dev/shm':
    with tempfile.TemporaryDirectory(dir=place) as top:
        one, other = pathlib.Path(top, 'one'), pathlib.Path(top, 'other')
        one.mkdir(), other.mkdir()
        (one / 'file').write_text('x')
        os.link(one / 'file', other / 'linked')
        os.symlink(one, other / 'pointer')
        os.truncate(other / 'linked', 0)
        (one / 'file').rename(other / 'file')
        one.rename(other / 'one')
        deleted = open(other / 'file', 'r+')
        os.unlink(other / 'file')
        write(f'/proc/self/fd/{deleted.fileno()}')
def listen(place):
    with tempfile.TemporaryDirectory(dir=place) as top, socket.socket(socket.AF_UNIX) as server:
        server.bind(top + '/socket')
        os.rename(top + '/socket', top + '/moved')
        os.link(top + '/moved', top + '/socket')

for place in '/tmp', '/dev/shm':
    listen(place)
if works(listen, '.') == confined:
    print('a socket', 'can' if confined else 'cannot', 'be made among the files of the conversation')
# The one device that needs no privilege, on kernels that have Landlock: it hides a name from what is laid over it.
for place in '.', '/tmp', '/dev/shm':
    if confined and works(os.mknod, f'{place}/device', stat.S_IFCHR | 0o600, 0):
        print('a device can be made in', place)
socket.socket(socket.AF_UNIX).bind('\0abstract')
memory = os.memfd_create('memory')
write(f'/proc/self/fd/{memory}')
reading, writing = os.pipe()
for path in '/dev/null', '/dev/fd/1', f'/proc/self/fd/{writing}':
    write(path)
mmap.mmap(-1, mmap.PAGESIZE)[0] = 1
queue = libc.mq_open(b'/queue', os.O_CREAT | os.O_RDWR, 0o600, None)
assert queue >= 0 and libc.mq_unlink(b'/queue') == 0, os.strerror(ctypes.get_errno())
";

#[track_caller]
fn writes_to_its_own_places_only(mut sandbox: Sandbox, program: &str) {
    sandbox.run_and_clean(again(program)).exits(0).prints("");
    sandbox.run(once(program)).exits(0).prints("");
}

#[test]
fn a_plain_program_writes_to_its_own_places_only() {
    // The filter keeps programs from making devices too.
    let unfiltered = Sandbox::with_setup(&refusing("filters"), &["python3", "-"]);
    for sandbox in [Sandbox::start(&["python3", "-"]), unfiltered] {
        writes_to_its_own_places_only(sandbox, TRY);
    }
}

#[test]
fn so_does_one_that_a_driver_has_forked() {
    writes_to_its_own_places_only(parked(FORK), TRY);
}

#[test]
fn so_does_one_that_was_passed_to_a_helper() {
    writes_to_its_own_places_only(parked(HELPED), &format!("# PASS\n{TRY}"));
}

#[test]
fn so_does_a_kernel() {
    let mut sandbox = parked(KERNEL);
    sandbox.cell(cell(TRY)).exits(0).prints("");
    sandbox.cell(cell(TRY)).exits(0).prints("");
}

/// Tries to change other processes in every way there is, and prints what it could change, and what it could not of its
/// own.
const CHANGE: &str = r"
import ctypes, os, resource, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
SCHED_SETATTR, IOPRIO_SET, KCMP = {'x86_64': (314, 251, 312), 'aarch64': (274, 30, 272)}[os.uname().machine]

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), 'refused')

def attributes():
    return struct.pack('IIQiIQQQ', 48, 0, 0, os.nice(0), 0, 10**8, 0, 0)

ACTS = {
    'sched_setattr': lambda pid: call(SCHED_SETATTR, pid, attributes(), 0),
    'sched_setscheduler': lambda pid: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
    'sched_setparam': lambda pid: os.sched_setparam(pid, os.sched_param(0)),
    'sched_setaffinity': lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(0)),
    'setpriority': lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.nice(0)),
    'ioprio_set': lambda pid: call(IOPRIO_SET, 1, pid, 3 << 13),
    'prlimit': lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (256, 256)),
    'pidfd_open': lambda pid: os.close(os.pidfd_open(pid or os.getpid())),
}
WIDE = {
    'all of a user': lambda: os.setpriority(os.PRIO_USER, 0, os.nice(0)),
    'input and output of a user': lambda: call(IOPRIO_SET, 3, os.getuid(), 3 << 13),
    'group of PID 1': lambda: os.setpriority(os.PRIO_PGRP, 1, os.nice(0)),
    'kcmp': lambda: call(KCMP, os.getpid(), os.getpid(), 0, 1, 1),
    'pidfd_getfd': lambda: call(438, -1, 0, 0),
    'process_madvise': lambda: call(440, -1, 0, 0, 0, 0),
}

def works(act, *arguments):
    try: act(*arguments)
    except PermissionError: return False
    return True

for pid in (int(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()):
    if changed := [name for name, act in ACTS.items() if works(act, pid)]:
        print('changed', pid, changed)
if changed := [name for name, act in WIDE.items() if works(act)]:
    print('changed', changed)
child = os.fork()
if child == 0:
    signal.pause()
for own in 0, os.getpid(), child:
    # Limits are only one's own.
    if refused := [name for name, act in ACTS.items() if not works(act, own) and (own == 0 or name != 'prlimit')]:
        print('refused', own, refused)
os.setpriority(os.PRIO_PGRP, 0, os.nice(0))
os.kill(child, 9)
os.waitpid(child, 0)
";

#[test]
fn nobody_changes_what_stays() {
    for mut sandbox in [Sandbox::start(&["python3", "-"]), parked(FORK)] {
        // The first process that the driver forks has a number that is refused.
        sandbox.run_and_clean(again("")).exits(0);
        sandbox.run_and_clean(again(CHANGE)).exits(0).prints("");
        sandbox.run(once(CHANGE)).exits(0).prints("");
    }
    // The process that has passed it on must be gone.
    let alone =
        "while len([p for p in __import__('os').listdir('/proc') if p.isdigit()]) != 4: pass";
    let passed = format!("# PASS\n{alone}\n{CHANGE}");
    parked(HELPED).run(once(&passed)).exits(0).prints("");
}

#[test]
fn calls_that_are_newer_than_the_filter_are_not_there() {
    let code = "
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_ulong] * 7
def fails(number):
    libc.syscall(number, *[0xffffffffffffffff] * 6)
    return errno.errorcode[ctypes.get_errno()]
PROCESS_MRELEASE = 448
print(fails(PROCESS_MRELEASE), {fails(number) for number in [*range(453, 600), 2**31, 2**32 - 1]})";
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    let said = "EINVAL {'ENOSYS'}\n";
    sandbox.run_and_clean(again(code)).exits(0).prints(said);
    sandbox.run(once(code)).exits(0).prints(said);
}

/// The programs of the selftest, which call what is forbidden where nothing but PID 1 forbids it.
const FORBIDDEN: &str = include_str!("../../../../src/checks/selftest/programs/syscalls.py");

#[test]
fn calls_are_refused_without_a_filter_of_the_engine() {
    let code = format!("tried, found = [], []\n{FORBIDDEN}\nprint(len(tried) > 100, found)");
    let mut plain = Sandbox::start(&["python3", "-"]);
    plain
        .run_and_clean(again(&code))
        .exits(0)
        .prints("True []\n");
    plain.run(once(&code)).exits(0).prints("True []\n");
    for driver in [FORK, HELPED] {
        parked(driver)
            .run(once(&format!("# PASS\n{code}")))
            .exits(0)
            .prints("True []\n");
    }
    let mut kernel = parked(KERNEL);
    kernel.cell(cell(&code)).exits(0).prints("True []\n");
    // It tells where they are not.
    let mut unfiltered = Sandbox::with_setup(&refusing("filters"), &["python3", "-"]);
    let said = unfiltered.run(once(&code)).stdout;
    assert!(said.contains("'unshare a user namespace'"), "{said}");
}

#[test]
fn the_memory_limit_chooses_a_program_that_was_passed_on() {
    // PID 1 hears of it when the parked process ends, which may be a moment after the program has started.
    let code = "# PASS
import time
until = time.monotonic() + 20
while (score := open('/proc/self/oom_score_adj').read().strip()) != '1000' and time.monotonic() < until:
    time.sleep(0.001)
print(score)";
    parked(HELPED).run(once(code)).exits(0).prints("1000\n");
}

#[test]
fn an_engine_that_leaves_room_for_new_privileges_is_no_danger() {
    let setup = "privileges='--bounding-set=-all --inh-caps=-all'";
    let mut sandbox = Sandbox::with_setup(setup, &["grep", "NoNewPrivs", "/proc/self/status"]);
    sandbox.run_and_clean(again("")).prints("NoNewPrivs:\t1\n");
    sandbox.run(once("")).exits(0).prints("NoNewPrivs:\t1\n");
}

/// Filters are kept as machine code, for which a host has little room.
#[test]
fn no_program_makes_filters_of_its_own() {
    let code = r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
calls = {'x86_64': (157, 317), 'aarch64': (167, 277)}[os.uname().machine]
for call, arguments in zip(calls, ((22, 2, 0), (1, 0, 0))):
    print(libc.syscall(call, *arguments), os.strerror(ctypes.get_errno()))
";
    let refused = "-1 Invalid argument\n-1 Invalid argument\n";
    Sandbox::start(&["python3", "-"])
        .run(once(code))
        .prints(refused);
    parked(include_str!("drivers/fork.py"))
        .run_and_clean(again(code))
        .prints(refused);
}
