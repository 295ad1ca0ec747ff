//! The engines of tests, which learn where a server has its files once there is a server.

use std::sync::Arc;

use mcp_code_sandbox::app::Platform;
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::docker::DockerExecutor;
use mcp_code_sandbox::executor::fake::FakeExecutor;

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
