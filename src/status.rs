//! How the server is, for those who only look: health checks, lists of languages, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use strum::VariantNames as _;

use crate::audit::Audit;
use crate::gate::Gate;
use crate::gate::network::Reach;
use crate::kernels::Kernels;
use crate::metrics::{KernelLabels, Metrics, NodeLabels, UNKNOWN_LANGUAGE, WarmLabels, set};
use crate::packages::{Packages, PackagesErrorKind};
use crate::pool::Pool;
use crate::principal::Tenant;
use crate::run::outcome::RunStatus;
use crate::run::{Phase, RunErrorKind};
use crate::runner::Runner;
use crate::runner::catalog::View;
use crate::sandbox::Launcher;
use crate::secrets::DeclaredSecret;
use crate::workspace::Workspaces;

/// How the server is. Clones share one state.
#[derive(Clone, Debug)]
pub struct Status {
    pub(crate) gate: Gate,
    pub(crate) pool: Pool,
    pub(crate) kernels: Kernels,
    pub(crate) launcher: Launcher,
    pub(crate) workspaces: Workspaces,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) audit: Audit,
}

impl Status {
    /// The engine and its runners.
    pub(crate) fn view(&self) -> Arc<View> {
        self.gate.catalog.view()
    }

    /// The same with the runners that a tenant may use.
    pub(crate) fn view_for(&self, tenant: &Tenant) -> Arc<View> {
        self.gate.view_for(tenant)
    }

    /// Why there can be no runs, if there can be none.
    pub(crate) fn problem(&self) -> Option<String> {
        self.gate.problem()
    }

    /// The nodes on which sandboxes are not kept from the network, and what they reached there.
    pub(crate) fn avoided_nodes(&self) -> BTreeMap<String, String> {
        self.pool.avoided_nodes()
    }

    /// What a tenant's runs reach that ask for the network.
    pub(crate) fn reach_for(&self, tenant: &Tenant) -> Reach {
        self.gate
            .network
            .reach(&self.gate.access.limits(tenant).network)
    }

    /// Whether a run may name hosts that are not listed, since the person at its client is asked for them.
    pub(crate) fn asks_for_hosts(&self) -> bool {
        self.gate.network.asks()
    }

    /// The secrets that a tenant's runs may use.
    pub(crate) fn secrets_for(&self, tenant: &Tenant) -> Vec<Arc<DeclaredSecret>> {
        self.gate.granted_secrets(tenant)
    }

    /// Whether a tenant's runs may use the network.
    pub(crate) fn has_network_for(&self, tenant: &Tenant) -> bool {
        match self.reach_for(tenant) {
            Reach::Nothing => false,
            Reach::Listed(list) => !list.is_empty(),
            Reach::Internet => self.gate.network.access().is_ok(),
        }
    }

    /// Whether variables of this runner's programs can be kept.
    pub(crate) fn has_kernels_for(&self, runner: &Runner) -> bool {
        self.kernels.are_for(runner)
    }

    /// Where everything is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Everything that is counted and measured, in the format of `OpenMetrics`.
    pub(crate) fn render_metrics(&self) -> String {
        self.metrics.render(|metrics| self.refresh(metrics))
    }

    /// Sets the gauges from the books of each part: without a request to the engine or a look at files.
    fn refresh(&self, metrics: &Metrics) {
        let admission = &self.gate.admission;
        set(&metrics.places, admission.config().concurrent);
        set(&metrics.places_used, admission.running());
        set(&metrics.queue_places, admission.config().queued);
        set(&metrics.queue_length, admission.waiting());
        set(&metrics.containers, self.launcher.live_count());
        if let Ok(free) = self.workspaces.free_bytes() {
            set(&metrics.free_bytes, free);
        }
        let view = self.view();
        set(&metrics.engine_up, i64::from(view.engine.is_up()));
        let access_file_ok = self.gate.access.is_current();
        set(&metrics.access_file_ok, i64::from(access_file_ok));
        set(&metrics.ready, i64::from(self.problem().is_none()));
        set(&metrics.audit_ok, i64::from(self.audit.is_ok()));
        // Nodes and runners come and go.
        metrics.containers_by_node.clear();
        for (node, count) in self.launcher.count_by_node() {
            let labels = NodeLabels { node };
            set(
                &metrics.containers_by_node.get_or_create_owned(&labels),
                count,
            );
        }
        metrics.warm.clear();
        metrics.kernels.clear();
        metrics.expect_runs(UNKNOWN_LANGUAGE, refusals(), []);
        metrics.expect_installs(UNKNOWN_LANGUAGE, failures());
        for runner in view.runners.values() {
            self.refresh_runner(metrics, runner);
        }
    }

    fn refresh_runner(&self, metrics: &Metrics, runner: &Runner) {
        expect(metrics, &runner.language);
        let depth = self.pool.depth(runner);
        let states = [
            ("pooled", depth.pooled),
            ("owned", depth.owned),
            ("cleaning", depth.cleaning),
            ("starting", depth.starting),
        ];
        for (state, count) in states {
            let language = runner.language.clone();
            let labels = WarmLabels { language, state };
            set(&metrics.warm.get_or_create_owned(&labels), count);
        }
        if runner.kernel {
            let (idle, busy) = self.kernels.count_of(&runner.language);
            for (state, count) in [("idle", idle), ("busy", busy)] {
                let language = runner.language.clone();
                let labels = KernelLabels { language, state };
                set(&metrics.kernels.get_or_create_owned(&labels), count);
            }
        }
    }
}

/// What is counted of runs that did not begin.
fn refusals() -> impl Iterator<Item = &'static str> {
    RunErrorKind::VARIANTS.iter().copied()
}

/// What is counted of installs that failed.
fn failures() -> impl Iterator<Item = &'static str> {
    PackagesErrorKind::VARIANTS.iter().copied()
}

/// What is counted of a language, before there is any.
fn expect(metrics: &Metrics, language: &str) {
    let statuses = RunStatus::ENDED.into_iter().chain(refusals());
    metrics.expect_runs(language, statuses, Phase::VARIANTS.iter().copied());
    if Packages::are_for(language) {
        let outcomes = ["ok"].into_iter().chain(failures());
        metrics.expect_installs(language, outcomes);
    }
}
