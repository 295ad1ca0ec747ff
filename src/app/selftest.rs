//! Proves that the sandbox holds: the command `selftest`, and the check that every start begins with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tower::ServiceExt as _;
use tracing::{debug, error, info, warn};

use super::{App, Platform};
use crate::checks::selftest::{self, Download, Report, Row, Selftest, Verdict, Warmth};
use crate::config::Config;
use crate::control::Control;
use crate::executor::{Engine, NetworkRules};
use crate::gate::proof::{ProofState, Weakness, findings};
use crate::runner::catalog::{EngineView, View};

/// How long after a failed check the next one follows: the operator may have fixed the cause.
const CHECK_AGAIN: Duration = Duration::from_secs(30);
/// Pause between two looks at the rules of the engine that close the network of sandboxes, where nothing else does.
const READ_RULES_EVERY: Duration = Duration::from_secs(30);
/// Pause before asking an engine again that was lost in the middle.
const RETRY: Duration = Duration::from_secs(1);
/// How long the engine may take to answer the command.
const ENGINE_WAIT: Duration = Duration::from_secs(10);

impl App {
    /// The selftest of this server.
    fn selftest(&self) -> Selftest {
        let (parts, executor) = (self.parts.clone(), Arc::clone(&self.platform.executor));
        Selftest::new(parts, executor, &self.config)
    }

    /// Checks the sandbox in the background, now and whenever the engine or an image used for the check has changed. No
    /// run begins before the sandbox has held once.
    pub fn prove(&self) {
        let (selftest, stop) = (self.selftest(), self.hard.clone());
        self.tasks.spawn(async move {
            stop.run_until_cancelled(keep_proving(&selftest)).await;
            selftest.clean_up().await;
        });
    }

    /// Tries every control, or those in `only`, on the configured engine with a server that nobody else uses. The
    /// inner error says why nothing could be tried: there is no engine, or no runner.
    ///
    /// # Errors
    /// The storage is not usable, or a signal came.
    pub async fn run_selftest(
        config: Config,
        only: &[Control],
        report_row: &(dyn Fn(&Row) + Sync),
    ) -> anyhow::Result<Result<Report, String>> {
        Self::run_selftest_on(Platform::from(&config), config, only, report_row).await
    }

    /// The same on any platform.
    ///
    /// # Errors
    /// The storage is not usable, or a signal came.
    pub async fn run_selftest_on(
        platform: impl Into<Platform>,
        config: Config,
        only: &[Control],
        report_row: &(dyn Fn(&Row) + Sync),
    ) -> anyhow::Result<Result<Report, String>> {
        let ways: &[Warmth] = if selftest::has_warm_runs(&config) {
            &[Warmth::Cold, Warmth::Warm]
        } else {
            &[Warmth::Cold]
        };
        let app = Self::on(platform, selftest::configuration(config))?;
        // The pool waits until the runtime is proved, which is what happens here.
        app.parts.gate.proof.set(ProofState::Held);
        let router = app.start_quietly();
        let _ = tokio::time::timeout(ENGINE_WAIT, app.parts.gate.catalog.first_poll()).await;
        let (selftest, download) = (app.selftest(), downloads(router));
        let report = tokio::select! {
            report = app.try_controls(&selftest, ways, only, &download, report_row) => Ok(report),
            signal = super::terminated() => Err(signal),
        };
        selftest.clean_up().await;
        app.shut_down().await;
        app.join().await;
        report.or_else(|signal| {
            signal?;
            anyhow::bail!("interrupted")
        })
    }

    async fn try_controls(
        &self,
        selftest: &Selftest,
        ways: &[Warmth],
        only: &[Control],
        download: &Download,
        report_row: &(dyn Fn(&Row) + Sync),
    ) -> Result<Report, String> {
        let view = self.parts.gate.catalog.view();
        let engine = match &view.engine {
            EngineView::Down(outage) => return Err(outage.reason.clone()),
            EngineView::Up(_) if view.runners.is_empty() => {
                return Err("there is no runner image: run ./build.sh".to_owned());
            }
            EngineView::Up(engine) => engine.name.clone(),
        };
        let rows = Box::pin(selftest.all(ways, only, download, report_row)).await;
        if let EngineView::Down(outage) = self.parts.gate.catalog.engine() {
            return Err(outage.reason);
        }
        Ok(Report::new(
            engine,
            self.config.engine.runtime.clone(),
            rows,
        ))
    }
}

/// The file route, requested as anybody on the network would.
fn downloads(router: axum::Router) -> Download {
    Arc::new(move |path| {
        let router = router.clone();
        async move {
            let request = Request::get(format!("/files/{path}")).header("host", "localhost");
            let response = router
                .oneshot(request.body(Body::empty()).ok()?)
                .await
                .ok()?;
            if !response.status().is_success() {
                return None;
            }
            // Enough to know that there was something.
            let first = response.into_body().frame().await;
            Some(first?.ok()?.into_data().map(Into::into).unwrap_or_default())
        }
        .boxed()
    })
}

/// What a check is valid for: this engine, since it was last doubted, and the images used for the check.
type Subject = (Engine, u64, [Option<String>; 2]);

fn subject(view: &View) -> Option<Subject> {
    let EngineView::Up(engine) = &view.engine else {
        return None;
    };
    let images =
        ["python", "shell"].map(|language| view.find(language).map(|one| one.image_id.clone()));
    Some((engine.clone(), view.engine_generation, images))
}

