//! Cells, with a kernel of each kind.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use sandbox_init::{Cell, Frame, Interrupt, Status};

use crate::support::{Sandbox, cell, map, once, parked};

const FORK: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/fork.py")
);
const EXEC: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/exec.py")
);

const HELPED: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/helped.py")
);

/// A kernel that has run one cell.
fn kernel() -> Sandbox {
    let mut sandbox = parked(FORK);
    assert!(sandbox.cell(cell("import os, threading, time")).end.lives);
    sandbox
}

#[test]
fn what_a_cell_leaves_is_there_in_the_next() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        sandbox.cell(cell("x = 1")).exits(0).prints("");
        for number in 2..20 {
            let next = Cell {
                env: map(&[("NUMBER", &number.to_string())]),
                ..cell("x += 1; import os; print(x, os.environ['NUMBER'])")
            };
            let outcome = sandbox.cell(next);
            outcome.exits(0).prints(&format!("{number} {number}\n"));
            assert!(outcome.end.lives && outcome.end.peak_bytes > Some(1 << 20));
        }
        let outcome = sandbox.cell(cell("y = 1; oops"));
        outcome.exits(1);
        assert!(outcome.stderr.contains("NameError"), "{outcome:?}");
        sandbox.cell(cell("print(y)")).prints("1\n");
        let long = format!("print(len('{}'))", "é".repeat(2_000_000));
        sandbox.cell(cell(&long)).prints("2000000\n");
        sandbox.close_stdin();
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn standard_input_is_that_of_one_cell() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        for (stdin, printed) in [(Some("1"), "1\n"), (Some("2"), "2\n"), (None, "None\n")] {
            let cell = Cell {
                stdin: stdin.map(str::to_owned),
                ..cell("print(stdin)")
            };
            sandbox.cell(cell).exits(0).prints(printed);
        }
    }
}

#[test]
fn a_helper_may_be_the_one_that_becomes_the_kernel() {
    for word in ["PASS", ""] {
        let mut sandbox = parked(HELPED);
        let first = "import os; boss = os.getppid()";
        let first = sandbox.cell(cell(&format!("{first} # {word}")));
        assert!(first.exits(0).end.lives, "{first:?}");
        // Nothing is left that could take the next request: no driver, no helper, and not the parked process.
        let alone = "print(boss, [p for p in os.listdir('/proc') if p.isdigit() and p not in ('1', str(os.getpid()))])";
        for _ in 0..10 {
            sandbox.cell(cell(alone)).exits(0).prints("1 []\n");
        }
        let limited = Cell {
            deadline_ms: 200,
            ..cell("while True: pass")
        };
        assert!(sandbox.cell(limited).exits(130).end.lives);
        let ended = sandbox.cell(cell("os._exit(3)"));
        assert!(!ended.exits(3).end.lives, "{ended:?}");
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn a_helper_that_became_the_kernel_may_end_before_it_is_heard_of() {
    let waits = "time.sleep(float(os.environ.get(\"LATE\", \"0\")))";
    let driver = HELPED.replace(
        waits,
        // Its streams come after the request, and PID 1 is stopped next.
        "__import__('select').select([3], [], [])
        open('/tmp/taken', 'w')
        while not os.path.exists('/tmp/go'): time.sleep(0.001)",
    );
    assert_ne!(driver, HELPED);
    let mut sandbox = parked(&driver);
    let ends = cell("import os; os._exit(5) # PASS SLOWLY");
    sandbox.send(&Frame::Cell(ends));
    let pid = sandbox.pid();
    let pid_1 = format!("/proc/{}", pid.as_raw_nonzero());
    while !std::fs::exists(format!("{pid_1}/root/tmp/taken")).unwrap() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // PID 1 gets no turn until both have happened.
    kill_process(pid, Signal::STOP).unwrap();
    std::fs::write(format!("{pid_1}/root/tmp/go"), "").unwrap();
    let ended = || {
        let path = format!("{pid_1}/task/{}/children", pid.as_raw_nonzero());
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().any(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            stat.is_ok_and(|stat| stat.contains(") Z "))
        })
    };
    while !ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(pid, Signal::CONT).unwrap();
    assert!(!sandbox.outcome().exits(5).end.lives);
    assert_eq!(sandbox.exit_code(), 0);
}

/// Seconds on the clock that Python calls `time.monotonic()`.
fn monotonic() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap().as_secs_f64()
}

