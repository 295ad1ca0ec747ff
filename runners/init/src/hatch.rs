//! The hatch: a socket to the server through which listening sockets leave the sandbox.
//!
//! A socket stays in the network in which it was made. So the server takes connections that programs make in here, and
//! nothing has to lead in: no route, no interface, no process. PID 1 connects before there is anybody else, and the
//! server takes one connection only.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, listen, sendmsg, socket_with,
};
use sandbox_init::{HATCH_PATH, Handed, Listen, SOCKETS_HANDED_MAX};

/// Connections that wait until the server takes them. With too few, the kernel drops attempts, and a program that is
/// not to blame waits for a second.
const BACKLOG: i32 = 1024;

/// The connection to the server, where there is one.
#[derive(Debug)]
pub(crate) struct Hatch(Option<OwnedFd>);

impl Hatch {
    /// Connects, if the server has put a hatch into this sandbox. One that nobody answers is none.
    pub(crate) fn open() -> Self {
        let open = || -> Result<OwnedFd, Errno> {
            let socket = socket_of(AddressFamily::UNIX, SocketType::STREAM)?;
            connect(&socket, &SocketAddrUnix::new(HATCH_PATH)?)?;
            Ok(socket)
        };
        Self(open().ok())
    }

    /// Hands over the sockets that are asked for, or says why not. PID 1 keeps none of them.
    pub(crate) fn hand_over(&self, frame: &Listen) {
        let Some(hatch) = &self.0 else {
            return;
        };
        let handed = open_all(frame).and_then(|sockets| send(hatch, frame.number, None, &sockets));
        if let Err(error) = handed {
            // Without a server that listens, nobody wants to know.
            let _ = send(hatch, frame.number, Some(error.to_string()), &[]);
        }
    }
}

fn open_all(frame: &Listen) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::with_capacity(frame.tcp.len() + 1);
    for address in &frame.tcp {
        sockets.push(listening(*address)?);
    }
    if let Some(address) = frame.udp {
        let socket = socket_of(AddressFamily::INET, SocketType::DGRAM)?;
        bind(&socket, &address)?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn listening(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket_of(AddressFamily::INET, SocketType::STREAM)?;
    // Connections of an earlier run that the server closed first would keep the address for a while.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that neither blocks nor outlives an exec.
fn socket_of(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, kind, flags, None)
}

/// One message, which is far smaller than the buffer that it goes into, and so is never sent in part.
fn send(
    hatch: &OwnedFd,
    number: u64,
    reason: Option<String>,
    sockets: &[OwnedFd],
) -> io::Result<()> {
    let text = serde_json::to_vec(&Handed { number, reason })?;
    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_HANDED_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(Errno::INVAL.into());
    }
    sendmsg(
        hatch,
        &[IoSlice::new(&text)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}
