//! Downloads that are kept for other conversations: `SANDBOX_ROOT/.packages/cache/<sha256>/<file name>`.
//!
//! Only the server writes there, and only after computing the hash itself: what is there under a name *is* what the
//! name says. Containers see it read-only, and only those that run a package client.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, utimensat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::entries::names;
use super::scratch::Scratch;
use super::store::Store;
use super::uses::NOW;
use super::walk::gone_is_none;
use super::{WorkspaceError, Workspaces, listing, random_name};
use crate::executor::spec::{DOWNLOADS, Place};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A file to keep, as the package client described it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name in the folder that it is in.
    pub name: String,
    /// Its hash in hexadecimal.
    pub sha256: String,
}

impl Workspaces {
    /// What the directory of kept downloads is to a container; there is one afterwards.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn downloads(&self) -> Result<Place, WorkspaceError> {
        self.store.work(|store| open(store).map(drop)).await?;
        Ok(Place::Downloads)
    }

    /// Keeps files of a directory for work, at most `limit` bytes of them. If all that is kept takes more than that,
    /// the least recently used files go.
    ///
    /// # Errors
    /// The disk is nearly full, or the operating system failed.
    pub async fn keep_downloads(
        &self,
        scratch: &Scratch,
        folder: &'static str,
        files: Vec<Kept>,
        limit: u64,
    ) -> Result<(), WorkspaceError> {
        let from = scratch.handle()?;
        self.store
            .work(move |store| {
                let cache = open(store)?;
                let mut room = limit;
                for file in files.iter().filter(|file| is_plain(file)) {
                    room -= keep(store, cache.as_fd(), from.as_fd(), folder, file, room)?;
                }
                make_room(store, cache.as_fd(), limit)
            })
            .await
    }
}

/// Whether the hash is nothing but a hash, and the name nothing but a file name.
fn is_plain(file: &Kept) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    file.sha256.len() == 64
        && file.sha256.bytes().all(is_hex)
        && file.name.len() <= 255
        && !file.name.starts_with('.')
        && !file.name.contains(['/', '\0'])
}

fn open(store: &Store) -> Result<OwnedFd, WorkspaceError> {
    let folder = |dir: BorrowedFd<'_>, name: &str, mode: u32| {
        match mkdirat(dir, name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => {
                return Err(WorkspaceError::of("make the directory of downloads")(error));
            }
        }
        store
            .opener
            .folder(dir, [name.as_bytes()])
            .map_err(WorkspaceError::of("open the directory of downloads"))
    };
    let [outer, inner] = DOWNLOADS;
    // A container is given what is in the outer one, and does not pass through that.
    let outer = folder(store.root(), outer, 0o700)?;
    folder(outer.as_fd(), inner, 0o755)
}

/// Keeps a file of at most `room` bytes, and returns how many it copied.
fn keep(
    store: &Store,
    cache: BorrowedFd<'_>,
    from: BorrowedFd<'_>,
    folder: &str,
    file: &Kept,
    room: u64,
) -> Result<u64, WorkspaceError> {
    let failed = "keep a download";
    let known = note_use(cache, file).map_err(WorkspaceError::of(failed))?;
    let source = store
        .opener
        .file(from, [folder.as_bytes(), file.name.as_bytes()]);
    let Some(source) = gone_is_none(source).map_err(WorkspaceError::of(failed))? else {
        // The client used it directly from the cache.
        return Ok(0);
    };
    let stat = fstat(&source).map_err(WorkspaceError::of(failed))?;
    // A hole takes no room in the source, but its full size in the copy.
    let bytes = listing::size(&stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || known && size(store, cache, file) == Some(stat.st_size)
        || bytes > room
    {
        return Ok(0);
    }
    store.check_space(bytes)?;
    // Made out of sight, and moved once it is complete.
    let name = random_name();
    let private = store.private.as_fd();
    mkdirat(private, &name, Mode::from_raw_mode(0o755)).map_err(WorkspaceError::of(failed))?;
    let made = store
        .opener
        .folder(private, [name.as_bytes()])
        .map_err(WorkspaceError::of(failed))?;
    let copied = copy(File::from(source).take(bytes), made.as_fd(), file);
    // One that is damaged, as after a power loss, is exchanged. A client that sees none meanwhile downloads the file.
    let place = || {
        let (made, place) = ((private, name.as_str()), (cache, file.sha256.as_str()));
        if known {
            store.moves.exchange(made, place)
        } else {
            renameat(made.0, made.1, place.0, place.1)
        }
    };
    let is_placed = matches!(copied, Ok(true)) && place().is_ok();
    if (known || !is_placed)
        && let Ok(Some(mut staging)) = store.take_away(private, &name)
    {
        // Whatever is left is cleared at the next start.
        let _ = staging.delete();
    }
    copied.map_err(WorkspaceError::of(failed))?;
    Ok(bytes)
}

/// Notes that a file is used that was kept earlier. False if it was not.
fn note_use(cache: BorrowedFd<'_>, file: &Kept) -> Result<bool, Errno> {
    let known = utimensat(cache, &file.sha256, &NOW, AtFlags::SYMLINK_NOFOLLOW);
    Ok(gone_is_none(known)?.is_some())
}

/// How large a file is that was kept earlier.
fn size(store: &Store, cache: BorrowedFd<'_>, file: &Kept) -> Option<i64> {
    let path = [file.sha256.as_bytes(), file.name.as_bytes()];
    let there = store.opener.file(cache, path).ok()?;
    fstat(&there).ok().map(|stat| stat.st_size)
}

/// Copies a file, and returns whether it has the expected hash.
fn copy(mut source: impl Read, to: BorrowedFd<'_>, file: &Kept) -> std::io::Result<bool> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut copy = File::from(openat(to, &file.name, flags, Mode::from_raw_mode(0o644))?);
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = source.read(&mut piece)?;
        if length == 0 {
            break;
        }
        hash.update(&piece[..length]);
        copy.write_all(&piece[..length])?;
    }
    Ok(hex::encode(hash.finalize()) == file.sha256)
}

/// Removes the oldest until all together take at most `limit`.
fn make_room(store: &Store, cache: BorrowedFd<'_>, limit: u64) -> Result<(), WorkspaceError> {
    let failed = "tidy the directory of downloads";
    let mut by_age: BTreeMap<(SystemTime, String), u64> = BTreeMap::new();
    for name in names(store.opener, cache).map_err(WorkspaceError::of(failed))? {
        let folder = store.opener.folder(cache, [name.as_bytes()]);
        let Ok(folder) = folder else { continue };
        let mut bytes = 0;
        for file in names(store.opener, folder.as_fd()).map_err(WorkspaceError::of(failed))? {
            let stat = statat(&folder, &file, AtFlags::SYMLINK_NOFOLLOW);
            bytes += stat.map_or(0, |stat| listing::size(&stat));
        }
        let stat = fstat(&folder).map_err(WorkspaceError::of(failed))?;
        let used = listing::modified(&stat).unwrap_or(SystemTime::UNIX_EPOCH);
        by_age.insert((used, name), bytes);
    }
    let mut all: u64 = by_age.values().sum();
    for ((_, name), bytes) in by_age {
        if all <= limit {
            break;
        }
        let staged = store
            .take_away(cache, &name)
            .map_err(WorkspaceError::of(failed))?;
        if let Some(mut staging) = staged {
            staging.delete().map_err(WorkspaceError::of(failed))?;
        }
        all -= bytes;
    }
    Ok(())
}
