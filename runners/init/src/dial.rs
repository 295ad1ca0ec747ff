//! Whether addresses can be reached that must not be. A network that PID 1 could not leave may be closed by somebody, and
//! whether it is can only be tried.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use sandbox_init::Network;

use crate::{environment, network, sys};

/// How long an answer may take. In one network it takes less than a millisecond.
const PATIENCE: Duration = Duration::from_millis(250);

/// Connections that are being tried.
#[derive(Debug)]
pub(crate) struct Dial {
    tried: Vec<(SocketAddr, OwnedFd)>,
    reached: Vec<SocketAddr>,
    /// Whether something could not be tried, so that nothing is known of it.
    is_incomplete: bool,
    until: Instant,
}

/// What a connection that has succeeded or failed says of the way to its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Something came back from there.
    Open,
    /// Nothing did.
    Shut,
    /// It was not tried.
    Unknown,
}

impl Dial {
    /// Begins to try all of them at once, and what every container of a cluster is told of; nothing where PID 1 sees no
    /// network, or is told of no address.
    pub(crate) fn begin(addresses: &[SocketAddr]) -> Option<Self> {
        if addresses.is_empty() || network::look() == Network::None {
            return None;
        }
        let mut dial = Self {
            tried: Vec::new(),
            reached: Vec::new(),
            is_incomplete: false,
            until: Instant::now() + PATIENCE,
        };
        for address in addresses.iter().copied().chain(environment::kubernetes()) {
            match try_one(address) {
                Ok((socket, Err(Errno::INPROGRESS))) => dial.tried.push((address, socket)),
                Ok((socket, result)) => dial.note(address, way(result, &socket)),
                Err(_) => dial.is_incomplete = true,
            }
        }
        Some(dial)
    }

    /// Those that were reached by the time that all have answered or had their time, for which it waits. `None` if that
    /// is not known of one.
    pub(crate) fn finish(mut self) -> Option<Vec<SocketAddr>> {
        while !self.tried.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            if !self.wait(left) {
                break;
            }
        }
        (!self.is_incomplete || !self.reached.is_empty()).then_some(self.reached)
    }

    /// Waits for answers, and takes them. False if none has come.
    fn wait(&mut self, left: Duration) -> bool {
        let sockets = self.tried.iter();
        let mut sockets: Vec<_> = sockets
            .map(|(_, socket)| PollFd::new(socket, PollFlags::OUT))
            .collect();
        let timeout = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut sockets, Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(Errno::INTR) => return true,
            Err(_) => {
                self.is_incomplete = true;
                return false;
            }
        }
        let has_answer: Vec<_> = sockets
            .iter()
            .map(|socket| !socket.revents().is_empty())
            .collect();
        let tried = std::mem::take(&mut self.tried);
        for ((address, socket), has_answer) in tried.into_iter().zip(has_answer) {
            if has_answer {
                let result = socket_error(&socket).unwrap_or_else(Err);
                self.note(address, way(result, &socket));
            } else {
                self.tried.push((address, socket));
            }
        }
        true
    }

    fn note(&mut self, address: SocketAddr, way: Way) {
        match way {
            Way::Open => self.reached.push(address),
            Way::Shut => {}
            Way::Unknown => self.is_incomplete = true,
        }
    }
}

/// A socket that connects, and what came of that at once.
fn try_one(address: SocketAddr) -> io::Result<(OwnedFd, Result<(), Errno>)> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let result = connect(&socket, &address);
    Ok((socket, result))
}

/// A refusal is an answer, too, if the other end has sent it: what closes the way may refuse in its own words (ICMP), of
/// which a connection counts no segment.
fn way(result: Result<(), Errno>, socket: &OwnedFd) -> Way {
    match result {
        Ok(()) => Way::Open,
        Err(Errno::CONNREFUSED | Errno::CONNRESET) => match sys::segments_received(socket) {
            Ok(0) => Way::Shut,
            Ok(_) | Err(_) => Way::Open,
        },
        Err(
            Errno::TIMEDOUT
            | Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::HOSTDOWN
            | Errno::PERM
            | Errno::ACCESS,
        ) => Way::Shut,
        Err(_) => Way::Unknown,
    }
}
