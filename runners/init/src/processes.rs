//! The other processes of the sandbox, as `/proc` shows them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::sys;

/// How often to check whether killed processes are gone.
const DYING: Duration = Duration::from_micros(200);

/// How often to check whether the memory of exiting processes has been freed.
const GOING: Duration = Duration::from_millis(1);

/// `PF_EXITING` of the kernel, in the flags of a process.
const PF_EXITING: u32 = 0x4;

/// What the kernel says about a process in `/proc/<pid>/stat`.
#[derive(Debug, Clone)]
pub(crate) struct Stat {
    /// The letter of `ps`: `Z` is a zombie, `T` is stopped.
    pub(crate) state: char,
    pub(crate) parent: i32,
    /// Whether it is past its last instruction: only the kernel still works on its end. Of a process this is said of its
    /// main thread, which others may outlive.
    pub(crate) is_exiting: bool,
    /// How many threads the process has.
    threads: u32,
}

impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::read(&path(pid, "stat")).ok()
    }

    /// Of a process or of one thread. An error either [`is_gone`] or means that nothing is known about it.
    pub(crate) fn read(path: &str) -> io::Result<Self> {
        Self::parse(&read(path)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The name of the process, which it chooses, ends at the last parenthesis.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, text) = text.rsplit_once(')')?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        // The manual counts from one, and the first field here is its third.
        let field = |number: usize| fields.get(number - 3).copied();
        let flags: u32 = field(9)?.parse().ok()?;
        Some(Self {
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            is_exiting: flags & PF_EXITING != 0,
            threads: field(20)?.parse().ok()?,
        })
    }

    /// Whether no thread of the process executes anything any more.
    fn is_process_exiting(&self) -> bool {
        self.is_exiting && self.threads == 1
    }
}

/// Whether signals wait for a process that is about to go on. One that is ignored does not wait.
pub(crate) fn has_pending(pid: Pid) -> bool {
    let status = read(&path(pid, "status")).unwrap_or_default();
    let pending = |line: &str| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"))?;
        Some(mask.trim().bytes().any(|digit| digit != b'0'))
    };
    status.lines().filter_map(pending).any(|waits| waits)
}

/// Makes the memory limit kill this process before any other. Not allowed on a process that is not dumpable.
pub(crate) fn kill_first(pid: Pid) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path(pid, "oom_score_adj"))?
        .write_all(b"1000")
}

/// Kills every process except PID 1 and `spared`, and returns whether there was one.
///
/// Stopping all of them first, which happens at once, beats a program that forks faster than it can be killed. The
/// spared ones are stopped with them, and continued when the others have been killed.
pub(crate) fn kill_others(spared: &[Pid]) -> bool {
    if spared.is_empty() {
        return sys::kill_all(Signal::KILL);
    }
    sys::kill_all(Signal::STOP);
    let Ok(pids) = others(spared) else {
        return sys::kill_all(Signal::KILL);
    };
    for &pid in &pids {
        let _ = kill_process(pid, Signal::KILL);
    }
    for &pid in spared {
        let _ = kill_process(pid, Signal::CONT);
    }
    !pids.is_empty()
}

/// Kills until no process except PID 1 and `spared` is left.
pub(crate) fn kill_until_alone(spared: &[Pid], until: Instant) -> Result<(), String> {
    kill_until(Left::Nobody, spared, until)
}

/// Kills until no process except PID 1 and `spared` executes a program: those that are left are about to be gone.
pub(crate) fn kill_until_harmless(spared: &[Pid], until: Instant) -> Result<(), String> {
    kill_until(Left::Exiting, spared, until)
}

/// What is left besides PID 1 and the spared ones, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nobody,
    /// Only what the kernel is taking apart.
    Exiting,
    Somebody,
}

fn left(spared: &[Pid]) -> Left {
    let is_exiting = |pid| {
        Stat::read(&path(pid, "stat"))
            .map_or_else(|error| is_gone(&error), |stat| stat.is_process_exiting())
    };
    match others(spared) {
        Ok(pids) if pids.is_empty() => Left::Nobody,
        Ok(pids) if pids.iter().copied().all(is_exiting) => Left::Exiting,
        _ => Left::Somebody,
    }
}

fn kill_until(enough: Left, spared: &[Pid], until: Instant) -> Result<(), String> {
    let mut now = Left::Somebody;
    loop {
        // What is exiting needs no second kill, and makes no new processes.
        if now == Left::Somebody && !kill_others(spared) {
            return Ok(());
        }
        let mut reaped = false;
        while let Some(ended) = sys::reap() {
            if spared.contains(&ended.pid) {
                return Err("the driver ended".to_owned());
            }
            reaped = true;
        }
        now = left(spared);
        if now <= enough {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err("processes are left".to_owned());
        }
        if !reaped {
            thread::sleep(if now == Left::Exiting { GOING } else { DYING });
        }
    }
}

/// Every process except PID 1, `spared`, and those that the spared ones have yet to wait for.
pub(crate) fn others(spared: &[Pid]) -> io::Result<Vec<Pid>> {
    let is_awaited = |pid| {
        let parent = Stat::of(pid).filter(|stat| stat.state == 'Z');
        parent.is_some_and(|stat| spared.iter().any(|&spared| stat.parent == raw(spared)))
    };
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        let Some(pid @ 2..) = number else { continue };
        let Some(pid) = Pid::from_raw(pid) else {
            continue;
        };
        if !spared.contains(&pid) && !is_awaited(pid) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Reads a file of `/proc`, which has no size, in as few pieces as possible.
///
/// Processes choose their names, which can be any bytes, and must not become unreadable by that.
pub(crate) fn read(path: &str) -> io::Result<String> {
    let mut text = Vec::with_capacity(4096);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether a file of `/proc` could not be read because its process has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::SRCH)
    )
}

pub(crate) fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

pub(crate) fn path(pid: Pid, file: &str) -> String {
    format!("/proc/{}/{file}", raw(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_the_fields_after_it() {
        let mut fields: Vec<_> = (5..=52).map(|field| field.to_string()).collect();
        let parse = |fields: &[String]| {
            let numbers = fields.join(" ");
            Stat::parse(&format!("7 (x) Z 99 () S 42 {numbers}\n")).unwrap()
        };
        let stat = parse(&fields);
        assert_eq!((stat.state, stat.parent), ('S', 42));
        // Flags are field 9, threads field 20.
        fields[9 - 5] = "4194308".to_owned();
        assert!(parse(&fields).is_exiting);
        assert!(!parse(&fields).is_process_exiting(), "other threads live");
        fields[20 - 5] = "1".to_owned();
        assert!(parse(&fields).is_process_exiting());
        fields[9 - 5] = "4194304".to_owned();
        assert!(!parse(&fields).is_exiting);
        assert!(Stat::parse("").is_none() && Stat::parse("1 (x)").is_none());
    }

    #[test]
    fn only_who_has_ended_is_gone() {
        let error = |path: &str| read(path).unwrap_err();
        assert!(is_gone(&error("/proc/0/stat")));
        assert!(!is_gone(&error("/proc")));
        assert!(!is_gone(&Stat::read("/proc/version").unwrap_err()));
    }

    #[test]
    fn nothing_waits_for_this_process() {
        assert!(!has_pending(rustix::process::getpid()));
    }
}
