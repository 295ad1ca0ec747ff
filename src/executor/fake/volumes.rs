//! The volumes of a fake engine, which are directories of the test's.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use super::{FakeExecutor, error};
use crate::executor::host_paths::MountSource;
use crate::executor::{ErrorKind, ExecutorError};

/// The directories of volumes, by name.
#[derive(Debug, Default)]
pub(super) struct FakeVolumes(HashMap<String, PathBuf>);

impl FakeExecutor {
    /// Adds a volume, whose content is that of a directory.
    pub fn add_volume(&self, name: &str, directory: impl Into<PathBuf>) {
        let volumes = &mut self.0.inner.lock().volumes;
        volumes.0.insert(name.to_owned(), directory.into());
    }
}

impl FakeVolumes {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Opens a directory for a container; `None` when its host does not have it. A part that a volume does not have
    /// keeps the container from starting.
    pub(super) fn open(&self, source: &MountSource) -> Result<Option<File>, ExecutorError> {
        match source {
            MountSource::Host(path) => Ok(File::open(path).ok()),
            MountSource::Volume { name, path } => {
                let root = self.0.get(name);
                let part = root.and_then(|root| File::open(root.join(path)).ok());
                let none = || error(ErrorKind::Refused, "start a container", "no such part");
                part.map(Some).ok_or_else(none)
            }
        }
    }
}
