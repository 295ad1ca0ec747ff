//! Runs hostile programs in this server's sandboxes, the way every run goes, and says which controls held.
//!
//! Each [`Control`] has a program and a pure judge of its outcome. [`Selftest::all`] tries every control, in new
//! sandboxes and in parked ones; [`Selftest::at_start`] tries, within seconds, those that one look from inside can
//! check.

mod attack;
mod egress;
mod harness;
mod inspection;
mod lingering;
mod links;
mod neighbour;
mod network;
mod report;
mod residue;
mod runtime;
mod tables;
mod verdict;
mod workspace;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use self::harness::Harness;
pub use self::harness::Warmth;
pub use self::report::{Report, header};
pub use self::verdict::{Row, Verdict};
use crate::audit::Origin;
use crate::config::{AuditConfig, Config, EngineConfig, OauthConfig, PoolSize};
use crate::control::Control;
use crate::conversation::Conversation;
use crate::executor::Executor;
use crate::parts::Parts;
use crate::runner::catalog::EngineView;

/// Downloads a path below `/files/` as anyone could. `None` when there is no such file.
pub type Download = Arc<dyn Fn(String) -> BoxFuture<'static, Option<Vec<u8>>> + Send + Sync>;

/// Bytes and files that a conversation may have while the quota is tried: enough to see it at work.
const TRIED_QUOTA: u64 = 64 << 20;
const TRIED_ENTRIES: u64 = 5_000;
/// Room for one warm sandbox of each runner, and for those of the conversations.
const WARM_AT_A_TIME: usize = 64;
/// Some controls are tried with several runs at the same time.
const RUNS_AT_A_TIME: usize = 4;

/// What is tested.
#[derive(Clone)]
pub struct Selftest {
    /// The server.
    pub parts: Parts,
    /// The engine behind them.
    pub executor: Arc<dyn Executor>,
    /// How the engine is used.
    pub engine: EngineConfig,
    /// Whether containers have the server's files in a volume of the engine, or at another path.
    has_other_paths: bool,
    /// Whether programs reach hosts of a list.
    lists_hosts: bool,
    /// The conversations that there are now.
    conversations: Arc<Mutex<Vec<Conversation>>>,
}

impl fmt::Debug for Selftest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Selftest")
    }
}

/// The operator's configuration with limits that can be reached without harm, and one warm sandbox for each runner.
pub fn configuration(mut config: Config) -> Config {
    let storage = &mut config.storage;
    storage.quota = storage.quota.min(TRIED_QUOTA);
    storage.max_entries = storage.max_entries.min(TRIED_ENTRIES);
    storage.link_ttl = None;
    // Clients do none of it, and no limit of theirs is for it.
    config.audit = AuditConfig::default();
    config.oauth = OauthConfig::default();
    config.http.access_file = None;
    egress::configure(&mut config.network);
    config.admission.concurrent = config.admission.concurrent.max(RUNS_AT_A_TIME);
    config.admission.per_conversation = config.admission.per_conversation.max(RUNS_AT_A_TIME);
    if has_warm_runs(&config) {
        config.pool.size = PoolSize::Each(1);
        config.pool.max_warm = config.pool.max_warm.max(WARM_AT_A_TIME);
    }
    config
}

/// Whether runs of this configuration can have a sandbox that was there before them.
pub fn has_warm_runs(config: &Config) -> bool {
    config.pool.is_any()
}

impl Selftest {
    /// A test of this server on this engine.
    pub fn new(parts: Parts, executor: Arc<dyn Executor>, config: &Config) -> Self {
        Self {
            parts,
            executor,
            engine: config.engine.clone(),
            has_other_paths: config.storage.volume.is_some()
                || config.storage.host_path != config.storage.root,
            lists_hosts: config.network.allow.is_some(),
            conversations: Arc::default(),
        }
    }

    /// Deletes what an interrupted test left behind.
    pub async fn clean_up(&self) {
        let left = std::mem::take(&mut *self.conversations.lock());
        for conversation in left {
            // Only deleting its directory can fail, and that logs its own failures.
            let _ = self
                .parts
                .conversations()
                .delete(&Origin::own(), &conversation)
                .await;
        }
    }

