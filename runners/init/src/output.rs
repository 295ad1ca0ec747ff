//! The two streams to the server, which PID 1 shares with the programs it runs.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::stdio;
use sandbox_init::{Nonce, Record, encode_record};

use crate::Stop;

/// Standard output and error, for records.
///
/// Programs share the *file description* of both and may change its flags. A pipe is therefore opened a second time,
/// without blocking, so that neither they nor a slow server can hold up PID 1.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Output {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            stdout: own(1)?,
            stderr: own(2)?,
        })
    }

    /// Writes a record on standard output.
    pub(crate) fn answer(&self, nonce: &Nonce, record: &Record) -> Result<(), Stop> {
        write_all(&self.stdout, &encode_record(nonce, record))
    }

    /// Writes a record on both streams.
    pub(crate) fn answer_on_both(&self, nonce: &Nonce, record: &Record) -> Result<(), Stop> {
        let bytes = encode_record(nonce, record);
        write_all(&self.stderr, &bytes)?;
        write_all(&self.stdout, &bytes)
    }

    /// Says something to people, if it can be written at once.
    pub(crate) fn complain(&self, text: &str) {
        let _ = rustix::io::write(&self.stderr, format!("sandbox-init: {text}\n").as_bytes());
    }
}

/// The settings of both streams before the first program, for those that come after it.
#[derive(Debug)]
pub(crate) struct Manners([Option<Manner>; 2]);

/// The flags of a file description and, if it is a pipe, how much it holds.
#[derive(Debug)]
struct Manner {
    flags: OFlags,
    size: Option<usize>,
}

impl Manners {
    pub(crate) fn now() -> Self {
        Self([stdio::stdout(), stdio::stderr()].map(|stream| {
            let flags = fcntl_getfl(stream).ok()?;
            let size = fcntl_getpipe_size(stream).ok();
            Some(Manner { flags, size })
        }))
    }

    /// Restores them. A pipe that still holds more than it could at first stays as large as it is, which does no harm.
    pub(crate) fn restore(&self) {
        for (stream, manner) in [stdio::stdout(), stdio::stderr()].into_iter().zip(&self.0) {
            let Some(Manner { flags, size }) = manner else {
                continue;
            };
            let _ = fcntl_setfl(stream, *flags);
            if let Some(size) = size
                && fcntl_getpipe_size(stream) != Ok(*size)
            {
                let _ = fcntl_setpipe_size(stream, *size);
            }
        }
    }
}

/// A descriptor for the same stream that only PID 1 has.
fn own(number: i32) -> io::Result<OwnedFd> {
    let shared = if number == 1 {
        stdio::stdout()
    } else {
        stdio::stderr()
    };
    if FileType::from_raw_mode(fstat(shared)?.st_mode) == FileType::Fifo {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if let Ok(own) = open(format!("/proc/self/fd/{number}"), flags, Mode::empty()) {
            return Ok(own);
        }
    }
    Ok(fcntl_dupfd_cloexec(shared, 4)?)
}

/// Writes everything, in one piece if the stream is a pipe. Waits for a slow reader as long as the server is there.
fn write_all(stream: &OwnedFd, mut bytes: &[u8]) -> Result<(), Stop> {
    while !bytes.is_empty() {
        match rustix::io::write(stream, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut waiting = [
                    PollFd::new(stream, PollFlags::OUT),
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
            }
            Err(_) => return Err(Stop::Gone),
        }
    }
    Ok(())
}
