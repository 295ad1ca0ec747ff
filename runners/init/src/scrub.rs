//! Makes the sandbox as good as new between two runs of the same conversation.
//!
//! A program can leave behind processes, files on the writable mounts, System V objects, and connections that linger
//! on the loopback. The first three are removed; the last cannot be undone, and is reported. Its streams were its own
//! and ended with it, and a filter keeps it from changing the processes that stay.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, StatVfsMountFlags, chmod, fchmod, fstat,
    fstatvfs, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::processes;
use crate::sys::{self, Ipc};

/// How long a scrub may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Where programs can write, besides `/data`.
const SCRATCH: [&str; 3] = ["/tmp", "/dev/shm", "/dev/mqueue"];

const SYSTEM_V: [(&str, Ipc); 3] = [
    ("/proc/sysvipc/shm", Ipc::Memory),
    ("/proc/sysvipc/msg", Ipc::Queue),
    ("/proc/sysvipc/sem", Ipc::Semaphores),
];

/// What the sandbox was like before the first program.
#[derive(Debug)]
pub(crate) struct Scrubber {
    scratch: Vec<(OwnedFd, Mode)>,
}

impl Scrubber {
    pub(crate) fn new() -> Self {
        Self {
            scratch: SCRATCH.iter().filter_map(|path| writable(path)).collect(),
        }
    }

    /// Scrubs, or returns what could not be scrubbed. The processes in `spared` stay.
    pub(crate) fn scrub(&self, spared: &[Pid]) -> Result<(), String> {
        let until = Instant::now() + LIMIT;
        processes::kill_until_alone(spared, until)?;
        for (directory, mode) in &self.scratch {
            // Only the owner is allowed to, and nobody else can have changed it.
            let _ = fchmod(directory, *mode);
            empty(directory, until).map_err(|error| format!("files are left: {error}"))?;
        }
        for (list, kind) in SYSTEM_V {
            remove_objects(list, kind)?;
        }
        if lingering(&processes::read("/proc/net/sockstat").unwrap_or_default()) {
            return Err("connections linger".to_owned());
        }
        Ok(())
    }
}

/// Opens a directory that programs may write to.
fn writable(path: &str) -> Option<(OwnedFd, Mode)> {
    let directory = openat(CWD, path, directory_flags(), Mode::empty()).ok()?;
    let read_only = fstatvfs(&directory)
        .ok()?
        .f_flag
        .contains(StatVfsMountFlags::RDONLY);
    let mode = Mode::from_raw_mode(fstat(&directory).ok()?.st_mode);
    (!read_only).then_some((directory, mode))
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Empties a directory. Takes two descriptors and no stack, however deep the tree in it is: what is in a directory
/// below is either removed or moved up here.
fn empty(top: &OwnedFd, until: Instant) -> Result<(), Errno> {
    let mut moved = 0_u64;
    loop {
        let mut found = false;
        for entry in Dir::read_from(top)? {
            let entry = entry?;
            if is_dots(entry.file_name()) {
                continue;
            }
            found = true;
            if Instant::now() > until {
                return Err(Errno::TIMEDOUT);
            }
            if !removed_file(top, entry.file_name())? {
                flatten(top, entry.file_name(), &mut moved)?;
            }
        }
        if !found {
            return Ok(());
        }
    }
}

/// Removes the directory `name` of `top`, after moving the directories in it to `top`.
fn flatten(top: &OwnedFd, name: &CStr, moved: &mut u64) -> Result<(), Errno> {
    let directory = open_for_removal(top, name)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        if is_dots(entry.file_name()) || removed_file(&directory, entry.file_name())? {
            continue;
        }
        // A directory that changes its parent must be writable itself.
        drop(open_for_removal(&directory, entry.file_name())?);
        loop {
            *moved += 1;
            let target = format!(".scrub-{moved}");
            match renameat_with(
                &directory,
                entry.file_name(),
                top,
                target,
                RenameFlags::NOREPLACE,
            ) {
                Err(Errno::EXIST) => {}
                other => break other?,
            }
        }
    }
    match unlinkat(top, name, AtFlags::REMOVEDIR) {
        // The listing missed something: the next one shows it.
        Err(Errno::NOTEMPTY) => Ok(()),
        other => other,
    }
}

/// Removes what is not a directory; false if it is one.
fn removed_file(directory: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a directory and makes it readable and writable first, whatever its mode says.
fn open_for_removal(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let directory = match openat(parent, name, directory_flags(), Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let handle = openat(parent, name, flags, Mode::empty())?;
            let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
            chmod(path, Mode::RWXU)?;
            openat(parent, name, directory_flags(), Mode::empty())?
        }
        other => other?,
    };
    fchmod(&directory, Mode::RWXU)?;
    Ok(directory)
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Removes the System V objects of one kind. A kernel without them has no list.
fn remove_objects(list: &str, kind: Ipc) -> Result<(), String> {
    let Ok(text) = processes::read(list) else {
        return Ok(());
    };
    for id in object_ids(&text) {
        sys::remove_ipc(kind, id).map_err(|error| format!("{kind:?} objects are left: {error}"))?;
    }
    Ok(())
}

/// The second column of a list in `/proc/sysvipc`, which begins with a line of titles.
fn object_ids(text: &str) -> impl Iterator<Item = i32> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse().ok())
}

/// Whether `/proc/net/sockstat` counts TCP connections in TIME-WAIT, which keep their port from the next program.
fn lingering(sockstat: &str) -> bool {
    let line = sockstat
        .lines()
        .find(|line| line.starts_with("TCP:"))
        .unwrap_or("");
    let mut words = line
        .split_ascii_whitespace()
        .skip_while(|&word| word != "tw");
    words.nth(1).is_some_and(|count| count != "0")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn emptied(path: &Path) -> Result<(), Errno> {
        let (directory, _) = writable(path.to_str().unwrap()).unwrap();
        empty(&directory, Instant::now() + LIMIT)
    }

    #[test]
    fn what_links_point_to_is_spared() {
        let root = tempfile::tempdir().unwrap();
        let (kept, scratch) = (root.path().join("kept"), root.path().join("scratch"));
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::create_dir_all(scratch.join("a/b/.scrub-1/c")).unwrap();
        fs::create_dir_all(scratch.join(".scrub-1")).unwrap();
        fs::write(scratch.join(".scrub-2"), "x").unwrap();
        symlink(&kept, scratch.join("link")).unwrap();
        symlink(&kept, scratch.join("a/b/link")).unwrap();
        fs::set_permissions(scratch.join("a/b"), fs::Permissions::from_mode(0o0)).unwrap();
        let (top, _) = writable(scratch.to_str().unwrap()).unwrap();
        open_for_removal(&top, c"link").unwrap_err();
        emptied(&scratch).unwrap();
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
        assert!(kept.join("file").exists());
    }

    #[test]
    fn what_takes_too_long_is_left() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "x").unwrap();
        let (directory, _) = writable(root.path().to_str().unwrap()).unwrap();
        let until = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(empty(&directory, until), Err(Errno::TIMEDOUT));
        assert!(root.path().join("file").exists());
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let list = "       key      shmid perms\n         0          7  600\n  -5  32769 600\n";
        assert_eq!(object_ids(list).collect::<Vec<_>>(), [7, 32769]);
        assert!(!lingering(
            "sockets: used 3\nTCP: inuse 0 orphan 0 tw 0 alloc 1 mem 0\n"
        ));
        assert!(lingering(
            "sockets: used 3\nTCP: inuse 0 orphan 0 tw 2 alloc 1 mem 0\n"
        ));
        assert!(!lingering(""));
    }
}
