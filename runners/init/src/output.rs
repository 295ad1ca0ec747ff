//! The stream to the server, which nobody else in the sandbox has.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::stdio;
use sandbox_init::{PAYLOAD_MAX, Record, Stream, encode_output, encode_record};

use crate::Stop;
use crate::streams::Streams;

/// Above this, what waits is written before more is added.
const MOST: usize = PAYLOAD_MAX;

/// The container's standard output, for messages.
///
/// A pipe is opened a second time, without blocking, so that a slow server cannot hold up PID 1.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stream: OwnedFd,
    /// What the server has yet to read. Nothing is added to it while it is behind, but for the end of a run.
    pending: Vec<u8>,
    written: usize,
}

impl Output {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            stream: own()?,
            pending: Vec::new(),
            written: 0,
        })
    }

    /// Whether the server has yet to read something.
    pub(crate) fn is_behind(&self) -> bool {
        self.written < self.pending.len()
    }

    /// Adds output of a run, for the next [`push`](Self::push).
    pub(crate) fn add(&mut self, stream: Stream, bytes: &[u8]) {
        encode_output(stream, bytes, &mut self.pending);
    }

    /// Adds what is left of a run's output, when nobody writes to it any more.
    pub(crate) fn add_rest(&mut self, streams: &mut Streams) -> Result<(), Stop> {
        streams.drain(|stream, bytes| {
            self.flush_above(MOST)?;
            self.add(stream, bytes);
            Ok(())
        })
    }

    /// Adds a sentence to the standard error of the run.
    pub(crate) fn complain(&mut self, text: &str) {
        self.add(Stream::Stderr, format!("sandbox-init: {text}\n").as_bytes());
    }

    /// Writes as much as the server takes now.
    pub(crate) fn push(&mut self) -> Result<(), Stop> {
        while self.is_behind() {
            match rustix::io::write(&self.stream, &self.pending[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Stop::Gone),
            }
        }
        self.pending.clear();
        self.written = 0;
        Ok(())
    }

    /// Keeps what waits from growing.
    fn flush_above(&mut self, most: usize) -> Result<(), Stop> {
        if self.pending.len() > most {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes everything. Waits for a slow reader as long as the server is there.
    pub(crate) fn flush(&mut self) -> Result<(), Stop> {
        self.push()?;
        while self.is_behind() {
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
