//! The warm contract, with a driver of each kind.

use std::time::{Duration, Instant};

use sandbox_init::{Frame, Interrupt, Run, Status, Stream};

use crate::support::{Sandbox, again, cell, map, once, park, parked};

const FORK: &str = include_str!("drivers/fork.py");
const EXEC: &str = include_str!("drivers/exec.py");

#[test]
fn both_kinds_run_code_again_and_again() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        for number in 0..5 {
            let run = Run {
                env: map(&[("NUMBER", &number.to_string())]),
                ..again("import os, sys; print(os.environ['NUMBER'], os.getppid()); sys.exit(3)")
            };
            sandbox
                .run_and_clean(run)
                .exits(3)
                .prints(&format!("{number} 1\n"));
        }
        let outcome = sandbox.run(once("import os; os.kill(os.getpid(), 11)"));
        assert_eq!(outcome.end.status, Status::Signal(11));
        assert_eq!(sandbox.exit_code(), 0);
    }
}

#[test]
fn standard_input_is_in_the_request() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        for stdin in [Some("eins\nzwei é\0".to_owned()), None] {
            let printed = stdin
                .as_ref()
                .map_or("None\n", |_| "'eins\\nzwei é\\x00'\n");
            let run = Run {
                stdin,
                ..again("print(repr(stdin))")
            };
            sandbox.run_and_clean(run).exits(0).prints(printed);
        }
    }
}

#[test]
fn the_driver_has_its_environment_and_null_as_input() {
    let driver = "import os, socket; s = socket.socket(fileno=3); os.write(3, b'ready %d\\n' % os.getpid()); s.recv(4)
assert os.environ['EXTRA'] == 'yes' and os.read(0, 1) == b'' and os.getcwd() == '/mnt/data' and os.getsid(0) == os.getpid()
print(open('/proc/self/oom_score_adj').read().strip(), sorted(os.listdir('/proc/self/fd'))[:4])";
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox
        .park(&["python3", "-c", driver], &[("EXTRA", "yes")])
        .unwrap();
    sandbox
        .run(once(""))
        .exits(0)
        .prints("1000 ['0', '1', '2', '3']\n");
}

#[test]
fn a_driver_that_speaks_while_its_process_waits_ends_the_sandbox() {
    for speaks in ["os.write(3, b'taken %d\\n' % os.getpid())", "os.close(3)"] {
        let driver = format!(
            "import os, time; os.write(3, b'ready %d\\n' % os.getpid()); time.sleep(0.2); {speaks}; time.sleep(60)"
        );
        assert_eq!(parked(&driver).exit_code(), 71, "{speaks}");
    }
}

#[test]
fn a_long_request_arrives_whole() {
    for driver in [FORK, EXEC] {
        let code = format!("print(len('{}'))", "é".repeat(2_000_000));
        parked(driver)
            .run_and_clean(again(&code))
            .exits(0)
            .prints("2000000\n");
    }
}

#[test]
fn what_runs_leave_is_gone_and_the_driver_stays() {
    let mut sandbox = parked(FORK);
    let code = "
import os, subprocess, time
for _ in range(3): subprocess.Popen(['setsid', 'sleep', '100'])
if os.fork() == 0:
    while True:
        try: os.fork()
        except OSError: pass
time.sleep(0.2)
os._exit(0)
";
    let list = "
import os
print([open(f'/proc/{pid}/comm').read() for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())])
";
    sandbox.run_and_clean(again(code)).exits(0);
    sandbox
        .run_and_clean(again(list))
        .exits(0)
        .prints("['python3\\n']\n");
}

#[test]
fn a_fork_bomb_that_wakes_its_own_is_beaten() {
    let bomb = "
import os, signal, time
if os.fork() == 0:
    while True:
        try:
            os.fork()
            os.kill(-1, signal.SIGCONT)
        except OSError: pass
time.sleep(0.3)
os._exit(0)
";
    let mut sandbox = parked(FORK);
    for _ in 0..3 {
        sandbox.run_and_clean(again(bomb)).exits(0);
    }
    sandbox.run_and_clean(again("print(1)")).prints("1\n");
}

#[test]
fn the_deadline_spares_the_driver() {
    for driver in [FORK, EXEC] {
        let mut sandbox = parked(driver);
        let code = "
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
if os.fork() == 0: os.setsid()
time.sleep(100)
";
        let outcome = sandbox.run_and_clean(Run {
            deadline_ms: 300,
            ..again(code)
        });
        assert!(outcome.end.timed_out);
        assert_eq!(outcome.end.status, Status::Signal(9));
        sandbox
            .run_and_clean(again("print(1)"))
            .exits(0)
            .prints("1\n");
    }
}

