//! The plain contract: the image's own command, code on standard input.

use std::time::{Duration, Instant};

use sandbox_init::{Frame, Interrupt, Run, Status, Stream};

use crate::support::{Sandbox, again, map, memory_of, once, park};

const SH: &[&str] = &["sh"];
const PYTHON: &[&str] = &["python3", "-"];

#[test]
fn output_and_exit_code_come_back() {
    let mut sandbox = Sandbox::start(SH);
    let outcome = sandbox.run(once("echo out; echo err >&2; exit 3"));
    outcome.exits(3).prints("out\n");
    assert_eq!(outcome.stderr, "err\n");
    assert!(!outcome.end.timed_out);
    assert!(outcome.end.peak_bytes.unwrap() > 100_000, "{outcome:?}");
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn a_death_by_signal_is_told() {
    let outcome = Sandbox::start(SH).run(once("kill -SEGV $$"));
    assert_eq!(outcome.end.status, Status::Signal(11));
}

#[test]
fn the_run_ends_with_its_process_not_with_its_output() {
    let mut sandbox = Sandbox::start(SH);
    let before = Instant::now();
    sandbox
        .run(once("sleep 100 & setsid sleep 100 & exit 4"))
        .exits(4);
    assert_eq!(sandbox.exit_code(), 0);
    assert!(before.elapsed() < Duration::from_secs(20));
}

#[test]
fn closed_streams_do_not_end_the_run() {
    let outcome = Sandbox::start(SH).run(once("exec >/dev/null 2>&1; sleep 0.1; exit 5"));
    outcome.exits(5).prints("");
    assert!(outcome.end.wall_ms >= 100);
}

#[test]
fn the_environment_is_the_image_and_the_run() {
    let mut sandbox = Sandbox::start(SH);
    let run = Run {
        env: map(&[("GREETING", "hello there"), ("HOME", "/elsewhere")]),
        ..once("env | sort | grep -v '^_\\|SHLVL'; pwd")
    };
    sandbox.run(run).exits(0).prints(
        "GREETING=hello there\nHOME=/elsewhere\nPATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\nPWD=/mnt/data\n/mnt/data\n",
    );
}

#[test]
fn the_process_looks_like_one_of_a_fresh_container() {
    let code = r"
import os, signal
status = open('/proc/self/status').read()
mask = {line.split(':')[0]: line.split()[1] for line in status.splitlines() if line.startswith('Sig')}
# Python itself ignores SIGPIPE and SIGXFSZ; 32 and 33 belong to the C library.
print('blocked', int(mask['SigBlk'], 16), 'ignored', int(mask['SigIgn'], 16) & ~(1 << 12 | 1 << 24 | 3 << 31))
print('parent', os.getppid(), 'session', os.getsid(0) == os.getpid(), 'tty', os.isatty(0))
fds = sorted(int(fd) for fd in os.listdir('/proc/self/fd'))
print('descriptors', fds[:3], len(fds) - 1)
print('oom', open('/proc/self/oom_score_adj').read().strip())
";
    Sandbox::start(PYTHON).run(once(code)).exits(0).prints(
        "blocked 0 ignored 0\nparent 1 session True tty False\ndescriptors [0, 1, 2] 3\noom 1000\n",
    );
}

/// As what an image's own command does with it: it has the code on its standard input, and this beside it.
#[test]
fn standard_input_is_a_file_that_cannot_be_changed() {
    let code = r"
import fcntl, os, stat
print(os.read(3, 100), os.read(3, 1), stat.S_ISREG(os.fstat(3).st_mode), os.fstat(3).st_nlink)
for change in (os.write, os.ftruncate):
    try:
        change(3, b'x' if change is os.write else 1)
    except PermissionError:
        print('no', change.__name__)
";
    let run = Run {
        stdin: Some("eins\nzwei é\0".to_owned()),
        ..once(code)
    };
    Sandbox::start(PYTHON)
        .run(run)
        .exits(0)
        .prints("b'eins\\nzwei \\xc3\\xa9\\x00' b'' True 0\nno write\nno ftruncate\n");
}

/// More than fits into a pipe, and then as before.
#[test]
fn standard_input_that_nobody_reads_delays_nothing_and_is_gone() {
    let mut sandbox = Sandbox::start(SH);
    sandbox.park(&[], &[]).unwrap();
    let unread = Run {
        stdin: Some("x".repeat(1 << 20)),
        ..again("ls /proc/self/fd | wc -w")
    };
    sandbox.run_and_clean(unread).exits(0).prints("5\n");
    sandbox
        .run_and_clean(again("ls /proc/self/fd | wc -w"))
        .exits(0)
        .prints("4\n");
}

#[test]
fn a_shell_dies_of_a_broken_pipe() {
    let outcome = Sandbox::start(&["bash"]).run(once("yes | head -1; echo ${PIPESTATUS[0]}"));
    outcome.exits(0).prints("y\n141\n");
}

#[test]
fn code_that_nobody_reads_is_no_error() {
    let code = "exit 6\n".to_owned() + &"#".repeat(4 << 20);
    Sandbox::start(SH).run(once(&code)).exits(6);
}

#[test]
fn long_code_arrives_whole() {
    let code = format!("print(len('{}'))", "x".repeat(5_000_000));
    Sandbox::start(PYTHON)
        .run(once(&code))
        .exits(0)
        .prints("5000000\n");
}

#[test]
fn a_command_that_cannot_start_is_an_exit_code() {
    let outcome = Sandbox::start(&["no-such-program"]).run(once(""));
    outcome.exits(127);
    assert!(outcome.stderr.contains("No such file"), "{outcome:?}");
    Sandbox::start(&["/etc/passwd"]).run(once("")).exits(126);
    Sandbox::start(&[]).run(once("")).exits(127);
    let mut sandbox = Sandbox::start(&["no-such-program"]);
    sandbox.run_and_clean(again("")).exits(127);
}

#[test]
fn the_end_of_standard_input_ends_everything() {
    let mut sandbox = Sandbox::start(SH);
    sandbox.close_stdin();
    assert_eq!(sandbox.exit_code(), 0);

    let mut sandbox = Sandbox::start(SH);
    sandbox.send(&Frame::Run(once(
        "echo started; setsid sleep 100 & sleep 100",
    )));
    sandbox.until("started\n");
    sandbox.close_stdin();
    assert_eq!(sandbox.exit_code(), 0);
    assert_eq!(sandbox.last_words(Stream::Stdout), "started\n");
}

#[test]
fn the_deadline_ends_a_program_that_resists() {
    let mut sandbox = Sandbox::start(SH);
    let code =
        "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 100) & echo deaf; sleep 100; sleep 100";
    let outcome = sandbox.run(Run {
        deadline_ms: 300,
        ..once(code)
    });
    assert_eq!(outcome.end.status, Status::Signal(9));
    assert!(outcome.end.timed_out);
    assert!((300..2000).contains(&outcome.end.wall_ms), "{outcome:?}");
    assert_eq!(outcome.stdout, "deaf\n");
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn the_deadline_ends_a_stopped_program() {
    let mut sandbox = Sandbox::start(SH);
    let outcome = sandbox.run(Run {
        deadline_ms: 200,
        ..once("kill -STOP $$")
    });
    assert!(outcome.end.timed_out);
}

#[test]
fn the_deadline_ends_a_program_that_stops_its_output() {
    // Full pipes: the record waits for its reader, and the sandbox for the server.
    let mut sandbox = Sandbox::start(SH);
    let outcome = sandbox.run(Run {
        deadline_ms: 500,
        ..once("yes & yes >&2 & yes")
    });
    assert!(outcome.end.timed_out);
    assert!(outcome.stdout.len() > 100_000);
}

#[test]
fn forged_messages_are_output() {
    let mut sandbox = Sandbox::start(SH);
    let forged = r#"printf '\003\000\000\000\016{"clean":true}'; printf '\003\000'; exit 9"#;
    let outcome = sandbox.run(once(forged));
    outcome
        .exits(9)
        .prints("\u{3}\0\0\0\u{e}{\"clean\":true}\u{3}\0");
}

#[test]
fn what_was_written_last_is_there() {
    let mut sandbox = Sandbox::start(PYTHON);
    let code = "
import os
for number in range(200): os.write(1, b'x' * 300)
os.write(2, b'last')
os._exit(1)
";
    for _ in 0..50 {
        let outcome = sandbox.run_and_clean(again(code));
        assert_eq!(outcome.exits(1).stdout.len(), 60_000);
        assert_eq!(outcome.stderr, "last");
    }
}

#[test]
fn a_slow_server_holds_up_no_deadline() {
    let mut sandbox = Sandbox::start(SH);
    let reading = std::sync::Arc::clone(&sandbox.reading);
    let pause = reading.lock();
    sandbox.send(&Frame::Run(Run {
        deadline_ms: 500,
        ..once("yes & yes >&2 & yes")
    }));
    std::thread::sleep(Duration::from_millis(1500));
    // PID 1 has killed them, and only now waits for the server.
    let pid = sandbox.pid().as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    for child in children.split_whitespace() {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
    }
    drop(pause);
    let end = sandbox.outcome().end;
    assert!(end.timed_out && end.wall_ms < 1500, "{end:?}");
}

#[test]
fn a_slow_server_costs_pid_1_no_memory() {
    let mut sandbox = Sandbox::start(SH);
    let reading = std::sync::Arc::clone(&sandbox.reading);
    let pause = reading.lock();
    let run = once("yes & yes >&2 & sleep 100");
    let number = run.number;
    sandbox.send(&Frame::Run(run));
    std::thread::sleep(Duration::from_millis(500));
    // Each is read in its turn, and changes nothing.
    for _ in 0..1000 {
        sandbox.send(&Frame::Interrupt(Interrupt {
            number: number + 1000,
        }));
    }
    std::thread::sleep(Duration::from_millis(500));
    let memory = memory_of(sandbox.pid());
    assert!(memory < 2048, "{memory} KiB");
    drop(pause);
    sandbox.send(&Frame::Interrupt(Interrupt { number }));
    assert_eq!(sandbox.outcome().end.status, Status::Signal(9));
}

#[test]
fn a_server_that_has_gone_is_not_waited_for() {
    let mut sandbox = Sandbox::start(SH);
    let reading = std::sync::Arc::clone(&sandbox.reading);
    let pause = reading.lock();
    sandbox.send(&Frame::Run(Run {
        deadline_ms: 200,
        ..once("yes & yes >&2 & yes")
    }));
    // By then it has killed them, and waits for somebody to read what they wrote.
    std::thread::sleep(Duration::from_secs(1));
    sandbox.close_stdin();
    assert_eq!(sandbox.exit_code(), 0);
    drop(pause);
}

#[test]
fn a_server_that_was_never_there_is_not_waited_for() {
    for nobody in ["</dev/null", "<&-"] {
        let setup = format!("late() {{ exec {nobody}; }}");
        assert_eq!(Sandbox::with_setup(&setup, SH).exit_code(), 0, "{nobody}");
    }
}

#[test]
fn a_stream_to_the_server_that_is_no_pipe_is_nobody_elses_either() {
    let setup = "late() { exec >/mnt/out; }";
    let mut sandbox = Sandbox::with_setup(setup, PYTHON);
    let code = "
import os
with open('seen', 'w') as file: file.write(str([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')[:-1]]))
# As a message has it.
os.write(1, bytes(byte ^ 0x80 for byte in b'said'))
os.rename('seen', 'done')
";
    sandbox.send(&Frame::Run(again(code)));
    sandbox.send(&Frame::Run(again("import time; time.sleep(100)")));
    let seen = sandbox.file("mnt/data/done");
    assert!(
        !seen.contains("/mnt/out") && seen.contains("pipe:["),
        "{seen}"
    );
    assert!(sandbox.file("mnt/out").contains("said"));
}

#[test]
fn streams_that_programs_made_non_blocking_carry_records() {
    let code = "
import fcntl, os
for fd in (1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_WRONLY)
    try:
        while True: os.write(fd, b'x' * 4096)
    except BlockingIOError: pass
os._exit(7)
";
    let mut sandbox = Sandbox::start(PYTHON);
    let outcome = sandbox.run_and_clean(again(code));
    outcome.exits(7);
    assert!(outcome.stdout.len() >= 65_536);
    sandbox.run(once("print('fine')")).exits(0).prints("fine\n");
}

#[test]
fn what_a_program_makes_of_its_streams_ends_with_it() {
    let look = "
import fcntl
for fd in (1, 2):
    open(f'/dev/fd/{fd}', 'w').close()
    print(*(fcntl.fcntl(fd, what) for what in (fcntl.F_GETFL, fcntl.F_GETPIPE_SZ)))
";
    let code = "
import fcntl, os
for fd, size in ((1, 4096), (2, 1 << 20)):
    flags = os.O_NONBLOCK | os.O_ASYNC | os.O_DIRECT | os.O_APPEND
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | flags)
    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)
    os.fchmod(fd, 0)
os.close(1)
";
    let mut sandbox = Sandbox::start(PYTHON);
    let before = sandbox.run_and_clean(again(look));
    before.exits(0);
    sandbox.run_and_clean(again(code)).exits(0);
    let after = sandbox.run_and_clean(again(look));
    after.exits(0).prints(&before.stdout);
    let much = sandbox.run(once("print('x' * 1_000_000)"));
    assert_eq!(much.exits(0).stdout.len(), 1_000_001);
}

#[test]
fn malformed_frames_end_the_sandbox() {
    for bytes in [
        &b"\xff\xff\xff\xff"[..],
        b"\0\0\0\x02{}",
        b"\0\0\0\x04null",
        b"\0\0\0\x0c{\"op\":\"fly\"}",
        b"\0\0\0\0",
    ] {
        let mut sandbox = Sandbox::start(SH);
        sandbox.send_bytes(bytes);
        assert_eq!(sandbox.exit_code(), 70, "{bytes:?}");
        assert!(
            sandbox
                .last_words(Stream::Stderr)
                .starts_with("sandbox-init: ")
        );
    }
}

#[test]
fn a_park_without_a_driver_may_be_followed_by_one() {
    let mut sandbox = Sandbox::start(SH);
    sandbox.park(&[], &[]).unwrap();
    sandbox.park(&[], &[]).unwrap();
    sandbox.run_and_clean(again("echo 1")).exits(0);
    sandbox.park(&[], &[]).unwrap();
    sandbox.run(once("echo 2")).prints("2\n");
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn an_idle_sandbox_ends() {
    let mut sandbox = Sandbox::start(SH);
    let before = Instant::now();
    sandbox.send(&Frame::Park(sandbox_init::Park {
        idle_ms: 300,
        ..park(&[], &[])
    }));
    sandbox.ready().unwrap();
    let run = again("sleep 0.5");
    sandbox.run_and_clean(run).exits(0);
    assert_eq!(sandbox.exit_code(), 0);
    assert!(before.elapsed() >= Duration::from_millis(800));
}

#[test]
fn a_frame_that_comes_early_waits() {
    let mut sandbox = Sandbox::start(SH);
    let (first, second) = (again("sleep 0.2; echo 1"), again("echo 2"));
    sandbox.send(&Frame::Run(first));
    sandbox.send(&Frame::Run(second));
    for text in ["1\n", "2\n"] {
        sandbox.outcome().exits(0).prints(text);
        sandbox.clean().unwrap();
    }
}

#[test]
fn it_refuses_to_be_another_process() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_sandbox-init"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(73));
}

#[test]
fn a_signal_from_outside_ends_the_sandbox_and_one_from_inside_does_not() {
    let mut sandbox = Sandbox::start(SH);
    sandbox
        .run_and_clean(again(
            "for signal in TERM INT QUIT USR1 KILL STOP; do kill -$signal 1; done",
        ))
        .exits(0);
    rustix::process::kill_process(sandbox.pid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(sandbox.exit_code(), 0);
}
