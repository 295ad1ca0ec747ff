//! Opens what programs left behind without being led astray by it.
//!
//! The kernel resolves every name below an open directory, and follows neither links nor mounts in any part of it. So
//! there is no check that a program could outrun: what was opened *is* in the workspace.
//! Nothing here, and nothing in the modules that use it, opens, makes, renames or deletes by a path of the host.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, chmodat, fstat, openat, openat2,
    statat,
};
use rustix::io::{Errno, Result};

use super::attributes::Attributes;

/// For directories on the way: no read permission is needed to open them like this.
const VIA: OFlags = HANDLE.union(OFlags::DIRECTORY);
/// For anything that is only examined from outside.
const HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// For directories to list.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// For files. Opening one waits neither for the writer of a FIFO nor for the holder of a lease.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Parts that one system call resolves: 15 × 256 bytes is just below the kernel's limit of 4,096.
const PARTS_AT_ONCE: usize = 15;

/// How things are opened and looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opener {
    resolution: Resolution,
    pub(super) attributes: Attributes,
}

/// How names are resolved.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// Many parts at once, by `openat2`.
    Whole,
    /// Part by part, for kernels before 5.6 and seccomp profiles that do not know `openat2`.
    PartByPart,
}

impl Opener {
    /// The best way that the kernel and the file system allow here.
    pub(super) fn for_root(root: BorrowedFd<'_>) -> Self {
        let resolution = match openat2(root, ".", VIA, Mode::empty(), RESOLVE) {
            // Old profiles answer EPERM to what they do not know.
            Err(Errno::NOSYS | Errno::PERM) => Resolution::PartByPart,
            _ => Resolution::Whole,
        };
        Self {
            resolution,
            attributes: Attributes::of_file_system(root),
        }
    }

    /// The same without `openat2`.
    #[cfg(test)]
    pub(super) fn part_by_part(self) -> Self {
        let resolution = Resolution::PartByPart;
        Self { resolution, ..self }
    }

    /// Opens something for reading, which may turn out not to be a regular file. The mode of a file that its owner may
    /// not read is changed first, if the file is ours.
    pub(super) fn file<'p>(
        self,
        dir: BorrowedFd<'_>,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<OwnedFd> {
        let parts: Vec<_> = parts.into_iter().collect();
        match self.open(dir, parts.iter().copied(), FILE) {
            Err(Errno::ACCESS) => {
                let handle = self.open(dir, parts.iter().copied(), HANDLE)?;
                let stat = fstat(&handle)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(Errno::ACCESS);
                }
                set_mode(&handle, Mode::from_raw_mode(stat.st_mode) | Mode::RUSR)?;
                self.open(dir, parts, FILE)
            }
            result => result,
        }
    }

    /// What something is, whether or not it may be read.
    pub(super) fn stat<'p>(
        self,
        dir: BorrowedFd<'_>,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<Stat> {
        self.attributes.of(self.open(dir, parts, HANDLE)?)
    }

    /// Opens a directory to list it and to examine what is in it. If its owner may not do that, its mode is changed
    /// first, if the directory is ours.
    pub(super) fn folder<'p>(
        self,
        dir: BorrowedFd<'_>,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<OwnedFd> {
        let parts: Vec<_> = parts.into_iter().collect();
        let opened = self.open(dir, parts.iter().copied(), FOLDER);
        match opened.and_then(searchable) {
            Err(Errno::ACCESS) => {
                self.grant_access(dir, parts.iter().copied())?;
                self.open(dir, parts, FOLDER)
            }
            result => result,
        }
    }

    /// Opens an entry of a directory to examine or change it from outside. A link is opened itself.
    pub(super) fn entry(self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        self.open(dir, [name], HANDLE.union(OFlags::NOFOLLOW))
    }

    /// Gives a directory mode 0755, without following links. Only matters for servers that are not root.
    pub(super) fn grant_access<'p>(
        self,
        dir: BorrowedFd<'_>,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<()> {
        set_mode(&self.open(dir, parts, VIA)?, Mode::from_raw_mode(0o755))
    }

    fn open<'p>(
        self,
        dir: BorrowedFd<'_>,
        parts: impl IntoIterator<Item = &'p [u8]>,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        let mut parts = parts.into_iter().peekable();
        let mut reached: Option<OwnedFd> = None;
        loop {
            let at = reached.as_ref().map_or(dir, AsFd::as_fd);
            let name = parts
                .by_ref()
                .take(self.parts_at_once())
                .collect::<Vec<_>>()
                .join(&b'/');
            if parts.peek().is_none() {
                return self.open_some(at, &name, flags);
            }
            let next = self.open_some(at, &name, VIA)?;
            reached = Some(next);
        }
    }

    const fn parts_at_once(self) -> usize {
        match self.resolution {
            Resolution::Whole => PARTS_AT_ONCE,
            Resolution::PartByPart => 1,
        }
    }

    fn open_some(self, at: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd> {
        match self.resolution {
            Resolution::Whole => openat2(at, name, flags, Mode::empty(), RESOLVE),
            Resolution::PartByPart => {
                let opened = openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
                if fstat(&opened)?.st_dev == fstat(at)?.st_dev {
                    Ok(opened)
                } else {
                    Err(Errno::XDEV)
                }
            }
        }
    }
}

/// Changes what was opened without permission to read.
fn set_mode(handle: &OwnedFd, mode: Mode) -> Result<()> {
    // `fchmod` refuses such handles; this link leads to exactly what the handle holds.
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    chmodat(CWD, link, mode, AtFlags::empty())
}

/// The directory, if what is in it can be looked at: one with mode 0644 only gives names.
fn searchable(dir: OwnedFd) -> Result<OwnedFd> {
    statat(&dir, c".", AtFlags::empty())?;
    Ok(dir)
}

/// Whether an error means that there is no such thing, or none that we open, rather than that we failed.
pub(super) fn is_miss(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::ACCESS
            | Errno::PERM
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::ILSEQ
            // Sockets, and devices without a driver.
            | Errno::NXIO
            | Errno::NODEV
            // Another machine deleted it.
            | Errno::STALE
            // A program holds a lease on the file.
            | Errno::AGAIN
    )
}
