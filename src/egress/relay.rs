//! One connection of a program: for whom it is, the connection to there, and what is copied between both.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes};

use super::hello;
use super::metered::Metered;
use super::proxy::Route;
use super::report::DeniedReason;
use super::traffic::Meter;
use crate::allow_list::{HostName, Pattern, TLS_PORT};

/// What is copied at a time. With less, it takes twice the processor time.
const BUFFER: usize = 64 << 10;
/// How long nothing may be copied before a connection ends.
const IDLE: Duration = Duration::from_mins(5);

/// Connects a program with the host that its connection is for, or notes why not. `stream` is the program's.
pub(super) async fn relay<S>(stream: S, route: Route)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let meter = route.traffic.meter();
    let mut inside = Metered::new(stream, Arc::clone(&meter));
    let (name, said) = match whom(&mut inside, &route).await {
        Ok(found) => found,
        Err((host, reason)) => return route.traffic.deny(&host, route.entry.port, reason),
    };
    let mut outside = match route.dial(&name).await {
        Ok(outside) => outside,
        Err(reason) => return route.traffic.deny(name.as_str(), route.entry.port, reason),
    };
    meter.connected(&name, route.entry.port);
    let copy = async {
        outside.write_all(&said).await?;
        copy_bidirectional_with_sizes(&mut inside, &mut outside, BUFFER, BUFFER).await
    };
    tokio::select! {
        _ended = copy => {}
        () = idle(&meter) => {}
    }
    if meter.is_spent() {
        route
            .traffic
            .deny(name.as_str(), route.entry.port, DeniedReason::Limit);
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
    /// A connection to a host of its entry.
    pub(super) async fn dial(
        &self,
        name: &HostName,
    ) -> Result<tokio::net::TcpStream, DeniedReason> {
        self.dialer.dial(name, self.entry.port, self.is_named).await
    }
}
