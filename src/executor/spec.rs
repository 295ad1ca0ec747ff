//! What a container has to be, in our words: nothing of an engine's, and no path of a host. Executors make their
//! requests of it.

mod lane;
mod limits;
mod place;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub use self::lane::{LANE_PREFIX, LaneSpec, lane_number, lane_subnet};
pub use self::limits::ContainerLimits;
pub use self::place::{DOWNLOADS, PRIVATE, Place, Provided, ReadOnlyMount};
use super::LaneId;
use crate::egress::HostAccess;

/// Where sandbox-init is in every container.
pub const INIT_PATH: &str = "/.sandbox-init";
/// Where the workspace is in every container.
pub const DATA_PATH: &str = "/data";
/// A second path for it, for programs that were written for other servers.
pub const DATA_ALIAS: &str = "/mnt/data";

/// A container, described. sandbox-init is its PID 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Image id or name.
    pub image: String,
    /// The image's own command, handed to sandbox-init.
    pub command: Vec<String>,
    /// Environment in addition to the image's own, as `NAME=value`.
    pub env: Vec<String>,
    /// The directory that becomes `/data`.
    pub data: Place,
    /// What else can be read there. Containers that run a conversation's programs have none.
    pub read_only: Vec<ReadOnlyMount>,
    /// The user that processes run as.
    pub user: User,
    /// How much they may use.
    pub limits: ContainerLimits,
    /// What they may reach.
    pub network: NetworkAccess,
    /// Whether its PID 1 can hand sockets over.
    pub hatch: HatchSpec,
    /// The file of certificates that its programs trust, by its name; see [`crate::secrets::certificates`].
    pub certificates: Option<String>,
    /// The network that it has to itself. Without one it reaches nothing, whatever it may.
    pub lane: Option<LaneId>,
    /// What the container is for at first.
    pub priority: Priority,
    /// Nodes that it must not be on.
    pub avoided_nodes: Vec<String>,
    /// The engine's runtime; `None` means the engine's own.
    pub runtime: Option<String>,
    /// Labels by which to find the container.
    pub labels: BTreeMap<String, String>,
}

/// A numeric user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The hatch through which a PID 1 hands sockets over, so that programs reach listed hosts; see [`crate::egress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HatchSpec {
    /// There is none.
    #[default]
    None,
    /// There is to be one: it is made when the container is.
    Wanted,
    /// The one of this name.
    Made(String),
}

impl HatchSpec {
    /// The name of the one that was made.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::None | Self::Wanted => None,
            Self::Made(name) => Some(name),
        }
    }
}

/// Who goes first when more want a core than there are cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A program that somebody waits for.
    Run,
    /// An interpreter that is loaded ahead, with no program in it: a whole core if nobody else wants it.
    /// [`Executor::end_warm_up`](super::Executor::end_warm_up) comes before the first program.
    WarmUp,
    /// The same while somebody waits: with no less of the processor than a program.
    Load,
}

/// What a program may reach. Its container has a network of the engine's with [`Bridge`](Self::Bridge) only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Nothing but itself.
    None,
    /// Hosts by name, from a container without a network.
    Listed(Arc<HostAccess>),
    /// What the firewall leaves open, through a lane, with these resolvers.
    Bridge {
        /// Resolvers; empty means those the engine gives.
        dns: Vec<IpAddr>,
    },
}

impl NetworkAccess {
    /// Whether the container has a network of the engine's.
    pub fn is_of_engine(&self) -> bool {
        matches!(self, Self::Bridge { .. })
    }

    /// What the container may reach whose programs may reach this.
    #[must_use]
    pub fn of_container(self) -> Self {
        match self {
            Self::None | Self::Listed(_) => Self::None,
            bridge @ Self::Bridge { .. } => bridge,
        }
    }

    /// Whether a program with this access may use what another one with `other` has left open.
    pub fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) | (Self::Bridge { .. }, Self::Bridge { .. }) => true,
            (Self::Listed(ours), Self::Listed(theirs)) => ours == theirs,
            _ => false,
        }
    }
}
