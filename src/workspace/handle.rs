//! One conversation's directory, held open.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;

use super::attributes::Attributes;
use super::error::WorkspaceError;
use super::folders::{self, Entry};
use super::listing::{self, FileEntry, Listing, Survey};
use super::open::{OpenFile, open};
use super::path::RelativePath;
use super::retention::Deleted;
use super::spool::Spool;
use super::upload::{Existing, Placed};
use super::usage::{self, Usage};
use super::{Demand, Owner, Store, rename, upload};
use crate::conversation::ConversationKey;
use crate::executor::spec::Place;

/// The directory of one conversation: `/data` for its programs.
///
/// It is held open, so all operations go to the same directory, even after it was moved or deleted. Everything in it is
/// treated as hostile: links are never followed, and only regular files are opened.
#[derive(Clone)]
pub struct Workspace {
    store: Arc<Store>,
    key: ConversationKey,
    dir: Arc<OwnedFd>,
}

/// Identifies a directory, whatever its name. One that was given to another user is another: a sandbox that has it runs
/// as the former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryId {
    device: u64,
    inode: u64,
    user: u32,
}

impl DirectoryId {
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            user: stat.st_uid,
        }
    }
}

impl Workspace {
    pub(super) fn new(store: Arc<Store>, key: ConversationKey, dir: OwnedFd) -> Self {
        Self {
            store,
            key,
            dir: Arc::new(dir),
        }
    }

    /// Which directory this is, whatever its name. `None` when the operating system does not say.
    pub fn directory_id(&self) -> Option<DirectoryId> {
        let stat = rustix::fs::fstat(&self.dir).ok()?;
        Some(DirectoryId::of(&stat))
    }

    /// Which conversation it belongs to.
    pub fn key(&self) -> &ConversationKey {
        &self.key
    }

    /// What it is to a container.
    pub fn place(&self) -> Place {
        Place::Workspace(self.key.as_str().to_owned())
    }

