//! One run: from the frame to the end record.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use sandbox_init::{End, Excess, Held, Status};
use serde::Serialize;

use crate::cgroup::Usage;
use crate::confine::Confinement;
use crate::environment;
use crate::feed::Feed;
use crate::processes;
use crate::streams::Streams;
use crate::sys::{self, Ended, Third};
use crate::uncounted;

/// A run that is under way.
#[derive(Debug)]
pub(crate) struct Run {
    /// By which an interrupt names it.
    pub(crate) number: u64,
    pub(crate) reuse: bool,
    pub(crate) pid: Pid,
    pub(crate) streams: Streams,
    /// Whether `pid` has said that it is the program. One that a driver has not forked need not.
    pub(crate) taken: bool,
    /// The code, on its way to the run process.
    pub(crate) feed: Option<Feed>,
    pub(crate) clock: Clock,
    /// The server has asked for its end.
    pub(crate) stopped: bool,
}

/// What is measured from the start of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    before: Usage,
    /// When to kill next. `None` means never.
    pub(crate) deadline: Option<Instant>,
    pub(crate) timed_out: bool,
    /// When to look next at what no control group counts.
    pub(crate) look: Instant,
    /// Why everything was killed, if not for the time.
    pub(crate) excess: Option<Excess>,
}

impl Clock {
    pub(crate) fn start(deadline_ms: u64, before: Usage) -> Self {
        let started = Instant::now();
        Self {
            started,
            before,
            deadline: started.checked_add(Duration::from_millis(deadline_ms)),
            timed_out: false,
            look: started + uncounted::LOOK,
            excess: None,
        }
    }

    /// When there is something to do.
    pub(crate) fn timer(&self) -> Instant {
        self.deadline
            .map_or(self.look, |deadline| deadline.min(self.look))
    }

    /// Whether there is too much of what no control group counts, if it is time to look.
    pub(crate) fn is_excessive(&mut self, now: Instant) -> bool {
        now >= self.look && {
            self.look = now + uncounted::LOOK;
            self.finds_excess()
        }
    }

    /// The same, whenever it was looked for last.
    pub(crate) fn finds_excess(&mut self) -> bool {
        let found = uncounted::excess();
        self.excess = self.excess.or(found);
        found.is_some()
    }

    /// The time limit was reached, unless it is only that what was killed before is not gone yet.
    pub(crate) fn time_is_up(&mut self, was_stopped: bool) {
        self.timed_out |= !was_stopped && self.excess.is_none();
    }

