//! Files that are still being received, kept apart from all others until they are complete.
//!
//! They belong to no conversation until they are in place, and so count towards no quota. They are bounded by how many
//! there may be, how large each may be, and how much of the disk must stay free.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::OwnedSemaphorePermit;

use super::Workspaces;
use super::error::WorkspaceError;
use super::store::Store;
use super::upload::TempFile;

/// A file that is being received. Dropping it deletes what has arrived so far.
#[derive(Debug)]
pub struct Spool {
    store: Arc<Store>,
    temp: TempFile,
    file: File,
    size: u64,
    permit: OwnedSemaphorePermit,
}

/// A completely received file that waits to be moved. It counts towards no quota yet, and so keeps its place until it
/// is gone: fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Received {
    temp: TempFile,
    _permit: OwnedSemaphorePermit,
}

impl Received {
    pub(super) fn temp(&mut self) -> &mut TempFile {
        &mut self.temp
    }
}

impl Workspaces {
    /// Reserves one of the places for files that are being received.
    ///
    /// # Errors
    /// All are taken.
    pub fn reserve_upload(&self) -> Result<OwnedSemaphorePermit, WorkspaceError> {
        let permit = Arc::clone(&self.store.receiving).try_acquire_owned();
        permit.map_err(|_| WorkspaceError::TooManyUploads)
    }

    /// Begins a file that is to be received piece by piece.
    ///
    /// # Errors
    /// There are too many already, or the operating system failed.
    pub async fn spool(&self) -> Result<Spool, WorkspaceError> {
        let store = Arc::clone(&self.store);
        let permit = self.reserve_upload()?;
        let make = |store: &Store| TempFile::create(store.private.as_fd());
        let temp = store.work(make).await?;
        let file = temp
            .file
            .try_clone()
            .map_err(WorkspaceError::of("open a temporary file"))?;
        Ok(Spool {
            store,
            temp,
            file: File::from_std(file),
            size: 0,
            permit,
        })
    }
}

impl Spool {
    /// Adds a piece.
    ///
    /// # Errors
    /// The disk is nearly full, or the operating system failed.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), WorkspaceError> {
        self.store.check_space(piece.len() as u64)?;
        self.file
            .write_all(piece)
            .await
            .map_err(WorkspaceError::of("write a file"))?;
        self.size += piece.len() as u64;
        Ok(())
    }

    /// Bytes received so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The whole file.
    pub(super) async fn finish(mut self) -> Result<Received, WorkspaceError> {
        // Pieces that were handed over may still be on their way to the file.
        let flushed = self.file.flush().await;
        flushed.map_err(WorkspaceError::of("write a file"))?;
        Ok(Received {
            temp: self.temp,
            _permit: self.permit,
        })
    }
}
