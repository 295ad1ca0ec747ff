//! Space that no name shows: what was deleted below `/data` while a process still has it.
//!
//! The kernel frees the space of a deleted file when the last process lets go of it, so what a process holds in that
//! way counts for nothing where names are counted. What is not certain to be seen counts as unseen: the size of a file
//! that is only mapped into memory, and everything of a process that has closed itself to others.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, major, minor, open, stat, statat};
use rustix::process::{Pid, Resource, getrlimit};
use sandbox_init::Held;

use crate::processes::{self, Stat};

/// Unit of block counts, whatever the file system's own is.
const BLOCK_BYTES: u64 = 512;

/// What a process has besides descriptors and mappings. Threads can have directories of their own.
const LINKS: [&str; 3] = ["cwd", "root", "exe"];

/// Where files are that were deleted under one of the names of `/data`, as mappings show them.
const SHARED: [&str; 2] = ["/data/", "/mnt/data/"];

/// Nothing could be looked at.
const UNSEEN: Held = Held {
    bytes: 0,
    mapped_bytes: 0,
    unseen: true,
};

/// What marks a deleted file in a list of mappings.
const DELETED: &str = " (deleted)";

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At descriptors and directories: quick.
    Open,
    /// At mappings too. An interpreter has a thousand of them when it has loaded large libraries.
    Mapped,
}

/// What is held by all processes but this one and `spared`, as far as can be seen.
pub(crate) fn held_by_others(spared: &[Pid]) -> Held {
    processes::others(spared).map_or(UNSEEN, |pids| held(&pids, Look::Mapped))
}

/// What these processes hold on the file system of `/data`.
pub(crate) fn held(pids: &[Pid], look: Look) -> Held {
    // PID 1 is started there, and nothing moves it.
    let Ok(data) = stat(".") else {
        return UNSEEN;
    };
    let mut weighing = Weighing::new(data.st_dev);
    for &pid in pids {
        weighing.process(pid);
    }
    if look == Look::Mapped {
        for &pid in pids {
            weighing.mappings(pid);
        }
    }
    weighing.held
}

/// What was found so far.
struct Weighing {
    device: u64,
    /// Counts for each descriptor on its way through a socket, which could be of any file.
    largest: Option<u64>,
    /// Files and directories that are counted already, by number.
    counted: HashSet<u64>,
    sockets: HashSet<u64>,
    /// How much is mapped of each file that nothing has open.
    mapped: HashMap<u64, u64>,
    held: Held,
}

impl Weighing {
    fn new(device: u64) -> Self {
        Self {
            device,
            largest: getrlimit(Resource::Fsize).current,
            counted: HashSet::new(),
            sockets: HashSet::new(),
            mapped: HashMap::new(),
            held: Held::default(),
        }
    }

    /// Looks at every thread: threads of a process can have tables of descriptors of their own.
    fn process(&mut self, pid: Pid) {
        let Some(threads) = self.seen(fs::read_dir(processes::path(pid, "task"))) else {
            return;
        };
        for thread in threads.flatten() {
            let thread = thread.path();
            let thread = thread.to_string_lossy();
            let descriptors = self.descriptors(&thread);
            // The kernel closes the descriptors of a thread to others as soon as it exits, and then lets go of them.
            if descriptors.is_err() && is_exiting(&thread) {
                continue;
            }
            self.seen(descriptors);
            for link in LINKS {
                let there = statat(CWD, format!("{thread}/{link}"), AtFlags::empty());
                if let Some(stat) = self.seen(there.map_err(io::Error::from)) {
                    self.add(&stat);
                }
            }
        }
    }

