//! The runners that there are right now, and whether the engine answers. Follows the changes of their source, so that
//! an image built or removed while the server runs is seen without a restart.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::Runner;
use super::source::RunnerSource;
pub use super::view::{EngineView, View};
use crate::executor::{EngineNeeds, ErrorKind, Executor, ExecutorError, Image, Outage};

/// Pause before an engine that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// Longest such pause, for an engine whose events end again and again.
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// Events that end sooner than this count as ended early.
const STEADY: Duration = Duration::from_secs(30);
/// Early ends in a row that are put down to restarts of the engine. After that, something else always ends them.
const MOST_RESTARTS: u32 = 3;
/// Time between two checks whether the engine is still there.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Failed checks in a row before it counts as lost: a busy engine answers late, but it does answer.
const MAX_FAILED_POLLS: u32 = 3;
/// Events come in bursts (a build tags, untags and deletes): one listing after the burst is enough.
const SETTLE: Duration = Duration::from_millis(100);

/// The runners that there are right now.
#[derive(Clone, Debug)]
pub struct Catalog(watch::Sender<Arc<View>>);

impl Default for Catalog {
    fn default() -> Self {
        Self(watch::Sender::new(Arc::default()))
    }
}

impl Catalog {
    /// The current state.
    pub fn view(&self) -> Arc<View> {
        self.0.borrow().clone()
    }

    /// Whether the engine answers, and if not, why.
    pub fn engine(&self) -> EngineView {
        self.view().engine.clone()
    }

    /// The current state and all that follow.
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.0.subscribe()
    }

    /// Waits until the engine has been asked once.
    pub async fn first_poll(&self) {
        let first = Arc::<View>::default();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|view| **view != *first).await;
    }

    /// Resolves when the engine does not answer, with the reason.
    pub async fn lost(&self) -> Outage {
        let mut views = self.watch();
        loop {
            if let EngineView::Down(outage) = &views.borrow_and_update().engine {
                return outage.clone();
            }
            // The sender lives in `self`, so waiting cannot fail.
            let _ = views.changed().await;
        }
    }

    /// Keeps the catalogue up to date until `stop`.
    ///
    /// An engine that cannot do what settings need of it counts as one that cannot be used.
    pub async fn follow(
        &self,
        executor: &dyn Executor,
        source: &dyn RunnerSource,
        needs: &EngineNeeds,
        stop: &CancellationToken,
    ) {
        let follow = async {
            loop {
                let Err(error) =
                    try_join(self.follow_changes(executor, source, needs), poll(executor)).await;
                self.set_lost(&error);
                tokio::time::sleep(RETRY).await;
            }
        };
        stop.run_until_cancelled(follow).await;
    }

    /// Follows changes as long as there is an engine.
    async fn follow_changes(
        &self,
        executor: &dyn Executor,
        source: &dyn RunnerSource,
        needs: &EngineNeeds,
    ) -> Result<Infallible, ExecutorError> {
        let mut early = 0;
        loop {
            let since = Instant::now();
            let fitting = executor.fitting(needs).await?;
            let engine = fitting.map_err(|unfit| ExecutorError {
                kind: ErrorKind::Unusable,
                operation: "use the container engine",
                source: unfit.into(),
            })?;
            // Changes first, then the list: what happens in between is in one of the two.
            let mut changes = source.changes().await?.fuse().boxed();
            let mut images = source.runners().await?;
            loop {
                let view = self.view();
                let is_another = matches!(&view.engine, EngineView::Up(known) if *known != engine);
                self.set(View {
                    engine: EngineView::Up(engine.clone()),
                    runners: select(images),
                    engine_generation: view.engine_generation + u64::from(is_another),
                });
                if changes.next().await.is_none() {
                    break;
                }
                images = listed(source, &mut changes).await;
            }
            early = if since.elapsed() < STEADY {
                early + 1
            } else {
                0
            };
            self.doubt(early);
            let pause = RETRY * 2_u32.saturating_pow(early.saturating_sub(1));
            tokio::time::sleep_until(since + pause.min(LONGEST_RETRY)).await;
        }
    }

    /// Notes that the events have ended, the last `early` times in a row too soon. Either the engine was restarted, or
    /// something on the way cut a silent connection. Where they always end early, no proof would last.
    fn doubt(&self, early: u32) {
        if early > MOST_RESTARTS {
            if early == MOST_RESTARTS + 1 {
                warn!(
                    "the container engine's events end again and again: new runner images are seen late"
                );
            }
            return;
        }
        let view = self.view();
        self.set(View {
            engine_generation: view.engine_generation + 1,
            ..View::clone(&view)
        });
    }

    fn set_lost(&self, error: &ExecutorError) {
        let view = self.view();
        let restarting = match &view.engine {
            EngineView::Up(_) => true,
            EngineView::Down(outage) => !outage.lasts && *view != View::default(),
        };
        self.set(View {
            engine: EngineView::Down(Outage::of(error, restarting)),
            ..View::clone(&view)
        });
    }

    fn set(&self, next: View) {
        self.0.send_if_modified(|current| {
            let changed = **current != next;
            if changed {
                log_changes(current, &next);
                *current = Arc::new(next);
            }
            changed
        });
    }
}

