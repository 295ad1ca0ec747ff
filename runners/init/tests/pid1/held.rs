//! Space that no name shows: what was deleted and is still there.

use std::time::{Duration, Instant};

use sandbox_init::{Frame, Held};

use crate::support::{Sandbox, again, cell, once, parked_after, refusing};

const FORK: &str = concat!(
    include_str!("drivers/cells.py"),
    include_str!("drivers/fork.py")
);

const MIB: u64 = 1 << 20;

/// `deleted()` opens a file of 1 MiB in a directory, the conversation's if none is given, and deletes it.
const MEANS: &str = "
import ctypes, os, shutil, socket, subprocess, threading
libc = ctypes.CDLL(None)
def deleted(directory='.', flags=os.O_RDWR):
    path = directory + '/file'
    with open(path, 'wb') as file: file.write(bytes(1 << 20))
    descriptor = os.open(path, flags)
    os.unlink(path)
    return descriptor
def forever(): threading.Event().wait()
";

fn kernel() -> Sandbox {
    kernel_after("")
}

fn kernel_after(setup: &str) -> Sandbox {
    let mut sandbox = parked_after(setup, FORK);
    assert!(sandbox.cell(cell(MEANS)).exits(0).end.lives);
    sandbox
}

fn open(bytes: u64) -> Held {
    Held {
        bytes,
        ..Held::default()
    }
}

/// What a kernel is said to hold after a cell.
#[track_caller]
fn held_after(code: &str) -> Held {
    let mut sandbox = kernel();
    sandbox.cell(cell(code)).exits(0).end.held
}

#[test]
fn what_was_deleted_while_it_is_open_is_held() {
    for code in [
        "a = deleted()",
        "a = os.dup(deleted()); child = os.fork() or forever()",
        "a = deleted(flags=os.O_PATH)",
        "a = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(a, bytes(1 << 20))",
        // A file that is sparse takes what it takes.
        "a = deleted(); os.ftruncate(a, 1 << 30)",
    ] {
        assert_eq!(held_after(code), open(MIB), "{code}");
    }
}

#[test]
fn what_has_a_name_or_is_elsewhere_is_not_held() {
    for code in [
        "a = os.open('named', os.O_CREAT | os.O_RDWR); os.write(a, bytes(1 << 20))",
        "os.close(deleted())",
        "a = deleted('/tmp'), deleted('/dev/shm'), os.memfd_create('x'), os.pipe(), socket.socketpair()",
    ] {
        assert_eq!(held_after(code), open(0), "{code}");
    }
}

#[test]
fn every_thread_and_program_is_looked_at() {
    // A table of descriptors of its own.
    let unshared = "
is_open = threading.Event()
def own():
    assert libc.unshare(0x400) == 0
    deleted()
    is_open.set()
    forever()
threading.Thread(target=own, daemon=True).start()
is_open.wait()
";
    let mut sandbox = kernel_after(&refusing("filters"));
    let outcome = sandbox.cell(cell(unshared));
    assert_eq!(outcome.exits(0).end.held, open(MIB));
    let program = "
shutil.copy(shutil.which('sleep'), 'program')
size = os.stat('program').st_blocks * 512
child = subprocess.Popen(['./program', '60'])
os.unlink('program')
print(size)
";
    let mut sandbox = kernel();
    let outcome = sandbox.cell(cell(program));
    let size = outcome.exits(0).stdout.trim().parse().unwrap();
    assert_eq!(outcome.end.held, open(size));
}

#[test]
fn what_waits_in_a_socket_cannot_be_seen_and_is_not_missed() {
    let held = held_after(
        "
pair = socket.socketpair()
descriptor = deleted()
socket.send_fds(pair[0], [b'x'], [descriptor])
os.close(descriptor)
",
    );
    // Nothing limits the size of files here.
    assert_eq!((held.bytes, held.unseen), (0, true));
}