    fn descriptors(&mut self, thread: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = Dir::new(open(format!("{thread}/fd"), flags, Mode::empty())?)?;
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes().starts_with(b".") {
                continue;
            }
            // What the link stands for, not what has its name.
            let there = statat(directory.fd()?, name, AtFlags::empty());
            let Some(stat) = self.seen(there.map_err(io::Error::from)) else {
                continue;
            };
            let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
            if is_socket && self.sockets.insert(stat.st_ino) {
                let number = name.to_string_lossy();
                let info = processes::read(&format!("{thread}/fdinfo/{number}"));
                let info = self.seen(info).unwrap_or_default();
                self.add_waiting(waiting(&info));
            } else {
                self.add(&stat);
            }
        }
        Ok(())
    }

    fn add(&mut self, stat: &rustix::fs::Stat) {
        if stat.st_nlink == 0 && stat.st_dev == self.device && self.counted.insert(stat.st_ino) {
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.held.bytes += blocks.saturating_mul(BLOCK_BYTES);
        }
    }

    /// Adds descriptors that wait in a socket. Nobody leaves them there between two cells, and what they are of cannot
    /// be seen.
    fn add_waiting(&mut self, count: u64) {
        match self.largest {
            _ if count == 0 => {}
            Some(largest) => {
                let bytes = count.saturating_mul(largest);
                self.held.bytes = self.held.bytes.saturating_add(bytes);
            }
            None => self.held.unseen = true,
        }
    }

    fn mappings(&mut self, pid: Pid) {
        // A main thread that has ended has no memory, while others go on.
        let Some(threads) = self.seen(fs::read_dir(processes::path(pid, "task"))) else {
            return;
        };
        let maps = threads
            .flatten()
            .map(|thread| processes::read(&thread.path().join("maps").to_string_lossy()))
            .find(|maps| maps.as_ref().map_or(true, |maps| !maps.is_empty()));
        let Some(maps) = maps.and_then(|maps| self.seen(maps)) else {
            return;
        };
        let device = (major(self.device), minor(self.device));
        for mapping in maps.lines().filter_map(Mapping::of_deleted) {
            let is_shared = SHARED.iter().any(|shared| mapping.path.starts_with(shared));
            if (mapping.device == device || is_shared) && !self.counted.contains(&mapping.inode) {
                let known = self.mapped.entry(mapping.inode).or_default();
                let more = mapping.end.saturating_sub(*known);
                *known += more;
                self.held.mapped_bytes = self.held.mapped_bytes.saturating_add(more);
                self.held.unseen = true;
            }
        }
    }

    /// Notes that something is closed to PID 1. What has ended in the meantime holds nothing.
    fn seen<T>(&mut self, looked: io::Result<T>) -> Option<T> {
        self.held.unseen |= matches!(&looked, Err(error) if !processes::is_gone(error));
        looked.ok()
    }
}

/// Whether a thread executes nothing any more. Once it does not, it never does again.
fn is_exiting(thread: &str) -> bool {
    Stat::read(&format!("{thread}/stat")).is_ok_and(|stat| stat.is_exiting)
}

/// How many descriptors wait in a Unix socket, from what the kernel says about it.
fn waiting(info: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("scm_fds:")?.trim().parse().ok();
    info.lines().find_map(count).unwrap_or(0)
}

/// A part of a deleted file in the memory of a process.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    /// Where in the file it ends.
    end: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// From a line of `/proc/<pid>/maps`, if its file was deleted: range, permissions, offset, device, inode, path.
    fn of_deleted(line: &'a str) -> Option<Self> {
        let line = line.strip_suffix(DELETED)?;
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        let length = hex(to)?.checked_sub(hex(from)?)?;
        let offset = hex(fields.nth(1)?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        Some(Self {
            end: offset.checked_add(length)?,
            device: (number(major)?, number(minor)?),
            inode: fields.next()?.parse().ok()?,
            path: fields.next()?.trim_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_as_the_kernel_writes_them() {
        let line = "7f00a0000000-7f00a0003000 rw-s 00002000 103:0a 77                       /data/a (b) c (deleted)";
        let mapping = Mapping {
            end: 0x5000,
            device: (0x103, 10),
            inode: 77,
            path: "/data/a (b) c",
        };
        assert_eq!(Mapping::of_deleted(line), Some(mapping));
        for other in [
            "7f00a0000000-7f00a0003000 r--p 00000000 00:1a 77 /data/there",
            "7f00a0000000-7f00a0003000 rw-p 00000000 00:00 0 ",
            "7f00a0000000-7f00a0003000 r--p 00000000 00 77 /data/x (deleted)",
            " (deleted)",
            "",
        ] {
            assert_eq!(Mapping::of_deleted(other), None, "{other}");
        }
    }

    #[test]
    fn descriptors_in_a_socket_are_read_as_the_kernel_writes_them() {
        assert_eq!(waiting("pos:\t0\nflags:\t02\nino:\t9\nscm_fds: 3\n"), 3);
        assert_eq!(waiting("pos:\t0\nflags:\t02\n"), 0);
    }
}
