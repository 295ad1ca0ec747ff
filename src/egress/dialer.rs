//! The way to a host: its addresses, those of them that programs may reach, and a connection to one of these.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::address::is_public;
use super::broker::Interception;
use super::report::DeniedReason;
use crate::allow_list::HostName;
use crate::config::NetworkConfig;

/// How long a name may take to be resolved.
const RESOLVING: Duration = Duration::from_secs(10);
/// How long an address may take to answer.
const CONNECTING: Duration = Duration::from_secs(10);
/// Names that are looked up at a time, for all runs: far fewer than there are threads for what blocks.
const MAX_LOOKUPS: usize = 128;
/// As many addresses of a name are tried.
const MAX_TRIED: usize = 4;

/// The settings of connections to hosts, and what is needed to make one.
#[derive(Clone, Debug)]
pub struct Dialer {
    private: Vec<IpNet>,
    hosts: BTreeMap<HostName, (IpAddr, Option<u16>)>,
    pub(super) limits: TrafficLimits,
    lookups: Arc<Semaphore>,
    /// For hosts that secrets are for, if there are any.
    pub(super) interception: Option<Arc<Interception>>,
}

/// How much programs may have of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficLimits {
    /// Bytes in both directions.
    pub bytes: u64,
    /// Connections at a time.
    pub connections: usize,
}

impl Dialer {
    /// As the settings have it.
    pub fn new(config: &NetworkConfig, interception: Option<Arc<Interception>>) -> Self {
        Self {
            private: config.private.clone(),
            hosts: config.hosts.iter().cloned().collect(),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            interception,
            limits: TrafficLimits {
                bytes: config.max_bytes,
                connections: config.max_connections,
            },
        }
    }

    /// The same for whom other limits hold.
    #[must_use]
    pub fn with_limits(&self, limits: TrafficLimits) -> Self {
        Self {
            limits,
            ..self.clone()
        }
    }

    /// Connects to a host, which may be in a private network if it `is_named` in the list. The address that is dialled is
    /// the one that was checked.
    pub(super) async fn dial(
        &self,
        name: &HostName,
        port: u16,
        is_named: bool,
        lookups: Arc<Semaphore>,
    ) -> Result<TcpStream, DeniedReason> {
        let addresses = self.resolve(name, port, lookups).await?;
        // Who does not know its own addresses cannot keep programs from them.
        let own = own_addresses().map_err(|_| DeniedReason::Unreachable)?;
        let may_dial = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            let is_ours = own.contains(&ip);
            (is_public(ip) && !is_ours)
                || (is_named && self.private.iter().any(|it| it.contains(&ip)))
        };
        let addresses: Vec<_> = addresses.into_iter().filter(may_dial).collect();
        if addresses.is_empty() {
            return Err(DeniedReason::PrivateAddress);
        }
        for address in addresses.into_iter().take(MAX_TRIED) {
            let connected = tokio::time::timeout(CONNECTING, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = connected {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
        }
        Err(DeniedReason::Unreachable)
    }

    /// The addresses of a name. Each lookup holds a place among those of its run and among all: the operating system may
    /// go on with one that nobody waits for any more.
    async fn resolve(
        &self,
        name: &HostName,
        port: u16,
        lookups: Arc<Semaphore>,
    ) -> Result<Vec<SocketAddr>, DeniedReason> {
        if let Some((address, other_port)) = self.hosts.get(name) {
            return Ok(vec![SocketAddr::new(*address, other_port.unwrap_or(port))]);
        }
        let (all, name) = (Arc::clone(&self.lookups), name.to_string());
        let found = async {
            let places = (lookups.acquire_owned().await, all.acquire_owned().await);
            let looking = spawn_blocking(move || {
                let _places = places;
                (name.as_str(), port).to_socket_addrs()
            });
            looking.await.map_err(io::Error::other)?
        };
        match tokio::time::timeout(RESOLVING, found).await {
            Ok(Ok(addresses)) => Ok(addresses.collect()),
            Ok(Err(_)) | Err(_) => Err(DeniedReason::Unresolvable),
        }
    }
}

/// This host's own addresses, public ones among them: the server listens there.
fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs()?;
    Ok(interfaces.iter().map(if_addrs::Interface::ip).collect())
}
