//! What identifies this server process to others that use the same directory or the same engine.
//!
//! Each process holds a lock on a file of its own under `SANDBOX_ROOT`. A container whose server's lock is free belongs
//! to nobody: its server was killed. So two servers never remove each other's containers, and what a dead server left
//! behind is removed at the next check by any other.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::bail;
use rustix::fs::{CWD, FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::executor::installed::{INIT, PROGRAMS, SECCOMP};
use crate::sandbox::Identity;
use crate::workspace::Moves;

const ROOT_ID: &str = ".root-id";
const SERVERS: &str = ".servers";
/// How the names of files of certificates begin, each of one server.
const CERTIFICATES: &str = "certificates-";
/// Locked by a server that must be the only one.
const ONLY: &str = "only";

/// This process, as one of several.
#[derive(Debug)]
pub(super) struct Instance {
    /// The ids that go on labels.
    pub(super) identity: Identity,
    servers: PathBuf,
    /// Where files are that containers need.
    programs: PathBuf,
    /// Locked as long as the process lives.
    lock: File,
}

impl Instance {
    /// Registers this process, and puts what containers need where the engine can find it.
    pub(super) fn register(root: &Path) -> io::Result<Self> {
        let servers = root.join(SERVERS);
        fs::create_dir_all(&servers)?;
        fs::set_permissions(&servers, Permissions::from_mode(0o700))?;
        let server = random_id();
        let lock = lock_file(&servers, &server)?;
        let identity = Identity {
            root: root_id(root)?,
            server,
        };
        let programs = root.join(PROGRAMS);
        fs::create_dir_all(&programs)?;
        fs::set_permissions(&programs, Permissions::from_mode(0o755))?;
        for installed in [&INIT, &SECCOMP] {
            install(
                &root.join(installed.path()),
                installed.content,
                installed.mode,
            )?;
        }
        Ok(Self {
            identity,
            servers,
            programs,
            lock,
        })
    }

    /// Writes the certificates that programs of this process trust, and returns the name of the file.
    pub(super) fn install_certificates(&self, text: &str) -> io::Result<String> {
        let name = format!("{CERTIFICATES}{}", self.identity.server);
        install(&self.programs.join(&name), text.as_bytes(), 0o444)?;
        Ok(name)
    }

    /// Keeps other servers off the directory as long as the file is open. A balancer in front of two that do not know of
    /// each other would give each a part of every conversation.
    pub(super) fn alone(&self) -> anyhow::Result<File> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.servers.join(ONLY))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => bail!(
                "another server has this SANDBOX_ROOT: set LEADER_LEASE for all of them, or let there be one only, in \
                 a Deployment with `replicas: 1` and the strategy `Recreate`"
            ),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the server with that id has ended. One that was never registered here has. One whose file cannot be
    /// opened, as when too many files are open, has not: otherwise its containers would be removed.
    pub(super) fn is_dead(&self, server: &str) -> bool {
        // The id comes from a label: only one that we could have written is used as a name.
        if server.len() != 16 || !server.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        let path = self.servers.join(server);
        match File::open(&path) {
            Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Forgets servers that have ended.
    pub(super) fn forget_dead(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.servers)? {
            let name = entry?.file_name();
            if name
                .to_str()
                .is_some_and(|name| name != self.identity.server && self.is_dead(name))
            {
                fs::remove_file(self.servers.join(name))?;
            }
        }
        for entry in fs::read_dir(&self.programs)? {
            let name = entry?.file_name();
            let server = name
                .to_str()
                .and_then(|name| name.strip_prefix(CERTIFICATES));
            if server.is_some_and(|server| server != self.identity.server && self.is_dead(server)) {
                fs::remove_file(self.programs.join(name))?;
            }
        }
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Best effort: the lock goes with the process anyway.
        let server = &self.identity.server;
        let _ = fs::remove_file(self.programs.join(format!("{CERTIFICATES}{server}")));
        let _ = fs::remove_file(self.servers.join(server));
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Creates a locked file of that name. It gets the name only once it is locked, so that nobody ever sees it unlocked.
fn lock_file(servers: &Path, server: &str) -> io::Result<File> {
    let unnamed = servers.join(format!(".{server}"));
    let lock = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(&unnamed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::rename(unnamed, servers.join(server))?;
    Ok(lock)
}

/// The directory's id, created once.
fn root_id(root: &Path) -> io::Result<String> {
    let id = kept(&root.join(ROOT_ID), &random_id(), 0o644)?;
    if id.len() == 16 {
        Ok(id)
    } else {
        Err(io::Error::other(".root-id is damaged: delete it"))
    }
}

/// The content of a file, which is created with `content` unless it exists. It gets its name only when it is complete,
/// so that neither another server nor the next start ever reads a part of it.
pub(super) fn kept(path: &Path, content: &str, mode: u32) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        there => return there,
    }
    let unnamed = path.with_extension(random_id());
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(&unnamed)?;
    let written = file.write_all(content.as_bytes());
    // Synced first: a name whose content a power failure took would be found at every later start.
    let placed = written.and_then(|()| file.sync_all()).and_then(|()| {
        let moved = Moves::default().move_file((CWD, unnamed.as_path()), (CWD, path));
        Ok(moved?)
    });
    match placed {
        Ok(()) => Ok(content.to_owned()),
        Err(error) => {
            fs::remove_file(&unnamed)?;
            // Somebody else was faster.
            if error.kind() == io::ErrorKind::AlreadyExists {
                fs::read_to_string(path)
            } else {
                Err(error)
            }
        }
    }
}

/// Writes a file that containers need, unless it is there.
fn install(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    // By rename, so that no container ever sees half a file.
    let temporary = path.with_file_name(random_id());
    fs::write(&temporary, content)?;
    fs::set_permissions(&temporary, Permissions::from_mode(mode))?;
    fs::rename(&temporary, path)
}

/// Says what to do about a directory of files that cannot be used.
pub(super) fn unusable(root: &Path, error: anyhow::Error) -> anyhow::Error {
    let refused = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
    let mut what = format!("SANDBOX_ROOT={} is not usable", root.display());
    if refused && root.is_dir() {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let advice = format!(
            ". Another user made what is in it: give it to the one that the server is, by `sudo chown -R \
             --no-dereference {user}:{group} {}`",
            root.display()
        );
        what += &advice;
    }
    error.context(what)
}

fn random_id() -> String {
    hex::encode(rand::random::<[u8; 8]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_alive_as_long_as_its_process_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (
            Instance::register(root.path()).unwrap(),
            Instance::register(root.path()).unwrap(),
        );
        assert_eq!(first.identity.root, second.identity.root);
        assert!(!first.is_dead(&second.identity.server));
        let ended = second.identity.server.clone();
        drop(second);
        assert!(first.is_dead(&ended));
        assert!(!first.is_dead("../../etc/passwd"));
        first.forget_dead().unwrap();
        assert!(!first.is_dead(&first.identity.server));
    }

    #[test]
    fn certificates_stay_as_long_as_their_server() {
        let root = tempfile::tempdir().unwrap();
        let register = || Instance::register(root.path()).unwrap();
        let (first, second, third) = (register(), register(), register());
        let installed = |server: &Instance| server.install_certificates("text").unwrap();
        let paths = [&first, &second, &third].map(|it| first.programs.join(installed(it)));
        assert_eq!(fs::read_to_string(&paths[0]).unwrap(), "text");
        let mode = fs::metadata(&paths[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o444);
        let are_there = || paths.each_ref().map(|path| path.exists());
        drop(third);
        assert_eq!(are_there(), [true, true, false]);
        // As one leaves it that was killed.
        fs::remove_file(second.servers.join(&second.identity.server)).unwrap();
        first.forget_dead().unwrap();
        assert_eq!(are_there(), [true, false, false]);
        let kept = fs::read_dir(&first.programs).unwrap().count();
        assert_eq!(kept, 3);
    }

    #[test]
    fn one_server_at_a_time_is_the_only_one() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (
            Instance::register(root.path()).unwrap(),
            Instance::register(root.path()).unwrap(),
        );
        let alone = first.alone().unwrap();
        assert!(second.alone().is_err());
        second.forget_dead().unwrap();
        let refused = second.alone().unwrap_err().to_string();
        assert!(refused.contains("set LEADER_LEASE for all"), "{refused}");
        drop(alone);
        second.alone().unwrap();
    }

    #[test]
    fn all_who_ask_at_once_keep_the_same() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".kept");
        let kept = |number: usize| kept(&path, &number.to_string().repeat(1000), 0o600).unwrap();
        let all: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| scope.spawn(move || kept(number)))
                .collect();
            let texts = threads.into_iter().map(|thread| thread.join().unwrap());
            texts.collect()
        });
        assert_eq!(all[0].len(), 1000);
        assert!(all.iter().all(|text| *text == all[0]));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_directory_of_another_user_is_told_with_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        let message = |kind: io::ErrorKind, root: &Path| {
            let error = anyhow::Error::from(io::Error::from(kind));
            format!(
                "{:#}",
                unusable(root, error.context("failed to open .used"))
            )
        };
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let shown = root.path().display();
        assert_eq!(
            message(io::ErrorKind::PermissionDenied, root.path()),
            format!(
                "SANDBOX_ROOT={shown} is not usable. Another user made what is in it: give it to the one that the \
                 server is, by `sudo chown -R --no-dereference {user}:{group} {shown}`: failed to open .used: \
                 permission denied"
            )
        );
        // There is nothing whose owner could be changed.
        assert_eq!(
            message(io::ErrorKind::PermissionDenied, Path::new("/nowhere/files")),
            "SANDBOX_ROOT=/nowhere/files is not usable: failed to open .used: permission denied"
        );
        assert_eq!(
            message(io::ErrorKind::StorageFull, root.path()),
            format!("SANDBOX_ROOT={shown} is not usable: failed to open .used: no storage space")
        );
    }

    #[test]
    fn a_server_of_which_nothing_can_be_said_is_alive() {
        let root = tempfile::tempdir().unwrap();
        let first = Instance::register(root.path()).unwrap();
        let unclear = "0123456789abcdef";
        assert!(first.is_dead(unclear));
        std::os::unix::fs::symlink(unclear, root.path().join(SERVERS).join(unclear)).unwrap();
        assert!(!first.is_dead(unclear));
    }
}
