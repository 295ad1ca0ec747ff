//! What a server says of itself when it begins to listen.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tracing::{info, warn};

use super::App;
use crate::runner::catalog::EngineView;

impl App {
    /// Logs where it listens, and what its operator should know.
    pub(super) async fn announce(&self, addr: io::Result<SocketAddr>) {
        let first_poll = self.parts.gate.catalog.first_poll();
        let _ = tokio::time::timeout(Duration::from_secs(2), first_poll).await;
        if self.parts.files.workspaces.honours_set_ids() {
            warn!(
                "SANDBOX_ROOT is not mounted nosuid: only the system call filter keeps programs from leaving set-user-ID \
                 files to other users of this host"
            );
        }
        if let Some(warning) = self.config.oauth.warning() {
            warn!("{warning}");
        }
        let view = self.parts.gate.catalog.view();
        match &view.engine {
            EngineView::Down(outage) => warn!(
                reason = outage.reason,
                "there can be no runs until the container engine answers"
            ),
            EngineView::Up(_) => {
                if self.config.limits.nano_cpus.is_none() {
                    warn!("RUN_CPUS=0: the processor time of runs has no limit");
                }
                let size = &self.config.pool.size;
                let unknown = size.unknown(|language| view.find(language).is_some());
                if !unknown.is_empty() {
                    let languages = unknown.join(", ");
                    warn!(languages, "POOL_SIZE names languages that have no runner");
                }
            }
        }
        let addr = addr.map_or_else(|_| String::new(), |addr| addr.to_string());
        info!(
            http.addr = addr,
            url = self.config.http.public_base_url,
            "listening"
        );
    }
}
