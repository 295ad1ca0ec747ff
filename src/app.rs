//! Puts the parts together, and shuts them down in order.
//!
//! ```text
//! SIGTERM ─▶ soft: no new runs, and no new connections, unless other servers pass requests on
//!         ─▶ runs end, or SHUTDOWN_GRACE passes, or a second signal
//!         ─▶ hard: runs are cancelled, sessions closed ─▶ containers removed ─▶ exit
//! ```

mod announce;
mod callers;
mod compose;
mod instance;
mod platform;
#[cfg(feature = "kubernetes")]
mod replica;
mod secrets;
mod selftest;
mod settings;
pub mod stdio;
mod upkeep;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use self::instance::Instance;
pub use self::platform::Platform;
use crate::access::Access;
use crate::audit::Event;
use crate::config::Config;
use crate::executor::{EngineNeeds, Executor, UnfitError};
use crate::expiry::{Expiry, ExpiryRules};
use crate::http::{self, Callers, HttpState};
use crate::ledger::Ledger;
use crate::login::Login;
use crate::mcp::McpHandler;
use crate::mcp::transport::{McpTransport, TransportSettings};
use crate::oauth::Oauth;
use crate::packages::Packages;
use crate::parts::Parts;
use crate::services::Services;
use crate::workspace::Owners;

/// How long the engine may take to answer before the server starts.
const FIRST_ANSWER: Duration = Duration::from_secs(1);
/// How long containers may take to go away at shutdown.
const REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// How long downloads and deletions may go on at shutdown.
const SETTLE_WAIT: Duration = Duration::from_secs(5);
/// How long the last answers may take to leave: first to be made, and then to be read.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Pause between handing an answer to its connection and closing that.
const FLUSH: Duration = Duration::from_millis(50);
/// Room in a request for what surrounds the file or program in it.
const BODY_MARGIN: u64 = 64 << 10;

/// Why a server ends without being told to.
const NOT_SERVED: &str = "connections are not accepted any more: the log says why";

/// The composed server.
#[derive(Debug)]
pub struct App {
    /// What it is put together from.
    pub parts: Parts,
    /// Libraries for programs.
    pub packages: Packages,
    config: Config,
    access: Access,
    oauth: Option<Oauth>,
    login: Option<Login>,
    platform: Platform,
    instance: Arc<Instance>,
    /// The runs of clients, however they connect.
    ledger: Ledger,
    tasks: TaskTracker,
    /// Calls of clients that have not been answered yet.
    calls: TaskTracker,
    soft: CancellationToken,
    /// No new connections. One of several servers takes them until its runs have ended.
    stop_accepting: CancellationToken,
    hard: CancellationToken,
}

async fn listen(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(addr).await;
    listener.map_err(|error| cannot_listen(addr, error))
}

/// Why nothing can listen on an address, and what its operator can do.
fn cannot_listen(addr: SocketAddr, error: io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            ". Another program listens there: stop it, or set another port, such as MCP_HTTP_ADDR=127.0.0.1:9300"
        }
        io::ErrorKind::AddrNotAvailable => {
            ". This machine does not have the address: `ip addr` shows those it has"
        }
        io::ErrorKind::PermissionDenied => {
            ". Ports below 1024 are for root: set a higher one, such as MCP_HTTP_ADDR=127.0.0.1:8080"
        }
        _ => "",
    };
    anyhow::Error::new(error).context(format!("MCP_HTTP_ADDR={addr} is not usable{advice}"))
}

impl App {
    /// Composes the server for the configured engine.
    ///
    /// # Errors
    /// The storage is not usable.
    pub fn build(config: Config) -> anyhow::Result<Self> {
        let platform = Platform::from(&config);
        Self::on(platform, config)
    }

    /// Refuses settings that this process or the engine cannot carry out, as far as the engine answers at once.
    ///
    /// # Errors
    /// The setting, and what would work.
    pub async fn check_engine(config: &Config) -> anyhow::Result<()> {
        Owners::for_this_process(config.engine.uids)?;
        let Platform { executor, .. } = config.into();
        Ok(Self::check_executor(&*executor, config).await?)
    }

