//! Who leads, as far as one server knows.

use std::net::SocketAddr;

/// A server that leads. Its name is in the store, for others and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its pod, its address, and what no other process has, with `/` between them.
    pub name: String,
    /// Where the others send what they are asked.
    pub addr: SocketAddr,
}

/// Whether a server leads, or who does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands by, and knows of no leader that is alive.
    Unknown,
    /// It stands by.
    Led(Leader),
    /// It leads.
    Leading,
}

impl Leader {
    /// One of this process.
    pub(super) fn new(pod: &str, addr: SocketAddr) -> Self {
        let random = hex::encode(rand::random::<[u8; 8]>());
        Self {
            name: format!("{pod}/{addr}/{random}"),
            addr,
        }
    }

    /// The one of that name, if it is one that we could have given.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (rest, _) = name.rsplit_once('/')?;
        let (_, addr) = rest.rsplit_once('/')?;
        Some(Self {
            name: name.to_owned(),
            addr: addr.parse().ok()?,
        })
    }
}

impl Standing {
    /// The leader, if it is another one.
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Led(leader) => Some(leader),
            Self::Unknown | Self::Leading => None,
        }
    }
}