#[test]
fn the_server_can_end_a_run() {
    for mut sandbox in [
        parked(FORK),
        parked(EXEC),
        Sandbox::start(&["python3", "-"]),
    ] {
        let code = "
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
if os.fork() == 0: os.setsid()
else: print('begun', flush=True); time.sleep(0.3); print('on', flush=True)
time.sleep(100)
";
        let run = again(code);
        let number = run.number;
        let interrupt = Frame::Interrupt(Interrupt { number });
        sandbox.send(&Frame::Run(run));
        sandbox.until("begun\n");
        // One of another run is ignored, and so is one that comes too late.
        let other = number + 1000;
        sandbox.send(&Frame::Interrupt(Interrupt { number: other }));
        sandbox.until("on\n");
        sandbox.send(&interrupt);
        let outcome = sandbox.outcome();
        assert_eq!(outcome.end.status, Status::Signal(9));
        assert!(!outcome.end.timed_out, "{outcome:?}");
        assert_eq!(sandbox.clean(), Ok(()));
        sandbox.send(&interrupt);
        sandbox
            .run_and_clean(again("print(1)"))
            .exits(0)
            .prints("1\n");
    }
}

#[test]
fn a_driver_that_programs_meddled_with_is_not_clean() {
    for (code, reason) in [
        (
            "os.kill(driver, signal.SIGKILL); wait_until(driver, 'gone')",
            "ended",
        ),
        (
            "os.kill(driver, signal.SIGSTOP); wait_until(driver, 'T')",
            "stopped",
        ),
        ("os.kill(driver, signal.SIGINT)", "a signal waits"),
        ("tgkill(driver, driver, signal.SIGINT)", "a signal waits"),
    ] {
        let blocks = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])";
        let mut sandbox = parked(&format!("{blocks}\n{FORK}"));
        let code = format!(
            "import ctypes, os, signal, time
SYS_tgkill = {{'x86_64': 234, 'aarch64': 131}}[os.uname().machine]
def tgkill(*arguments): assert ctypes.CDLL(None).syscall(SYS_tgkill, *arguments) == 0
def state(pid):
    # PID 1 waits for it when it has ended.
    try: return open(f'/proc/{{pid}}/stat').read().rpartition(')')[2].split()[0].replace('Z', 'gone')
    except (FileNotFoundError, ProcessLookupError): return 'gone'
def wait_until(pid, wanted):
    while state(pid) != wanted: time.sleep(0.01)
driver = next(int(pid) for pid in sorted(os.listdir('/proc')) if pid.isdigit() and int(pid) not in (1, os.getpid()))
{code}"
        );
        let run = again(&code);
        sandbox.run(run).exits(0);
        let verdict = sandbox.clean().unwrap_err();
        assert!(verdict.contains(reason), "{reason}: {verdict}");
        assert_eq!(sandbox.exit_code(), 72);
    }
}

#[test]
fn a_process_that_leaves_without_its_program_has_not_run_it() {
    // As one that was told by another program that somebody else runs it.
    let takes = "    take_streams()\n";
    for ends in [
        "    os._exit(0)\n",
        "    os._exit(3)\n",
        "    raise ValueError\n",
    ] {
        let driver = FORK.replace(takes, ends);
        assert_ne!(driver, FORK);
        for frame in [Frame::Run(again("print(1)")), Frame::Cell(cell("print(1)"))] {
            let mut sandbox = parked(&driver);
            sandbox.send(&frame);
            assert_eq!(
                sandbox.last_words(Stream::Stderr),
                "sandbox-init: not ready: the parked process ended without its program\n"
            );
            assert_eq!(sandbox.exit_code(), 71);
        }
    }
}

#[test]
fn half_a_request_is_not_left_for_the_next_run() {
    let reads = "    (length,) = struct.unpack(\">I\", exact(4))\n    request";
    let next = "    while (first";
    let driver = FORK
        .replace(reads, &format!("    time.sleep(60)\n{reads}"))
        .replace(next, &format!("    time.sleep(60)\n{next}"));
    assert_eq!(driver.matches("time.sleep(60)").count(), 2);
    let mut sandbox = parked(&driver);
    let long = format!("print(len('{}'))", "x".repeat(4_000_000));
    let outcome = sandbox.run(Run {
        deadline_ms: 200,
        ..again(&long)
    });
    assert!(outcome.end.timed_out);
    assert_eq!(sandbox.clean().unwrap_err(), "the request was not taken");
}

#[test]
fn what_a_driver_says_is_no_programs_output() {
    let driver = FORK.replace(
        "while True:\n    park()",
        "while True:\n    print('x' * 99_999, flush=True)\n    park()",
    );
    assert_ne!(driver, FORK);
    let mut sandbox = parked(&driver);
    for _ in 0..3 {
        sandbox
            .run_and_clean(again("print(1)"))
            .exits(0)
            .prints("1\n");
    }
}

#[test]
fn a_driver_that_fails_has_the_last_word() {
    let refuse = |words: &str| {
        let driver = format!("import sys; sys.stderr.write({words}); sys.exit(1)");
        let mut sandbox = Sandbox::start(&["false"]);
        sandbox.park(&["python3", "-c", &driver], &[]).unwrap_err()
    };
    let said = refuse(r"'no module\x1b\n'");
    assert!(said.ends_with(r#", and wrote "no module\u{1b}""#), "{said}");
    let long = refuse("'x' * 99_999");
    assert!((512..700).contains(&long.len()), "{long}");
}

#[test]
fn the_driver_of_the_fork_kind_is_closed_to_programs() {
    let code = "
import os
driver = next(int(pid) for pid in sorted(os.listdir('/proc')) if pid.isdigit() and int(pid) not in (1, os.getpid()))
for name in ('mem', 'environ', 'fd/3'):
    try: open(f'/proc/{driver}/{name}', 'rb'); print('open:', name)
    except PermissionError: pass
print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))
print(open('/proc/self/oom_score_adj').read().strip())
";
    parked(FORK)
        .run(once(code))
        .exits(0)
        .prints("['0', '1', '2'] 4\n1000\n");
}

