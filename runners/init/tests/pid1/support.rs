//! A sandbox made with `unshare`: its own processes, mounts, IPC and network, an unprivileged user of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use sandbox_init::{
    Cell, End, Frame, Held, Message, MessageReader, Network, Park, Ready, Record, Run, Status,
    Stream, encode_frame,
};

/// Longer than anything here takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the shell commands of a test may redefine.
const DEFAULTS: &str = r#"
privileges="--no-new-privs --bounding-set=-all --inh-caps=-all"
wrapper=
prepare() { :; }
late() { :; }
"#;

/// A setup in which the kernel refuses PID 1 `filters`, so that programs can do what only its other means then undo, or
/// `namespaces`.
pub(crate) fn refusing(what: &str) -> String {
    let script = include_str!("refusing.py");
    format!(
        "wrapper='python3 /mnt/refusing {what}'\nprepare() {{ cat >/mnt/refusing <<'END'\n{script}END\n}}\n"
    )
}

/// Stands in for a container engine. `$1` is the program, `$2` the user; the rest is the image's command.
const SETUP: &str = r#"
set -e
init=$1 user=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs /mnt
cp "$init" /mnt/init; chmod 111 /mnt/init
mount -t tmpfs -o mode=1777,size=64m tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /dev
mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; ln -s /proc/self/fd /dev/fd
mkdir /dev/shm /dev/mqueue /dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts /dev/pts; ln -s pts/ptmx /dev/ptmx
ip link set lo up
for buffers in tcp_rmem tcp_wmem; do echo 4096 32768 65536 >/proc/sys/net/ipv4/$buffers; done
echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range
mount -t tmpfs -o mode=1777,size=16m tmpfs /dev/shm
mount -t mqueue mqueue /dev/mqueue; chmod 1777 /dev/mqueue
mkdir /mnt/data; chown "$user:$user" /mnt/data; cd /mnt/data; unset OLDPWD
prepare
late
exec setpriv --reuid "$user" --regid "$user" --clear-groups $privileges \
    prlimit --nproc=100 --nofile=1024 --core=0 $wrapper /mnt/init "$@"
"#;

