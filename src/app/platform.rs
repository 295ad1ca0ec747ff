//! What a server runs on.

use std::sync::Arc;

#[cfg(feature = "kubernetes")]
use super::settings;
use crate::config::Config;
use crate::executor::Executor;
use crate::executor::docker::DockerExecutor;
#[cfg(feature = "kubernetes")]
use crate::executor::kubernetes::KubernetesExecutor;
use crate::runner::source::RunnerSource;

/// What a server runs on.
#[derive(Clone, Debug)]
pub struct Platform {
    /// What runs its containers.
    pub executor: Arc<dyn Executor>,
    /// Where its runners are from.
    pub runners: Arc<dyn RunnerSource>,
}

impl<T: Executor + RunnerSource + 'static> From<Arc<T>> for Platform {
    fn from(both: Arc<T>) -> Self {
        Self {
            executor: Arc::clone(&both) as Arc<dyn Executor>,
            runners: both,
        }
    }
}

/// The configured one. The only place that says which there are.
impl From<&Config> for Platform {
    fn from(config: &Config) -> Self {
        #[cfg(feature = "kubernetes")]
        if let Some(kubernetes) = &config.engine.kubernetes {
            let setup = settings::pod_setup(kubernetes, config);
            return Arc::new(KubernetesExecutor::new(setup)).into();
        }
        let docker = DockerExecutor::new(config.engine.host.as_deref());
        Arc::new(docker.with_setup(config.into())).into()
    }
}
