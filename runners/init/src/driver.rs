//! The image's driver: the program that parks run processes (section 5 of the protocol).
//!
//! Of the `exec` kind it *is* the run process and is gone after the run; of the `fork` kind it stays and parks the next
//! one when told to.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, getpid};
use sandbox_init::Park;

use crate::feed::Feed;
use crate::processes::{self, Stat};
use crate::sys;

/// How long a run process may take to become a child of PID 1 after it was announced.
const ADOPTION: Duration = Duration::from_secs(1);

/// `ready <pid>\n` is shorter.
const LINE_MAX: usize = 64;

/// A running driver.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) pid: Pid,
    pub(crate) socket: OwnedFd,
    line: Vec<u8>,
    announced: Option<(Pid, Instant)>,
    /// What others could have changed about it since it was first ready.
    bearing: Option<String>,
}

impl Driver {
    pub(crate) fn start(park: &Park) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&theirs, false)?;
        let (program, arguments) = park
            .driver
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(&park.env).stdin(Stdio::null());
        let pid = sys::spawn(&mut command, Some(theirs.as_fd()))?;
        Ok(Self {
            pid,
            socket,
            line: Vec::new(),
            announced: None,
            bearing: None,
        })
    }

    /// Asks a driver that stays for the next run process.
    pub(crate) fn park_another(&self) -> Result<(), String> {
        match rustix::io::write(&self.socket, b"park\n") {
            Ok(5) => Ok(()),
            _ => Err("the driver takes no requests".to_owned()),
        }
    }

    /// Whether an announced process is not yet where it must be: time will tell, not a descriptor.
    pub(crate) fn is_adopting(&self) -> bool {
        self.announced.is_some()
    }

    /// The run process, once it is announced and a child of PID 1.
    pub(crate) fn parked(&mut self) -> Result<Option<Pid>, String> {
        if self.announced.is_none() {
            self.announced = self.announcement()?.map(|pid| (pid, Instant::now()));
        }
        let Some((pid, since)) = self.announced else {
            return Ok(None);
        };
        let own = processes::raw(getpid());
        if Stat::of(pid).is_some_and(|stat| stat.parent == own && stat.state != 'Z') {
            self.announced = None;
            self.bearing
                .get_or_insert_with(|| processes::bearing(self.pid));
            // A run process that is not dumpable yet does this by itself.
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

    /// Reads `ready <pid>\n`, as far as it has come.
    fn announcement(&mut self) -> Result<Option<Pid>, String> {
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
        let line = mem::take(&mut self.line);
        match announced(&line) {
            Some(pid) => Ok(Some(pid)),
            None => Err("the driver said something else than ready <pid>".to_owned()),
        }
    }

    /// Hands a run to the parked process.
    pub(crate) fn request(&self, request: Vec<u8>) -> io::Result<Feed> {
        Ok(Feed::new(self.socket.try_clone()?, request))
    }

    /// Whether the driver goes on. A program may have ended or stopped it.
    pub(crate) fn is_running(&self) -> Result<(), String> {
        match Stat::of(self.pid).map(|stat| stat.state) {
            None | Some('Z') => Err("the driver ended".to_owned()),
            Some('T' | 't') => Err("the driver was stopped".to_owned()),
            Some(_) => Ok(()),
        }
    }

    /// Whether the driver is as it was before the first program.
    pub(crate) fn is_unchanged(&self) -> Result<(), String> {
        match &self.bearing {
            Some(before) if *before != processes::bearing(self.pid) => {
                Err("the driver was tampered with".to_owned())
            }
            _ => self.is_running(),
        }
    }
}

/// The process in a line `ready <pid>\n`.
fn announced(line: &[u8]) -> Option<Pid> {
    let number = str::from_utf8(line)
        .ok()?
        .strip_prefix("ready ")?
        .strip_suffix('\n')?;
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
    fn an_announcement_is_strict() {
        assert_eq!(announced(b"ready 42\n"), Pid::from_raw(42));
        for bad in [
            "ready 42",
            "ready 1\n",
            "ready -1\n",
            "ready +7\n",
            "ready 99999999999\n",
            "ready \n",
            "ready 2\n3\n",
            "",
        ] {
            assert_eq!(announced(bad.as_bytes()), None, "{bad}");
        }
    }
}
