//! Files that say who may do what, such as `ACCESS_FILE`: who may write one decides, and who may read one learns.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Opens a regular file: a pipe would be waited for.
///
/// # Errors
/// It cannot be opened, or is something else.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok((file, facts))
}

/// The permissions of a file that gives others than its owner a right to it. One of another owner, as a Secret of
/// Kubernetes is, can only be read by a group, and its group may.
pub fn mode_open_to_others(facts: &Metadata) -> Option<u32> {
    let mode = facts.permissions().mode() & 0o777;
    let is_own = facts.uid() == geteuid().as_raw();
    let others = if is_own { 0o077 } else { 0o037 };
    (mode & others != 0).then_some(mode)
}
