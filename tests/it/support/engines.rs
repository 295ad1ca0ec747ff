//! The engines of tests, which learn where a server has its files once there is a server.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use mcp_code_sandbox::app::Platform;
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::executor::{ExecutorError, Image};
use mcp_code_sandbox::runner::source::RunnerSource;

use super::TestApp;

/// What the tests of a suite run on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Engine {
    /// In the test's own process.
    Fake,
    /// With a container for each run.
    Docker,
    /// With one that was started ahead and stays with its conversation.
    WarmDocker,
    /// With a pod for each run.
    Kubernetes,
    /// With one that was started ahead and stays with its conversation.
    WarmKubernetes,
}

impl Engine {
    /// A server that has a runner for the language.
    pub(crate) async fn start(self, language: &str, settings: &[(&str, &str)]) -> TestApp {
        match self {
            Self::Fake if language == "shell" => TestApp::on_fake_with(settings).await,
            Self::Fake => TestApp::on_fake_with_notebook(settings).await,
            Self::Docker | Self::Kubernetes => self.server(settings).await,
            Self::WarmDocker | Self::WarmKubernetes => {
                let pool = format!("{language}=1");
                let warm = [
                    ("POOL_SIZE", pool.as_str()),
                    ("SANDBOX_REUSE", "conversation"),
                    ("MAX_WARM_SANDBOXES", "1"),
                ];
                let app = self.server(&[&warm[..], settings].concat()).await;
                app.parked(language, 1).await;
                app
            }
        }
    }

    /// A server that has these settings and no others.
    pub(crate) async fn server(self, settings: &[(&str, &str)]) -> TestApp {
        match self {
            Self::Fake => TestApp::on_fake_with(settings).await,
            Self::Docker | Self::WarmDocker => TestApp::on_docker_with(settings).await,
            Self::Kubernetes | Self::WarmKubernetes => TestApp::on_kubernetes_with(settings).await,
        }
    }

    /// The same without drivers.
    pub(crate) async fn server_without_drivers(self, settings: &[(&str, &str)]) -> TestApp {
        if self.is_kubernetes() {
            let executor = Driverless(Arc::new(Configured));
            TestApp::on_kubernetes(settings, Arc::new(executor)).await
        } else {
            let executor = Driverless(Arc::new(DockerExecutor::new(None)));
            TestApp::build(settings, Arc::new(executor)).await
        }
    }

    pub(crate) const fn is_warm(self) -> bool {
        matches!(self, Self::WarmDocker | Self::WarmKubernetes)
    }

    pub(crate) const fn is_kubernetes(self) -> bool {
        matches!(self, Self::Kubernetes | Self::WarmKubernetes)
    }

    /// What must hold at the end of each test: its sandboxes came from where they should, and none is left.
    pub(crate) async fn finish(self, app: &TestApp) {
        let found = app.starts("pool") + app.starts("own");
        assert_eq!(found > 0, self.is_warm());
        app.assert_nothing_is_left().await;
    }
}

/// An engine before there is a server.
pub(crate) trait TestEngine {
    /// For a server with these settings.
    fn of(self: Arc<Self>, config: &Config) -> Platform;
}

impl TestEngine for FakeExecutor {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        self.find_files(config.into());
        self.into()
    }
}

impl TestEngine for DockerExecutor {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        let docker = Arc::into_inner(self).expect("nobody else uses it");
        Arc::new(docker.with_setup(config.into())).into()
    }
}

/// Whatever the settings say.
#[derive(Debug)]
pub(crate) struct Configured;

impl TestEngine for Configured {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        Platform::from(config)
    }
}

/// An engine whose images have no drivers: they are as they would be under the plain contract alone.
#[derive(Debug)]
pub(crate) struct Driverless<T>(pub(crate) T);

impl<T: TestEngine> TestEngine for Driverless<Arc<T>> {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        let Self(engine) = Arc::into_inner(self).expect("nobody else uses it");
        let Platform { executor, runners } = engine.of(config);
        Platform {
            executor,
            runners: Arc::new(Driverless(runners)),
        }
    }
}

#[async_trait]
impl RunnerSource for Driverless<Arc<dyn RunnerSource>> {
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError> {
        let mut images = self.0.runners().await?;
        for image in &mut images {
            image.labels.remove("sandbox.driver");
        }
        Ok(images)
    }

    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        self.0.changes().await
    }
}
