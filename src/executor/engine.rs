//! What an engine is and can do, and whether that is what settings need.

use std::time::Duration;

use thiserror::Error;

use crate::config::{UidRange, cpus};

/// What an engine reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Name and version, such as `Docker 20.10.24`.
    pub name: String,
    /// Version of runc, if the engine reports it.
    pub runc: Option<String>,
    /// Whether the engine runs without root, so that ids in containers are mapped to those of its user.
    pub rootless: bool,
    /// Its processor cores, if it reports them.
    pub cores: Option<u32>,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What an engine can do. Who needs to know reads it here, and does not ask which engine it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Capabilities {
    /// Containers that it starts at a time: with more, each start only takes longer.
    pub max_starts_at_a_time: usize,
    /// How long a start may take.
    pub longest_start: Duration,
    /// Whether containers that may use a network are kept apart by a lane for each. Otherwise the engine does that.
    pub needs_lanes: bool,
    /// Whether containers without a network have none by its doing. Otherwise PID 1 or rules of the engine have to see to
    /// that, and the server asks each container before it has a program.
    pub cuts_network: bool,
    /// Whether a PID 1 can hand sockets over to the server, which is on the same host then.
    pub hands_over_sockets: bool,
    /// Which limits it reports that it sets: of `memory`, `swap`, `processes` and `processor`, and on `buffers` of
    /// connections.
    pub limits: Vec<&'static str>,
    /// Whether it refuses containers with a limit on processor time, because its kernel has none.
    pub refuses_cpu_limit: bool,
    /// Whether containers are on other machines, which have the server's files by a volume that is served to them.
    pub has_nodes: bool,
    /// Whether it mounts parts of volumes. Docker before version 26 mounts the whole volume in place of a part.
    pub mounts_parts: bool,
}

/// What settings need of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineNeeds {
    /// A limit on processor time, in billionths of a core (`RUN_CPUS`).
    pub nano_cpus: Option<i64>,
    /// Users for containers to run as (`SANDBOX_UIDS`).
    pub uids: Option<UidRange>,
    /// The volume whose parts containers see (`SANDBOX_VOLUME`).
    pub volume: Option<String>,
}

impl Engine {
    /// Whether it can do what settings need of it.
    ///
    /// # Errors
    /// The setting that would work instead.
    pub fn check(&self, needs: &EngineNeeds) -> Result<(), UnfitError> {
        match needs.uids {
            Some(uids) if self.rootless => return Err(UnfitError::NoUsers { uids }),
            _ => {}
        }
        match &needs.volume {
            Some(volume) if !self.capabilities.mounts_parts => {
                return Err(UnfitError::NoParts {
                    volume: volume.clone(),
                    engine: self.name.clone(),
                });
            }
            _ => {}
        }
        self.check_cpus(needs.nano_cpus)
    }

    /// Whether it can make containers with this limit on processor time (`RUN_CPUS`, in billionths of a core).
    ///
    /// # Errors
    /// The setting that would work instead.
    fn check_cpus(&self, nano_cpus: Option<i64>) -> Result<(), UnfitError> {
        let Some(nano_cpus) = nano_cpus else {
            return Ok(());
        };
        if self.capabilities.refuses_cpu_limit {
            return Err(UnfitError::NoCpuLimit);
        }
        match self.cores {
            Some(cores) if nano_cpus > i64::from(cores) * 1_000_000_000 => {
                Err(UnfitError::TooFewCores { nano_cpus, cores })
            }
            _ => Ok(()),
        }
    }
}

/// A setting that this engine cannot carry out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnfitError {
    /// It has fewer cores.
    #[error(
        "RUN_CPUS={} is not valid: the container engine has {cores} cores, so it must be at most {cores}",
        cpus(*nano_cpus)
    )]
    TooFewCores {
        /// What a run is to have, in billionths of a core.
        nano_cpus: i64,
        /// What there is.
        cores: u32,
    },
    /// Its kernel has no CFS quotas.
    #[error(
        "RUN_CPUS is not valid: the kernel of the container engine cannot limit processor time (it has no CFS quotas), \
         so it must be 0, which leaves the limit out"
    )]
    NoCpuLimit,
    /// It has no users but its own.
    #[error(
        "SANDBOX_UIDS={uids} is not valid: the container engine is rootless, so the users in its containers are others \
         on the host, and share no files with the server. Leave SANDBOX_UIDS out, or let DOCKER_HOST be an engine that \
         runs as root"
    )]
    NoUsers {
        /// The setting.
        uids: UidRange,
    },
    /// It mounts volumes as a whole only.
    #[error(
        "SANDBOX_VOLUME={volume} is not valid: the container engine is {engine}, and only Docker 26 and later mount parts \
         of a volume (API 1.45), Podman does not. Update the engine, or leave SANDBOX_VOLUME out and keep the files in a \
         directory of the engine's host: SANDBOX_ROOT, or SANDBOX_HOST_PATH where the engine sees it at another path"
    )]
    NoParts {
        /// The setting.
        volume: String,
        /// Its name and version.
        engine: String,
    },
    /// It does not have the volume.
    #[error(
        "SANDBOX_VOLUME={volume} is not valid: the container engine has no volume of that name, and none is made. Set it \
         to the name that `docker volume ls` shows for what is mounted at SANDBOX_ROOT; Compose puts the name of its \
         project in front, unless the file has a `name` for the volume"
    )]
    NoVolume {
        /// The setting.
        volume: String,
    },
}
