//! Keeps the pool filled and tidy in the background: the one task that starts sandboxes ahead and retires them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::start::{Data, Interpreter};
use super::{Kind, Pool, Warm};
use crate::executor::spec::{NetworkAccess, Priority};
use crate::runner::Runner;
use crate::runner::catalog::{Catalog, EngineView};
use crate::sandbox::{Sandbox, SandboxError};

/// How long a parked sandbox lives on its own, at least. The server retires it earlier; this is for when the server is
/// gone.
const PARKED_FOR: Duration = Duration::from_hours(24);
/// How much longer that is than the time after which the server retires it.
const RETIRED_BEFORE: Duration = Duration::from_hours(1);
/// Longest pause between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Pool {
    /// Keeps the pool until `stop`.
    pub async fn maintain(
        &self,
        catalog: &Catalog,
        is_crowded: impl Fn() -> bool,
        stop: &CancellationToken,
    ) {
        let keep = async {
            let mut views = catalog.watch();
            loop {
                let changed = self.0.changed.notified();
                let view = views.borrow_and_update().clone();
                self.tidy(view.runners.values());
                // While runs wait for a place, every core is theirs.
                if let EngineView::Up(engine) = &view.engine
                    && !is_crowded()
                {
                    let max_starts = engine.capabilities.max_starts_at_a_time;
                    self.fill(view.runners.values(), max_starts);
                }
                tokio::select! {
                    () = changed => {}
                    _ = views.changed() => {}
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                }
            }
        };
        stop.run_until_cancelled(keep).await;
        self.close();
    }

    fn tidy<'a>(&self, runners: impl Iterator<Item = &'a Arc<Runner>>) {
        let follows_renames = self.follows_renames();
        let size = |runner: &Runner| {
            let wanted = self.0.config.size.of(&runner.language, &runner.aliases);
            if follows_renames { wanted } else { 0 }
        };
        let kinds = runners
            .map(|runner| (Kind::of(runner), size(runner)))
            .collect();
        let mut shelf = self.0.shelf.lock();
        let mut retired = shelf.set_kinds(&kinds);
        retired.extend(shelf.expire(Instant::now(), |warm| !self.is_usable(&warm.sandbox)));
        drop(shelf);
        for warm in retired {
            debug!(container.id = %warm.sandbox.id(), "retired a sandbox");
        }
    }

    fn fill<'a>(&self, runners: impl Iterator<Item = &'a Arc<Runner>>, max_starts: usize) {
        let by_kind: BTreeMap<Kind, &Arc<Runner>> =
            runners.map(|runner| (Kind::of(runner), runner)).collect();
        loop {
            let mut shelf = self.0.shelf.lock();
            if shelf.starting() >= max_starts {
                return;
            }
            let evicted = shelf.make_room();
            let Some(kind) = shelf.begin_start(Instant::now()) else {
                return;
            };
            drop(shelf);
            drop(evicted);
            let Some(runner) = by_kind.get(&kind) else {
                self.0.shelf.lock().start_failed(&kind, Instant::now());
                continue;
            };
            let (pool, runner) = (self.clone(), Arc::clone(runner));
            self.0
                .tasks
                .spawn(async move { pool.start_ahead(kind, &runner).await });
        }
    }

    async fn start_ahead(&self, kind: Kind, runner: &Runner) {
        match self.started(runner).await {
            Ok(warm) => {
                let unwanted = self.0.shelf.lock().started(&kind, warm, Instant::now());
                drop(unwanted);
            }
            Err(SandboxError::Stopped) => self.0.shelf.lock().start_failed(&kind, Instant::now()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    runner.language = runner.language,
                    error, "failed to start a sandbox ahead"
                );
                self.0.shelf.lock().start_failed(&kind, Instant::now());
            }
        }
        self.0.changed.notify_waiters();
    }

    async fn started(&self, runner: &Runner) -> Result<Warm, SandboxError> {
        let slot = self
            .0
            .workspaces
            .new_slot()
            .await
            .map_err(SandboxError::Data)?;
        let data = Data::of_slot(&slot);
        let spec = self.spec(runner, data, NetworkAccess::None, Priority::WarmUp);
        let env = BTreeMap::new();
        let interpreter = Interpreter { runner, env: &env };
        let sandbox = self.start(spec, Some(interpreter)).await?;
        Ok(Warm {
            sandbox,
            slot: Some(slot),
            data: None,
        })
    }

    /// How long a parked sandbox lives on its own.
    pub(super) fn parked_for(&self) -> Duration {
        PARKED_FOR.max(self.0.setup.idle.saturating_add(RETIRED_BEFORE))
    }

    /// Parks an interpreter in the sandbox, and then gives it a run's share of the processor.
    pub(super) async fn parked(
        &self,
        mut sandbox: Sandbox,
        interpreter: Interpreter<'_>,
        must_not_reach: &[SocketAddr],
    ) -> Result<Sandbox, SandboxError> {
        let Interpreter { runner, env } = interpreter;
        let idle = self.parked_for();
        tokio::select! {
            parked = sandbox.park(&runner.driver, env, idle, must_not_reach) => parked?,
            () = self.0.closed.cancelled() => return Err(SandboxError::Stopped),
        }
        sandbox.end_warm_up(self.limits(runner)).await?;
        Ok(sandbox)
    }
}