/// Rules of Landlock keep the files that they name, and no descriptor shows which.
#[test]
fn nothing_keeps_files_out_of_sight() {
    let code = "
import struct
CREATE_RULESET, ADD_RULE = 444, 445
libc = ctypes.CDLL(None, use_errno=True)
rules = libc.syscall(CREATE_RULESET, struct.pack('Q', 4), 8, 0)
rule = struct.pack('=Qi', 4, deleted())
print(rules >= 0, libc.syscall(ADD_RULE, rules, 1, rule, 0), ctypes.get_errno())
";
    kernel().cell(cell(code)).exits(0).prints("True -1 1\n");
}

#[test]
fn what_is_only_mapped_is_told_when_the_kernel_has_rested() {
    let mut sandbox = kernel();
    let code = "
descriptor = deleted()
libc.mmap.restype = ctypes.c_void_p
mapping = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(1 << 19), 1, 1, descriptor, ctypes.c_long(0)))
os.close(descriptor)
";
    let end = sandbox.cell(cell(code)).exits(0).end.clone();
    assert_eq!(end.held, open(0));
    let mapped = Held {
        bytes: 0,
        mapped_bytes: MIB / 2,
        unseen: true,
    };
    assert_eq!(sandbox.held(), mapped);
    sandbox.send(&Frame::Weigh);
    assert_eq!(sandbox.held(), mapped);
    sandbox
        .cell(cell(
            "assert libc.munmap(mapping, ctypes.c_size_t(1 << 19)) == 0",
        ))
        .exits(0);
    sandbox.send(&Frame::Weigh);
    assert_eq!(sandbox.held(), open(0));
}

#[test]
fn the_server_may_ask_while_a_program_runs() {
    let mut sandbox = parked_after(&refusing("filters"), FORK);
    let run = again(&format!(
        "{MEANS}\na = deleted()\nprint('begun', flush=True)\nos.read(os.open('pipe', os.O_RDONLY), 1)"
    ));
    sandbox.run_and_clean(again("import os; os.mkfifo('pipe')"));
    let pipe = format!("/proc/{}/root/mnt/data/pipe", sandbox.pid());
    sandbox.send(&Frame::Run(run));
    sandbox.until("begun\n");
    sandbox.send(&Frame::Weigh);
    assert_eq!(sandbox.held(), open(MIB));
    std::fs::write(pipe, "x").unwrap();
    sandbox.outcome().exits(0);
    sandbox.clean().unwrap();
    sandbox.send(&Frame::Weigh);
    assert_eq!(sandbox.held(), open(0));
}

#[test]
fn who_closes_itself_to_others_hides_nothing_from_suspicion() {
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    let code = "import ctypes, sys, time; ctypes.CDLL(None).prctl(4, 0)\nprint('closed', flush=True); time.sleep(60)";
    sandbox.send(&Frame::Run(once(code)));
    sandbox.until("closed\n");
    sandbox.send(&Frame::Weigh);
    assert!(sandbox.held().unseen);
}

#[test]
fn who_has_ended_and_is_not_waited_for_is_not_suspected() {
    let mut sandbox = Sandbox::start(&["python3", "-"]);
    let code = "
import os, signal, threading, time
if os.fork() == 0: os._exit(0)
if os.fork() == 0:
    # A main thread that ends before another.
    import ctypes
    threading.Thread(target=time.sleep, args=[60]).start()
    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
time.sleep(0.2)
print('ended', flush=True)
time.sleep(60)
";
    sandbox.send(&Frame::Run(once(code)));
    sandbox.until("ended\n");
    sandbox.send(&Frame::Weigh);
    assert_eq!(sandbox.held(), open(0));
}

/// Cells take milliseconds, and this is part of each.
#[test]
fn a_thousand_descriptors_are_soon_looked_at() {
    let mut sandbox = kernel();
    let took = |sandbox: &mut Sandbox| {
        let times = (0..20).map(|_| {
            let begun = Instant::now();
            sandbox.cell(cell("")).exits(0);
            begun.elapsed()
        });
        times.min().unwrap()
    };
    let few = took(&mut sandbox);
    sandbox
        .cell(cell(
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
many = [os.open('/dev/null', os.O_RDONLY) for _ in range(200)]
children = [os.fork() or forever() for _ in range(4)]",
        ))
        .exits(0);
    let many = took(&mut sandbox);
    assert!(many < few + Duration::from_millis(50), "{few:?} {many:?}");
}