    async fn check_executor(executor: &dyn Executor, config: &Config) -> Result<(), UnfitError> {
        match tokio::time::timeout(FIRST_ANSWER, executor.fitting(&config.into())).await {
            Ok(Ok(fitting)) => fitting.map(drop),
            // The server starts without an engine too, and checks the settings when there is one.
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Bytes of the largest message: an upload in base64, perhaps in lines, or a program with every character escaped.
    fn max_body(&self) -> usize {
        let upload = self.config.storage.max_upload_bytes;
        let bytes = (upload / 3)
            .saturating_mul(4)
            .saturating_add(upload / 12)
            .saturating_add(self.config.limits.code as u64 * 2 + BODY_MARGIN);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// What deletes expired conversations.
    pub fn expiry(&self) -> Expiry {
        let rules = ExpiryRules {
            ttl: self.config.storage.conversation_ttl,
            limit: self.config.storage.limit,
            idle_ttl: self.config.longest_idle(),
        };
        let workspaces = self.parts.files.workspaces.clone();
        let parts = &self.parts;
        let access = parts.gate.access.clone();
        let (pool, kernels) = (parts.pool.clone(), parts.kernels.clone());
        Expiry::new(rules, access, workspaces, pool, kernels)
    }

    /// What clients can do, however they connect.
    pub fn services(&self) -> Services {
        let (ledger, packages) = (self.ledger.clone(), self.packages.clone());
        self.parts.services(ledger, packages)
    }

    /// What answers MCP clients, however they connect.
    fn handler(&self) -> McpHandler {
        McpHandler::new(
            self.services(),
            self.calls.clone(),
            self.config.toolset,
            self.config.answers,
        )
    }

    /// Starts all background tasks, and returns the HTTP routes. Runs wait until the sandbox is proved: see
    /// [`App::prove`].
    pub fn start(&self) -> axum::Router {
        self.parts.audit.record(|| Event::ServerStarted {
            version: crate::VERSION,
        });
        self.tasks.spawn(upkeep::watch_network(
            self.config.engine.clone(),
            self.parts.clone(),
            // It runs programs, which nothing may do once the server is stopping.
            self.soft.clone(),
        ));
        self.tasks.spawn(upkeep::find_hosts_of_packages(
            self.packages.clone(),
            self.parts.clone(),
            self.soft.clone(),
        ));
        self.tasks.spawn(upkeep::measure_storage(
            self.parts.clone(),
            self.hard.clone(),
        ));
        self.start_quietly()
    }

    /// The same without tasks that run programs of their own.
    fn start_quietly(&self) -> axum::Router {
        self.keep_sandboxes();
        self.keep_books();
        self.tasks.spawn(upkeep::reap_leftovers(
            self.parts.launcher.clone(),
            Arc::clone(&self.instance),
            self.hard.clone(),
        ));
        let transport = self.transport();
        if self.can_callers_leave() {
            self.tasks.spawn(upkeep::see_callers_off(
                self.has_left(),
                self.ledger.clone(),
                transport.clone(),
                self.hard.clone(),
            ));
        }
        let state = self.http_state(transport);
        let (kept, stop) = (state.clone(), self.hard.clone());
        self.tasks
            .spawn(async move { stop.run_until_cancelled(kept.maintain()).await });
        http::router(state)
    }

    /// Follows which runners there are, and keeps sandboxes and kernels for them.
    fn keep_sandboxes(&self) {
        let (catalog, stop) = (self.parts.gate.catalog.clone(), self.hard.clone());
        let (platform, needs) = (self.platform.clone(), EngineNeeds::from(&self.config));
        self.tasks.spawn(async move {
            let Platform { executor, runners } = platform;
            catalog.follow(&*executor, &*runners, &needs, &stop).await;
        });
        let (parts, stop) = (self.parts.clone(), self.hard.clone());
        let is_special =
            self.config.engine.runtime.is_some() || self.config.storage.volume.is_some();
        self.tasks.spawn(async move {
            // Otherwise, a runtime or a volume that does not work would be tried again and again.
            if is_special {
                stop.run_until_cancelled(parts.gate.proof.held()).await;
            }
            let admission = &parts.gate.admission;
            let allowed_starts = |max| admission.allowed_starts(max);
            parts
                .pool
                .maintain(&parts.gate.catalog, allowed_starts, &stop)
                .await;
        });
        let (parts, stop) = (self.parts.clone(), self.hard.clone());
        self.tasks.spawn(async move {
            let workspaces = &parts.files.workspaces;
            parts
                .kernels
                .maintain(&parts.gate.catalog, workspaces, &stop)
                .await;
        });
    }

    /// Keeps what is known of callers, of what they used, of the disk and of conversations.
    fn keep_books(&self) {
        let (access, stop) = (self.access.clone(), self.hard.clone());
        self.tasks.spawn(async move { access.follow(&stop).await });
        let (tally, stop) = (self.parts.tally.clone(), self.hard.clone());
        self.tasks.spawn(async move { tally.maintain(&stop).await });
        let (floor, stop) = (self.parts.gate.floor.clone(), self.hard.clone());
        self.tasks
            .spawn(async move { stop.run_until_cancelled(floor.maintain()).await });
        let (expiry, stop) = (self.expiry(), self.hard.clone());
        self.tasks
            .spawn(async move { stop.run_until_cancelled(expiry.maintain()).await });
    }

    fn transport(&self) -> McpTransport {
        McpTransport::new(
            self.handler(),
            &TransportSettings {
                max_body: self.max_body(),
                body_patience: self.config.http.patience.body,
                idle: self.config.http.session_idle,
                public_path: self.config.http.public_path().to_owned(),
            },
            &self.tasks,
            &self.hard,
        )
    }

    fn http_state(&self, transport: McpTransport) -> HttpState {
        HttpState::new(
            self.config.http.clone(),
            Callers {
                access: self.access.clone(),
                oauth: self.oauth.clone(),
                login: self.login.clone(),
                oauth_config: self.config.oauth.clone(),
                audit: self.parts.audit.clone(),
            },
            transport,
            self.services(),
            self.calls.clone(),
            self.stop_accepting.clone(),
        )
    }

    /// Serves as configured, alone or as one of several, until a signal comes.
    ///
    /// # Errors
    /// The storage or the address is not usable.
    pub async fn serve_alone_or_not(config: Config) -> anyhow::Result<()> {
        #[cfg(feature = "kubernetes")]
        if config.is_replica() {
            return Box::pin(replica::serve(config)).await;
        }
        let must_be_alone = config.engine.kubernetes.is_some();
        let app = Self::build(config)?;
        let _alone = must_be_alone.then(|| app.instance.alone()).transpose()?;
        app.serve().await
    }

    /// Serves until a signal comes, then shuts everything down.
    ///
    /// # Errors
    /// The address is not usable.
    pub async fn serve(self) -> anyhow::Result<()> {
        let listener = listen(self.config.http.addr).await?;
        let signals = Signals::heard()?;
        Self::check_executor(&*self.platform.executor, &self.config).await?;
        let router = self.start();
        self.prove();
        self.announce(listener.local_addr()).await;
        let stop = self.stop_accepting.clone().cancelled_owned();
        let server = self.tasks.spawn(http::serve(
            listener,
            router,
            self.config.http.patience,
            self.tasks.clone(),
            stop,
        ));
        self.until_stopped(server, signals).await
    }

    /// Shuts everything down once a signal comes, or no connections are accepted any more.
    async fn until_stopped(
        self,
        mut server: JoinHandle<()>,
        mut signals: Signals,
    ) -> anyhow::Result<()> {
        let served = tokio::select! {
            () = signals.next() => Ok(()),
            _ = &mut server => Err(anyhow::anyhow!(NOT_SERVED)),
        };
        self.stop_softly(signals).await;
        self.shut_down().await;
        self.join().await;
        served
    }

    /// Takes no new runs and waits for those in progress, until a second signal or the end of the grace period.
    async fn stop_softly(&self, mut signals: Signals) {
        info!(runs = self.parts.gate.count(), "stopping: no new runs");
        self.soft.cancel();
        self.parts.gate.close();
        tokio::select! {
            () = self.parts.gate.emptied() => {}
            () = tokio::time::sleep(self.config.http.shutdown_grace) => warn!("stopping: cancelling what still runs"),
            () = signals.next() => {}
        }
    }

    /// Ends everything at once and waits until no container of ours is left.
    pub async fn shut_down(&self) {
        self.soft.cancel();
        self.parts.gate.close();
        self.parts.kernels.close();
        self.parts.gate.end_all();
        self.parts.pool.close();
        let emptied = async {
            self.parts.gate.emptied().await;
            self.parts.launcher.emptied().await;
        };
        if tokio::time::timeout(REMOVAL_WAIT, emptied).await.is_err() {
            warn!(
                containers = self.parts.launcher.live_count(),
                "left containers to the next start"
            );
        }
        // Deletions that take longer are finished at the next start.
        let _ = tokio::time::timeout(
            SETTLE_WAIT,
            self.parts.files.workspaces.wait_for_background_work(),
        )
        .await;
        self.stop_accepting.cancel();
        // Cancelled runs have to be answered too.
        self.calls.close();
        let _ = tokio::time::timeout(ANSWER_WAIT, self.calls.wait()).await;
        tokio::time::sleep(FLUSH).await;
        self.parts.audit.stopped().await;
        self.parts.tally.stopped().await;
        self.hard.cancel();
        info!("stopped");
    }

    /// Waits for the tasks, which were told to end. Those of connections end when their last answer has left.
    async fn join(&self) {
        self.tasks.close();
        if tokio::time::timeout(ANSWER_WAIT, self.tasks.wait())
            .await
            .is_err()
        {
            debug!(tasks = self.tasks.len(), "did not wait for the last tasks");
        }
    }
}

/// The signals that ask the server to stop. None that comes after [`Signals::heard`] is lost.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn heard() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves at the first signal that asks the server to stop.
async fn terminated() -> std::io::Result<()> {
    Signals::heard()?.next().await;
    Ok(())
}
