//! The engines of tests, which learn where a server has its files once there is a server.

use std::sync::Arc;

use mcp_code_sandbox::app::Platform;
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::executor::fake::FakeExecutor;

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
}

impl Engine {
    /// A server that has a runner for the language.
    pub(crate) async fn start(self, language: &str, settings: &[(&str, &str)]) -> TestApp {
        match self {
            Self::Fake if language == "shell" => TestApp::on_fake_with(settings).await,
            Self::Fake => TestApp::on_fake_with_notebook(settings).await,
            Self::Docker => TestApp::on_docker_with(settings).await,
            Self::WarmDocker => {
                let pool = format!("{language}=1");
                let warm = [
                    ("POOL_SIZE", pool.as_str()),
                    ("SANDBOX_REUSE", "conversation"),
                    ("MAX_WARM_SANDBOXES", "1"),
                ];
                let app = TestApp::on_docker_with(&[&warm[..], settings].concat()).await;
                app.parked(language, 1).await;
                app
            }
        }
    }

    /// What must hold at the end of each test: its sandboxes came from where they should, and none is left.
    pub(crate) async fn finish(self, app: &TestApp) {
        let found = app.starts("pool") + app.starts("own");
        assert_eq!(found > 0, self == Self::WarmDocker);
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
#[cfg(feature = "kubernetes")]
#[derive(Debug)]
pub(crate) struct Configured;

#[cfg(feature = "kubernetes")]
impl TestEngine for Configured {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        Platform::from(config)
    }
}
