//! The packages of a conversation: `/data/.packages/<language>`, put in place whole, and a note of what was asked for.
//!
//! The directory belongs to programs like all of `/data`, so nothing is ever read from it: what is installed is known
//! from a note of the server's own, which no program sees. It is the content of the file whose time is that of the last
//! use, and is deleted with it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::beneath::is_miss;
use super::moves::At;
use super::path::PACKAGES;
use super::scratch::Scratch;
use super::store::{Store, WORKSPACE_MODE};
use super::upload::TempFile;
use super::walk::gone_is_none;
use super::{Workspace, WorkspaceError, usage};
use crate::conversation::ConversationKey;

/// Largest note that is read.
const MAX_NOTE_BYTES: u64 = 1 << 20;
/// What a tree is called once it was taken away.
const OLD: &str = "old";
/// A program may alternately make and remove what is in the way.
const TRIES: usize = 16;

impl Workspace {
    /// The note that [`place_packages`](Self::place_packages) left; empty if there is none.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn packages_note(&self) -> Result<String, WorkspaceError> {
        let key = self.key().clone();
        self.store()
            .work(move |store| {
                let mut note = String::new();
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(store.notes(), key.as_str(), flags, Mode::empty());
                match gone_is_none(file) {
                    Ok(None) => {}
                    Ok(Some(file)) => {
                        File::from(file)
                            .take(MAX_NOTE_BYTES)
                            .read_to_string(&mut note)
                            .map_err(WorkspaceError::of("read what is installed"))?;
                    }
                    Err(error) => return Err(WorkspaceError::of("read what is installed")(error)),
                }
                Ok(note)
            })
            .await
    }

    /// Replaces the packages of a language by the directory `tree` of `scratch`, in one step if the file system can,
    /// and records `note`. What was there before is deleted with `scratch`.
    ///
    /// `is_wanted` is asked last of all; if it says no, nothing is changed and this returns false. It is dropped only
    /// when everything is done, even if nobody waits for that any more, so it can hold what keeps others away until
    /// then.
    ///
    /// # Errors
    /// It does not fit, or the operating system failed: then nothing is changed.
    pub async fn place_packages(
        &self,
        scratch: &Scratch,
        tree: &'static str,
        language: &str,
        note: String,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Result<bool, WorkspaceError> {
        let (this, from, language) = (self.clone(), scratch.handle()?, language.to_owned());
        self.store()
            .upload(self.key(), move |store| {
                let dir = this.dir();
                store.make_accessible(dir)?;
                let usage = check_room(store, this.key(), [dir, from.as_fd()], tree, &language)?;
                let mut noted = written(store, &note)?;
                if !is_wanted() {
                    return Ok(false);
                }
                let (folder, from) = (open_or_make(store, dir)?, from.as_fd());
                let (new, place) = ((from, tree), (folder.as_fd(), language.as_str()));
                let was_there = put_in_place(store, new, place)?;
                if let Err(error) = noted.move_to(store.notes(), this.key().as_str()) {
                    // Either both are in place or neither; if this fails too, the next install makes up for it.
                    let _ = if was_there {
                        store.moves.exchange(new, place)
                    } else {
                        store.moves.move_unguarded(place, new)
                    };
                    return Err(error);
                }
                store.measured(this.key(), usage);
                Ok(true)
            })
            .await
    }

    /// Takes the packages of a language away, in one step if the file system can, and records `note`. What was there is
    /// deleted with `scratch`. The rest is as for [`place_packages`](Self::place_packages), but there is always room.
    ///
    /// # Errors
    /// The operating system failed: then nothing is changed.
    pub async fn remove_packages(
        &self,
        scratch: &Scratch,
        language: &str,
        note: String,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Result<bool, WorkspaceError> {
        let (this, to, language) = (self.clone(), scratch.handle()?, language.to_owned());
        self.store()
            .upload(self.key(), move |store| {
                let dir = this.dir();
                store.make_accessible(dir)?;
                let mut noted = written(store, &note)?;
                if !is_wanted() {
                    return Ok(false);
                }
                let folder = open_or_make(store, dir)?;
                let was_there = take_away(store, folder.as_fd(), &language, to.as_fd())?;
                if let Err(error) = noted.move_to(store.notes(), this.key().as_str()) {
                    if was_there {
                        let place = (folder.as_fd(), language.as_str());
                        let _ = store.moves.move_unguarded((to.as_fd(), OLD), place);
                    }
                    return Err(error);
                }
                // It stays if it has packages of another language.
                let _ = unlinkat(dir, PACKAGES, AtFlags::REMOVEDIR);
                // If it cannot be measured now, the next run does it.
                if let Ok(usage) = usage::measure(store.opener, dir, store.limits.max_entries) {
                    store.measured(this.key(), store.with_deleted(this.key(), usage));
                }
                Ok(true)
            })
            .await
    }
}

/// Refuses what does not fit, else returns what all files will take. What is replaced counts as free.
fn check_room(
    store: &Store,
    key: &ConversationKey,
    [dir, from]: [BorrowedFd<'_>; 2],
    tree: &str,
    language: &str,
) -> Result<usage::Usage, WorkspaceError> {
    let limits = &store.limits;
    store.check_space(0)?;
    let measure = |dir: BorrowedFd<'_>| {
        usage::measure(store.opener, dir, limits.max_entries)
            .map_err(WorkspaceError::of("measure the conversation's files"))
    };
    let folder = |dir: BorrowedFd<'_>, parts: &[&str]| {
        let parts = parts.iter().map(|part| part.as_bytes());
        store.opener.folder(dir, parts)
    };
    let new = folder(from, &[tree]).map_err(WorkspaceError::of("open what was installed"))?;
    let all = store.with_deleted(key, measure(dir)?);
    let new = measure(new.as_fd())?;
    let old = match folder(dir, &[PACKAGES, language]) {
        Err(error) if is_miss(error) => usage::Usage::default(),
        folder => measure(folder.map_err(WorkspaceError::of("open a folder"))?.as_fd())?,
    };
    let entries = all.entries.saturating_sub(old.entries) + new.entries;
    if !all.complete || !new.complete || entries > limits.max_entries {
        return Err(WorkspaceError::TooManyEntries {
            limit: limits.max_entries,
        });
    }
    let used = all.bytes.saturating_sub(old.bytes) + new.bytes;
    let quota = store.quota(key);
    if used > quota {
        return Err(WorkspaceError::QuotaExceeded {
            used,
            deleted: all.deleted,
            limit: quota,
        });
    }
    Ok(usage::Usage {
        bytes: used,
        entries,
        complete: true,
        deleted: all.deleted,
    })
}

