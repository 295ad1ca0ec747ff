//! Keeps the pool filled and tidy in the background: the one task that starts sandboxes ahead and retires them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::shelf::{Ahead, ShelfTicket};
use super::start::{Data, Interpreter};
use super::{Kind, Pool, Warm};
use crate::config::PoolSizes;
use crate::executor::spec::{NetworkAccess, Priority};
use crate::runner::catalog::{Catalog, EngineView};
use crate::runner::{Load, Runner};
use crate::sandbox::{Sandbox, SandboxError};

/// How long a parked sandbox lives on its own, at least. The server retires it earlier; this is for when the server is
/// gone.
const PARKED_FOR: Duration = Duration::from_hours(24);
/// How much longer that is than the time after which the server retires it.
const RETIRED_BEFORE: Duration = Duration::from_hours(1);
/// After this time without a new conversation, a burst of them is over.
const CALM: Duration = Duration::from_millis(200);
/// How long a sandbox waits for that before an interpreter is parked in it, and how often that is looked at.
const LONGEST_BURST: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// Longest pause between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Pool {
    /// Keeps the pool until `stop`. Of so many starts at a time as the engine can have, `allowed_starts` says how many there
    /// may be now.
    pub async fn maintain(
        &self,
        catalog: &Catalog,
        allowed_starts: impl Fn(usize) -> usize,
        stop: &CancellationToken,
    ) {
        let keep = async {
            let mut views = catalog.watch();
            loop {
                let changed = self.0.changed.notified();
                let view = views.borrow_and_update().clone();
                self.tidy(view.runners.values());
                let is_calm = self.is_calm();
                if is_calm {
                    self.unload(view.runners.values());
                }
                if let EngineView::Up(engine) = &view.engine
                    && is_calm
                {
                    let max_starts = allowed_starts(engine.capabilities.max_starts_at_a_time);
                    self.fill(view.runners.values(), max_starts);
                }
                let interval = if is_calm { CHECK_INTERVAL } else { CALM };
                tokio::select! {
                    () = changed => {}
                    _ = views.changed() => {}
                    () = tokio::time::sleep(interval) => {}
                }
            }
        };
        stop.run_until_cancelled(keep).await;
        self.close();
    }

    /// Whether no run waits for the start of its sandbox, and no burst of conversations is under way.
    pub(super) fn is_calm(&self) -> bool {
        let is_quiet = self.0.shelf.lock().quiet(Instant::now()) >= CALM;
        is_quiet && self.0.cold_starts.is_empty()
    }

    /// Resolves when it is calm, or a run waits for this sandbox.
    pub(super) async fn until_calm(&self, ticket: ShelfTicket) {
        let is_due = || self.is_calm() || self.0.shelf.lock().is_awaited(ticket);
        let patience = Instant::now() + LONGEST_BURST;
        while !is_due() && Instant::now() < patience {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn tidy<'a>(&self, runners: impl Iterator<Item = &'a Arc<Runner>>) {
        let follows_renames = self.follows_renames();
        let sizes = |runner: &Runner| {
            let Runner {
                language, aliases, ..
            } = runner;
            let has_light = !runner.driver_light.is_empty();
            let wanted = self.0.config.size.of(language, aliases, has_light);
            if follows_renames {
                wanted
            } else {
                PoolSizes::default()
            }
        };
        let kinds = runners
            .map(|runner| (Kind::of(runner), sizes(runner)))
            .collect();
        let mut shelf = self.0.shelf.lock();
        let mut retired = shelf.set_kinds(&kinds, Instant::now());
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
            let evicted = shelf.make_room(Instant::now());
            let Some(ahead) = shelf.begin_start(Instant::now()) else {
                return;
            };
            drop(shelf);
            drop(evicted);
            let Some(runner) = by_kind.get(&ahead.0) else {
                let mut shelf = self.0.shelf.lock();
                shelf.start_failed(&ahead, Instant::now());
                continue;
            };
            let (pool, runner) = (self.clone(), Arc::clone(runner));
            self.0
                .tasks
                .spawn(async move { pool.start_ahead(ahead, &runner).await });
        }
    }

    async fn start_ahead(&self, ahead: Ahead, runner: &Runner) {
        let started = self.started(runner, ahead.1).await;
        let mut shelf = self.0.shelf.lock();
        let now = Instant::now();
        let unwanted = match started {
            Ok(warm) => shelf.started(&ahead, warm, now),
            Err(error) => {
                shelf.start_failed(&ahead, now);
                if !matches!(error, SandboxError::Stopped) {
                    let error = &error as &dyn std::error::Error;
                    warn!(
                        runner.language = runner.language,
                        error, "failed to start a sandbox ahead"
                    );
                }
                None
            }
        };
        drop(shelf);
        drop(unwanted);
        self.0.changed.notify_waiters();
    }

    async fn started(&self, runner: &Runner, load: Load) -> Result<Warm, SandboxError> {
        let slot = self
            .0
            .workspaces
            .new_slot()
            .await
            .map_err(SandboxError::Data)?;
        let data = Data::of_slot(&slot);
        let spec = self.spec(runner, data, NetworkAccess::None, Priority::WarmUp);
        let env = BTreeMap::new();
        let interpreter = Interpreter {
            runner,
            load,
            env: &env,
        };
        let sandbox = self.start(spec, Some(interpreter)).await?;
        Ok(Warm {
            sandbox,
            slot: Some(slot),
            data: None,
            load,
            used: Warm::used_when_parked(load),
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
        let Interpreter { runner, load, env } = interpreter;
        let idle = self.parked_for();
        tokio::select! {
            parked = sandbox.park(runner.driver_for(load), env, idle, must_not_reach) => parked?,
            () = self.0.closed.cancelled() => return Err(SandboxError::Stopped),
        }
        sandbox.end_warm_up(self.limits(runner)).await?;
        Ok(sandbox)
    }
}
