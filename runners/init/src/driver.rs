//! The image's driver: the program that parks run processes (section 5 of the protocol).
//!
//! One of the `exec` kind *is* the run process and is gone after the run; one of the `fork` kind stays, perhaps with
//! helpers, and parks the next run process when told to.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, getpid};
use sandbox_init::Park;

use crate::confine::Confinement;
use crate::environment;
use crate::feed::Feed;
use crate::processes::{self, Stat};
use crate::streams::Streams;
use crate::sys::{self, HELPERS, Third};

/// How long a run process may take to become a child of PID 1 after it was announced.
const ADOPTION: Duration = Duration::from_secs(1);

/// `ready <pid>\n` and `taken <pid>\n` are shorter, even with a few helpers.
const LINE_MAX: usize = 64;

/// How much is kept of what a driver says on its standard output and error.
const WORDS_MAX: usize = 512;

/// Comes before the process that has taken the streams of its run, and so is the program.
pub(crate) const TAKEN: &str = "taken ";

/// A running driver.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) pid: Pid,
    pub(crate) socket: OwnedFd,
    line: Vec<u8>,
    announced: Option<(Pid, Instant)>,
    /// Its standard output and error, until it becomes the run process and they become those of the run.
    pub(crate) streams: Option<Streams>,
    /// The last of what it said on them.
    words: Vec<u8>,
    /// Once it has announced itself, with its helpers.
    helpers: Option<Vec<Pid>>,
}

/// What a driver says when a run process is parked.
#[derive(Debug, PartialEq, Eq)]
struct Announcement {
    parked: Pid,
    helpers: Vec<Pid>,
}