/// The images after a burst of changes. A listing that fails is repeated: whether the engine is lost is not decided by
/// what is hard for it.
async fn listed(source: &dyn RunnerSource, changes: &mut BoxStream<'static, ()>) -> Vec<Image> {
    loop {
        tokio::time::sleep(SETTLE).await;
        while let Some(Some(())) = changes.next().now_or_never() {}
        match source.runners().await {
            Ok(images) => return images,
            Err(error) => {
                debug!(%error, "cannot list the runner images now");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Checks that the engine is there until it is not. One that hangs or is cut off does not end any stream.
async fn poll(executor: &dyn Executor) -> Result<Infallible, ExecutorError> {
    let mut in_vain = 0;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match executor.ping().await {
            Ok(()) => in_vain = 0,
            Err(_) if in_vain + 1 < MAX_FAILED_POLLS => in_vain += 1,
            Err(error) => return Err(error),
        }
    }
}

fn log_changes(before: &View, after: &View) {
    match (&before.engine, &after.engine) {
        (EngineView::Down(_), EngineView::Up(engine)) => {
            info!(
                engine.name = engine.name,
                engine.runc = engine.runc,
                "the container engine answers"
            );
        }
        (EngineView::Down(before), EngineView::Down(after)) if before == after => {}
        (_, EngineView::Down(outage)) => {
            let reason = &outage.reason;
            warn!(reason, "the container engine does not answer");
        }
        (EngineView::Up(_), EngineView::Up(_)) => {}
    }
    for (language, runner) in &after.runners {
        if before.runners.get(language) != Some(runner) {
            info!(
                runner.language = language,
                runner.image = runner.image,
                "a runner is there"
            );
            for reason in &runner.ignored {
                warn!(
                    runner.language = language,
                    runner.image = runner.image,
                    reason,
                    "a label of a runner has no effect"
                );
            }
        }
    }
    for language in before
        .runners
        .keys()
        .filter(|language| !after.runners.contains_key(*language))
    {
        info!(runner.language = language, "a runner is gone");
    }
}

/// The runners among `images`: for each language the newest image.
fn select(mut images: Vec<Image>) -> BTreeMap<String, Arc<Runner>> {
    // By name too, so that two images of the same second give the same answer every time.
    images.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let mut runners = BTreeMap::new();
    for image in &images {
        let runner = match Runner::from_image(image) {
            Ok(runner) => Arc::new(runner),
            Err(error) => {
                warn!(runner.image = image.name, %error, "an image labelled as a runner is none");
                continue;
            }
        };
        let older: Option<Arc<Runner>> =
            runners.insert(runner.language.clone(), Arc::clone(&runner));
        if let Some(older) = older.filter(|older| older.image != runner.image) {
            info!(
                runner.language = runner.language,
                runner.image = runner.image,
                runner.ignored = older.image,
                "two images for one language: the newer one is used"
            );
        }
    }
    runners
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::executor::fake::FakeExecutor;

    /// How often an engine is doubted while `meanwhile` runs.
    async fn engine_generation(fake: &FakeExecutor, meanwhile: impl Future<Output = ()>) -> u64 {
        let (catalog, stop) = (Catalog::default(), CancellationToken::new());
        let needs = EngineNeeds::default();
        tokio::select! {
            () = catalog.follow(fake, fake, &needs, &stop) => {}
            () = meanwhile => {}
        }
        assert!(catalog.view().find("shell").is_some());
        catalog.view().engine_generation
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_is_doubted_after_restarts_and_not_for_events_that_always_end() {
        let fake = FakeExecutor::with_languages(&["shell"]);
        let restarts = async {
            for _ in 0..5 {
                tokio::time::sleep(STEADY + RETRY).await;
                fake.restart();
            }
            tokio::time::sleep(RETRY).await;
        };
        assert_eq!(engine_generation(&fake, restarts).await, 5);
        fake.end_events();
        assert_eq!(
            engine_generation(&fake, tokio::time::sleep(STEADY * 10)).await,
            3
        );
    }

    fn image(name: &str, language: &str, aliases: &str, created: i64) -> Image {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Image {
            id: format!("sha256:{name}"),
            name: name.to_owned(),
            created,
            labels: HashMap::from([
                label("sandbox.language", language),
                label("sandbox.aliases", aliases),
            ]),
            command: vec!["run".to_owned()],
            env: Vec::new(),
        }
    }

    fn view(images: Vec<Image>) -> View {
        View {
            engine_generation: 0,
            engine: EngineView::default(),
            runners: select(images),
        }
    }

    #[test]
    fn the_newest_image_of_a_language_wins() {
        let view = view(vec![
            image("new", "python", "", 2),
            image("old", "python", "", 1),
        ]);
        assert_eq!(view.find("python").unwrap().image, "new");
    }

    #[test]
    fn a_language_goes_before_an_alias() {
        let view = view(vec![
            image("a", "deno", "ts,js", 9),
            image("b", "ts", "", 1),
        ]);
        assert_eq!(view.find("TS").unwrap().image, "b");
        assert_eq!(view.find("js").unwrap().image, "a");
        assert!(view.find("ruby").is_none());
    }

    #[test]
    fn labels_without_effect_are_told() {
        let ignored = |labels: &[(&str, &str)]| {
            let mut image = image("a", "perl", "pl,no good", 1);
            let labels = labels
                .iter()
                .map(|&(name, value)| (format!("sandbox.{name}"), value.to_owned()));
            image.labels.extend(labels);
            Runner::from_image(&image).unwrap().ignored.join("\n")
        };
        let driver = ("driver", r#"["perl"]"#);
        let right = [
            driver,
            ("driver-light", r#"["perl", "soon"]"#),
            ("protocol", "3"),
            ("kernel", "true"),
            ("stdin", "programs"),
            ("aliases", "pl"),
        ];
        assert_eq!(ignored(&right), "");
        insta::assert_snapshot!(ignored(&[driver, ("protocol", "4"), ("kernel", "yes"), ("stdin", "true"), ("hints", "[1]")]), @r#"
        alias "no good" is left out: it must be 1 to 32 of a-z, 0-9, +, - and #
        label sandbox.kernel is "yes": it must be true
        label sandbox.stdin is "true": it must be programs or all
        label sandbox.driver: sandbox.protocol is "4", and must be 3
        label sandbox.hints: it is not a JSON array of entries: invalid type: integer `1`, expected struct Row at line 1 column 2
        "#);
        insta::assert_snapshot!(ignored(&[("drivr", "x"), ("protocol", "3"), ("cold-env", "TZ"), ("aliases", "")]), @r"
        there is no label sandbox.drivr
        label sandbox.protocol without sandbox.driver
        label sandbox.cold-env without sandbox.driver
        ");
    }

    #[test]
    fn drivers_are_commands() {
        let drivers = |driver: &str, soon: &str| {
            let mut image = image("a", "perl", "", 1);
            let labels = [
                ("protocol", "3"),
                ("driver", driver),
                ("driver-light", soon),
            ];
            let labels = labels.map(|(name, value)| (format!("sandbox.{name}"), value.to_owned()));
            image.labels.extend(labels);
            Runner::from_image(&image)
                .map(|runner| (runner.driver, runner.driver_light))
                .map_err(|error| error.to_string())
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(drivers(r#"["p"]"#, ""), Ok((words("p"), Vec::new())));
        assert_eq!(
            drivers(r#"["p"]"#, r#"["p", "s"]"#),
            Ok((words("p"), words("p s")))
        );
        assert_eq!(drivers("", r#"["p", "s"]"#), Ok((Vec::new(), Vec::new())));
        insta::assert_snapshot!(drivers("p", "").unwrap_err(), @"label sandbox.driver is not a JSON array of strings");
        insta::assert_snapshot!(drivers(r#"["p"]"#, "p s").unwrap_err(), @"label sandbox.driver-light is not a JSON array of strings");
    }

    #[test]
    fn images_that_are_no_runners_are_left_out() {
        let mut without_command = image("b", "perl", "", 1);
        without_command.command.clear();
        assert!(select(vec![image("a", "Bad Name", "", 1), without_command]).is_empty());
    }
}
