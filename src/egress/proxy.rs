//! The network of one run: takes the connections and questions of its programs until it is closed. Closing it, or
//! dropping it, ends every connection.

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all, unfold};
use sandbox_init::Listen;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::broker::Search;
use super::bucket::Bucket;
use super::dialer::Dialer;
use super::hatch::Listeners;
use super::host_access::HostAccess;
use super::names;
use super::relay::relay;
use super::report::DeniedReason;
use super::traffic::Traffic;
use crate::allow_list::{AllowList, Entry};
use crate::secrets::BoundSecret;

/// Where programs look names up: what a container without a network has as its resolver.
const RESOLVER: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 53);
/// Questions that are answered each second. The rest stays where it is, and the kernel drops what has no room there.
const QUESTIONS: u32 = 200;
/// Connections that are taken each second. The rest waits.
const CONNECTIONS: u32 = 100;
/// How long to wait when the server has no descriptor left for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Names that are looked up at a time for one run. One whose server does not answer keeps a thread for as long.
const LOOKUPS: usize = 8;
/// A little more than the longest question.
const DATAGRAM: usize = 1024;

/// What one connection needs.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) entry: Entry,
    /// Whether its host is listed by its own name, and may have an address that is not public.
    pub(super) is_named: bool,
    /// What the run may use of secrets.
    pub(super) secrets: Arc<[BoundSecret]>,
    /// Finds them in what hosts answer.
    pub(super) search: Arc<Search>,
    /// How many names of the run may be looked up at a time.
    pub(super) lookups: Arc<Semaphore>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) traffic: Arc<Traffic>,
}

/// The network of one run, or of a kernel.
#[derive(Debug)]
pub struct Proxy {
    access: Arc<HostAccess>,
    traffic: Arc<Traffic>,
    stop: DropGuard,
    tasks: TaskTracker,
}

impl Proxy {
    /// The frame that asks for the sockets of a list.
    pub fn frame(number: u64, list: &AllowList) -> Listen {
        Listen {
            number,
            tcp: list
                .listeners()
                .into_iter()
                .map(|(address, _)| address)
                .collect(),
            udp: Some(RESOLVER),
        }
    }

    /// Takes what comes to these sockets, which are those of its list, until it is closed. Its work is among `tasks`.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn open(
        listeners: Listeners,
        access: Arc<HostAccess>,
        dialer: Arc<Dialer>,
        tasks: &TaskTracker,
    ) -> io::Result<Self> {
        let (traffic, stop) = (Traffic::new(dialer.limits.bytes), CancellationToken::new());
        let mut incoming = Vec::with_capacity(listeners.tcp.len());
        for (socket, (_, entry)) in listeners.tcp.into_iter().zip(access.list.listeners()) {
            incoming.push(accepted(TcpListener::from_std(socket)?, entry));
        }
        let resolver = listeners.udp.map(UdpSocket::from_std).transpose()?;
        let own = TaskTracker::new();
        let work = Work {
            list: Arc::clone(&access.list),
            secrets: Arc::clone(&access.secrets),
            search: Arc::new(Search::new(&access.secrets).map_err(io::Error::other)?),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            traffic: Arc::clone(&traffic),
            dialer,
        };
        let serving = work.serve(incoming, resolver, stop.clone());
        tasks.spawn(own.track_future(serving));
        own.close();
        Ok(Self {
            access,
            traffic,
            stop: stop.drop_guard(),
            tasks: own,
        })
    }

    /// Whether it is for these hosts and secrets.
    pub fn is_for(&self, access: &HostAccess) -> bool {
        *self.access == *access
    }

    /// What its programs do.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Ends every connection, and returns when no socket is left.
    pub async fn close(self) {
        let Self { stop, tasks, .. } = self;
        drop(stop);
        tasks.wait().await;
    }
}

/// The connections to one listener.
fn accepted(listener: TcpListener, entry: Entry) -> BoxStream<'static, (Entry, TcpStream)> {
    let next = |(listener, entry): (TcpListener, Entry)| async move {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                // What hosts say in small pieces would wait for programs to confirm the one before.
                let _ = stream.set_nodelay(true);
                return Some(((entry.clone(), stream), (listener, entry)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    unfold((listener, entry), next).boxed()
}

struct Work {
    list: Arc<AllowList>,
    secrets: Arc<[BoundSecret]>,
    search: Arc<Search>,
    lookups: Arc<Semaphore>,
    traffic: Arc<Traffic>,
    dialer: Arc<Dialer>,
}

impl Work {
    async fn serve(
        self,
        incoming: Vec<BoxStream<'static, (Entry, TcpStream)>>,
        resolver: Option<UdpSocket>,
        stop: CancellationToken,
    ) {
        let mut connections = JoinSet::new();
        let questions = async {
            match &resolver {
                Some(resolver) => self.answer(resolver).await,
                None => std::future::pending().await,
            }
        };
        let serving = async {
            tokio::join!(questions, self.take(incoming, &mut connections));
        };
        stop.run_until_cancelled(serving).await;
        connections.shutdown().await;
    }

    /// Answers questions for as long as there are any.
    async fn answer(&self, resolver: &UdpSocket) {
        let (mut bucket, mut buffer) = (Bucket::per_second(QUESTIONS), [0; DATAGRAM]);
        loop {
            bucket.take().await;
            let Ok((length, from)) = resolver.recv_from(&mut buffer).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let Some(answer) = names::answer(&buffer[..length], &self.list) else {
                continue;
            };
            if let Some(names::Unlisted(name)) = answer.unknown {
                self.traffic.unknown(name.as_ref());
            }
            let _ = resolver.send_to(&answer.bytes, from).await;
        }
    }

    /// Takes connections. Those that are too many are closed, so that their programs notice at once.
    async fn take(
        &self,
        incoming: Vec<BoxStream<'static, (Entry, TcpStream)>>,
        connections: &mut JoinSet<()>,
    ) {
        let places = Arc::new(Semaphore::new(self.dialer.limits.connections));
        let (mut bucket, mut incoming) = (Bucket::per_second(CONNECTIONS), select_all(incoming));
        while let Some((entry, stream)) = incoming.next().await {
            while connections.try_join_next().is_some() {}
            let place = Arc::clone(&places).try_acquire_owned();
            let Ok(place) = place.map_err(drop).and_then(|place| {
                if self.traffic.is_spent() {
                    Err(())
                } else {
                    Ok(place)
                }
            }) else {
                let host = entry.pattern.to_string();
                self.traffic.deny(&host, entry.port, DeniedReason::Limit);
                bucket.take().await;
                continue;
            };
            let route = Route {
                is_named: self.list.names(&entry.pattern),
                secrets: Arc::clone(&self.secrets),
                search: Arc::clone(&self.search),
                lookups: Arc::clone(&self.lookups),
                entry,
                dialer: Arc::clone(&self.dialer),
                traffic: Arc::clone(&self.traffic),
            };
            connections.spawn(async move {
                let _place = place;
                relay(stream, route).await;
            });
            bucket.take().await;
        }
    }
}
