//! A directory for work that serves no conversation yet, such as what a package client downloads.
//!
//! It is in the private directory, where no conversation's program sees it. A container may have it as `/data`, so its
//! contents are treated as hostile like any others.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::store::Store;
use super::usage::{self, Usage};
use super::{Owner, WorkspaceError, Workspaces, random_name};
use crate::executor::spec::Place;

/// A directory that belongs to no conversation. Dropping it deletes it, with everything in it, in the background.
#[derive(Debug)]
pub struct Scratch {
    store: Arc<Store>,
    name: String,
    owner: Owner,
    dir: Option<OwnedFd>,
}

impl Workspaces {
    /// Makes an empty directory that programs of this owner can write to.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn new_scratch(&self, owner: Owner) -> Result<Scratch, WorkspaceError> {
        // The guard exists before the directory, so that a caller who goes away in between leaves nothing.
        let mut scratch = Scratch {
            store: Arc::clone(&self.store),
            name: random_name(),
            owner,
            dir: None,
        };
        let make = move |store: &Store| {
            let dir = store.make_private(&scratch.name)?;
            owner.take_over(dir.as_fd())?;
            scratch.dir = Some(dir);
            Ok(scratch)
        };
        self.store.work(make).await
    }
}

impl Scratch {
    /// Its name, unique among all directories for work.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whom it belongs to.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// What it is to a container.
    pub fn place(&self) -> Place {
        Place::Scratch(self.name.clone())
    }

    /// How much of the disk it takes, counting at most `max_entries` entries.
    ///
    /// # Errors
    /// The operating system failed.
    pub async fn usage(&self, max_entries: u64) -> Result<Usage, WorkspaceError> {
        let dir = self.handle()?;
        let measure = move |store: &Store| usage::measure(store.opener, dir.as_fd(), max_entries);
        self.store
            .work(move |store| {
                measure(store).map_err(WorkspaceError::of("measure a directory for work"))
            })
            .await
    }

    /// The open directory, for work on another thread.
    pub(super) fn handle(&self) -> Result<OwnedFd, WorkspaceError> {
        let dir = self.dir.as_ref().expect("only made ones are handed out");
        let clone = |dir: BorrowedFd<'_>| dir.try_clone_to_owned();
        clone(dir.as_fd()).map_err(WorkspaceError::of("open a directory for work"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Without a runtime the process is about to end, and the next start clears what is there.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (store, name) = (Arc::clone(&self.store), std::mem::take(&mut self.name));
        let tasks = store.tasks.clone();
        tasks.spawn(async move {
            let stage = move |store: &Store| {
                store
                    .take_away(store.private.as_fd(), &name)
                    .map_err(WorkspaceError::of("take away a directory for work"))
            };
            let deleted = match store.work(stage).await {
                Ok(Some(staging)) => store.delete(staging).await,
                nothing => nothing.map(drop),
            };
            if let Err(error) = deleted {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a directory for work remains until the next start");
            }
        });
    }
}
