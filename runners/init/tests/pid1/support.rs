//! A sandbox made with `unshare`: its own processes, mounts, IPC and network, an unprivileged user of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use sandbox_init::{
    Cell, End, Frame, Nonce, Park, Record, RecordScanner, Run, Status, encode_frame,
};

/// Longer than anything here takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stands in for a container engine. `$1` is the program, `$2` the user; the rest is the image's command.
const SETUP: &str = r#"
set -e
init=$1 user=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs /mnt
cp "$init" /mnt/init
mount -t tmpfs -o mode=1777,size=64m tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /dev
mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; ln -s /proc/self/fd /dev/fd
mkdir /dev/shm /dev/mqueue
mount -t tmpfs -o mode=1777,size=16m tmpfs /dev/shm
mount -t mqueue mqueue /dev/mqueue; chmod 1777 /dev/mqueue
mkdir /mnt/data; chown "$user:$user" /mnt/data; cd /mnt/data; unset OLDPWD
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    prlimit --nproc=100 --nofile=256 --core=0 /mnt/init "$@"
"#;

static NEXT_USER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Sandbox {
    child: Child,
    stdin: Option<ChildStdin>,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) end: End,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.end.status, Status::Exit(code), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Self {
        assert_eq!(self.stdout, text, "{self:?}");
        self
    }
}

impl Sandbox {
    /// A sandbox whose image has this command.
    pub(crate) fn start(command: &[&str]) -> Self {
        Self::with_setup("", command)
    }

    /// The same, after more shell commands as root.
    pub(crate) fn with_setup(more: &str, command: &[&str]) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests make namespaces and must be run as root"
        );
        // A user of its own, so that the process limit counts this sandbox only.
        let user = 20_000
            + std::process::id() % 10_000 * 64
            + NEXT_USER.fetch_add(1, Ordering::Relaxed) % 64;
        // Signals that are ignored where the tests were started, as by nohup, would be ignored in there too.
        let mut child = Command::new("env")
            .args([
                "--default-signal",
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount",
                "--mount-proc",
                "--ipc",
                "--net",
                "--",
            ])
            .args([
                "sh",
                "-c",
                &format!("{more}\n{SETUP}"),
                "sh",
                env!("CARGO_BIN_EXE_sandbox-init"),
                &user.to_string(),
            ])
            .args(command)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", "/tmp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("unshare");
        // The pipes belong to the sandbox's user, as an engine makes them.
        let stdout = child.stdout.take().unwrap();
        let stderr = child.stderr.take().unwrap();
        for pipe in [
            rustix::fd::AsFd::as_fd(&stdout),
            rustix::fd::AsFd::as_fd(&stderr),
        ] {
            let user = rustix::process::Uid::from_raw(user);
            rustix::fs::fchown(pipe, Some(user), None).unwrap();
        }
        Self {
            stdin: child.stdin.take(),
            stdout: Stream::of(stdout),
            stderr: Stream::of(stderr),
            child,
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        self.send_bytes(&encode_frame(frame).unwrap());
    }

    /// Writes to standard input; if the sandbox ends during that, others notice.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stdin.as_mut().unwrap().write_all(bytes);
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// PID 1 as the host sees it. Only after something was answered.
    pub(crate) fn pid(&self) -> Pid {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap()).unwrap()
    }

    /// Parks with a driver and returns the verdict.
    pub(crate) fn park(&mut self, driver: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
        let park = park(driver, env);
        let nonce = park.nonce.clone();
        self.send(&Frame::Park(park));
        match self.stdout.record(&nonce) {
            (_, Record::Ready(verdict)) => verdict,
            other => panic!("not ready: {other:?}"),
        }
    }

    /// Sends a run and waits for its end.
    pub(crate) fn run(&mut self, run: Run) -> Outcome {
        let nonce = run.nonce.clone();
        self.send(&Frame::Run(run));
        self.outcome(&nonce)
    }

    /// Sends a cell and waits for its end.
    pub(crate) fn cell(&mut self, cell: Cell) -> Outcome {
        let nonce = cell.nonce.clone();
        self.send(&Frame::Cell(cell));
        self.outcome(&nonce)
    }

    /// Waits for the end of a run.
    pub(crate) fn outcome(&mut self, nonce: &Nonce) -> Outcome {
        let (stdout, on_stdout) = self.stdout.record(nonce);
        let (stderr, on_stderr) = self.stderr.record(nonce);
        assert_eq!(on_stdout, on_stderr);
        let Record::End(end) = on_stdout else {
            panic!("not an end: {on_stdout:?}")
        };
        Outcome {
            stdout,
            stderr,
            end,
        }
    }

    /// Runs, expects the sandbox to be clean afterwards, and returns the outcome.
    #[track_caller]
    pub(crate) fn run_and_clean(&mut self, run: Run) -> Outcome {
        let nonce = run.nonce.clone();
        let outcome = self.run(run);
        assert_eq!(self.clean(&nonce), Ok(()), "{outcome:?}");
        outcome
    }

    /// The verdict after a run with reuse.
    pub(crate) fn clean(&mut self, nonce: &Nonce) -> Result<(), String> {
        match self.stdout.record(nonce) {
            (_, Record::Clean(verdict)) => verdict,
            other => panic!("not clean: {other:?}"),
        }
    }

    /// Waits for the end of the sandbox and returns its exit code.
    pub(crate) fn exit_code(&mut self) -> i32 {
        for _ in 0..PATIENCE.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap());
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("the sandbox does not end")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sandbox without a command of its own, in which a driver in Python has parked a run process.
pub(crate) fn parked(driver: &str) -> Sandbox {
    let mut sandbox = Sandbox::start(&["false"]);
    sandbox.park(&["python3", "-c", driver], &[]).unwrap();
    sandbox
}