#[test]
fn nothing_moves_between_cells() {
    let mut sandbox = kernel();
    let busy = "
def count():
    while True: ticks.append(time.monotonic()); time.sleep(0.001)
ticks = []
for _ in range(20): threading.Thread(target=count, daemon=True).start()
child = os.fork()
if child == 0:
    file = open('beats', 'a', buffering=1)
    while True: print(time.monotonic(), file=file); time.sleep(0.001)
# The last line may be half written.
def beats(): return [float(line) for line in list(open('beats'))[:-1]]
while not (os.path.exists('beats') and beats() and ticks): time.sleep(0.01)
";
    sandbox.cell(cell(busy)).exits(0);
    let begin = monotonic();
    std::thread::sleep(Duration::from_millis(300));
    let end = monotonic();
    // Both go on in the next cell: it would end at its deadline, if one did not.
    let look = format!(
        "
print([tick for tick in ticks + beats() if {begin} < tick < {end}])
while not (max(ticks) > {end} and max(beats()) > {end}): time.sleep(0.01)
"
    );
    sandbox.cell(cell(&look)).exits(0).prints("[]\n");
}

#[test]
fn a_kernel_that_spawns_all_the_time_can_be_stopped() {
    let mut sandbox = kernel();
    // Each child is made by vfork: its parent cannot be stopped while the child is, and has not begun yet.
    let spawn = "
import subprocess
def spawn():
    while True: subprocess.run(['true'])
for _ in range(4): threading.Thread(target=spawn, daemon=True).start()
";
    sandbox.cell(cell(spawn)).exits(0);
    for number in 0..30 {
        let outcome = sandbox.cell(cell(&format!("print({number}); time.sleep(0.003)")));
        outcome.exits(0).prints(&format!("{number}\n"));
    }
}

#[test]
fn a_record_cannot_be_read_out_of_the_pipe_by_a_kernel() {
    let thief = "
stolen = []
def steal():
    pipe = os.open('/proc/self/fd/1', os.O_RDONLY)
    while True: stolen.append(os.read(pipe, 4096))
for _ in range(8): threading.Thread(target=steal, daemon=True).start()
";
    let mut sandbox = kernel();
    sandbox.cell(cell(thief)).exits(0);
    for _ in 0..50 {
        sandbox
            .cell(cell("time.sleep(0.002); os.write(1, b'.')"))
            .exits(0);
    }
    // On the other stream, where nobody steals.
    let look = "os.write(2, str(set(b''.join(stolen)) <= {ord('.')}).encode())";
    assert_eq!(sandbox.cell(cell(look)).stderr, "True");
}

#[test]
fn a_forged_answer_ends_its_own_cell_and_no_other() {
    let mut sandbox = kernel();
    let early = sandbox.cell(cell(
        "os.write(channel, b'done 2 error\\n'); time.sleep(0.3)",
    ));
    early.exits(1);
    assert!(early.end.wall_ms < 300, "{early:?}");
    // The kernel goes on with that cell, and what it says in the end does not count for this one.
    let whole = "os.write(channel, b'done 1 ok\\n' * 99); time.sleep(0.2); print('whole')";
    sandbox.cell(cell(whole)).exits(0).prints("whole\n");
}

