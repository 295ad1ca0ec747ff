//! The images that an engine has, as far as they are runners.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::{EventsOptionsBuilder, ListImagesOptionsBuilder};
use futures::stream::{BoxStream, StreamExt as _};

use super::answers::image;
use super::{DockerExecutor, QUICK};
use crate::executor::{ErrorKind, ExecutorError, Image};

/// How far back events are asked for, since the engine counts in whole seconds.
const OVERLAP: Duration = Duration::from_secs(1);

impl DockerExecutor {
    /// All local images that are labelled as runners.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn runner_images(&self) -> Result<Vec<Image>, ExecutorError> {
        let operation = "list runner images";
        let client = self.client(operation).await?;
        // An image that lost its name to a newer one is not meant to be used any more.
        let filters = HashMap::from([
            ("label", vec!["sandbox.runner=true"]),
            ("dangling", vec!["false"]),
        ]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let summaries = self
            .within(QUICK, operation, client.list_images(Some(options)))
            .await?;
        let mut images = Vec::with_capacity(summaries.len());
        for summary in summaries {
            match self
                .within(QUICK, operation, client.inspect_image(&summary.id))
                .await
            {
                Ok(details) => images.push(image(summary, details)),
                // Removed between the two requests.
                Err(gone) if gone.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(images)
    }

    /// One item whenever an image appears, disappears or is tagged. Ends when the engine goes away.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn image_events(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        let client = self.client("follow image events").await?;
        let filters = HashMap::from([("type", vec!["image"])]);
        // The request is only sent when the stream is first read: the engine then reports what has happened since now.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let since = now.saturating_sub(OVERLAP).as_secs().to_string();
        let options = EventsOptionsBuilder::new()
            .filters(&filters)
            .since(&since)
            .build();
        let events = client.events(Some(options));
        let ends_on_error = events.take_while(|event| std::future::ready(event.is_ok()));
        Ok(ends_on_error.map(|_| ()).boxed())
    }
}