/// Opens the folder of all packages. A file or a link in its place is removed.
fn open_or_make(store: &Store, dir: BorrowedFd<'_>) -> Result<OwnedFd, WorkspaceError> {
    for _ in 0..TRIES {
        match store.opener.folder(dir, [PACKAGES.as_bytes()]) {
            Ok(folder) => {
                store.users.of(dir)?.take_over(folder.as_fd())?;
                return Ok(folder);
            }
            Err(Errno::NOENT) => {
                match mkdirat(dir, PACKAGES, Mode::from_raw_mode(WORKSPACE_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => {
                        return Err(WorkspaceError::of("make the folder of packages")(error));
                    }
                }
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                gone_is_none(unlinkat(dir, PACKAGES, AtFlags::empty()))
                    .map_err(WorkspaceError::of("make room for the folder of packages"))?;
            }
            Err(error) => return Err(WorkspaceError::of("open the folder of packages")(error)),
        }
    }
    Err(WorkspaceError::of("make the folder of packages")(
        Errno::AGAIN,
    ))
}

/// Moves a tree to its place, and returns whether something was there. Whatever that was, link or tree, is afterwards
/// where the tree was.
///
/// The place is never empty in between, if the file system can exchange names. If it cannot, a program of the
/// conversation that imports something at that very moment does not find it, and one that makes something there only
/// replaces what is its own.
fn put_in_place(store: &Store, tree: At<'_>, place: At<'_>) -> Result<bool, WorkspaceError> {
    for _ in 0..TRIES {
        let there = gone_is_none(statat(place.0, place.1, AtFlags::SYMLINK_NOFOLLOW))
            .map_err(WorkspaceError::of("examine the folder of packages"))?;
        let was_there = there.is_some();
        let moved = if was_there {
            store.moves.exchange(tree, place)
        } else {
            store.moves.move_unguarded(tree, place)
        };
        match moved {
            Ok(()) => return Ok(was_there),
            Err(Errno::NOENT | Errno::EXIST) => {}
            Err(Errno::ACCESS) => grant_access(store, place.0, place.1)?,
            Err(error) => return Err(WorkspaceError::of("put packages in place")(error)),
        }
    }
    Err(WorkspaceError::of("put packages in place")(Errno::AGAIN))
}

/// Moves the packages of a language out of their place, or returns false if there are none.
fn take_away(
    store: &Store,
    folder: BorrowedFd<'_>,
    language: &str,
    to: BorrowedFd<'_>,
) -> Result<bool, WorkspaceError> {
    for _ in 0..TRIES {
        match store.moves.move_unguarded((folder, language), (to, OLD)) {
            Ok(()) => return Ok(true),
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::ACCESS) => grant_access(store, folder, language)?,
            Err(error) => return Err(WorkspaceError::of("take packages away")(error)),
        }
    }
    Err(WorkspaceError::of("take packages away")(Errno::AGAIN))
}

/// A program may have closed the folder of a language: moving one changes its `..`, which needs write permission on it.
fn grant_access(
    store: &Store,
    folder: BorrowedFd<'_>,
    language: &str,
) -> Result<(), WorkspaceError> {
    store
        .opener
        .grant_access(folder, [language.as_bytes()])
        .map_err(WorkspaceError::of("make room for packages"))
}

/// A note that only has to be moved to its place, which takes no more room on the disk.
fn written(store: &Store, note: &str) -> Result<TempFile, WorkspaceError> {
    let mut file = TempFile::create(store.private.as_fd())?;
    file.file
        .write_all(note.as_bytes())
        .map_err(WorkspaceError::of("note what is installed"))?;
    Ok(file)
}
