//! The network by name: programs reach listed hosts and nothing else, from a container that has no network.
//!
//! ```text
//!  program ──▶ 127.77.0.i:port ─┐ a socket of the sandbox's own network,       ┌─▶ the host, at an address
//!          ──▶ 127.0.0.1:53    ─┤ which its PID 1 has handed over (hatch)      │   that was checked (dialer)
//!                               └────▶ proxy: accept, look for whom it is,  ──┘
//!                                      decide, resolve, dial, copy, count (traffic)
//! ```
//!
//! A program that looks a listed name up is told an address of its own loopback, and every other name is unknown to it:
//! no question leaves the machine. Where it connects to says which entry of the [list](crate::allow_list) it means, and
//! what it sends first must be for a host of that entry. Only then is the name resolved, and the address that is dialled
//! is the one that was checked.
//!
//! Nothing of this is in the container: no route, no interface, no process, no privilege. What takes connections is
//! generic over a stream, so that an engine through which no sockets can be handed over may supply it in another way.

mod address;
mod broker;
mod bucket;
mod dialer;
mod hatch;
mod hello;
mod host_access;
mod metered;
mod names;
mod proxy;
mod relay;
mod report;
mod traffic;
mod web;

pub use self::broker::{Authority, AuthorityError, Interception};
pub use self::dialer::{Dialer, TrafficLimits};
pub use self::hatch::{Hatch, HatchError, Hatches, Listeners, OpenHatch};
pub use self::host_access::HostAccess;
pub use self::proxy::Proxy;
pub(crate) use self::report::INVALID;
pub use self::report::{DeniedReason, HostTraffic, HostVerdict, NetworkReport};
pub use self::traffic::Traffic;