    /// Whom it belongs to: the user that its programs run as.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn owner(&self) -> Result<Owner, WorkspaceError> {
        self.store.users.of(self.dir())
    }

    /// Bytes that it may take.
    pub fn quota(&self) -> u64 {
        self.store.quota(&self.key)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// All regular files, up to 1,000 and up to 7 folders deep.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn list(&self) -> Result<Listing, WorkspaceError> {
        self.within("list the conversation's files", |store, dir| {
            listing::list(store.opener, dir)
        })
        .await
    }

    /// The same for the operator, whose looking is no use of the conversation.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn list_for_operator(&self) -> Result<Listing, WorkspaceError> {
        self.looking("list the conversation's files", |store, dir| {
            listing::list(store.opener, dir)
        })
        .await
    }

    /// What the files are like now, to be compared by [`changes_since`](Self::changes_since), and what all of it takes.
    /// When nothing has changed since a run ended that looked at them, they are not looked at again.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn survey(&self) -> Result<Survey, WorkspaceError> {
        let this = self.clone();
        self.within("look at the conversation's files", move |store, dir| {
            let directory = this.directory_id();
            let seen = directory.and_then(|it| store.last_seen.take(&this.key, it));
            if let Some(seen) = seen {
                return Ok(this.with_deleted(store, seen));
            }
            let survey = listing::survey(store.opener, dir, store.limits.max_entries)?;
            Ok(this.measured(store, survey))
        })
        .await
    }

    /// All regular files as from [`list`](Self::list); `new` marks those that were made or changed after `before`. What
    /// is seen is kept for the next survey if what ran in between `has_ended`.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn changes_since(
        &self,
        before: &Survey,
        has_ended: bool,
    ) -> Result<Listing, WorkspaceError> {
        let (this, before) = (self.clone(), before.clone());
        self.within("look for new files", move |store, dir| {
            // Where others serve the file system, only they know what changes next.
            let may_be_kept = has_ended && store.opener.attributes == Attributes::Known;
            let alone = store.uses.book().alone(&this.key);
            let alone = alone.filter(|_| may_be_kept);
            let max_entries = alone.map_or(0, |_| store.limits.max_entries);
            let (listing, survey) =
                listing::changes_since(store.opener, dir, &before, max_entries)?;
            if let (Some(alone), Some(survey), Some(directory)) =
                (alone, survey, this.directory_id())
            {
                let survey = this.measured(store, survey);
                store.keep_seen(&this.key, alone, directory, survey);
            }
            Ok(listing)
        })
        .await
    }

    /// Records what it takes, with what has no name.
    fn measured(&self, store: &Store, survey: Survey) -> Survey {
        let survey = self.with_deleted(store, survey);
        if let Some(usage) = survey.usage {
            store.measured(&self.key, usage);
        }
        survey
    }

    fn with_deleted(&self, store: &Store, mut survey: Survey) -> Survey {
        let usage = survey.usage;
        survey.usage = usage.map(|usage| store.with_deleted(&self.key, usage));
        survey
    }

    /// How much of the disk all of it takes.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn usage(&self) -> Result<Usage, WorkspaceError> {
        self.usage_up_to(self.store.limits.max_entries).await
    }

    /// The same, but counts up to `max_entries` entries instead of the limit.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn usage_up_to(&self, max_entries: u64) -> Result<Usage, WorkspaceError> {
        let key = self.key.clone();
        self.within("measure the conversation's files", move |store, dir| {
            let usage = usage::measure(store.opener, dir, max_entries)?;
            let usage = store.with_deleted(&key, usage);
            store.measured(&key, usage);
            Ok(usage)
        })
        .await
    }

    /// Counts bytes of what was deleted and is still open in a kernel, as long as the guard lives.
    pub fn count_deleted(&self, bytes: u64) -> Deleted {
        Deleted::new(Arc::clone(&self.store), self.key.clone(), bytes)
    }

    /// Opens a regular file for reading. `None` if there is no readable one of this name.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn open_file(&self, path: &RelativePath) -> Result<Option<OpenFile>, WorkspaceError> {
        let (key, path) = (self.key.clone(), path.clone());
        self.within("open a file", move |store, dir| {
            open(store.opener, dir, &path, &key)
        })
        .await
    }

    /// What has a name, of files, folders and links. `None` if nothing has it.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn look(&self, path: &RelativePath) -> Result<Option<Entry>, WorkspaceError> {
        let path = path.clone();
        self.within("look at a file", move |store, dir| {
            folders::look(store.opener, dir, &path)
        })
        .await
    }

    /// What is in a folder, up to so many levels deep. `None` stands for the workspace itself; the answer is `None` if
    /// there is no such folder.
    ///
    /// # Errors
    /// It is no folder, there is too much in it, or the operating system failed.
    pub async fn list_folder(
        &self,
        folder: Option<&RelativePath>,
        levels: usize,
    ) -> Result<Option<Vec<Entry>>, WorkspaceError> {
        let (this, folder) = (self.clone(), folder.cloned());
        self.store
            .work(move |store| {
                store.uses.note(&this.key);
                store.make_accessible(this.dir())?;
                folders::list(store, this.dir(), folder.as_ref(), levels)
            })
            .await
    }

    /// Makes a folder and those that it is in. False if it is there already.
    ///
    /// # Errors
    /// Something else has its name, there is no room, or the operating system failed.
    pub async fn make_folder(&self, path: &RelativePath) -> Result<bool, WorkspaceError> {
        let (this, path) = (self.clone(), path.clone());
        self.store
            .work(move |store| {
                store.changing(&this.key, |store| {
                    this.put(store, |dir| {
                        upload::make_folder(store, &this.key, dir, &path)
                    })
                })
            })
            .await
    }

    /// Puts a file at `path` in one step and makes missing folders. A link that is there counts as a file.
    ///
    /// # Errors
    /// It does not fit, a folder is in the way, what is there must stay, or the operating system failed. Then nothing
    /// is changed, except that some of the folders may exist.
    pub async fn write_file(
        &self,
        path: &RelativePath,
        content: Bytes,
        existing: Existing,
    ) -> Result<FileEntry, WorkspaceError> {
        let (this, path) = (self.clone(), path.clone());
        self.store
            .upload(&self.key, move |store| {
                this.put(store, |dir| {
                    upload::write(store, &this.key, dir, &path, &content, existing)
                })
            })
            .await
    }

    /// Puts a completely received file at `path`, like [`write_file`](Self::write_file).
    ///
    /// # Errors
    /// It does not fit, a folder is in the way, what is there must stay, or the operating system failed.
    pub async fn place_file(
        &self,
        path: &RelativePath,
        spool: Spool,
        existing: Existing,
    ) -> Result<Placed, WorkspaceError> {
        let (this, path) = (self.clone(), path.clone());
        let mut received = spool.finish().await?;
        self.store
            .upload(&self.key, move |store| {
                this.put(store, |dir| {
                    upload::place(store, &this.key, dir, &path, received.temp(), existing)
                })
            })
            .await
    }

    /// Puts something into the directory, or into a new one if the conversation has been deleted.
    fn put<T>(
        &self,
        store: &Store,
        mut put: impl FnMut(BorrowedFd<'_>) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        store.uses.note(&self.key);
        store.make_accessible(self.dir())?;
        match put(self.dir()) {
            Err(error) if error.is_gone() => {}
            done => return done,
        }
        match put(store.create(&self.key)?.as_fd()) {
            Err(error) if error.is_gone() => Err(WorkspaceError::FoldersVanish),
            done => done,
        }
    }

    /// Deletes a file or a link. False if there is none, or, with a demand, no readable file.
    ///
    /// # Errors
    /// It is a folder or not as demanded, or the operating system failed.
    pub async fn remove_file(
        &self,
        path: &RelativePath,
        demand: Option<Demand>,
    ) -> Result<bool, WorkspaceError> {
        let (this, path) = (self.clone(), path.clone());
        self.store
            .work(move |store| {
                store.uses.note(&this.key);
                store.make_accessible(this.dir())?;
                if let Some(demand) = demand {
                    let there = open(store.opener, this.dir(), &path, &this.key);
                    let Some(there) = there.map_err(WorkspaceError::of("open a file"))? else {
                        return Ok(false);
                    };
                    if !demand.is_met_by(Some(&there)) {
                        return Err(WorkspaceError::Unmet);
                    }
                }
                store.changing(&this.key, |store| upload::remove(store, this.dir(), &path))
            })
            .await
    }

    /// Deletes a folder with all that is in it. False if there is none.
    ///
    /// # Errors
    /// A program refills it, or the operating system failed.
    pub async fn remove_folder(&self, path: &RelativePath) -> Result<bool, WorkspaceError> {
        let (this, path) = (self.clone(), path.clone());
        let remove = move |store: &Store| {
            store.uses.note(&this.key);
            store.make_accessible(this.dir())?;
            folders::remove(store, this.dir(), &path)
        };
        // In turn with uploads, since it may take as long.
        self.store.upload(&self.key, remove).await
    }

    /// Gives a folder another name that nothing has. False if there is no such folder.
    ///
    /// # Errors
    /// The name is taken, there is no room for new folders, or the operating system failed.
    pub async fn rename_folder(
        &self,
        from: &RelativePath,
        to: &RelativePath,
    ) -> Result<bool, WorkspaceError> {
        let (this, from, to) = (self.clone(), from.clone(), to.clone());
        self.store
            .work(move |store| {
                store.uses.note(&this.key);
                store.make_accessible(this.dir())?;
                store.changing(&this.key, |store| {
                    folders::rename(store, &this.key, this.dir(), &from, &to)
                })
            })
            .await
    }

    /// Gives a regular file another name that nothing has. `None` if there is no such file.
    ///
    /// # Errors
    /// It is a folder, the name is taken, there is no room for new folders, or the operating system failed.
    pub async fn rename_file(
        &self,
        from: &RelativePath,
        to: &RelativePath,
    ) -> Result<Option<FileEntry>, WorkspaceError> {
        let (this, from, to) = (self.clone(), from.clone(), to.clone());
        self.store
            .work(move |store| {
                store.uses.note(&this.key);
                store.make_accessible(this.dir())?;
                store.changing(&this.key, |store| {
                    rename::rename(store, &this.key, this.dir(), &from, &to)
                })
            })
            .await
    }

    /// Runs a reading operation off the async threads. It counts as a use of the conversation.
    async fn within<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Store, BorrowedFd<'_>) -> rustix::io::Result<T> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let key = self.key.clone();
        let work = move |store: &Store, dir: BorrowedFd<'_>| {
            store.uses.note(&key);
            work(store, dir)
        };
        self.looking(operation, work).await
    }

    /// The same where it does not.
    async fn looking<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Store, BorrowedFd<'_>) -> rustix::io::Result<T> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let this = self.clone();
        self.store
            .work(move |store| {
                let dir = &this.dir;
                store.make_accessible(dir.as_fd())?;
                work(store, dir.as_fd()).map_err(WorkspaceError::of(operation))
            })
            .await
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole key would give anyone access to the files.
        formatter
            .debug_tuple("Workspace")
            .field(&self.key.short())
            .finish()
    }
}
