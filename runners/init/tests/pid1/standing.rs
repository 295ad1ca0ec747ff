//! Kernels that try to go on between their cells.

use std::io::Read;
use std::process::{Command, Stdio};

use sandbox_init::{Cell, Frame, Status, Stream};

use crate::support::{Sandbox, cell, parked, parked_after, refusing};

const FORK: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/fork.py")
);

/// `timer(signal, seconds)` arms a timer of the operating system; `busy()` is a thread that never waits.
const MEANS: &str = "
import ctypes, fcntl, os, signal, struct, threading
libc = ctypes.CDLL(None)
def timer(number, seconds):
    event = struct.pack('qiiiiqqqqq', 0, number, 0, *[0] * 7)
    handle = ctypes.c_void_p()
    assert libc.timer_create(1, event, ctypes.byref(handle)) == 0
    assert libc.timer_settime(handle, 0, struct.pack('4q', 0, 0, *divmod(int(seconds * 1e9), 10**9)), None) == 0
def spin():
    while True: pass
def busy(): threading.Thread(target=spin, daemon=True).start()
";

/// A kernel with these means.
fn kernel() -> Sandbox {
    with_means(parked(FORK))
}

/// The same where no filter is, for what is refused by one.
fn unfiltered() -> Sandbox {
    with_means(parked_after(&refusing("filters"), FORK))
}

fn with_means(mut sandbox: Sandbox) -> Sandbox {
    assert!(sandbox.cell(cell(MEANS)).exits(0).end.lives);
    sandbox
}

#[test]
fn a_kernel_that_cannot_be_stopped_is_killed_and_told_why() {
    let mut sandbox = unfiltered();
    // A process that starts a program by vfork hears no signal until the child has begun it, and this one never does.
    let stuck = "
os.mkfifo('never')
child = os.fork()
if child == 0:
    os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'never', os.O_RDONLY, 0)])
while ') D ' not in open(f'/proc/{child}/stat').read(): pass
";
    let outcome = sandbox.cell(cell(stuck));
    assert_eq!(outcome.end.status, Status::Signal(9));
    assert!(!outcome.end.lives);
    assert_eq!(
        outcome.stderr,
        "sandbox-init: processes cannot be stopped\n"
    );
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn a_timer_cannot_continue_what_stands() {
    // SIGKILL too: what is stopped in a group that loses its last tie to others is continued.
    for late in [
        "timer(signal.SIGCONT, 10)",
        "timer(signal.SIGKILL, 10)",
        // Others cannot see its timers.
        "timer(signal.SIGCONT, 10); libc.prctl(4, 0)",
    ] {
        let mut sandbox = kernel();
        let outcome = sandbox.cell(Cell {
            deadline_ms: 500,
            interrupt_ms: 500,
            ..cell(&format!("{late}\nsignal.pause()"))
        });
        assert_eq!(outcome.end.status, Status::Signal(9), "{late}");
        assert!(!outcome.end.lives && outcome.stderr.contains("cannot be stopped"));
        // What was interrupted has to answer and to stand still within its grace, without two more seconds.
        assert!(outcome.end.wall_ms < 2_500, "{outcome:?}");
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn a_timer_with_another_signal_waits_for_the_next_cell() {
    let mut sandbox = kernel();
    let due = "
fired = threading.Event()
signal.signal(signal.SIGALRM, lambda *_: fired.set())
timer(signal.SIGALRM, 0.05)
";
    assert!(sandbox.cell(cell(due)).exits(0).end.lives);
    let wait = sandbox.cell(cell("print(fired.wait(10))"));
    assert!(wait.exits(0).prints("True\n").end.lives);
}

#[test]
fn what_the_engine_puts_in_may_run_between_cells() {
    let mut sandbox = kernel();
    // As `docker exec` and health checks do, which run as the same user as programs.
    let enter = "user=$(stat -c %u /mnt/data); exec setpriv --reuid $user --regid $user --clear-groups sh -c '
        sleep 60 & echo in; while :; do :; done'";
    let entered = Command::new("nsenter")
        .args(["--pid", "--mount", "--target"])
        .arg(sandbox.pid().to_string())
        .args(["sh", "-c", enter])
        .stdout(Stdio::piped())
        .spawn();
    let mut entered = entered.unwrap();
    let mut said = [0; 3];
    let mut pipe = entered.stdout.take().unwrap();
    pipe.read_exact(&mut said).unwrap();
    let outcome = sandbox.cell(cell("print(1)"));
    assert!(outcome.exits(0).prints("1\n").end.lives);
    // It stops itself when what it has started is stopped, and would wait like this forever.
    entered.kill().unwrap();
    entered.wait().unwrap();
}

/// Code that has a process continued when there is something in the pipe `wake`, as it can ask for.
const WOKEN: &str = "
def wake(pid):
    F_SETSIG = 10
    os.mkfifo('wake')
    pipe = os.open('wake', os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(pipe, F_SETSIG, signal.SIGCONT)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, pid)
    fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    return pipe
";

/// A kernel in which this code has run, continued between its cells.
fn woken(code: &str) -> Sandbox {
    let mut sandbox = unfiltered();
    let outcome = sandbox.cell(cell(&format!("{WOKEN}{code}")));
    assert!(outcome.exits(0).end.lives);
    let pipe = format!("/proc/{}/root/mnt/data/wake", sandbox.pid());
    std::fs::write(pipe, "x").unwrap();
    sandbox
}

#[track_caller]
fn ends_as_undone(mut sandbox: Sandbox) {
    assert_eq!(sandbox.exit_code(), 71);
    assert_eq!(
        sandbox.last_words(Stream::Stderr),
        "sandbox-init: not ready: the kernel went on between its cells\n"
    );
}

#[test]
fn what_was_continued_between_cells_ends_the_sandbox() {
    // No name hides it.
    for name in [r"busy", r"\xff"] {
        ends_as_undone(woken(&format!(
            "PR_SET_NAME = 15\nlibc.prctl(PR_SET_NAME, b'{name}')\nbusy()\npipe = wake(os.getpid())"
        )));
    }
}

#[test]
fn a_thread_that_outlives_the_main_one_is_seen() {
    let lone = "
SYS_exit = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]
child = os.fork()
if child == 0:
    busy()
    libc.syscall(SYS_exit, 0)
while ') Z ' not in open(f'/proc/{child}/stat').read(): pass
pipe = wake(child)
";
    ends_as_undone(woken(lone));
}

#[test]
fn what_was_continued_just_before_a_cell_is_seen() {
    let mut sandbox = woken("busy()\npipe = wake(os.getpid())");
    sandbox.send(&Frame::Cell(cell("print('ran')")));
    ends_as_undone(sandbox);
}