static NEXT_USER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Sandbox {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Heard>,
    /// Held while the server does not read.
    pub(crate) reading: Arc<Mutex<()>>,
    /// The name of the pipe to the server.
    pub(crate) pipe: String,
    /// Both streams since the last record.
    said: [Vec<u8>; 2],
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
                &format!("{DEFAULTS}{more}\n{SETUP}"),
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
            .spawn()
            .expect("unshare");
        // The pipe belongs to the sandbox's user, as an engine makes it.
        let stdout = child.stdout.take().unwrap();
        let owner = rustix::process::Uid::from_raw(user);
        rustix::fs::fchown(&stdout, Some(owner), None).unwrap();
        let inode = rustix::fs::fstat(&stdout).unwrap().st_ino;
        let reading = Arc::default();
        Self {
            stdin: child.stdin.take(),
            messages: messages(stdout, Arc::clone(&reading)),
            reading,
            pipe: format!("pipe:[{inode}]"),
            said: Default::default(),
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

    /// What is in a file of the sandbox, once there is something.
    #[track_caller]
    pub(crate) fn file(&self, path: &str) -> String {
        for _ in 0..PATIENCE.as_millis() {
            let id = self.child.id();
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            let pid = children.unwrap_or_default();
            let bytes = std::fs::read(format!("/proc/{}/root/{path}", pid.trim()));
            if let Ok(bytes) = bytes
                && !bytes.is_empty()
            {
                return text(&bytes);
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("there is no {path}")
    }

    /// Parks with a driver and returns the verdict.
    pub(crate) fn park(
        &mut self,
        driver: &[&str],
        env: &[(&str, &str)],
    ) -> Result<Option<Network>, String> {
        self.send(&Frame::Park(park(driver, env)));
        self.ready()
    }

    /// Asks which network there is, and which of these addresses can be reached.
    pub(crate) fn dial(&mut self, addresses: &[&str]) -> Ready {
        self.send(&Frame::Park(Park {
            must_not_reach: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            ..park(&[], &[])
        }));
        self.readiness().unwrap()
    }

    /// The verdict after a `park` frame.
    #[track_caller]
    pub(crate) fn ready(&mut self) -> Result<Option<Network>, String> {
        self.readiness().map(|ready| ready.network)
    }

    #[track_caller]
    fn readiness(&mut self) -> Result<Ready, String> {
        match self.record() {
            Record::Ready(verdict) => verdict,
            other => panic!("not ready: {other:?}"),
        }
    }

    /// Sends a run and waits for its end.
    pub(crate) fn run(&mut self, run: Run) -> Outcome {
        self.send(&Frame::Run(run));
        self.outcome()
    }

    /// Sends a cell and waits for its end.
    pub(crate) fn cell(&mut self, cell: Cell) -> Outcome {
        self.send(&Frame::Cell(cell));
        self.outcome()
    }

    /// Waits for the end of a run.
    #[track_caller]
    pub(crate) fn outcome(&mut self) -> Outcome {
        let record = self.record();
        let [stdout, stderr] = std::mem::take(&mut self.said).map(|said| text(&said));
        let Record::End(end) = record else {
            panic!("not an end: {record:?}")
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
        let outcome = self.run(run);
        assert_eq!(self.clean(), Ok(()), "{outcome:?}");
        outcome
    }

    /// The verdict after a run with reuse, between which nothing is said.
    #[track_caller]
    pub(crate) fn clean(&mut self) -> Result<(), String> {
        let record = self.record();
        assert_eq!(self.said, [b"", b""], "{record:?}");
        match record {
            Record::Clean(verdict) => verdict,
            other => panic!("not clean: {other:?}"),
        }
    }

    /// What is said to be held.
    #[track_caller]
    pub(crate) fn held(&mut self) -> Held {
        match self.record() {
            Record::Held(held) => held,
            other => panic!("not held: {other:?}"),
        }
    }

    /// The next record. What is said before it is kept.
    #[track_caller]
    fn record(&mut self) -> Record {
        loop {
            if let Some(record) = self.next() {
                return record;
            }
        }
    }

    /// Waits until a run has said something on its standard output.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) {
        while !String::from_utf8_lossy(&self.said[0]).contains(words) {
            let record = self.next();
            assert!(record.is_none(), "{record:?}");
        }
    }

    #[track_caller]
    fn next(&mut self) -> Option<Record> {
        let message = self.messages.recv_timeout(PATIENCE);
        match message.unwrap_or_else(|error| panic!("{error}; it said {:?}", self.said)) {
            Heard::Output(stream, bytes) => {
                self.said[stream as usize].extend(bytes);
                None
            }
            Heard::Record(record) => Some(record),
        }
    }

    /// What is said until the end, on one stream, without another record.
    pub(crate) fn last_words(&mut self, stream: Stream) -> String {
        loop {
            match self.messages.recv_timeout(PATIENCE) {
                Ok(Heard::Output(stream, bytes)) => self.said[stream as usize].extend(bytes),
                Ok(Heard::Record(record)) => panic!("another record: {record:?}"),
                Err(RecvTimeoutError::Disconnected) => {
                    return text(&self.said[stream as usize]);
                }
                Err(RecvTimeoutError::Timeout) => panic!("the stream does not end"),
            }
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
    parked_after("", driver)
}

/// The same, after more shell commands as root.
pub(crate) fn parked_after(more: &str, driver: &str) -> Sandbox {
    let mut sandbox = Sandbox::with_setup(more, &["false"]);
    sandbox.park(&["python3", "-c", driver], &[]).unwrap();
    sandbox
}

/// KiB of a process's own memory. The parts of its program that it has touched are not counted: they grow with what it
/// does for the first time, and differ between machines.
pub(crate) fn memory_of(pid: Pid) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let own = status
        .lines()
        .find(|line| line.starts_with("RssAnon"))
        .unwrap();
    own.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A message, to be kept.
enum Heard {
    Output(Stream, Vec<u8>),
    Record(Record),
}

/// What PID 1 writes. Nothing else may be among it.
fn messages(mut pipe: impl Read + Send + 'static, reading: Arc<Mutex<()>>) -> Receiver<Heard> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        let (mut buffer, mut reader) = ([0; 8192], MessageReader::new());
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            drop(reading.lock());
            reader.feed(&buffer[..length]);
            while let Some(message) = reader.next_message().expect("a message") {
                let heard = match message {
                    Message::Output(stream, bytes) => Heard::Output(stream, bytes.to_vec()),
                    Message::Record(record) => Heard::Record(record),
                };
                if sender.send(heard).is_err() {
                    return;
                }
            }
        }
    });
    messages
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn park(driver: &[&str], env: &[(&str, &str)]) -> Park {
    Park {
        driver: driver.iter().map(|&word| word.to_owned()).collect(),
        env: map(env),
        idle_ms: 60_000,
        must_not_reach: Vec::new(),
    }
}

/// One run with a deadline that is not meant to be reached.
pub(crate) fn once(code: &str) -> Run {
    Run {
        number: number(),
        code: code.to_owned(),
        stdin: None,
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
        number: number(),
        code: code.to_owned(),
        stdin: None,
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
