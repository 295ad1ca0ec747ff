//! The server's end of a hatch: a socket that one container sees as a file, through which its PID 1 hands over sockets
//! that listen in its network.
//!
//! ```text
//! OpenHatch ── PID 1 connects, before there is any program ──▶ Hatch
//!     └─ nobody does in time: there is none                      └─ receive: once before each run that has a list
//! ```
//!
//! One connection is taken; whoever comes later is refused. A hatch, and each socket that came through it, keeps the
//! network of its container, so they go when the container does.

use std::fs::{File, Permissions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat, unlinkat};
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use rustix::process::geteuid;
use sandbox_init::{Handed, Listen, SOCKETS_HANDED_MAX};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

/// How long PID 1 may take to connect once it was started, and to hand sockets over.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest answer of PID 1.
const MAX_ANSWER: usize = 4096;

/// Where hatches are made.
#[derive(Clone, Debug)]
pub struct Hatches {
    directory: PathBuf,
}

impl Hatches {
    /// In this directory, which no other user of the host can look into.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Opens one, under a name that no other file there has, for a container whose PID 1 is this user.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn open(&self, uid: u32, gid: u32) -> io::Result<OpenHatch> {
        let directory = File::open(&self.directory)?;
        let name = format!("hatch-{}", hex::encode(rand::random::<[u8; 16]>()));
        // By way of the descriptor: the address of a socket has room for 107 bytes, and the directory may have more.
        let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        let listener = UnixListener::bind(&path)?;
        let hatch = OpenHatch {
            listener,
            file: HatchFile {
                path: self.directory.join(&name),
            },
            name,
        };
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        if geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chownat(CWD, Path::new(&path), Some(uid), Some(gid), flags)?;
        }
        Ok(hatch)
    }
}

/// Removes the file of a hatch. Who has it mounted keeps it.
#[derive(Debug)]
struct HatchFile {
    path: PathBuf,
}

impl Drop for HatchFile {
    fn drop(&mut self) {
        // If it fails, the next start of a server removes it.
        let _ = unlinkat(CWD, &self.path, AtFlags::empty());
    }
}

/// A hatch that nobody has connected to yet.
#[derive(Debug)]
pub struct OpenHatch {
    listener: UnixListener,
    file: HatchFile,
    name: String,
}

impl OpenHatch {
    /// Its name in the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection of a PID 1 that was started just now.
    ///
    /// # Errors
    /// It did not connect: the engine's runtime may not let it.
    pub async fn connected(self) -> io::Result<Hatch> {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        let (stream, _) = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        drop(self.file);
        Ok(Hatch(stream))
    }
}

/// Why no sockets were handed over.
#[derive(Debug, Error)]
pub enum HatchError {
    /// PID 1 has not connected.
    #[error(
        "no socket comes out of sandboxes of this engine: its runtime may not let them through, and NETWORK=open does \
         without"
    )]
    Shut,
    /// PID 1 did not answer.
    #[error("the sandbox did not answer in time")]
    Silent,
    /// It could not.
    #[error("the sandbox refused: {0}")]
    Refused(String),
    /// They are not what was asked for.
    #[error("the sandbox handed over something else than was asked for")]
    Unfit,
    /// The operating system failed.
    #[error("failed to receive sockets")]
    Io(#[from] io::Error),
}

/// The sockets of a sandbox, in the order in which they were asked for.
#[derive(Debug)]
pub struct Listeners {
    /// Where programs connect to.
    pub tcp: Vec<TcpListener>,
    /// Where they look names up.
    pub udp: Option<UdpSocket>,
}

/// A connection to the PID 1 of one sandbox.
#[derive(Debug)]
pub struct Hatch(UnixStream);

impl Hatch {
    /// The sockets that a frame asks for, which was sent just now.
    ///
    /// # Errors
    /// There are none.
    pub async fn receive(&self, frame: &Listen) -> Result<Listeners, HatchError> {
        let received = async {
            loop {
                let message = self.0.async_io(Interest::READABLE, || receive_one(&self.0));
                let (handed, sockets) = message.await?;
                // One that came too late for its run is dropped, with its sockets.
                if handed.number == frame.number {
                    return match handed.reason {
                        Some(reason) => Err(HatchError::Refused(reason)),
                        None => checked(sockets, frame),
                    };
                }
            }
        };
        let received = tokio::time::timeout(PATIENCE, received).await;
        received.map_err(|_| HatchError::Silent)?
    }
}

/// One message, whole: PID 1 sends each at once, and the next when it is asked again.
fn receive_one(stream: &UnixStream) -> io::Result<(Handed, Vec<OwnedFd>)> {
    let mut text = [0; MAX_ANSWER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_HANDED_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut text)],
        &mut control,
        flags,
    )?;
    let mut sockets = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            sockets.extend(descriptors);
        }
    }
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // Without room for another descriptor, the kernel leaves some out and says nothing else.
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("the server has too many open files"));
    }
    let handed = serde_json::from_slice(&text[..message.bytes])?;
    Ok((handed, sockets))
}

