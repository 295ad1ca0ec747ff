//! The real engine with containers that are weaker than the server asks for, as a plugin, a policy or an engine that
//! ignores a setting would make them.

use std::sync::Arc;

use async_trait::async_trait;
use bollard::models::ContainerCreateBody;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::stream::BoxStream;
use mcp_code_sandbox::app::Platform;
use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::executor::docker::request::{Dialect, create_body};
use mcp_code_sandbox::executor::docker::{DockerExecutor, HostSetup};
use mcp_code_sandbox::executor::spec::{ContainerLimits, ContainerSpec, LaneSpec};
use mcp_code_sandbox::executor::{
    Attached, Capabilities, ContainerId, ContainerInfo, ContainerState, Engine, Executor,
    ExecutorError, Image, LaneId, LaneInfo,
};
use mcp_code_sandbox::runner::source::RunnerSource;

use super::engines::TestEngine;

/// Removes something that protects from the request for a container.
pub(crate) type Weaken = fn(&mut ContainerCreateBody);

#[derive(Debug)]
pub(crate) struct WeakExecutor {
    real: DockerExecutor,
    docker: Docker,
    weaken: Weaken,
    setup: HostSetup,
    /// What it says about itself, whether or not it is true.
    says_rootless: bool,
}

impl WeakExecutor {
    pub(crate) async fn new(weaken: Weaken) -> Self {
        let socket = "/var/run/docker.sock";
        let docker = Docker::connect_with_unix(socket, 60, API_DEFAULT_VERSION).unwrap();
        Self {
            real: DockerExecutor::new(None),
            docker: docker.negotiate_version().await.unwrap(),
            weaken,
            setup: HostSetup::default(),
            says_rootless: false,
        }
    }

    /// The same engine, taken for rootless.
    pub(crate) fn taken_for_rootless(mut self) -> Self {
        self.says_rootless = true;
        self
    }
}

impl TestEngine for WeakExecutor {
    fn of(self: Arc<Self>, config: &Config) -> Platform {
        let weak = Arc::into_inner(self).expect("nobody else uses it");
        Arc::new(Self {
            setup: config.into(),
            ..weak
        })
        .into()
    }
}

#[async_trait]
impl Executor for WeakExecutor {
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, ExecutorError> {
        let mut body = create_body(spec, Dialect::Docker, &self.setup).unwrap();
        (self.weaken)(&mut body);
        let created = self.docker.create_container(None, body).await.unwrap();
        Ok(ContainerId(created.id))
    }

    /// As an engine that leaves limits out, of which none reports what it does with buffers.
    async fn engine(&self) -> Result<Engine, ExecutorError> {
        let real = self.real.engine().await?;
        Ok(Engine {
            rootless: self.says_rootless,
            capabilities: Capabilities {
                limits: vec!["buffers"],
                ..real.capabilities
            },
            ..real
        })
    }

    async fn ping(&self) -> Result<(), ExecutorError> {
        self.real.ping().await
    }

    async fn has_volume(&self, name: &str) -> Result<bool, ExecutorError> {
        self.real.has_volume(name).await
    }

    async fn start(&self, container: &ContainerId) -> Result<Attached, ExecutorError> {
        self.real.start(container).await
    }

    async fn end_warm_up(
        &self,
        container: &ContainerId,
        limits: &ContainerLimits,
    ) -> Result<(), ExecutorError> {
        self.real.end_warm_up(container, limits).await
    }

    async fn state(&self, container: &ContainerId) -> Result<ContainerState, ExecutorError> {
        self.real.state(container).await
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), ExecutorError> {
        self.real.remove(container).await
    }

    async fn containers(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<ContainerInfo>, ExecutorError> {
        self.real.containers(label, value).await
    }

    async fn lanes(&self) -> Result<Vec<LaneInfo>, ExecutorError> {
        self.real.lanes().await
    }

    async fn make_lane(&self, lane: &LaneSpec) -> Result<LaneId, ExecutorError> {
        self.real.make_lane(lane).await
    }

    async fn remove_lane(&self, lane: &LaneId) -> Result<(), ExecutorError> {
        self.real.remove_lane(lane).await
    }
}

#[async_trait]
impl RunnerSource for WeakExecutor {
    async fn runners(&self) -> Result<Vec<Image>, ExecutorError> {
        self.real.runner_images().await
    }

    async fn changes(&self) -> Result<BoxStream<'static, ()>, ExecutorError> {
        self.real.image_events().await
    }
}
