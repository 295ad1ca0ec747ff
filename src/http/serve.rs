//! Connections: how many there are, and how long a client may take to say what it wants.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::serve::Listener;
use axum::{BoxError, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::debug;

use super::linger::lingering;
use crate::config::Patience;

/// Most connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: u64 = 4096;
/// Open files that the server asks for, if it may have that many.
const OPEN_FILES: u64 = 65_536;

/// Serves until `stop`, then until the last answer has left. Connections run on `tasks`.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    patience: Patience,
    tasks: TaskTracker,
    stop: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(max_connections()));
    let (connections, closing) = (TaskTracker::new(), CancellationToken::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(patience.head);
    let accept = async {
        loop {
            let permit = Arc::clone(&permits).acquire_owned().await;
            let (stream, peer) = Listener::accept(&mut listener).await;
            // Answers leave in several small writes: waiting for more to send costs 40 ms each.
            let _ = stream.set_nodelay(true);
            // Without a limit, the system waits forever for a client that is there but reads nothing. A client to which
            // nothing is sent may be silent.
            let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(patience.unread));
            let for_rest = tasks.clone();
            let service = router
                .clone()
                .map_request(move |request: Request<Incoming>| {
                    let mut request = lingering(request, &for_rest).map(Body::new);
                    request.extensions_mut().insert(ConnectInfo(peer));
                    request
                });
            let service = TowerToHyperService::new(service);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let connection = until_closing(connection.with_upgrades(), closing.clone());
            tasks.spawn(connections.track_future(async move {
                let _permit = permit;
                if let Err(error) = connection.await {
                    debug!(%error, "a connection ended early");
                }
            }));
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop => {}
    }
    drop(listener);
    closing.cancel();
    connections.close();
    connections.wait().await;
}

/// A connection, which answers no further request once it is `closing`. What it was upgraded to is a task of its own.
async fn until_closing<S, B>(
    connection: http1::UpgradeableConnection<TokioIo<TcpStream>, S>,
    closing: CancellationToken,
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = B, Error: Into<BoxError>>,
    B: hyper::body::Body<Error: Into<BoxError>> + 'static,
{
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = closing.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// How many connections there may be, after asking for as many open files as allowed: half of those are for runs.
fn max_connections() -> usize {
    let now = getrlimit(Resource::Nofile);
    let max_files = now.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    let have = now.current.unwrap_or(u64::MAX);
    let wanted = Rlimit {
        current: Some(max_files),
        maximum: now.maximum,
    };
    let files = if have < max_files && setrlimit(Resource::Nofile, wanted).is_ok() {
        max_files
    } else {
        have
    };
    usize::try_from((files / 2).clamp(1, MAX_CONNECTIONS)).unwrap_or(usize::MAX)
}
