//! A kernel: the run process that stays, and the cells it is given one after the other (section 6 of the protocol).
//!
//! What it says about itself is a hint. It can end its own cell early by that, and nothing else.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandbox_init::Status;

use crate::driver::{Driver, TAKEN, taken};
use crate::feed::Feed;
use crate::processes;
use crate::run::{Clock, Request};
use crate::streams::Streams;

/// An answer is shorter.
const LINE_MAX: usize = 64;

/// Why a kernel ends that has closed its end of the socket, as a process does that is ending anyway.
pub(crate) const CLOSED: &str = "the kernel closed its socket";

/// A run process that is given cells.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) pid: Pid,
    pub(crate) socket: OwnedFd,
    /// They stay as long as it does: what it started in an earlier cell may still write to them.
    pub(crate) streams: Streams,
    /// A driver that stays, until it is known which process is the kernel.
    driver: Option<Driver>,
    /// Cells so far. An answer names the cell that it is for, so that a late one is not taken for the next.
    cells: u64,
    /// What has come of an answer so far.
    line: Vec<u8>,
}

/// A cell that is under way.
#[derive(Debug)]
pub(crate) struct Cell {
    /// By which an interrupt names it.
    pub(crate) number: u64,
    /// The code, on its way to the kernel.
    pub(crate) feed: Option<Feed>,
    pub(crate) clock: Clock,
    /// How long it may go on after an interrupt.
    pub(crate) grace: Duration,
    /// Whether the next alarm of the clock is the last one.
    pub(crate) interrupted: bool,
    /// Whether everything is being killed.
    pub(crate) doomed: bool,
}

impl Cell {
    /// Whether the kernel's answer matters: it has its whole code, and is not being killed.
    pub(crate) fn listens(&self) -> bool {
        self.feed.is_none() && !self.doomed
    }

    /// Whether an interrupt should still be tried. What is being killed may take a while when it has much memory, and
    /// gets no more time for that.
    pub(crate) fn may_be_interrupted(&self) -> bool {
        !self.interrupted && !self.doomed
    }

    /// Until when everything has to stand still: `usual`, or sooner after an interrupt, since the server then waits no
    /// longer than the grace for both the answer and this.
    pub(crate) fn stands_until(&self, usual: Instant) -> Instant {
        let due = self.clock.deadline.filter(|_| self.interrupted);
        due.map_or(usual, |due| due.min(usual))
    }
}

impl Kernel {
    /// Turns the parked process into a kernel, and hands it the first cell.
    pub(crate) fn start(
        pid: Pid,
        mut driver: Driver,
        frame: &sandbox_init::Cell,
    ) -> io::Result<(Self, Feed)> {
        let (feed, streams) = driver.request(pid, Request::cell(frame, 1).encode())?;
        let kernel = Self {
            pid,
            socket: driver.socket.try_clone()?,
            streams,
            driver: Some(driver).filter(|driver| driver.pid != pid),
            cells: 1,
            line: Vec::new(),
        };
        Ok((kernel, feed))
    }

    /// Hands it the next cell.
    pub(crate) fn request(&mut self, frame: &sandbox_init::Cell) -> io::Result<Feed> {
        self.cells += 1;
        let request = Request::cell(frame, self.cells).encode();
        Ok(Feed::new(self.socket.try_clone()?, request, None))
    }

    /// Whether nobody has taken the first cell.
    pub(crate) fn is_untaken(&self) -> bool {
        self.driver.is_some()
    }

    /// How the cell ended, if the kernel says that it has.
    pub(crate) fn done(&mut self) -> Result<Option<Status>, String> {
        self.hear(None)?;
        while let Some(line) = self.take_line() {
            match done(&line) {
                Some((cell, status)) if cell == self.cells && !self.is_untaken() => {
                    return Ok(Some(status));
                }
                // From a cell that has already ended.
                Some(_) => {}
                None => return Err("the kernel said something else than done".to_owned()),
            }
        }
        if self.line.len() >= LINE_MAX {
            return Err("the kernel says too much".to_owned());
        }
        Ok(None)
    }

    /// Learns which process is the kernel, which it says before it can end. `ended` was just reaped.
    pub(crate) fn follow(&mut self, ended: Pid) {
        if self.driver.is_some() {
            // What is wrong with a line is still wrong when the line is asked for next.
            let _ = self.hear(Some(ended));
        }
    }

    /// Reads what has come, and learns which process is the kernel.
    fn hear(&mut self, ended: Option<Pid>) -> Result<(), String> {
        let mut buffer = [0; LINE_MAX];
        match rustix::io::read(&self.socket, &mut buffer) {
            Ok(0) => return Err(CLOSED.to_owned()),
            Ok(length) => self.line.extend_from_slice(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(format!("the kernel's socket: {error}")),
        }
        // Only until then: afterwards it would be the program that says so.
        if self.driver.is_some()
            && self.line.starts_with(TAKEN.as_bytes())
            && let Some(end) = self.end_of_line()
        {
            let taken = taken(&self.line[..end], ended)?;
            self.line.drain(..end);
            // Before its helper: without one, the parked process would run the cell itself, and so it would run twice.
            if taken != self.pid {
                let _ = kill_process(self.pid, Signal::KILL);
            }
            self.pid = taken;
            self.release();
        }
        Ok(())
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.end_of_line()?;
        Some(self.line.drain(..end).collect())
    }

    fn end_of_line(&self) -> Option<usize> {
        Some(self.line.iter().position(|&byte| byte == b'\n')? + 1)
    }

    /// Kills a driver that stays. It is no longer needed once it is known which process is the kernel, and would
    /// compete for what comes to its own end of the socket.
    fn release(&mut self) {
        if let Some(driver) = self.driver.take() {
            for pid in driver.spared(None) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Interrupts the kernel and the children that it waits for, as Ctrl-C on a terminal would.
    pub(crate) fn interrupt(&self) {
        // It leads a session, and so a group, of its own.
        let _ = kill_process_group(self.pid, Signal::INT);
    }

    /// The most memory that it ever had, in bytes.
    pub(crate) fn peak(&self) -> Option<u64> {
        let status = processes::read(&processes::path(self.pid, "status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kibibytes << 10)
    }
}

/// When the next step is due after an interrupt.
pub(crate) fn after(grace: Duration) -> Option<Instant> {
    Instant::now().checked_add(grace)
}

/// The cell and the status in a line `done <cell> <status>\n`; the status as a shell's exit code.
fn done(line: &[u8]) -> Option<(u64, Status)> {
    let line = str::from_utf8(line).ok()?;
    let (number, status) = line
        .strip_prefix("done ")?
        .strip_suffix('\n')?
        .split_once(' ')?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let code = match status {
        "ok" => 0,
        "error" => 1,
        "interrupted" => 130,
        _ => return None,
    };
    Some((number.parse().ok()?, Status::Exit(code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_strict() {
        assert_eq!(done(b"done 1 ok\n"), Some((1, Status::Exit(0))));
        assert_eq!(done(b"done 20 error\n"), Some((20, Status::Exit(1))));
        assert_eq!(done(b"done 3 interrupted\n"), Some((3, Status::Exit(130))));
        for bad in [
            "done 1 ok",
            "done ok\n",
            "done +1 ok\n",
            "done 1 ok\ndone 1 ok\n",
            "ready 5\n",
            " done 1 ok\n",
            "done 1 0\n",
            "done 99999999999999999999 ok\n",
            "",
        ] {
            assert_eq!(done(bad.as_bytes()), None, "{bad}");
        }
    }
}
