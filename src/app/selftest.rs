//! Proves that the sandbox holds: the command `selftest`, and the check that every start begins with.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tower::ServiceExt as _;
use tracing::{debug, error, info, warn};

use super::App;
use crate::config::Config;
use crate::control::Control;
use crate::executor::Executor;
use crate::executor::docker::DockerExecutor;
use crate::proof::{State, Weakness};
use crate::runner::catalog::{EngineView, View};
use crate::selftest::{self, Download, Report, Row, Selftest, Verdict, Way};

/// After a check that failed, the next one comes so soon: the operator may have mended it.
const CHECK_AGAIN: Duration = Duration::from_secs(30);
/// Pause before an engine that was lost in the middle is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the engine may take to answer the command.
const ENGINE_WAIT: Duration = Duration::from_secs(10);

impl App {
    /// What there is to test.
    fn selftest(&self) -> Selftest {
        Selftest {
            runs: self.runs.clone(),
            executor: Arc::clone(&self.executor),
            engine: self.config.engine.clone(),
        }
    }

    /// Checks the sandbox behind the answers, now and whenever the engine or the image that is used for it changed.
    /// No run begins before it held once.
    pub fn prove(&self) {
        let (selftest, stop) = (self.selftest(), self.hard.clone());
        self.tasks
            .spawn(async move { stop.run_until_cancelled(keep_proving(&selftest)).await });
    }

    /// Tries every control, or those in `only`, on the configured engine with a server that nobody else uses. The
    /// inner error says why nothing could be tried: there is no engine, or no runner.
    ///
    /// # Errors
    /// The storage is not usable.
    pub async fn run_selftest(
        config: Config,
        only: &[Control],
        tell: &(dyn Fn(&Row) + Sync),
    ) -> anyhow::Result<Result<Report, String>> {
        let executor = Arc::new(DockerExecutor::new(config.engine.host.as_deref()));
        Self::run_selftest_on(executor, config, only, tell).await
    }

    /// The same on any executor.
    ///
    /// # Errors
    /// The storage is not usable.
    pub async fn run_selftest_on(
        executor: Arc<dyn Executor>,
        config: Config,
        only: &[Control],
        tell: &(dyn Fn(&Row) + Sync),
    ) -> anyhow::Result<Result<Report, String>> {
        let ways: &[Way] = if selftest::has_warm_runs(&config) {
            &[Way::Cold, Way::Warm]
        } else {
            &[Way::Cold]
        };
        let app = Self::with_executor(selftest::configuration(config), executor)?;
        let router = app.start_quietly();
        let _ = tokio::time::timeout(ENGINE_WAIT, app.runs.catalog.first_look()).await;
        let view = app.runs.catalog.view();
        let engine = match &view.engine {
            EngineView::Down(reason) => Err(reason.clone()),
            EngineView::Up(_) if view.runners.is_empty() => {
                Err("there is no runner image: run ./build.sh".to_owned())
            }
            EngineView::Up(engine) => Ok(engine.name.clone()),
        };
        let report = match engine {
            Ok(engine) => {
                let download = downloads(router, &app.config);
                let rows = app.selftest().all(ways, only, &download, tell).await;
                let is_up = app.runs.engine().is_up();
                let report = Report::new(engine, app.config.engine.runtime.clone(), rows);
                is_up
                    .then_some(report)
                    .ok_or_else(|| "it went away meanwhile".to_owned())
            }
            Err(reason) => Err(reason),
        };
        app.shut_down().await;
        Ok(report)
    }
}

/// The file route, asked as anybody on the network asks it.
fn downloads(router: axum::Router, config: &Config) -> Download {
    let host = config
        .http
        .allowed_hosts
        .first()
        .cloned()
        .unwrap_or_default();
    Arc::new(move |path| {
        let (router, host) = (router.clone(), host.clone());
        async move {
            let request = Request::get(format!("/files/{path}")).header("host", host);
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

/// What a check is valid for: this engine and the images that it is done with.
fn subject(view: &View) -> Option<String> {
    let EngineView::Up(engine) = &view.engine else {
        return None;
    };
    let images = ["python", "shell"].map(|language| view.find(language).map(|one| &one.image_id));
    Some(format!("{engine:?} {images:?}"))
}

async fn keep_proving(selftest: &Selftest) {
    let (proof, mut views) = (&selftest.runs.proof, selftest.runs.catalog.watch());
    let mut proved_for = None;
    loop {
        let now = subject(&views.borrow_and_update());
        let mut again = Duration::MAX;
        match now {
            None => {
                // What comes back may be another engine.
                proof.set(State::Pending);
                proved_for = None;
            }
            Some(now) if proved_for.as_ref() == Some(&now) => {}
            Some(now) => match check(selftest).await {
                Some(State::Held) => {
                    proof.set(State::Held);
                    proved_for = Some(now);
                }
                Some(state) => {
                    proof.set(state);
                    again = CHECK_AGAIN;
                }
                None => again = RETRY,
            },
        }
        tokio::select! {
            _ = views.changed() => {}
            () = sleep(again) => {}
        }
    }
}

/// `Duration::MAX` is for ever.
async fn sleep(duration: Duration) {
    if duration == Duration::MAX {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(duration).await;
}

/// Tries the controls that the start waits for. `None` when the engine was lost meanwhile.
async fn check(selftest: &Selftest) -> Option<State> {
    let started = Instant::now();
    let Some(rows) = selftest.at_start().await else {
        debug!("cannot check the sandbox now");
        return None;
    };
    let state = judge(&rows, &selftest.engine.allow_weaker);
    if state == State::Held {
        info!(
            controls = rows.len(),
            duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "the sandbox holds"
        );
    }
    Some(state)
}

/// What follows from the rows, and what of it the operator should know.
fn judge(rows: &[Row], allowed: &[Control]) -> State {
    let mut weaknesses = Vec::new();
    for row in rows {
        let (control, found, advice) = (row.control.name(), &row.found, row.advice);
        match &row.verdict {
            Verdict::Pass(_) => {}
            // Without the runner that tries it nobody knows. A runtime that nobody tried is not used.
            Verdict::Skipped(_) if row.control != Control::Runtime => {
                warn!(control, found, "a control of the sandbox was not checked");
            }
            _ if allowed.contains(&row.control) => {
                warn!(
                    control,
                    found, advice, "a control of the sandbox failed, which is allowed"
                );
            }
            _ => {
                error!(
                    control,
                    found, advice, "a control of the sandbox failed: no code is run"
                );
                weaknesses.push(Weakness {
                    control: row.control,
                    found: found.clone(),
                });
            }
        }
    }
    if weaknesses.is_empty() {
        State::Held
    } else {
        State::Broken(weaknesses)
    }
}
