//! One of several servers: it stands by until it leads, and only then puts the parts together. What was accepted before
//! is served on.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::Request;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{ServiceExt as _, service_fn};
use tracing::{debug, info, warn};

use super::{ANSWER_WAIT, App, NOT_SERVED, Platform, Signals, listen};
use crate::config::Config;
use crate::executor::kubernetes::Lease;
use crate::http;
use crate::replicas::Replica;
use crate::sandbox::Launcher;

/// What a server is called that no pod is known of.
const NO_POD: &str = "server";
/// How long a leader waits at most until no sandbox of another server is left.
const OTHERS_WAIT: Duration = Duration::from_secs(15);
/// Pause before it looks again. In this time, a node has ended what it was told to.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What is served, whoever leads.
struct Serving {
    /// Ends when no connections are accepted any more.
    server: JoinHandle<()>,
    connections: TaskTracker,
    /// Requests that were passed on and have no answer yet.
    calls: TaskTracker,
    /// The routes of a leader, once it is one.
    leading: Arc<OnceLock<Router>>,
    /// No new connections.
    stop: CancellationToken,
    signals: Signals,
}

/// Serves until a signal comes.
///
/// # Errors
/// The address is not usable, or, once it leads, the storage.
pub(super) async fn serve(config: Config) -> anyhow::Result<()> {
    App::check_engine(&config).await?;
    let grace = config.http.shutdown_grace;
    let listener = listen(config.http.addr).await?;
    let signals = Signals::heard()?;
    // Last: who may lead must be able to.
    let replica = join(&config)?;
    let mut serving = Serving::begin(listener, signals, &replica, &config);
    let connections = serving.connections.clone();
    let elected = tokio::select! {
        () = replica.elected() => Ok(true),
        () = serving.signals.next() => Ok(false),
        _ = &mut serving.server => Err(anyhow::anyhow!(NOT_SERVED)),
    };
    let served = match elected {
        Ok(true) => lead(config, serving).await,
        Ok(false) => {
            // First: it must not lead while it stops.
            replica.release().await;
            serving.stand_down(grace).await;
            return Ok(());
        }
        Err(error) => Err(error),
    };
    connections.close();
    let _ = timeout(ANSWER_WAIT, connections.wait()).await;
    replica.release().await;
    served
}

/// Takes part in the election of a leader.
fn join(config: &Config) -> anyhow::Result<Replica> {
    let kubernetes = config.engine.kubernetes.clone().unwrap_or_default();
    let replicas = kubernetes.replicas.clone();
    let lease = replicas.lease.context("LEADER_LEASE is not set")?;
    let listens = config.http.addr;
    let addr = SocketAddr::new(replicas.pod_ip.unwrap_or(listens.ip()), listens.port());
    let pod = kubernetes.server_pod.as_ref();
    let pod = pod.map_or_else(|| NO_POD.to_owned(), |pod| pod.name.clone());
    let store = Lease::new(kubernetes, lease, replicas.duration);
    Ok(Replica::join(
        Arc::new(store),
        addr,
        &pod,
        replicas.duration,
    ))
}

impl Serving {
    fn begin(listener: TcpListener, signals: Signals, replica: &Replica, config: &Config) -> Self {
        let (connections, calls) = (TaskTracker::new(), TaskTracker::new());
        let (leading, stop) = (Arc::default(), CancellationToken::new());
        let standby = http::standby(replica.standing(), calls.clone());
        let server = connections.spawn(http::serve(
            listener,
            first(Arc::clone(&leading), standby),
            config.http.patience,
            connections.clone(),
            stop.clone().cancelled_owned(),
        ));
        info!(http.addr = %config.http.addr, "listening, and standing by");
        Self {
            server,
            connections,
            calls,
            leading,
            stop,
            signals,
        }
    }

    /// Ends without ever having led: what was passed on is answered first.
    async fn stand_down(mut self, grace: Duration) {
        info!(
            calls = self.calls.len(),
            "stopping: nothing new is passed on"
        );
        self.stop.cancel();
        self.calls.close();
        tokio::select! {
            () = self.calls.wait() => {}
            () = sleep(grace) => warn!("stopping: some answers were still to come"),
            () = self.signals.next() => {}
        }
        self.connections.close();
        let _ = timeout(ANSWER_WAIT, self.connections.wait()).await;
    }
}

/// The routes of a leader as soon as there are any; until then those of a standby.
fn first(leading: Arc<OnceLock<Router>>, standby: Router) -> Router {
    let choose = move |request: Request| {
        let router = leading.get().unwrap_or(&standby).clone();
        router.oneshot(request)
    };
    Router::new().fallback_service(service_fn(choose))
}

/// Serves as the leader.
async fn lead(config: Config, serving: Serving) -> anyhow::Result<()> {
    let addr = config.http.addr;
    let mut app = App::on(Platform::from(&config), config)?;
    // Until its runs have ended, and another server may lead: those that stand by pass on what is asked about them.
    app.stop_accepting = serving.stop;
    remove_others(&app.parts.launcher).await;
    let router = app.start();
    app.prove();
    // Nothing else sets it.
    let _ = serving.leading.set(router);
    app.announce(Ok(addr)).await;
    app.until_stopped(serving.server, serving.signals).await
}

/// Removes the sandboxes of those that led before, before programs of ours run: they have the same files.
async fn remove_others(launcher: &Launcher) {
    let begun = Instant::now();
    let removing = async {
        loop {
            match launcher.remove_others().await {
                Ok(0) => return,
                Ok(others) => debug!(others, "removed sandboxes of other servers"),
                Err(error) => debug!(%error, "cannot look for sandboxes of other servers now"),
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    if timeout(OTHERS_WAIT, removing).await.is_ok() {
        debug!(took = ?begun.elapsed(), "no sandbox of another server is left");
    } else {
        warn!("sandboxes of other servers may be there still");
    }
}
