//! What stands before several servers and sends clients to one after the other.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// A balancer that listens. Dropping it ends that.
pub(crate) struct Balancer {
    pub(crate) addr: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

/// The servers, of which each is the next one's predecessor.
#[derive(Clone, Debug)]
struct Targets(Arc<(AtomicUsize, Vec<SocketAddr>)>);

impl Targets {
    fn new(servers: &[SocketAddr]) -> Self {
        Self(Arc::new((AtomicUsize::new(0), servers.to_vec())))
    }

    fn next(&self) -> SocketAddr {
        let (count, servers) = &*self.0;
        servers[count.fetch_add(1, Ordering::Relaxed) % servers.len()]
    }
}

impl Balancer {
    /// One that looks at nothing: each connection is the next server's.
    pub(crate) async fn of_connections(servers: &[SocketAddr]) -> Self {
        let targets = Targets::new(servers);
        Self::new(|listener| async move {
            let tasks = TaskTracker::new();
            while let Ok((client, _)) = listener.accept().await {
                tasks.spawn(joined(client, targets.next()));
            }
        })
        .await
    }

    /// One that reads HTTP: each request is the next server's, on connections that are kept.
    pub(crate) async fn of_requests(servers: &[SocketAddr]) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let router = Router::new()
            .fallback(pass_on)
            .layer(DefaultBodyLimit::disable())
            .with_state((client, Targets::new(servers)));
        Self::new(|listener| async move { axum::serve(listener, router).await.unwrap() }).await
    }

    async fn new<Serving>(serve: impl FnOnce(TcpListener) -> Serving) -> Self
    where
        Serving: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let serving = TaskTracker::new().spawn(serve(listener));
        Self {
            addr,
            _serving: AbortOnDropHandle::new(serving),
        }
    }
}

/// Passes on what either of them sends until both have ended.
async fn joined(mut client: TcpStream, server: SocketAddr) {
    let mut server = TcpStream::connect(server).await.unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    // A client may go away at any time.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

async fn pass_on(
    State((client, targets)): State<(Client<HttpConnector, Body>, Targets)>,
    mut request: Request,
) -> Response {
    let path = request.uri().path_and_query().unwrap().clone();
    let uri = Uri::builder()
        .scheme("http")
        .authority(targets.next().to_string())
        .path_and_query(path);
    *request.uri_mut() = uri.build().unwrap();
    match client.request(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:?}")).into_response(),
    }
}