/// The sockets, if they are those that were asked for.
fn checked(sockets: Vec<OwnedFd>, frame: &Listen) -> Result<Listeners, HatchError> {
    let fit = |is_fit: bool| {
        if is_fit {
            Ok(())
        } else {
            Err(HatchError::Unfit)
        }
    };
    let mut sockets = sockets.into_iter();
    let mut tcp = Vec::with_capacity(frame.tcp.len());
    for address in &frame.tcp {
        let socket = sockets.next().ok_or(HatchError::Unfit)?;
        fit(socket_acceptconn(&socket).unwrap_or(false))?;
        let listener = TcpListener::from(socket);
        fit(is_at(listener.local_addr()?, *address))?;
        listener.set_nonblocking(true)?;
        tcp.push(listener);
    }
    let mut udp = None;
    if let Some(address) = frame.udp {
        let socket = sockets.next().ok_or(HatchError::Unfit)?;
        let kind = rustix::net::sockopt::socket_type(socket.as_fd()).map_err(io::Error::from)?;
        fit(kind == rustix::net::SocketType::DGRAM)?;
        let socket = UdpSocket::from(socket);
        fit(is_at(socket.local_addr()?, address))?;
        socket.set_nonblocking(true)?;
        udp = Some(socket);
    }
    fit(sockets.next().is_none())?;
    Ok(Listeners { tcp, udp })
}

fn is_at(address: std::net::SocketAddr, expected: SocketAddrV4) -> bool {
    address == std::net::SocketAddr::V4(expected)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream as StdStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// An open hatch, and PID 1's end of it.
    async fn pair() -> (Hatch, StdStream, tempfile::TempDir) {
        // So deep that its path does not fit into the address of a socket.
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("d".repeat(120));
        std::fs::create_dir(&directory).unwrap();
        let open = Hatches::new(directory.clone()).open(0, 0).unwrap();
        let file = File::open(&directory).unwrap();
        let path = format!("/proc/self/fd/{}/{}", file.as_raw_fd(), open.name());
        let theirs = StdStream::connect(&path).unwrap();
        let hatch = open.connected().await.unwrap();
        assert!(StdStream::connect(path).is_err());
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
        (hatch, theirs, root)
    }

    fn hand(stream: &StdStream, text: &str, sockets: &[&dyn AsFd]) {
        let sockets: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)));
        }
        let text = [IoSlice::new(text.as_bytes())];
        sendmsg(stream, &text, &mut control, SendFlags::empty()).unwrap();
    }

    fn listening() -> (TcpListener, SocketAddrV4) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            panic!("not what was bound");
        };
        (listener, address)
    }

    #[tokio::test]
    async fn sockets_come_through_in_the_order_in_which_they_were_asked_for() {
        let (hatch, theirs, _root) = pair().await;
        let ((first, at_first), (second, at_second)) = (listening(), listening());
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(at_udp) = udp.local_addr().unwrap() else {
            panic!("not what was bound");
        };
        let frame = Listen {
            number: 2,
            tcp: vec![at_first, at_second],
            udp: Some(at_udp),
        };
        // That of an earlier frame is passed over.
        hand(&theirs, r#"{"number":1}"#, &[&first]);
        hand(&theirs, r#"{"number":2}"#, &[&first, &second, &udp]);
        let listeners = hatch.receive(&frame).await.unwrap();
        assert_eq!(listeners.tcp.len(), 2);
        assert_eq!(listeners.tcp[1].local_addr().unwrap(), at_second.into());
        assert!(listeners.udp.is_some());
    }

    #[tokio::test]
    async fn what_was_not_asked_for_is_not_taken() {
        let (hatch, theirs, _root) = pair().await;
        let (listener, address) = listening();
        let (other, _) = listening();
        let stream = StdStream::pair().unwrap().0;
        let frame = Listen {
            number: 1,
            tcp: vec![address],
            udp: None,
        };
        let handed: [&[&dyn AsFd]; 4] = [&[], &[&other], &[&stream], &[&listener, &other]];
        for sockets in handed {
            hand(&theirs, r#"{"number":1}"#, sockets);
            let error = hatch.receive(&frame).await.unwrap_err();
            assert!(matches!(error, HatchError::Unfit), "{error}");
        }
        hand(&theirs, r#"{"number":1,"reason":"in use"}"#, &[]);
        let error = hatch.receive(&frame).await.unwrap_err();
        assert_eq!(error.to_string(), "the sandbox refused: in use");
        drop(theirs);
        let error = hatch.receive(&frame).await.unwrap_err();
        assert!(matches!(error, HatchError::Io(_)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_for_long() {
        let root = tempfile::tempdir().unwrap();
        let open = Hatches::new(root.path().to_owned()).open(0, 0).unwrap();
        let error = open.connected().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let (hatch, _theirs, _root) = pair().await;
        let frame = Listen {
            number: 1,
            tcp: Vec::new(),
            udp: None,
        };
        let error = hatch.receive(&frame).await.unwrap_err();
        assert!(matches!(error, HatchError::Silent));
    }
}
