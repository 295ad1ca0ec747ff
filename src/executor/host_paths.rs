//! Where an engine whose containers mount what its host has finds what they are to see.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::spec::{Place, Provided};

/// Where an engine finds a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// On its host.
    Host(PathBuf),
    /// In one of its volumes.
    Volume {
        /// The volume.
        name: String,
        /// Relative to the volume's own directory.
        path: PathBuf,
    },
}

impl MountSource {
    /// What is at a path below it.
    #[must_use]
    fn join(&self, below: impl AsRef<Path>) -> Self {
        match self {
            Self::Host(path) => Self::Host(path.join(below)),
            Self::Volume { name, path } => Self::Volume {
                name: name.clone(),
                path: path.join(below),
            },
        }
    }
}

impl Default for MountSource {
    fn default() -> Self {
        Self::Host(PathBuf::new())
    }
}

/// Where an engine finds the server's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPaths {
    /// The directory of all workspaces (`SANDBOX_ROOT`).
    pub root: MountSource,
    /// sandbox-init, below that.
    pub init: PathBuf,
    /// What the operator provides as [`Provided::Wheelhouse`].
    pub wheelhouse: Option<PathBuf>,
    /// What the operator provides as [`Provided::CaBundle`].
    pub ca_bundle: Option<PathBuf>,
}

/// A container is to see what the operator does not provide.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no {0:?}")]
pub struct UnplacedError(pub Place);

impl HostPaths {
    /// Where something is.
    ///
    /// # Errors
    /// The operator does not provide it.
    pub fn find(&self, place: &Place) -> Result<MountSource, UnplacedError> {
        let provided = match place {
            Place::Init => return Ok(self.root.join(&self.init)),
            Place::Operator(Provided::Wheelhouse) => &self.wheelhouse,
            Place::Operator(Provided::CaBundle) => &self.ca_bundle,
            Place::Workspace(_)
            | Place::Slot(_)
            | Place::Scratch(_)
            | Place::Hatch(_)
            | Place::Certificates(_)
            | Place::Downloads => &None,
        };
        let below = place.below_root().map(|path| self.root.join(path));
        below
            .or_else(|| provided.clone().map(MountSource::Host))
            .ok_or_else(|| UnplacedError(place.clone()))
    }

    /// Whether containers see parts of a volume.
    pub const fn have_parts_of_volumes(&self) -> bool {
        matches!(self.root, MountSource::Volume { .. })
    }
}
