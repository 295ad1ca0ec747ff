//! What is done repeatedly in the background: removing leftovers, checking the network, measuring.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::instance::Instance;
use crate::checks::network::{self, CheckError};
use crate::config::EngineConfig;
use crate::gate::network::NetworkState;
use crate::ledger::Ledger;
use crate::mcp::transport::McpTransport;
use crate::metrics::set;
use crate::packages::Packages;
use crate::parts::Parts;
use crate::principal::Principal;
use crate::runner::catalog::EngineView;
use crate::sandbox::Launcher;

const REAP_EVERY: Duration = Duration::from_secs(30);
/// How soon what a caller began ends after its last token.
const SEE_OFF_EVERY: Duration = Duration::from_secs(1);
/// Pause between two checks of the network. Its rules may have been removed, as by a restart of the engine, or just
/// been installed; a server that was too busy will soon have room.
const CHECK_NETWORK_EVERY: Duration = Duration::from_secs(30);
/// How long the result of a probe holds, provided that the rules stay.
const PROBE_EVERY: Duration = Duration::from_mins(10);
/// Pause after which it is tried again to find out the hosts of packages.
const FIND_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Pause between two measurements of what conversations take.
const MEASURE_EVERY: Duration = Duration::from_mins(5);
/// The pause is at least this many times as long as the measurement, however much there is to measure.
const MEASURE_SHARE: u32 = 20;
/// Pause before an engine that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Removes containers that belong to nobody: once at the start, then repeatedly.
pub(super) async fn reap_leftovers(
    launcher: Launcher,
    instance: Arc<Instance>,
    stop: CancellationToken,
) {
    let reap = async {
        loop {
            let pause = match launcher.reap(|server| instance.is_dead(server)).await {
                Ok(_) => {
                    if let Err(error) = instance.forget_dead() {
                        warn!(%error, "failed to forget servers that have ended");
                    }
                    REAP_EVERY
                }
                Err(error) => {
                    debug!(%error, "cannot look for leftover containers now");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    };
    stop.run_until_cancelled(reap).await;
}

/// Ends what callers began whose last token was revoked or has expired, or their login.
pub(super) async fn see_callers_off(
    has_left: impl Fn(&Principal) -> bool,
    ledger: Ledger,
    transport: McpTransport,
    stop: CancellationToken,
) {
    let see_off = async {
        loop {
            tokio::time::sleep(SEE_OFF_EVERY).await;
            ledger.end_those(|run| has_left(&run.owner));
            transport.end_those_of(&has_left).await;
        }
    };
    stop.run_until_cancelled(see_off).await;
}

/// Keeps the network policy up to date.
pub(super) async fn watch_network(config: EngineConfig, parts: Parts, stop: CancellationToken) {
    let watch = async {
        // The check runs a program of its own.
        parts.gate.catalog.first_poll().await;
        let (mut views, mut probed) = (parts.gate.catalog.watch(), None);
        loop {
            if let EngineView::Down(outage) = parts.gate.catalog.engine() {
                // An engine that comes back may have lost its rules.
                parts.gate.network.forget(outage.reason);
                // The sender lives in the catalogue.
                let _ = views.changed().await;
                continue;
            }
            let is_proved = parts.gate.network.access().is_ok()
                && probed.is_some_and(|at: Instant| at.elapsed() < PROBE_EVERY);
            let found = if is_proved {
                network::by_the_rules(&config, &parts).await
            } else {
                probed = Some(Instant::now());
                network::check(&config, &parts).await
            };
            let pause = match found {
                Ok(state) => {
                    parts.gate.network.set(state);
                    CHECK_NETWORK_EVERY
                }
                Err(error) => {
                    debug!(%error, "cannot check the network now");
                    probed = None;
                    match error {
                        CheckError::Engine(_) => RETRY,
                        CheckError::NotTried(_) => CHECK_NETWORK_EVERY,
                    }
                }
            };
            // An engine that went away or came back is a reason to check at once.
            let _ = tokio::time::timeout(pause, views.changed()).await;
        }
    };
    stop.run_until_cancelled(watch).await;
    if parts.gate.network.is_unknown() {
        // Nobody will find out any more: callers that wait for it are told.
        parts
            .gate
            .network
            .set(NetworkState::Closed("the server is stopping".to_owned()));
    }
}

/// Finds out which hosts packages come from, for lists with a preset of these.
pub(super) async fn find_hosts_of_packages(
    packages: Packages,
    parts: Parts,
    stop: CancellationToken,
) {
    let find = async {
        // It runs programs.
        parts.gate.catalog.first_poll().await;
        let (mut views, mut presets) = (parts.gate.catalog.watch(), parts.gate.network.presets());
        loop {
            let wanted: Vec<_> = presets.borrow_and_update().keys().copied().collect();
            let is_proved = wanted.is_empty() || parts.gate.proof.wait().await.is_ok();
            let mut pause = (!is_proved).then_some(RETRY);
            for preset in wanted.into_iter().filter(|_| is_proved) {
                let hosts = packages.hosts_of(preset).await.unwrap_or_else(|error| {
                    warn!(%error, "{} stands for no host now", preset.into_str());
                    pause = Some(FIND_AGAIN_AFTER);
                    Arc::default()
                });
                parts.gate.network.set_preset(preset, &hosts);
            }
            let pause = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                // Another image may have other hosts.
                _ = views.changed() => {}
                _ = presets.changed() => {}
            }
        }
    };
    stop.run_until_cancelled(find).await;
}

/// Keeps the metrics of stored files up to date.
pub(super) async fn measure_storage(parts: Parts, stop: CancellationToken) {
    let measure = async {
        loop {
            let begun = Instant::now();
            match parts.files.workspaces.census().await {
                Ok(census) => {
                    set(&parts.metrics.conversations, census.conversations);
                    set(&parts.metrics.stored_bytes, census.bytes);
                    let now = SystemTime::now().duration_since(UNIX_EPOCH);
                    set(
                        &parts.metrics.storage_measured,
                        now.unwrap_or_default().as_secs(),
                    );
                }
                Err(error) => debug!(%error, "cannot measure the conversations now"),
            }
            tokio::time::sleep(MEASURE_EVERY.max(begun.elapsed() * MEASURE_SHARE)).await;
        }
    };
    stop.run_until_cancelled(measure).await;
}
