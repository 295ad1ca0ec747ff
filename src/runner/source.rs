//! Where runners are from: the images of an engine, and whatever else tells of images.

use std::fmt;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::executor::docker::DockerExecutor;
use crate::executor::fake::FakeExecutor;
#[cfg(feature = "kubernetes")]
use crate::executor::kubernetes::KubernetesExecutor;
use crate::executor::{ExecutorError, Image};

/// Something that knows which images are runners.
#[async_trait]
pub trait RunnerSource: fmt::Debug + Send + Sync {
    /// All images that are labelled as runners.
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError>;

    /// One item whenever they may have changed. Its end means that the engine may have been restarted.
    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError>;
}

#[async_trait]
impl RunnerSource for DockerExecutor {
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError> {
        self.runner_images().await
    }

    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        self.image_events().await
    }
}

#[async_trait]
impl RunnerSource for FakeExecutor {
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError> {
        self.runner_images()
    }

    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        self.image_events()
    }
}

#[cfg(feature = "kubernetes")]
#[async_trait]
impl RunnerSource for KubernetesExecutor {
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError> {
        self.runner_images().await
    }

    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        self.runner_changes().await
    }
}
