//! What a container is to see of the server's files, by what it is. Where that is, the executor knows.

use std::path::PathBuf;

use crate::executor::installed::PROGRAMS;

/// The directory below `SANDBOX_ROOT` of what is in the making or going away, which no program sees by name.
pub const PRIVATE: &str = ".tmp";
/// The folders below `SANDBOX_ROOT` of downloads that are kept: the first is closed to every other user of the host.
pub const DOWNLOADS: [&str; 2] = [".packages", "cache"];

/// A file or a directory of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A conversation's directory, by the conversation's key.
    Workspace(String),
    /// A directory that waits to become a conversation's, by its name.
    Slot(String),
    /// A directory for work that serves no conversation, by its name.
    Scratch(String),
    /// The socket of a hatch, by its name.
    Hatch(String),
    /// Certificates that programs trust, as a file of one server, by its name.
    Certificates(String),
    /// Downloads of packages that are kept for other installs.
    Downloads,
    /// sandbox-init.
    Init,
    /// What the server's operator provides.
    Operator(Provided),
}

/// What an operator provides on the host of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provided {
    /// A directory of packages (`PACKAGE_WHEELHOUSE`).
    Wheelhouse,
    /// Certificates that package clients trust (`PACKAGE_CA_BUNDLE`).
    CaBundle,
}

/// A file or directory that a container sees and cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyMount {
    /// What it is.
    pub place: Place,
    /// Its path in the container, which must not be below `/data`.
    pub target: &'static str,
}

impl Place {
    /// Its path below `SANDBOX_ROOT`; `None` for what depends on more than its name.
    pub fn below_root(&self) -> Option<PathBuf> {
        match self {
            Self::Workspace(key) => Some(PathBuf::from(key)),
            Self::Slot(name) | Self::Scratch(name) | Self::Hatch(name) => {
                Some(PathBuf::from(PRIVATE).join(name))
            }
            Self::Certificates(name) => Some(PathBuf::from(PROGRAMS).join(name)),
            Self::Downloads => Some(DOWNLOADS.iter().collect()),
            Self::Init | Self::Operator(_) => None,
        }
    }
}