#[test]
fn a_slow_middle_process_is_waited_for() {
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox
        .park(&["python3", "-c", FORK], &[("SLOW", "0.2")])
        .unwrap();
    sandbox.run_and_clean(again("print(1)")).prints("1\n");
}

#[test]
fn drivers_that_do_not_park_are_not_ready() {
    let python = |code| vec!["python3", "-c", code];
    for (driver, reason) in [
        (vec!["no-such-driver"], "cannot be started"),
        (vec!["false"], "driver"),
        (
            python("import os; os.write(3, b'hello\\n'); input()"),
            "driver",
        ),
        (
            python("import os, time; os.write(3, b'x' * 1000); time.sleep(9)"),
            "something else",
        ),
        (
            python("import os, time; os.write(3, b'ready 1\\n'); time.sleep(9)"),
            "something else",
        ),
        (
            python("import os, time; os.write(3, b'ready 99999\\n'); time.sleep(9)"),
            "no child",
        ),
        (
            python("import os, time; os.close(3); time.sleep(9)"),
            "closed",
        ),
        (
            python(
                "import os, time\nif pid := os.fork(): os.write(3, b'ready %d\\n' % pid)\ntime.sleep(9)",
            ),
            "no child",
        ),
    ] {
        let mut sandbox = Sandbox::start(&["false"]);
        let verdict = sandbox.park(&driver, &[]).unwrap_err();
        assert!(verdict.contains(reason), "{driver:?}: {verdict}");
        assert_eq!(sandbox.exit_code(), 71);
    }
}

#[test]
fn a_parked_process_that_ends_ends_the_sandbox() {
    for driver in [
        "import os, time; os.write(3, b'ready %d\\n' % os.getpid()); time.sleep(0.2)",
        "import os, time\nif os.fork() == 0:\n  if os.fork() == 0: time.sleep(0.3)\n  else: os._exit(0)\nelse:\n  os.wait(); child = [int(p) for p in os.listdir('/proc') if p.isdigit()][-1]; os.write(3, b'ready %d\\n' % child); time.sleep(90)",
    ] {
        assert_eq!(parked(driver).exit_code(), 71);
    }
}

#[test]
fn a_driver_that_does_not_park_again_is_not_clean() {
    let driver = FORK.replace(
        "while (first",
        "time.sleep(0.1); sys.exit(0)\n    while (first",
    );
    let mut sandbox = parked(&driver);
    let run = again("print(1)");
    sandbox.run(run).prints("1\n");
    assert!(sandbox.clean().is_err());
    assert_eq!(sandbox.exit_code(), 72);
}

#[test]
fn a_run_that_comes_before_ready_waits() {
    let mut sandbox = Sandbox::start(&["false"]);
    let (park, run) = (park(&["python3", "-c", FORK], &[]), once("print(1)"));
    sandbox.send(&Frame::Park(park));
    sandbox.send(&Frame::Run(run));
    sandbox.ready().unwrap();
    sandbox.outcome().exits(0);
}

#[test]
fn another_park_replaces_the_driver_and_all_that_it_has_loaded() {
    // What the driver has just ended itself may still be on its way out.
    let list = "
import os, time
def name(pid):
    try:
        return open(f'/proc/{pid}/comm').read()
    except OSError:
        return ''
def names():
    return sorted(filter(None, (name(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid()))))
until = time.monotonic() + 5
while len(names()) > LEFT and time.monotonic() < until: time.sleep(0.01)
print(names())
";
    let with_child = format!("import os, time\nif os.fork() == 0: time.sleep(100)\n{FORK}");
    let mut sandbox = Sandbox::start(&["false"]);
    for (drivers, left) in [
        (vec![&*with_child, FORK], "'python3\\n'"),
        (vec![FORK, EXEC], ""),
    ] {
        for driver in drivers {
            sandbox.park(&["python3", "-c", driver], &[]).unwrap();
        }
        let list = list.replace("LEFT", if left.is_empty() { "0" } else { "1" });
        let outcome = sandbox.run_and_clean(again(&list));
        outcome.exits(0).prints(&format!("[{left}]\n"));
    }
    sandbox.park(&["false"], &[]).unwrap_err();
    assert_eq!(sandbox.exit_code(), 71);
}

#[test]
fn the_end_of_standard_input_ends_a_parked_sandbox() {
    let mut sandbox = parked(FORK);
    let before = Instant::now();
    sandbox.close_stdin();
    assert_eq!(sandbox.exit_code(), 0);
    assert!(before.elapsed() < Duration::from_secs(5));
}