/// One output stream of the sandbox.
pub(crate) struct Stream {
    chunks: Receiver<Vec<u8>>,
    /// What came after the last record.
    rest: Vec<u8>,
}

impl Stream {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            chunks,
            rest: Vec::new(),
        }
    }

    /// Everything up to the next record of this nonce, and the record.
    #[track_caller]
    pub(crate) fn record(&mut self, nonce: &Nonce) -> (String, Record) {
        let mut scanner = RecordScanner::new(nonce);
        let mut output = Vec::new();
        let mut chunk = std::mem::take(&mut self.rest);
        loop {
            let scanned = scanner.push(&chunk);
            output.extend(scanned.output);
            if let Some(record) = scanned.record {
                self.rest = scanned.rest;
                return (String::from_utf8_lossy(&output).into_owned(), record);
            }
            chunk = self.chunks.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{error}; output: {}", String::from_utf8_lossy(&output))
            });
        }
    }

    /// Everything up to where `text` ends.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut output = std::mem::take(&mut self.rest);
        loop {
            let seen = String::from_utf8_lossy(&output).into_owned();
            if let Some(at) = seen.find(text) {
                self.rest = seen.as_bytes()[at + text.len()..].to_vec();
                return seen[..at + text.len()].to_owned();
            }
            let chunk = self.chunks.recv_timeout(PATIENCE);
            output.extend(chunk.unwrap_or_else(|error| panic!("{error}; output: {seen}")));
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) fn remaining(&mut self) -> String {
        let mut output = std::mem::take(&mut self.rest);
        loop {
            match self.chunks.recv_timeout(PATIENCE) {
                Ok(chunk) => output.extend(chunk),
                Err(RecvTimeoutError::Disconnected) => {
                    return String::from_utf8_lossy(&output).into_owned();
                }
                Err(RecvTimeoutError::Timeout) => panic!("the stream does not end"),
            }
        }
    }
}

pub(crate) fn nonce() -> Nonce {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    Nonce::from_random([NEXT.fetch_add(1, Ordering::Relaxed); 16])
}

pub(crate) fn park(driver: &[&str], env: &[(&str, &str)]) -> Park {
    Park {
        nonce: nonce(),
        driver: driver.iter().map(|&word| word.to_owned()).collect(),
        env: map(env),
        idle_ms: 60_000,
    }
}

/// One run with a deadline that is not meant to be reached.
pub(crate) fn once(code: &str) -> Run {
    Run {
        nonce: nonce(),
        code: code.to_owned(),
        env: BTreeMap::new(),
        deadline_ms: 30_000,
        reuse: false,
    }
}

/// The same, with a scrub afterwards.
pub(crate) fn again(code: &str) -> Run {
    Run {
        reuse: true,
        ..once(code)
    }
}

/// One cell, which may take a moment to end after an interrupt.
pub(crate) fn cell(code: &str) -> Cell {
    Cell {
        nonce: nonce(),
        code: code.to_owned(),
        env: BTreeMap::new(),
        deadline_ms: 30_000,
        interrupt_ms: 10_000,
    }
}

pub(crate) fn map(env: &[(&str, &str)]) -> BTreeMap<String, String> {
    env.iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
