//! Bytes that a process takes at its own pace.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// A descriptor that does not block, and what is still to be written to it. Closes it when dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

/// How far a feed has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The reader is slow.
    Waiting,
    /// Everything is written.
    Done,
    /// The reader does not want the rest.
    Refused,
}

impl Feed {
    pub(crate) fn new(fd: OwnedFd, bytes: Vec<u8>) -> Self {
        Self {
            fd,
            bytes,
            written: 0,
        }
    }

    /// Writes as much as is possible now.
    pub(crate) fn pump(&mut self) -> Progress {
        while self.written < self.bytes.len() {
            match rustix::io::write(&self.fd, &self.bytes[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Progress::Waiting,
                Err(_) => return Progress::Refused,
            }
        }
        Progress::Done
    }
}
