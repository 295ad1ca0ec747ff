//! Bytes that a process takes at its own pace.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::streams::Ends;

/// With this byte a process is given the streams of its run.
const STREAMS: [u8; 1] = [0];

/// A descriptor that does not block, and what is still to be written to it. Closes it when dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
    /// Sent after the bytes, so that only who runs the program takes them.
    ends: Option<Ends>,
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
    pub(crate) fn new(fd: OwnedFd, bytes: Vec<u8>, ends: Option<Ends>) -> Self {
        Self {
            fd,
            bytes,
            written: 0,
            ends,
        }
    }

    /// Writes as much as is possible now.
    pub(crate) fn pump(&mut self) -> Progress {
        let written = self.write().and_then(|()| self.give());
        match written {
            Ok(()) => Progress::Done,
            Err(Errno::AGAIN) => Progress::Waiting,
            Err(_) => Progress::Refused,
        }
    }

    fn write(&mut self) -> Result<(), Errno> {
        while self.written < self.bytes.len() {
            match rustix::io::write(&self.fd, &self.bytes[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn give(&mut self) -> Result<(), Errno> {
        let Some(ends) = &self.ends else {
            return Ok(());
        };
        let descriptors = [ends.stdout.as_fd(), ends.stderr.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let byte = [IoSlice::new(&STREAMS)];
        sendmsg(&self.fd, &byte, &mut control, SendFlags::NOSIGNAL)?;
        self.ends = None;
        Ok(())
    }
}
