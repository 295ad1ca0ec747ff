//! One connection of a program: for whom it is, the connection to there, and what is copied between both.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes,
};

use super::broker::Broker;
use super::metered::Metered;
use super::proxy::Route;
use super::report::DeniedReason;
use super::traffic::Meter;
use super::{hello, web};
use crate::allow_list::{HTTP_PORT, HostName, Pattern, TLS_PORT};

/// What is copied at a time. With less, it takes twice the processor time.
const BUFFER: usize = 64 << 10;
/// How long nothing may be copied before a connection ends.
const IDLE: Duration = Duration::from_mins(5);

/// Connects a program with the host that its connection is for, or notes why not. `stream` is the program's.
pub(super) async fn relay<S>(stream: S, route: Route)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let meter = route.traffic.meter();
    let mut inside = Metered::new(stream, Arc::clone(&meter));
    let (traffic, port) = (Arc::clone(&route.traffic), route.entry.port);
    // Without TLS it is each request that says for whom it is.
    let found = if port == HTTP_PORT {
        None
    } else {
        match whom(&mut inside, &route).await {
            Ok(found) => Some(found),
            Err((host, reason)) => return traffic.deny(&host, port, reason),
        }
    };
    let host = found.as_ref().map_or_else(
        || route.entry.pattern.to_string(),
        |(name, _)| name.to_string(),
    );
    let served = async {
        let Some((name, said)) = found else {
            return web::relay(inside, Arc::clone(&meter), route, None).await;
        };
        match route.broker(&name) {
            Some(broker) => intercept(inside, said, Arc::clone(&meter), route, broker).await,
            None => copy(inside, &said, &meter, &route, &name).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = idle(&meter) => {}
    }
    if meter.is_spent() {
        traffic.deny(&host, port, DeniedReason::Limit);
    }
}

/// Copies what both say, TLS and all.
async fn copy<S>(mut inside: Metered<S>, said: &[u8], meter: &Meter, route: &Route, name: &HostName)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut outside = match route.dial(name).await {
        Ok(outside) => outside,
        Err(reason) => return route.traffic.deny(name.as_str(), route.entry.port, reason),
    };
    meter.connected(name, route.entry.port);
    if outside.write_all(said).await.is_ok() {
        // However it ends, both sides have been told.
        let _ = copy_bidirectional_with_sizes(&mut inside, &mut outside, BUFFER, BUFFER).await;
    }
}

/// Speaks TLS in the place of a host, and passes on each request. `said` is how the program has begun.
async fn intercept<S>(
    inside: Metered<S>,
    said: Vec<u8>,
    meter: Arc<Meter>,
    route: Route,
    broker: Broker,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (reader, writer) = tokio::io::split(inside);
    let inside = tokio::io::join(Cursor::new(said).chain(reader), writer);
    match broker.accept(inside).await {
        Ok(stream) => web::relay(stream, meter, route, Some(broker)).await,
        Err(reason) => {
            let (host, port) = (broker.name().as_str(), route.entry.port);
            route.traffic.deny(host, port, reason);
        }
    }
}

/// The host that a connection is for, and what was read of it to find that out.
async fn whom<S>(
    inside: &mut Metered<S>,
    route: &Route,
) -> Result<(HostName, Vec<u8>), (String, DeniedReason)>
where
    S: AsyncRead + Unpin,
{
    let entry = &route.entry;
    if entry.port != TLS_PORT {
        return match &entry.pattern {
            // Nothing says for whom it is, and nothing has to: there is one host that it can be for.
            Pattern::Exact(name) => Ok((name.clone(), Vec::new())),
            Pattern::Below(_) => Err((entry.pattern.to_string(), DeniedReason::NotListed)),
        };
    }
    let hello = hello::read(inside).await;
    let hello = hello.map_err(|reason| (entry.pattern.to_string(), reason))?;
    if !entry.pattern.matches(&hello.name) {
        return Err((hello.name.to_string(), DeniedReason::SniMismatch));
    }
    Ok((hello.name, hello.bytes))
}

/// Resolves when nothing was copied for long.
async fn idle(meter: &Meter) {
    let mut seen = meter.total();
    loop {
        tokio::time::sleep(IDLE).await;
        let now = meter.total();
        if now == seen {
            return;
        }
        seen = now;
    }
}

impl Route {
    /// Whoever is between the program and this host, if a secret is for it.
    fn broker(&self, name: &HostName) -> Option<Broker> {
        let interception = self.dialer.interception.as_ref()?;
        if self.entry.port == TLS_PORT {
            interception.broker(name, &self.secrets, &self.search)
        } else {
            None
        }
    }

    /// A connection to a host of its entry.
    pub(super) async fn dial(
        &self,
        name: &HostName,
    ) -> Result<tokio::net::TcpStream, DeniedReason> {
        let lookups = Arc::clone(&self.lookups);
        self.dialer
            .dial(name, self.entry.port, self.is_named, lookups)
            .await
    }
}