async fn keep_proving(selftest: &Selftest) {
    let (proof, mut views) = (
        &selftest.parts.gate.proof,
        selftest.parts.gate.catalog.watch(),
    );
    let (mut proved_for, mut reported, mut engine_generation) = (None, None, 0);
    loop {
        let view = views.borrow_and_update().clone();
        let now = subject(&view);
        let mut again = None;
        if std::mem::replace(&mut engine_generation, view.engine_generation)
            != view.engine_generation
        {
            proof.set(ProofState::Pending);
        }
        if now.is_none() {
            // An engine that comes back may be another one.
            proof.set(ProofState::Pending);
            (proved_for, reported) = (None, None);
        } else if proved_for != now {
            let started = Instant::now();
            if let Some(rows) = Box::pin(selftest.at_start()).await {
                let state = judge(&rows, &selftest.engine.allow_weaker);
                if reported.as_ref() != Some(&state) {
                    report(&rows, &state, started.elapsed());
                    reported = Some(state.clone());
                }
                let held = state == ProofState::Held;
                // After a failure everything is tried again, even what held before: somebody may have changed it back.
                proved_for = now.filter(|_| held);
                again = (!held).then_some(CHECK_AGAIN);
                proof.set(state);
            } else {
                debug!("cannot check the sandbox now");
                again = Some(RETRY);
            }
        }
        tokio::select! {
            // The sender lives in the catalogue, so waiting cannot fail.
            _ = views.changed() => {}
            () = tokio::time::sleep(again.unwrap_or(Duration::MAX)) => {}
            () = network_is_open(selftest), if proved_for.is_some() => {
                proof.set(ProofState::Pending);
                proved_for = None;
            }
        }
    }
}

/// Resolves when nothing keeps sandboxes from the network any more that the engine leaves them.
async fn network_is_open(selftest: &Selftest) {
    let pool = &selftest.parts.pool;
    let rules_are_lost = async {
        loop {
            tokio::time::sleep(READ_RULES_EVERY).await;
            if pool.relies_on_rules() && has_lost_rules(selftest).await {
                return;
            }
        }
    };
    tokio::select! {
        () = pool.doubted() => {}
        () = rules_are_lost => {}
    }
}

/// Whether nothing is to close the network any more that the engine leaves sandboxes. An engine that does not tell is
/// asked again.
async fn has_lost_rules(selftest: &Selftest) -> bool {
    match selftest.parts.launcher.closing_rules().await {
        Ok(NetworkRules::Missing(reason)) => {
            warn!(
                reason,
                "nothing is to close the network of sandboxes any more"
            );
            true
        }
        Ok(_) | Err(_) => false,
    }
}

/// The state that follows from the rows.
fn judge(rows: &[Row], allowed: &[Control]) -> ProofState {
    let refuses = |row: &&Row| match row.verdict {
        Verdict::Pass(_) => false,
        // Without the runner that tries it, nobody knows. What containers depend on is not used before it was tried.
        Verdict::Skipped(_) if !matches!(row.control, Control::Runtime | Control::Workspace) => {
            false
        }
        Verdict::Skipped(_) | Verdict::Fail(_) => !allowed.contains(&row.control),
    };
    let weaknesses: Vec<_> = rows
        .iter()
        .filter(refuses)
        .map(|row| Weakness {
            control: row.control,
            found: row.found.clone(),
            was_tried: row.was_tried,
        })
        .collect();
    if weaknesses.is_empty() {
        ProofState::Held
    } else {
        ProofState::Broken(weaknesses)
    }
}

/// Reports the result of a check to the operator.
fn report(rows: &[Row], state: &ProofState, took: Duration) {
    if let ProofState::Broken(weaknesses) = state {
        for (controls, found) in findings(weaknesses) {
            // One cause has one remedy; several would be of no use.
            let concerned = rows
                .iter()
                .filter(|row| controls.contains(&row.control.name()));
            let advice: BTreeSet<_> = concerned.filter_map(|row| row.advice).collect();
            let advice = advice.first().filter(|_| advice.len() == 1);
            let controls = controls.join(",");
            if weaknesses.iter().any(|weakness| weakness.was_tried) {
                error!(
                    controls,
                    found, advice, "the sandbox is weaker than it must be: no code is run"
                );
            } else {
                error!(
                    controls,
                    found, advice, "the sandbox could not be checked: no code is run"
                );
            }
        }
    }
    let mut skipped = Vec::new();
    for row in rows {
        let (control, found, advice) = (row.control.name(), &row.found, row.advice);
        for note in &row.notes {
            warn!(
                control,
                note, "this host lacks something that the sandbox uses"
            );
        }
        let refuses = matches!(state, ProofState::Broken(all) if all.iter().any(|one| one.control == row.control));
        match &row.verdict {
            Verdict::Skipped(_) if !refuses => skipped.push(control),
            Verdict::Fail(_) if !refuses => {
                warn!(
                    control,
                    found, advice, "a control of the sandbox failed, which is allowed"
                );
            }
            _ => {}
        }
    }
    if !skipped.is_empty() {
        let controls = skipped.join(",");
        warn!(
            controls,
            "controls of the sandbox were not checked: the python runner is missing"
        );
    }
    if *state == ProofState::Held {
        info!(
            controls = rows.len() - skipped.len(),
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "the sandbox was checked"
        );
    }
}
