//! The Lease of a cluster in which servers note which one of them leads.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::OnceCell;

use super::cluster::{Way, way};
use super::error::ClusterError;
use crate::config::KubernetesConfig;
use crate::executor::ExecutorError;
use crate::executor::leaders::{LeaderEntry, LeaderStore};

/// Limit for each request. Who waits for it may have less time.
const ANSWER: Duration = Duration::from_secs(5);

/// One Lease, and the way to it.
#[derive(Debug)]
pub struct Lease {
    config: KubernetesConfig,
    name: String,
    duration: Duration,
    way: OnceCell<Way>,
}

impl Lease {
    /// The Lease of that name, which tells others how long it is good for without a change. Does not connect yet.
    pub fn new(config: KubernetesConfig, name: String, duration: Duration) -> Self {
        Self {
            config,
            name,
            duration,
            way: OnceCell::new(),
        }
    }

    async fn api(&self) -> Result<Api<LeaseObject>, ClusterError> {
        let way = self.way.get_or_try_init(|| way(&self.config)).await?;
        Ok(Api::namespaced(way.client.0.clone(), &way.namespace))
    }

    async fn get(&self) -> Result<Option<LeaderEntry>, ClusterError> {
        let api = self.api().await?;
        match ClusterError::within(ANSWER, api.get(&self.name)).await {
            Ok(lease) => Ok(Some(entry(&lease))),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put(
        &self,
        leader: Option<&str>,
        over: Option<&str>,
    ) -> Result<LeaderEntry, ClusterError> {
        let (api, params) = (self.api().await?, PostParams::default());
        let lease = self.object(leader, over);
        let written = if over.is_some() {
            ClusterError::within(ANSWER, api.replace(&self.name, &params, &lease)).await
        } else {
            ClusterError::within(ANSWER, api.create(&params, &lease)).await
        };
        written.map(|lease| entry(&lease))
    }

    /// As it is to be. Its times are for people: nobody compares them with a clock.
    fn object(&self, leader: Option<&str>, over: Option<&str>) -> LeaseObject {
        LeaseObject {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: over.map(str::to_owned),
                ..Default::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(leader.unwrap_or_default().to_owned()),
                lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..Default::default()
            }),
        }
    }
}

fn entry(lease: &LeaseObject) -> LeaderEntry {
    let holder = lease.spec.as_ref();
    let holder = holder.and_then(|spec| spec.holder_identity.clone());
    LeaderEntry {
        version: lease.resource_version().unwrap_or_default(),
        leader: holder.filter(|holder| !holder.is_empty()),
    }
}

#[async_trait]
impl LeaderStore for Lease {
    async fn read(&self) -> Result<Option<LeaderEntry>, ExecutorError> {
        let read = self.get().await;
        read.map_err(|error| error.during("read the Lease"))
    }

    async fn write(
        &self,
        leader: Option<&str>,
        over: Option<&str>,
    ) -> Result<LeaderEntry, ExecutorError> {
        let written = self.put(leader, over).await;
        written.map_err(|error| error.during("write the Lease"))
    }
}
