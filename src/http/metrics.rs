//! `GET /metrics`: sets the gauges and shows everything that is counted.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use strum::VariantNames as _;

use super::HttpState;
use crate::metrics::{KernelLabels, MEDIA_TYPE, Metrics, UNKNOWN_LANGUAGE, WarmLabels, set};
use crate::packages::{Packages, PackagesError};
use crate::run::outcome::RunStatus;
use crate::run::{Phase, RunError, Runs};

/// All metrics, in the format of `OpenMetrics`.
pub(super) async fn show(State(state): State<HttpState>) -> impl IntoResponse {
    let runs = &state.0.runs;
    let text = runs.metrics.render(|metrics| refresh(metrics, runs));
    (
        [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")],
        text,
    )
}

/// Sets the gauges from the books of each part: without a request to the engine or a look at files.
fn refresh(metrics: &Metrics, runs: &Runs) {
    let admission = runs.gate.admission.config();
    set(&metrics.places, admission.concurrent);
    set(&metrics.places_used, runs.gate.admission.running());
    set(&metrics.queue_places, admission.queued);
    set(&metrics.queue_length, runs.gate.admission.waiting());
    set(&metrics.containers, runs.launcher.live_count());
    if let Ok(free) = runs.files.workspaces.free_bytes() {
        set(&metrics.free_bytes, free);
    }
    let view = runs.gate.catalog.view();
    set(&metrics.engine_up, i64::from(view.engine.is_up()));
    set(&metrics.ready, i64::from(runs.gate.problem().is_none()));
    // Runners come and go.
    metrics.warm.clear();
    metrics.kernels.clear();
    metrics.expect_runs(UNKNOWN_LANGUAGE, RunError::WORDS, []);
    metrics.expect_installs(UNKNOWN_LANGUAGE, PackagesError::WORDS);
    for runner in view.runners.values() {
        expect(metrics, &runner.language);
        let depth = runs.pool.depth(runner);
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
            let (idle, busy) = runs.kernels.count_of(&runner.language);
            for (state, count) in [("idle", idle), ("busy", busy)] {
                let language = runner.language.clone();
                let labels = KernelLabels { language, state };
                set(&metrics.kernels.get_or_create_owned(&labels), count);
            }
        }
    }
}

/// What is counted of a language, before there is any.
fn expect(metrics: &Metrics, language: &str) {
    let statuses = RunStatus::ENDED.into_iter().chain(RunError::WORDS);
    metrics.expect_runs(language, statuses, Phase::VARIANTS.iter().copied());
    if Packages::are_for(language) {
        let outcomes = ["ok"].into_iter().chain(PackagesError::WORDS);
        metrics.expect_installs(language, outcomes);
    }
}