#[test]
fn what_is_not_an_answer_ends_the_kernel() {
    let other = "said something else than done";
    for (noise, reason) in [
        ("b'ready 1\\n'", other),
        // It could name a process that outlives the kernel.
        ("b'taken %d\\n' % os.getpid()", other),
        ("b'noise\\ndone 2 ok\\n'", other),
        ("b'x' * 1000", "says too much"),
    ] {
        let mut sandbox = kernel();
        let code = format!("os.write(channel, {noise}); time.sleep(60)");
        let noise = sandbox.cell(cell(&code));
        assert_eq!(
            (noise.end.status, noise.end.lives, noise.end.timed_out),
            (Status::Signal(9), false, false),
            "{code}"
        );
        assert_eq!(noise.stderr, format!("sandbox-init: the kernel {reason}\n"));
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn an_answer_before_the_cell_was_taken_is_none() {
    let takes = "    os.write(3, b\"taken";
    let driver = FORK.replace(
        takes,
        &format!("    os.write(3, b\"done 1 error\\n\")\n    time.sleep(0.1)\n{takes}"),
    );
    assert_ne!(driver, FORK);
    let whole = "import time; time.sleep(0.2); print('whole')";
    parked(&driver).cell(cell(whole)).exits(0).prints("whole\n");
}

#[test]
fn a_deadline_interrupts_first() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        let limited = |code: &str| Cell {
            deadline_ms: 200,
            ..cell(code)
        };
        let outcome = sandbox.cell(limited("x = 5\nwhile True: pass"));
        outcome.exits(130);
        assert!(outcome.end.timed_out && outcome.end.lives, "{outcome:?}");
        let child = "import subprocess; subprocess.run(['sleep', '60'])";
        assert!(sandbox.cell(limited(child)).end.lives);
        let deaf = "
import signal
waited_for = subprocess.Popen(['sleep', '60'])
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(waited_for.wait())";
        let outcome = sandbox.cell(limited(deaf));
        assert!(outcome.prints("-2\n").end.lives, "{outcome:?}");
        sandbox.cell(cell("print(x)")).exits(0).prints("5\n");
    }
}

#[test]
fn what_does_not_heed_an_interrupt_is_killed() {
    let mut sandbox = kernel();
    let deaf = Cell {
        deadline_ms: 200,
        interrupt_ms: 300,
        ..cell(
            "import signal; signal.signal(2, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
        )
    };
    let outcome = sandbox.cell(deaf);
    outcome.prints("deaf\n");
    assert_eq!(outcome.end.status, Status::Signal(9));
    assert!(outcome.end.timed_out && !outcome.end.lives);
    assert!(outcome.end.wall_ms >= 500, "{outcome:?}");
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn the_server_can_interrupt_too() {
    let mut sandbox = kernel();
    let long = cell(
        "print('begun', flush=True); time.sleep(0.3); print('on', flush=True); time.sleep(60)",
    );
    let number = long.number;
    sandbox.send(&Frame::Cell(long));
    sandbox.until("begun\n");
    let started = Instant::now();
    // One of another cell is ignored, and so is one that comes too late.
    let other = number + 1000;
    sandbox.send(&Frame::Interrupt(Interrupt { number: other }));
    sandbox.until("on\n");
    let interrupt = Frame::Interrupt(Interrupt { number });
    sandbox.send(&interrupt);
    let outcome = sandbox.outcome();
    outcome.exits(130);
    assert!(outcome.end.lives && !outcome.end.timed_out, "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
    sandbox.send(&interrupt);
    sandbox.cell(cell("print('on')")).exits(0).prints("on\n");
}

#[test]
fn the_end_of_the_kernel_is_the_end_of_the_sandbox() {
    for (code, status) in [
        ("print('x', flush=True); os._exit(3)", Status::Exit(3)),
        ("os.kill(os.getpid(), 11)", Status::Signal(11)),
        ("os.close(channel); time.sleep(60)", Status::Signal(9)),
        // It takes longer to die than the time after which it is killed again.
        (
            "x = b'x' * (2 << 30); os.close(channel); time.sleep(60)",
            Status::Signal(9),
        ),
    ] {
        let mut sandbox = kernel();
        let outcome = sandbox.cell(cell(code));
        assert_eq!((outcome.end.status, outcome.end.lives), (status, false));
        assert!(!outcome.end.timed_out, "{outcome:?}");
        assert_eq!(outcome.stderr, "");
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn a_kernel_takes_nothing_but_cells() {
    let mut sandbox = kernel();
    sandbox.send(&Frame::Run(once("")));
    assert_eq!(sandbox.exit_code(), 70);
    for frame in [Frame::Run(once("")), Frame::Cell(cell(""))] {
        let mut sandbox = kernel();
        sandbox.send(&Frame::Cell(cell(
            "print('begun', flush=True); time.sleep(60)",
        )));
        sandbox.until("begun\n");
        sandbox.send(&frame);
        assert_eq!(sandbox.exit_code(), 70);
    }
    // Without a parked process there is no kernel.
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox.park(&[], &[]).unwrap();
    sandbox.send(&Frame::Cell(cell("")));
    assert_eq!(sandbox.exit_code(), 71);
}
