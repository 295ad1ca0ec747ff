//! The way to a cluster: where it is, who we are there, and a client that is kept.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hyper::http::uri::Authority;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::error::ClusterError;
use super::pod::labels::EXECUTOR_LABEL;
use super::watch::Pods;
use crate::config::KubernetesConfig;

/// The port of an API server that names none.
const HTTPS: u16 = 443;
/// How long its name may take to be looked up.
const LOOKUP: Duration = Duration::from_secs(5);

/// A cluster to which there is a way.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) client: Shown,
    /// The client for streams, each of which has a connection of its own.
    pub(super) stream_client: Shown,
    /// The namespace of all pods.
    pub(super) namespace: String,
    /// Where its API server is.
    api_server: Authority,
    /// What it says of those that this executor has made.
    pub(super) pods: Pods,
}

/// A client, which says nothing about itself.
#[derive(Clone)]
pub(super) struct Shown(pub(super) Client);

impl std::fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Client")
    }
}

impl Cluster {
    /// Finds out where it is. Nothing is asked of it yet.
    ///
    /// # Errors
    /// Nothing says where it is, or not in a form that can be read.
    pub(super) async fn find(
        config: &KubernetesConfig,
        executor: &str,
    ) -> Result<Self, ClusterError> {
        let Way {
            client,
            stream_client,
            namespace,
            api_server,
        } = way(config).await?;
        let selector = format!("{EXECUTOR_LABEL}={executor}");
        let pods = Pods::follow(Api::namespaced(client.0.clone(), &namespace), selector);
        Ok(Self {
            client,
            stream_client,
            namespace,
            api_server,
            pods,
        })
    }

    /// The addresses of its API server.
    ///
    /// # Errors
    /// Its name is not known.
    pub(super) async fn api_server(&self) -> Result<Vec<SocketAddr>, ClusterError> {
        let host = self.api_server.host().trim_matches(['[', ']']);
        let port = self.api_server.port_u16().unwrap_or(HTTPS);
        let lookup = tokio::time::timeout(LOOKUP, tokio::net::lookup_host((host, port)));
        let lost = |error: &dyn std::error::Error| ClusterError::Lost(format!("{host}: {error}"));
        let found = lookup.await.map_err(|late| lost(&late))?;
        Ok(found.map_err(|error| lost(&error))?.collect())
    }

    /// Requests about pods.
    pub(super) fn api(&self) -> Api<Pod> {
        Api::namespaced(self.client.0.clone(), &self.namespace)
    }
}

/// How to get to a cluster.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) client: Shown,
    /// The client for streams, each of which has a connection of its own.
    stream_client: Shown,
    /// The namespace that is ours.
    pub(super) namespace: String,
    /// Where the API server is.
    api_server: Authority,
}

/// The way to the cluster.
///
/// # Errors
/// Nothing says where it is, or not in a form that can be read.
pub(super) async fn way(config: &KubernetesConfig) -> Result<Way, ClusterError> {
    let way = match &config.kubeconfig {
        Some(path) => of_file(path).await?,
        None => of_pod()?,
    };
    let requests = client(&way, usize::MAX)?;
    // An API server closes a connection on which it was asked for a stream that it cannot have, and says so to nobody:
    // whatever is asked on that one next is lost.
    let stream_client = client(&way, 0)?;
    let namespace = config.namespace.clone().unwrap_or(way.default_namespace);
    let api_server = way.cluster_url.authority().cloned().ok_or_else(|| {
        ClusterError::Unconfigured(format!("{} is no address of a cluster", way.cluster_url))
    })?;
    Ok(Way {
        client: Shown(requests),
        stream_client: Shown(stream_client),
        namespace,
        api_server,
    })
}

async fn of_file(path: &Path) -> Result<Config, ClusterError> {
    let unusable = |error: &dyn std::error::Error| {
        let reason = crate::executor::outage::chain(error);
        ClusterError::Unconfigured(format!(
            "KUBECONFIG={} is not usable: {reason}",
            path.display()
        ))
    };
    let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.map_err(|error| unusable(&error))
}

fn of_pod() -> Result<Config, ClusterError> {
    Config::incluster().map_err(|error| {
        let reason = crate::executor::outage::chain(&error);
        ClusterError::Unconfigured(format!(
            "the server is in no pod with a service account ({reason}): set KUBECONFIG to a file that says where the \
             cluster is"
        ))
    })
}

/// A client whose small messages leave at once: with kube's own they wait for the answers to those before them, which
/// takes 40 ms. It tries nothing again, and each request has its own time limit. So many connections that are not in use
/// are kept for the next request.
fn client(config: &Config, max_idle: usize) -> Result<Client, ClusterError> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    // The other layer does TLS.
    connector.enforce_http(false);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_max_idle_per_host(max_idle)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}