    /// Tries the controls that the start waits for: the runtime if it is not the engine's own, the directories of
    /// containers if these have them by another way than the server, and all that can be seen from inside. `None` if the engine was lost or the
    /// server is stopping, so that nothing was found out.
    pub async fn at_start(&self) -> Option<Vec<Row>> {
        let harness = Harness::new(self, Warmth::Cold);
        let mut rows = Vec::new();
        let first = [
            (Control::Workspace, self.may_lose_files()),
            (Control::Runtime, self.engine.runtime.is_some()),
        ];
        for (control, _) in first.into_iter().filter(|(_, is_wanted)| *is_wanted) {
            let row = match control {
                Control::Workspace => workspace::row(&harness).await,
                _ => Row::new(control, Warmth::Cold, runtime::holds(&harness).await),
            };
            let is_of_use = matches!(row.verdict, Verdict::Pass(_))
                || self.engine.allow_weaker.contains(&control);
            rows.push(row);
            if !is_of_use {
                return self.could_be_tried().then_some(rows);
            }
        }
        rows.extend(inspection::all(&harness).await);
        self.could_be_tried().then_some(rows)
    }

    /// Whether containers have the server's files by another way than the server.
    fn may_lose_files(&self) -> bool {
        match self.parts.gate.catalog.engine() {
            EngineView::Up(engine) if engine.capabilities.has_nodes => true,
            _ => self.has_other_paths,
        }
    }

    /// Whether a failed check says something about the sandbox, and not that the engine or this server is going away.
    fn could_be_tried(&self) -> bool {
        self.parts.gate.catalog.engine().is_up() && self.parts.gate.admission.check_open().is_ok()
    }

    /// Tries all controls, or those in `only`, in each way in which runs of this server get a sandbox. `report_row` is
    /// called with each row as soon as it is known.
    pub async fn all(
        &self,
        ways: &[Warmth],
        only: &[Control],
        download: &Download,
        report_row: &(dyn Fn(&Row) + Sync),
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        for &way in ways {
            // The first way has found out whether there is the second one.
            if way == Warmth::Warm && !self.parts.pool.follows_renames() {
                continue;
            }
            let harness = Harness::new(self, way);
            for &control in Control::ALL {
                let wanted = only.is_empty() || only.contains(&control);
                let is_new = way == Warmth::Cold || can_differ_when_warm(control);
                if !wanted || !is_new {
                    continue;
                }
                // Boxed, since it is a large future.
                for row in Box::pin(try_one(&harness, control, only, download)).await {
                    report_row(&row);
                    rows.push(row);
                }
            }
        }
        rows
    }
}

/// Runs with the network, and the checks of the runtime and of directories, always have a new sandbox.
const fn can_differ_when_warm(control: Control) -> bool {
    !matches!(
        control,
        Control::Runtime | Control::Workspace | Control::NetworkOn
    )
}

/// Tries one control. The first of those that are seen from inside tries all of them.
async fn try_one(
    harness: &Harness<'_>,
    control: Control,
    only: &[Control],
    download: &Download,
) -> Vec<Row> {
    if inspection::INSPECTIONS
        .iter()
        .any(|one| one.control == control)
    {
        let wanted = |one: &Control| only.is_empty() || only.contains(one);
        let first = inspection::INSPECTIONS
            .iter()
            .map(|one| one.control)
            .find(wanted);
        if first != Some(control) {
            return Vec::new();
        }
        let rows = inspection::all(harness).await;
        return rows
            .into_iter()
            .filter(|row| wanted(&row.control))
            .collect();
    }
    if control == Control::Workspace {
        return vec![workspace::row(harness).await];
    }
    let verdict = match control {
        Control::Runtime => runtime::holds(harness).await,
        Control::NetworkOn => Box::pin(network::holds(harness)).await,
        Control::Egress => Box::pin(egress::holds(harness)).await,
        Control::Timeout | Control::Background => lingering::holds(harness, control).await,
        Control::Links => links::holds(harness, download).await,
        Control::Residue => residue::between_runs(harness).await,
        Control::Conversations => residue::between_conversations(harness).await,
        Control::Tenants => residue::between_tenants(harness).await,
        Control::Neighbour => Box::pin(neighbour::holds(harness)).await,
        Control::SharedTables => Box::pin(tables::holds(harness)).await,
        _ => attack::holds(harness, control).await,
    };
    vec![Row::new(control, harness.way, verdict)]
}
