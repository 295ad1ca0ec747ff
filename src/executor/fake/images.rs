//! Runner images of a fake engine, which come and go as builds make them.

use std::collections::HashMap;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio_stream::wrappers::BroadcastStream;

use super::FakeExecutor;
use crate::executor::{ExecutorError, Image};

impl FakeExecutor {
    /// All its images.
    ///
    /// # Errors
    /// It was told to fail.
    pub fn runner_images(&self) -> Result<Vec<Image>, ExecutorError> {
        Ok(self.request("list runner images")?.images.clone())
    }

    /// One item whenever they change. Ends with a restart.
    ///
    /// # Errors
    /// It was told to fail.
    pub fn image_events(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        let inner = self.request("follow image events")?;
        if inner.ends_events {
            return Ok(futures::stream::empty().boxed());
        }
        let restarts = inner.restarts;
        drop(inner);
        let executor = self.clone();
        let events = BroadcastStream::new(self.0.image_events.subscribe());
        let is_same = move |_: &Result<(), _>| {
            let inner = executor.0.inner.lock();
            std::future::ready(inner.restarts == restarts && !inner.trouble.engine_down)
        };
        Ok(events.take_while(is_same).map(|_| ()).boxed())
    }

    /// Adds a runner image, as a build would.
    pub fn add_image(&self, language: &str, aliases: &str, created: i64) {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = [
            label("sandbox.runner", "true"),
            label("sandbox.language", language),
            label("sandbox.aliases", aliases),
            label("sandbox.description", "Imitates a shell"),
            label("sandbox.stdin", "programs"),
        ];
        self.0.inner.lock().images.push(Image {
            id: format!("sha256:{language}-{created}"),
            name: format!("fake-{language}:latest"),
            created,
            labels: HashMap::from(labels),
            command: vec!["sh".to_owned()],
            env: Vec::new(),
        });
        self.announce();
    }

    /// Adds a runner image of a language that has kernels.
    pub fn add_notebook(&self, language: &str, created: i64) {
        self.add_image(language, "", created);
        let more = [
            ("sandbox.protocol", "3"),
            ("sandbox.driver", r#"["fake"]"#),
            ("sandbox.kernel", "true"),
            ("sandbox.cold-env", "EARLY_*"),
            ("sandbox.stdin", "all"),
        ];
        if let Some(image) = self.0.inner.lock().images.last_mut() {
            let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
            image.labels.extend(more);
        }
        self.announce();
    }

    /// Changes a label of all images of a language, as another build of them would.
    pub fn label(&self, language: &str, name: &str, value: &str) {
        for image in &mut self.0.inner.lock().images {
            if image
                .labels
                .get("sandbox.language")
                .is_some_and(|it| it == language)
            {
                image.labels.insert(name.to_owned(), value.to_owned());
            }
        }
        self.announce();
    }

    /// Removes all images of a language.
    pub fn remove_images(&self, language: &str) {
        self.0.inner.lock().images.retain(|image| {
            image
                .labels
                .get("sandbox.language")
                .is_none_or(|name| name != language)
        });
        self.announce();
    }
}