impl Driver {
    pub(crate) fn start(park: &Park, confinement: &Confinement) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&theirs, false)?;
        let (program, arguments) = park
            .driver
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = environment::command(program);
        let (streams, ends) = Streams::open()?;
        command.args(arguments).envs(&park.env).stdin(Stdio::null());
        command.stdout(ends.stdout).stderr(ends.stderr);
        let pid = sys::spawn(&mut command, Third::Channel(theirs.as_fd()), confinement)?;
        Ok(Self {
            pid,
            socket,
            line: Vec::new(),
            announced: None,
            streams: Some(streams),
            words: Vec::new(),
            helpers: None,
        })
    }

    /// Reads what it has said, which belongs to no run, and returns how much there was.
    pub(crate) fn listen(&mut self) -> usize {
        let Self { streams, words, .. } = self;
        let keep = |_, bytes: &[u8]| keep_last(words, bytes);
        streams.as_mut().map_or(0, |streams| streams.read(keep))
    }

    /// Why it failed, with what it said last.
    pub(crate) fn failed(&mut self, reason: &str) -> String {
        // It may still be writing; then this is enough.
        let _ = (0..64).take_while(|_| self.listen() > 0).count();
        match String::from_utf8_lossy(&self.words).trim() {
            "" => reason.to_owned(),
            words => format!("{reason}, and wrote {words:?}"),
        }
    }

    /// The processes that are spared when cleaning up after a run. There is none if the driver is the run process
    /// itself.
    pub(crate) fn spared(&self, run: Option<Pid>) -> Vec<Pid> {
        if run == Some(self.pid) {
            return Vec::new();
        }
        let mut pids = self.helpers.clone().unwrap_or_default();
        pids.push(self.pid);
        pids
    }

    /// Asks a driver that stays to park the next run process.
    pub(crate) fn park_another(&self) -> Result<(), String> {
        match rustix::io::write(&self.socket, b"park\n") {
            Ok(5) => Ok(()),
            _ => Err("the driver takes no requests".to_owned()),
        }
    }

    /// Whether an announced process is not yet where it must be: no descriptor tells, so it has to be checked
    /// repeatedly.
    pub(crate) fn is_adopting(&self) -> bool {
        self.announced.is_some()
    }

    /// The run process, once it is announced and a child of PID 1.
    pub(crate) fn parked(&mut self) -> Result<Option<Pid>, String> {
        if self.announced.is_none()
            && let Some(line) = self.line()?
        {
            let announcement = announced(&line)
                .ok_or("the driver said something else than ready <pid>".to_owned())?;
            self.announced = Some((announcement.parked, Instant::now()));
            // Only in the first one: afterwards, a program could add others.
            if self.helpers.is_none() {
                self.remember(announcement.helpers)?;
            }
        }
        let Some((pid, since)) = self.announced else {
            return Ok(None);
        };
        if child(pid).is_some_and(|stat| stat.state != 'Z') {
            self.announced = None;
            // Fails if it is not dumpable, which is a fault of the driver and harms nobody else.
            let _ = processes::kill_first(pid);
            return Ok(Some(pid));
        }
        if since.elapsed() > ADOPTION {
            return Err(format!(
                "process {} is no child of PID 1",
                processes::raw(pid)
            ));
        }
        Ok(None)
    }

    /// The system call filter, which was put on the driver when it started, has to spare its helpers too.
    fn remember(&mut self, helpers: Vec<Pid>) -> Result<(), String> {
        let own = processes::raw(self.pid);
        for &helper in &helpers {
            let distance = processes::raw(helper).checked_sub(own);
            let distance = distance.and_then(|distance| u32::try_from(distance).ok());
            if distance.is_none_or(|distance| distance > HELPERS) {
                return Err(format!(
                    "helper {} is none of the first {HELPERS} processes that the driver started",
                    processes::raw(helper)
                ));
            }
        }
        self.helpers = Some(helpers);
        Ok(())
    }

    /// What is wrong with a driver that should be silent, because it has announced its run process.
    pub(crate) fn spoke(&mut self) -> Option<String> {
        match self.line() {
            Ok(None) => None,
            Ok(Some(_)) => Some("the driver said more than ready <pid>".to_owned()),
            Err(fault) => Some(fault),
        }
    }

    /// The process that has taken the streams of the run, if one has. `ended` was just reaped.
    pub(crate) fn taken(&mut self, ended: Pid) -> Result<Option<Pid>, String> {
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        taken(&line, Some(ended)).map(Some)
    }

    /// Reads a line, once all of it has come.
    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut buffer = [0; LINE_MAX];
        match rustix::io::read(&self.socket, &mut buffer) {
            Ok(0) => return Err("the driver closed its socket".to_owned()),
            Ok(length) => self.line.extend_from_slice(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(format!("the driver's socket: {error}")),
        }
        if self.line.last() != Some(&b'\n') && self.line.len() < LINE_MAX {
            return Ok(None);
        }
        Ok(Some(mem::take(&mut self.line)))
    }

    /// Hands a request to the parked process, with streams of its own: those of the driver, if it is the driver, and
    /// otherwise new ones.
    pub(crate) fn request(&mut self, parked: Pid, request: Vec<u8>) -> io::Result<(Feed, Streams)> {
        let own = self.streams.take_if(|_| parked == self.pid);
        let (streams, ends) = match own {
            Some(mut own) => {
                // It said that before it knew its program.
                own.discard();
                (own, None)
            }
            None => Streams::open().map(|(streams, ends)| (streams, Some(ends)))?,
        };
        let feed = Feed::new(self.socket.try_clone()?, request, ends);
        Ok((feed, streams))
    }

    /// Whether the driver and its helpers are running. A program may have ended or stopped them.
    pub(crate) fn is_running(&self) -> Result<(), String> {
        for pid in self.spared(None) {
            match Stat::of(pid).map(|stat| stat.state) {
                None | Some('Z') => return Err("the driver ended".to_owned()),
                Some('T' | 't') => return Err("the driver was stopped".to_owned()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether they go on as they were before the run: what waits for them now would be the next run's.
    pub(crate) fn is_unchanged(&self) -> Result<(), String> {
        if self.spared(None).into_iter().any(processes::has_pending) {
            return Err("a signal waits for the driver".to_owned());
        }
        self.is_running()
    }
}

/// Adds to what was said, and keeps the last part of it.
fn keep_last(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(bytes);
    let excess = kept.len().saturating_sub(WORDS_MAX);
    kept.drain(..excess);
}

/// The process in the line with which one says that it has taken the streams of the run: from then on the run process.
/// It may be the one that was just reaped, `ended`.
pub(crate) fn taken(line: &[u8], ended: Option<Pid>) -> Result<Pid, String> {
    let pid = pid_after(TAKEN, line)
        .filter(|&pid| ended == Some(pid) || child(pid).is_some())
        .ok_or("the parked process said something else than taken <pid>")?;
    // Fails if it has ended, or is not dumpable.
    let _ = processes::kill_first(pid);
    Ok(pid)
}

/// A process, if it is there and a child of PID 1.
fn child(pid: Pid) -> Option<Stat> {
    let own = processes::raw(getpid());
    Stat::of(pid).filter(|stat| stat.parent == own)
}

/// The processes in a line `ready <pid>[ <pid of a helper>]…\n`.
fn announced(line: &[u8]) -> Option<Announcement> {
    let mut pids = str::from_utf8(line)
        .ok()?
        .strip_prefix("ready ")?
        .strip_suffix('\n')?
        .split(' ')
        .map(pid);
    Some(Announcement {
        parked: pids.next()??,
        helpers: pids.collect::<Option<_>>()?,
    })
}

/// The process in a line of one word and its number.
fn pid_after(word: &str, line: &[u8]) -> Option<Pid> {
    pid(str::from_utf8(line)
        .ok()?
        .strip_prefix(word)?
        .strip_suffix('\n')?)
}

fn pid(number: &str) -> Option<Pid> {
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = number.parse().ok().filter(|&number| number > 1)?;
    Pid::from_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_said_is_dropped_when_it_becomes_the_program() {
        let kind = SocketType::STREAM;
        let (socket, _theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (streams, ends) = Streams::open().unwrap();
        let mut driver = Driver {
            pid: getpid(),
            socket,
            line: Vec::new(),
            announced: None,
            streams: Some(streams),
            words: Vec::new(),
            helpers: None,
        };
        rustix::io::write(&ends.stdout, b"said").unwrap();
        rustix::io::write(&ends.stderr, b"said").unwrap();
        let (_feed, mut streams) = driver.request(getpid(), Vec::new()).unwrap();
        assert_eq!(streams.read(|_, _| {}), 0);
        assert!(driver.streams.is_none());
    }

    #[test]
    fn an_announcement_is_strict() {
        let parsed = |line: &[u8]| {
            announced(line).map(|parsed| [vec![parsed.parked], parsed.helpers].concat())
        };
        let pids = |numbers: &[i32]| numbers.iter().map(|&n| Pid::from_raw(n)).collect();
        assert_eq!(parsed(b"ready 42\n"), pids(&[42]));
        assert_eq!(parsed(b"ready 42 7 8\n"), pids(&[42, 7, 8]));
        assert_eq!(pid_after(TAKEN, b"taken 42\n"), Pid::from_raw(42));
        for bad in [
            "ready 42",
            "ready 1\n",
            "ready -1\n",
            "ready +7\n",
            "ready 99999999999\n",
            "ready \n",
            "ready 2\n3\n",
            "ready 2 \n",
            "ready 2 1\n",
            "ready  2\n",
            "taken 2\n",
            "",
        ] {
            assert_eq!(announced(bad.as_bytes()), None, "{bad}");
            let other = bad.replace("ready", "taken");
            assert_eq!(pid_after("ready ", other.as_bytes()), None, "{bad}");
        }
    }
}
