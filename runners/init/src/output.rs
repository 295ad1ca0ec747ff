//! The stream to the server, which nobody else in the sandbox has.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::stdio;
use sandbox_init::{PAYLOAD_MAX, Record, Stream, encode_output, encode_record};

use crate::Stop;
use crate::streams::Streams;

/// Above this, what waits is written before more is added.
const MOST: usize = PAYLOAD_MAX / 2;

/// How long output may wait for more of it, or for the end: whoever passes it on wakes once for all of it.
const SOON: Duration = Duration::from_millis(2);

/// The container's standard output, for messages.
///
/// A pipe is opened a second time, without blocking, so that a slow server cannot hold up PID 1.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stream: OwnedFd,
    /// What was not written yet.
    pending: Vec<u8>,
    written: usize,
    /// When to write output that waits.
    due: Option<Instant>,
    /// The server has yet to read something. Nothing is added meanwhile, but for the end of a run.
    behind: bool,
}

impl Output {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            stream: own()?,
            pending: Vec::new(),
            written: 0,
            due: None,
            behind: false,
        })
    }

    /// Whether the server has yet to read something.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    /// When to call [`push_due`](Self::push_due) again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.behind)
    }

    /// Adds output of a run, to be written soon.
    pub(crate) fn add(&mut self, stream: Stream, bytes: &[u8]) {
        encode_output(stream, bytes, &mut self.pending);
        self.due = self.due.or_else(|| Instant::now().checked_add(SOON));
    }

    /// Adds what is left of a run's output, when nobody writes to it any more.
    pub(crate) fn add_rest(&mut self, streams: &mut Streams) -> Result<(), Stop> {
        streams.drain(|stream, bytes| {
            if self.pending.len() > MOST {
                self.flush()?;
            }
            self.add(stream, bytes);
            Ok(())
        })
    }

    /// Adds a sentence to the standard error of the run.
    pub(crate) fn complain(&mut self, text: &str) {
        self.add(Stream::Stderr, format!("sandbox-init: {text}\n").as_bytes());
    }

    /// Writes what has waited long enough, or is enough, as far as the server takes it now.
    pub(crate) fn push_due(&mut self) -> Result<(), Stop> {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due || self.behind || self.pending.len() >= MOST {
            self.push()?;
        }
        Ok(())
    }

    /// Writes as much as the server takes now.
    pub(crate) fn push(&mut self) -> Result<(), Stop> {
        while self.written < self.pending.len() {
            match rustix::io::write(&self.stream, &self.pending[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.behind = true;
                    return Ok(());
                }
                Err(_) => return Err(Stop::Gone),
            }
        }
        self.pending.clear();
        (self.written, self.due, self.behind) = (0, None, false);
        Ok(())
    }

    /// Writes everything. Waits for a slow reader as long as the server is there.
    fn flush(&mut self) -> Result<(), Stop> {
        self.push()?;
        while self.behind {
            let mut waiting = [
                PollFd::new(&self.stream, PollFlags::OUT),
                PollFd::from_borrowed_fd(stdio::stdin(), PollFlags::empty()),
            ];
            // An interruption is as good as a wakeup.
            let _ = poll(&mut waiting, None);
            if waiting[1]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
            {
                return Err(Stop::Gone);
            }
            self.push()?;
        }
        Ok(())
    }

    /// Writes a record, after everything that came before.
    pub(crate) fn answer(&mut self, record: &Record) -> Result<(), Stop> {
        encode_record(record, &mut self.pending);
        self.flush()
    }
}

/// A descriptor for standard output that no child gets.
fn own() -> io::Result<OwnedFd> {
    let shared = stdio::stdout();
    if FileType::from_raw_mode(fstat(shared)?.st_mode) == FileType::Fifo {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(own) = open("/proc/self/fd/1", flags, Mode::empty()) {
            return Ok(own);
        }
    }
    Ok(fcntl_dupfd_cloexec(shared, 4)?)
}
