//! The warm contract, with a driver that has a helper.

use std::time::Duration;

use sandbox_init::{Frame, Run, Status, Stream};

use crate::support::{Sandbox, again, map, once, parked};

const HELPED: &str = include_str!("drivers/helped.py");

#[test]
fn whoever_takes_it_in_the_end_is_the_run_process() {
    let mut sandbox = parked(HELPED);
    for number in 0..20 {
        let word = if number % 3 == 0 { "PASS" } else { "" };
        let run = Run {
            env: map(&[("NUMBER", &number.to_string())]),
            ..again(&format!(
                "import os, sys; print(os.environ['NUMBER'], os.getppid(), os.getsid(0) == os.getpid()); sys.exit(3) # {word}"
            ))
        };
        sandbox
            .run_and_clean(run)
            .exits(3)
            .prints(&format!("{number} 1 True\n"));
    }
    let long = format!("print(len('{}')) # PASS", "é".repeat(2_000_000));
    sandbox
        .run_and_clean(again(&long))
        .exits(0)
        .prints("2000000\n");
    let outcome = sandbox.run(once("import os; os.kill(os.getpid(), 11) # PASS"));
    assert_eq!(outcome.end.status, Status::Signal(11));
    assert_eq!(sandbox.exit_code(), 0);
}

#[test]
fn who_passes_it_on_may_be_slower_than_the_program() {
    let mut sandbox = parked(HELPED);
    for word in ["SLOWLY", "", "SLOWLY", ""] {
        sandbox
            .run_and_clean(again(&format!("print('ran') # PASS {word}")))
            .exits(0)
            .prints("ran\n");
    }
}

#[test]
fn what_it_leaves_is_gone_and_the_helper_stays() {
    let mut sandbox = parked(HELPED);
    for _ in 0..3 {
        sandbox
            .run_and_clean(again(
                "import os, time
if os.fork() == 0: time.sleep(60) # PASS
print('left')",
            ))
            .prints("left\n");
        sandbox
            .run_and_clean(again(
                "import os # PASS
while len([p for p in os.listdir('/proc') if p.isdigit()]) != 4: pass
print('alone')",
            ))
            .prints("alone\n");
    }
}

#[test]
fn the_deadline_ends_it_and_spares_the_helper() {
    let mut sandbox = parked(HELPED);
    let run = Run {
        deadline_ms: 200,
        ..again("import time; time.sleep(60) # PASS")
    };
    let outcome = sandbox.run_and_clean(run);
    assert!(outcome.end.timed_out);
    assert_eq!(outcome.end.status, Status::Signal(9));
    assert!(Duration::from_millis(outcome.end.wall_ms) < Duration::from_secs(5));
    sandbox
        .run_and_clean(again("print(1) # PASS"))
        .prints("1\n");
}

#[test]
fn what_was_not_yet_taken_at_the_deadline_never_runs() {
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox
        .park(&["python3", "-c", HELPED], &[("LATE", "0.5")])
        .unwrap();
    let run = Run {
        deadline_ms: 100,
        ..again("open('/tmp/ran', 'w') # PASS")
    };
    assert!(sandbox.run_and_clean(run).end.timed_out);
    sandbox
        .run_and_clean(again(
            "import os, time; time.sleep(1); print(os.listdir('/tmp'))",
        ))
        .exits(0)
        .prints("[]\n");
    sandbox
        .run_and_clean(again("print(1) # PASS"))
        .exits(0)
        .prints("1\n");
}

#[test]
fn a_helper_that_programs_meddled_with_is_not_clean() {
    for (code, reason) in [
        ("os.kill(helper, signal.SIGKILL)", "ended"),
        ("os.kill(helper, signal.SIGSTOP)", "stopped"),
    ] {
        for word in ["", "PASS"] {
            let mut sandbox = parked(HELPED);
            let code = format!(
                "import os, signal, time
helper = sorted(int(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid()))[1]
{code} # {word}
time.sleep(0.1)"
            );
            let run = again(&code);
            sandbox.run(run).exits(0);
            let verdict = sandbox.clean().unwrap_err();
            assert!(verdict.contains(reason), "{reason}: {verdict}");
            assert_eq!(sandbox.exit_code(), 72);
        }
    }
}

#[test]
fn a_helper_that_the_filter_does_not_spare_is_refused() {
    let after = |others: usize| {
        format!(
            "[os.wait() for _ in range({others}) if os.fork() or os._exit(0)]\nhelper = os.fork()"
        )
    };
    let park = |place: &str, other: &str| {
        let driver = HELPED.replace(place, other);
        assert_ne!(driver, HELPED);
        let mut sandbox = Sandbox::start(&["false"]);
        sandbox.park(&["python3", "-c", &driver], &[])
    };
    park("helper = os.fork()", &after(1)).unwrap();
    for refused in [
        park("helper = os.fork()", &after(2)),
        park("(forked[1], helper)", "(forked[1], os.getpid() - 1)"),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.contains("none of the first 2"), "{refused}");
    }
}

#[test]
fn helpers_are_those_of_the_first_announcement() {
    let next = "        if first + exact(3, 4)";
    let driver = HELPED.replace(next, &format!("        helper = 1 << 20\n{next}"));
    assert_ne!(driver, HELPED);
    let mut sandbox = parked(&driver);
    for _ in 0..3 {
        sandbox
            .run_and_clean(again("print(1) # PASS"))
            .prints("1\n");
    }
}

#[test]
fn a_run_is_passed_to_a_child_of_pid_1_or_not_at_all() {
    for line in ["taken 1\\n", "taken 99999\\n", "taken x\\n", "ready 7\\n"] {
        let driver = HELPED.replace("LINE % os.getpid()", &format!("b\"{line}\""));
        assert_ne!(driver, HELPED);
        let mut sandbox = parked(&driver);
        sandbox.send(&Frame::Run(again("print(1) # PASS")));
        let said = sandbox.last_words(Stream::Stderr);
        assert!(said.contains("taken <pid>"), "{line}: {said}");
        assert_eq!(sandbox.exit_code(), 71);
    }
}