    /// The content of the end record. `ended` is `None` when the run process could not be started, or lives on.
    pub(crate) fn end(&self, status: Status, ended: Option<&Ended>, after: Usage) -> End {
        let Usage {
            cpu,
            peak,
            oom_kills,
            pids_denied,
        } = self.before;
        let delta = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let used = cpu
            .zip(after.cpu)
            .map(|(before, after)| after.saturating_sub(before));
        let used = used.or(ended.map(|ended| ended.cpu)).unwrap_or_default();
        // The mark cannot be reset between runs: it describes this one only if this one moved it.
        let moved = after
            .peak
            .filter(|&after| peak.is_none_or(|before| after > before));
        End {
            status,
            timed_out: self.timed_out,
            wall_ms: millis(self.started.elapsed()),
            cpu_ms: millis(used),
            peak_bytes: moved.or(ended.map(|ended| ended.max_rss)),
            oom_kills: delta(oom_kills, after.oom_kills).unwrap_or(0),
            pids_denied: delta(pids_denied, after.pids_denied),
            excess: self.excess,
            lives: false,
            held: Held::default(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Starts the image's own command with the code on its way to its standard input, and what the program is to have there
/// as its descriptor 3.
pub(crate) fn start_plain(
    command: &[OsString],
    run: sandbox_init::Run,
    confinement: &Confinement,
) -> io::Result<(Pid, Feed, Streams)> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let mut command = environment::command(program);
    let (streams, ends) = Streams::open()?;
    command
        .args(arguments)
        .envs(&run.env)
        .stdin(Stdio::from(theirs));
    command.stdout(ends.stdout).stderr(ends.stderr);
    let input = run.stdin.as_deref().map(readable).transpose()?;
    let third = input
        .as_ref()
        .map_or(Third::Nothing, |input| Third::Input(input.as_fd()));
    let pid = sys::spawn(&mut command, third, confinement)?;
    // Fails if it has already ended, or made itself not dumpable, which is its own affair.
    let _ = processes::kill_first(pid);
    let feed = Feed::new(ours, run.code.into_bytes(), None);
    Ok((pid, feed, streams))
}

/// A file without a name that holds a text and cannot be changed. Nobody has to keep feeding whoever reads it, and it
/// is gone with the last process that has it.
fn readable(text: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"stdin", flags)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// What a driver's run process reads from its socket.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    pub(crate) code: &'a str,
    pub(crate) env: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<&'a str>,
    /// With the number of a cell, the process stays for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cell: Option<u64>,
}

impl Request<'_> {
    /// It as bytes to write, length first.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        // Text always has a JSON form, and a frame's is far shorter than what four bytes can count.
        let _ = serde_json::to_writer(&mut bytes, self);
        let length = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

impl<'a> From<&'a sandbox_init::Run> for Request<'a> {
    fn from(run: &'a sandbox_init::Run) -> Self {
        Self {
            code: &run.code,
            env: &run.env,
            stdin: run.stdin.as_deref(),
            cell: None,
        }
    }
}

impl<'a> Request<'a> {
    /// That of a cell, which has this number in its kernel.
    pub(crate) fn cell(frame: &'a sandbox_init::Cell, number: u64) -> Self {
        Self {
            code: &frame.code,
            env: &frame.env,
            stdin: frame.stdin.as_deref(),
            cell: Some(number),
        }
    }
}

/// The exit code that a shell gives for a command that could not be started.
pub(crate) fn not_started(error: &io::Error) -> Status {
    Status::Exit(if error.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu: u64, peak: u64, kills: u64) -> Usage {
        Usage {
            cpu: Some(Duration::from_millis(cpu)),
            peak: Some(peak),
            oom_kills: Some(kills),
            pids_denied: None,
        }
    }

    fn ended() -> Ended {
        Ended {
            pid: rustix::process::getpid(),
            status: Status::Exit(0),
            cpu: Duration::from_millis(3),
            max_rss: 500,
        }
    }

    #[test]
    fn the_peak_is_of_the_cgroup_only_if_this_run_moved_it() {
        let end =
            |before, after| Clock::start(1000, before).end(Status::Exit(0), Some(&ended()), after);
        assert_eq!(
            end(usage(0, 900, 0), usage(0, 1000, 0)).peak_bytes,
            Some(1000)
        );
        assert_eq!(
            end(usage(0, 900, 0), usage(0, 900, 0)).peak_bytes,
            Some(500)
        );
        assert_eq!(
            end(Usage::default(), Usage::default()).peak_bytes,
            Some(500)
        );
    }

    #[test]
    fn the_rest_is_what_has_come_since_the_start() {
        let end = Clock::start(u64::MAX, usage(10, 0, 1)).end(
            Status::Exit(0),
            Some(&ended()),
            usage(17, 0, 3),
        );
        assert_eq!((end.cpu_ms, end.oom_kills, end.pids_denied), (7, 2, None));
        let end = Clock::start(0, Usage::default()).end(
            Status::Exit(0),
            Some(&ended()),
            Usage::default(),
        );
        assert_eq!((end.cpu_ms, end.oom_kills), (3, 0));
    }

    #[test]
    fn what_takes_long_to_die_has_not_reached_its_time_limit() {
        let timed_out = |was_stopped, excess| {
            let mut clock = Clock::start(0, Usage::default());
            clock.excess = excess;
            clock.time_is_up(was_stopped);
            clock
                .end(Status::Signal(9), None, Usage::default())
                .timed_out
        };
        assert!(timed_out(false, None));
        assert!(!timed_out(true, None));
        assert!(!timed_out(false, Some(Excess::Sockets)));
    }

    #[test]
    fn a_request_has_its_length_in_front() {
        let env = BTreeMap::from([("A".to_owned(), "é".to_owned())]);
        let request = Request {
            code: "x\n",
            env: &env,
            stdin: None,
            cell: None,
        };
        let bytes = request.encode();
        assert_eq!(bytes[..4], [0, 0, 0, 31]);
        assert_eq!(&bytes[4..], r#"{"code":"x\n","env":{"A":"é"}}"#.as_bytes());
        let request = Request {
            code: "",
            env: &BTreeMap::new(),
            stdin: Some("1\n"),
            cell: Some(1),
        };
        assert_eq!(
            &request.encode()[4..],
            br#"{"code":"","env":{},"stdin":"1\n","cell":1}"#
        );
    }
}
