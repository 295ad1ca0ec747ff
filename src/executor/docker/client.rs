//! The client of the engine that was there when it was last asked what it is.

use bollard::Docker;
use bollard::models::{SystemInfo, SystemVersion};

/// The version of the interface that has parts of volumes, with Docker 26.
const PARTS_OF_VOLUMES: (usize, usize) = (1, 45);

#[derive(Clone, Debug)]
pub(super) struct EngineClient {
    pub(super) docker: Docker,
    pub(super) is_podman: bool,
    /// Whether users of containers are mapped to others of the host.
    pub(super) maps_users: bool,
    /// Whether its kernel is not known to have no weights for disks.
    pub(super) weighs_disk: bool,
}

impl EngineClient {
    /// A client of the engine that says this about itself.
    pub(super) fn of(docker: Docker, version: &SystemVersion, info: &SystemInfo) -> Self {
        let mut components = version.components.iter().flatten();
        let mut options = info.security_options.iter().flatten();
        Self {
            docker,
            is_podman: components.any(|component| component.name.contains("Podman")),
            maps_users: options.any(|option| option.split(',').any(|word| word == "name=userns")),
            weighs_disk: true,
        }
    }

    /// Whether a container that is to see a part of a volume does: an engine that does not know of parts shows all.
    pub(super) fn mounts_parts(&self) -> bool {
        let spoken = self.docker.client_version();
        !self.is_podman && (spoken.major_version, spoken.minor_version) >= PARTS_OF_VOLUMES
    }
}
