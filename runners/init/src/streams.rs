//! Standard output and error of a run: two pipes of its own, which end with it.
//!
//! A program may do what it likes to its ends: PID 1 reads at others, without blocking, and gives the next run new
//! ones. It copies instead of splicing: a program can read from its own pipe, and take back what was announced.

use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
use sandbox_init::{PAYLOAD_MAX, Stream};

/// After so many pieces from one stream alone, more of it is likely.
const STEADY: u32 = 8;

/// So many bytes are worth a read.
const ENOUGH: u64 = 8 << 10;

const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// The ends of both pipes from which PID 1 reads.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Readable when one of them is. It keeps the order in which they become so, which `poll` does not.
    pub(crate) readiness: OwnedFd,
    /// `None` once nobody can write to it any more.
    pipes: [Option<OwnedFd>; 2],
    buffer: Vec<u8>,
    /// Whether there was more than one read takes.
    more: [bool; 2],
    /// How often in succession there was something from one stream and nothing from the other.
    alone: u32,
}

/// The ends to which the run's processes write.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Streams {
    pub(crate) fn open() -> io::Result<(Self, Ends)> {
        let readiness = epoll::create(CreateFlags::CLOEXEC)?;
        let pipe = |stream: Stream| {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            let which = EventData::new_u64(stream as u64);
            // Once for each write: what stays in the list would lose its place in the order.
            let once = EventFlags::IN | EventFlags::ET;
            epoll::add(&readiness, &ours, which, once)?;
            Ok::<_, io::Error>((ours, theirs))
        };
        let ((out, stdout), (err, stderr)) = (pipe(Stream::Stdout)?, pipe(Stream::Stderr)?);
        let streams = Self {
            readiness,
            pipes: [Some(out), Some(err)],
            buffer: Vec::with_capacity(PAYLOAD_MAX),
            more: [false; 2],
            alone: 0,
        };
        Ok((streams, Ends { stdout, stderr }))
    }

    /// Whether to let more come before the next read: a program that prints line after line to one stream would
    /// otherwise wake PID 1 for each of them, at its own cost. One that fills the pipe is not kept waiting.
    pub(crate) fn is_steady(&self) -> bool {
        let unread = |pipe| ioctl_fionread(pipe).unwrap_or(0);
        self.alone >= STEADY && self.pipes.iter().flatten().map(unread).sum::<u64>() < ENOUGH
    }

    /// Whether there is something to read that `readiness` does not tell again.
    pub(crate) fn has_more(&self) -> bool {
        self.more.contains(&true)
    }

    /// Reads once from each stream that has something, in the order in which they became ready, and returns how many
    /// bytes there were.
    pub(crate) fn read(&mut self, mut to: impl FnMut(Stream, &[u8])) -> usize {
        let mut events: Vec<Event> = Vec::with_capacity(BOTH.len());
        let at_once = Timespec::default();
        // Without events when it was interrupted, and then they come next time.
        let _ = epoll::wait(&self.readiness, spare_capacity(&mut events), Some(&at_once));
        let mut order: Vec<usize> = events
            .iter()
            .map(|event| {
                let data = event.data;
                usize::from(data.u64() == Stream::Stderr as u64)
            })
            .collect();
        for index in 0..BOTH.len() {
            if self.more[index] && !order.contains(&index) {
                order.push(index);
            }
        }
        self.alone = if order.len() == 1 { self.alone + 1 } else { 0 };
        order
            .into_iter()
            .map(|index| self.read_one(index, &mut to))
            .sum()
    }

    fn read_one(&mut self, index: usize, to: &mut impl FnMut(Stream, &[u8])) -> usize {
        self.more[index] = false;
        let Some(pipe) = &self.pipes[index] else {
            return 0;
        };
        self.buffer.clear();
        match rustix::io::read(pipe, spare_capacity(&mut self.buffer)) {
            Ok(count @ 1..) => {
                self.more[index] = ioctl_fionread(pipe).is_ok_and(|left| left > 0);
                if count == self.buffer.capacity() {
                    self.more[index] = true;
                }
                to(BOTH[index], &self.buffer);
                count
            }
            Err(Errno::AGAIN) => 0,
            Err(Errno::INTR) => {
                self.more[index] = true;
                0
            }
            Ok(_) | Err(_) => {
                self.pipes[index] = None;
                0
            }
        }
    }

    /// Reads what is left when nobody writes any more. Should somebody do so all the same, this ends when as much was
    /// read as the pipes can hold.
    pub(crate) fn drain<E>(
        &mut self,
        mut to: impl FnMut(Stream, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let sizes = self.pipes.iter().flatten();
        let mut most: usize = sizes
            .map(|pipe| fcntl_getpipe_size(pipe).unwrap_or(0))
            .sum();
        loop {
            let mut passed = Ok(());
            let length = self.read(|stream, bytes| {
                if passed.is_ok() {
                    passed = to(stream, bytes);
                }
            });
            passed?;
            most = most.saturating_sub(length);
            if length == 0 || most == 0 {
                return Ok(());
            }
        }
    }

    /// Drops what is left.
    pub(crate) fn discard(&mut self) {
        let dropped: Result<(), ()> = self.drain(|_, _| Ok(()));
        // Dropping cannot fail.
        let _ = dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_read_in_the_order_in_which_they_were_written() {
        let (mut streams, ends) = Streams::open().unwrap();
        for turn in 0..100 {
            let mut order = vec![(&ends.stdout, "out"), (&ends.stderr, "err")];
            if turn % 3 == 0 {
                order.reverse();
            }
            for (end, text) in &order {
                rustix::io::write(end, text.as_bytes()).unwrap();
            }
            let mut seen = Vec::new();
            streams.read(|stream, bytes| {
                assert_eq!(&stream.as_str()[3..], String::from_utf8_lossy(bytes));
                seen.push(String::from_utf8_lossy(bytes).into_owned());
            });
            assert_eq!(seen, order.map_texts(), "turn {turn}");
            // As poll does before it sleeps.
            assert_eq!(streams.read(|_, _| {}), 0);
        }
    }

    trait Texts {
        fn map_texts(&self) -> Vec<String>;
    }

    impl Texts for Vec<(&OwnedFd, &str)> {
        fn map_texts(&self) -> Vec<String> {
            self.iter().map(|(_, text)| (*text).to_owned()).collect()
        }
    }

    #[test]
    fn what_somebody_else_has_read_is_not_waited_for() {
        let (mut streams, _ends) = Streams::open().unwrap();
        streams.more = [true; 2];
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(streams.read(|_, _| {})));
        let patience = std::time::Duration::from_secs(10);
        assert_eq!(receiver.recv_timeout(patience), Ok(0));
    }

    #[test]
    fn a_drain_ends_although_somebody_writes() {
        let (mut streams, ends) = Streams::open().unwrap();
        let mut total = 0;
        let _ = rustix::io::write(&ends.stdout, b"x");
        let drained: Result<(), ()> = streams.drain(|_, bytes| {
            total += bytes.len();
            let _ = rustix::io::write(&ends.stdout, &[b'x'; 4096]);
            Ok(())
        });
        drained.unwrap();
        assert!((100_000..300_000).contains(&total), "{total}");
    }
}
