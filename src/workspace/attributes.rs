//! What files are, as of now. A file system that other machines change too answers from what it was told a while ago,
//! unless it is made to ask.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FsWord, Stat, StatxFlags, fstat, fstatfs, statat, statx};
use rustix::io::Result;

/// File systems that others serve, by the numbers of `statfs(2)`: 9p, Ceph, FUSE with all that is made by it, NFS,
/// Lustre, and SMB under both its numbers.
const SERVED: [FsWord; 7] = [
    0x0102_1997,
    0x00c3_6400,
    0x6573_5546,
    0x0000_6969,
    0x0bd0_0bd0,
    0xfe53_4d42,
    0xff53_4d42,
];

/// How attributes are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attributes {
    /// The kernel knows them.
    Known,
    /// Whoever serves the file system has to be asked. With NFS the kernel would otherwise answer for up to a minute
    /// from what it was told (`acregmax` in nfs(5)), so that what a program changed meanwhile would not be seen.
    Asked,
}

impl Attributes {
    /// As the file system of a directory needs.
    pub(super) fn of_file_system(dir: BorrowedFd<'_>) -> Self {
        match fstatfs(dir) {
            Ok(system) if SERVED.contains(&system.f_type) => Self::Asked,
            _ => Self::Known,
        }
    }

    /// Of what is open.
    pub(super) fn of(self, file: impl AsFd) -> Result<Stat> {
        self.ask(file.as_fd(), c"", AtFlags::EMPTY_PATH)?;
        fstat(file)
    }

    /// Of what has a name in a directory, never of what a link points at.
    pub(super) fn named(self, dir: BorrowedFd<'_>, name: &CStr) -> Result<Stat> {
        self.ask(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Makes the kernel ask, if that is needed. It answers from that afterwards.
    fn ask(self, dir: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<()> {
        if self == Self::Asked {
            let flags = flags | AtFlags::STATX_FORCE_SYNC;
            statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
        }
        Ok(())
    }
}
