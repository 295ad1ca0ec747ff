//! The Docker Engine API, and Podman's, through bollard. The only module that talks to an engine.
//!
//! Every request has its own time limit, since an engine in trouble tends to keep requests open indefinitely.

mod answers;
mod client;
mod images;
mod network;
pub mod request;
mod unreachable;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use async_trait::async_trait;
use bollard::errors::Error as BollardError;
use bollard::models::{ContainerCreateBody, SystemInfo, SystemVersion};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, InspectNetworkOptions, ListContainersOptionsBuilder,
    ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;

use self::answers::{chunk, lacks_disk_weight, limits, state, with_advice, without_parts};
use self::client::EngineClient;
pub use self::request::HostSetup;
use self::request::{
    Dialect, create_body, create_network_body, leave_disk_weight_out, update_body,
};
use self::unreachable::Unreachable;
use super::host_paths::UnplacedError;
use super::outage::chain;
use super::spec::{ContainerLimits, ContainerSpec, LANE_PREFIX, LaneSpec, Priority, lane_number};
use super::{
    Attached, Capabilities, ContainerId, ContainerInfo, ContainerState, Engine, ErrorKind,
    Executor, ExecutorError, LaneId, LaneInfo,
};

/// Where the engine listens unless configured otherwise.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Limit for requests that only read.
const QUICK: Duration = Duration::from_secs(5);
/// Limit for requests that make the engine work: under load, starting a container takes it seconds.
const SLOW: Duration = Duration::from_mins(1);
/// An engine starts about nine containers a second, no matter how many are asked for.
const STARTS_AT_A_TIME: usize = 2;
/// How long a start may take, including the wait for its turn at the engine and the parking of an interpreter.
const LONGEST_START: Duration = Duration::from_mins(1);
/// The operation of a request that has no other purpose.
const REACH: &str = "reach the container engine";

/// Containers through the Docker Engine API.
#[derive(Debug)]
pub struct DockerExecutor {
    host: String,
    setup: HostSetup,
    /// For the engine that was there when it was last asked what it is.
    client: Mutex<Option<EngineClient>>,
}

impl DockerExecutor {
    /// An executor for the engine at `host` (`unix://`, `tcp://`), by default Docker's socket. Does not connect yet.
    pub fn new(host: Option<&str>) -> Self {
        Self {
            host: host.unwrap_or(DEFAULT_HOST).to_owned(),
            setup: HostSetup::default(),
            client: Mutex::default(),
        }
    }

    /// The same, for containers that see the server's files.
    #[must_use]
    pub fn with_setup(self, setup: HostSetup) -> Self {
        Self { setup, ..self }
    }

    /// Checks that the engine uses the wanted runtime. Some ignore it, and what is meant to be safer must not be weaker
    /// unnoticed.
    async fn has_runtime(
        &self,
        container: &ContainerId,
        wanted: &str,
    ) -> Result<(), ExecutorError> {
        let operation = "read back a container's runtime";
        let client = self.client(operation).await?;
        let inspect = client.inspect_container(&container.0, None);
        let details = self.within(QUICK, operation, inspect).await?;
        let runtime = details.host_config.and_then(|config| config.runtime);
        if runtime.as_deref() == Some(wanted) {
            return Ok(());
        }
        let source = format!("the engine uses {runtime:?} in place of {wanted:?}").into();
        Err(ExecutorError {
            kind: ErrorKind::Refused,
            operation,
            source,
        })
    }

    /// Whether the socket belongs to an ordinary user. Older versions of Podman do not report that they are rootless,
    /// but have made their socket themselves. Docker reports it, and its socket may be anybody's.
    fn has_users_socket(&self) -> bool {
        let path = self.host.strip_prefix("unix://");
        path.and_then(|path| std::fs::metadata(path).ok())
            .is_some_and(|socket| socket.uid() != 0)
    }

    async fn client(&self, operation: &'static str) -> Result<Docker, ExecutorError> {
        Ok(self.connected(operation).await?.docker)
    }

    async fn connected(&self, operation: &'static str) -> Result<EngineClient, ExecutorError> {
        let client = self.client.lock().clone();
        match client {
            Some(client) => Ok(client),
            None => Ok(self.connect(operation).await?.0),
        }
    }

    /// Finds out which engine this is, for this request and all that follow.
    async fn connect(
        &self,
        operation: &'static str,
    ) -> Result<(EngineClient, SystemVersion, SystemInfo), ExecutorError> {
        let connect = async {
            let docker = match self.host.strip_prefix("unix://") {
                Some(path) => Docker::connect_with_unix(path, SLOW.as_secs(), API_DEFAULT_VERSION),
                None => Docker::connect_with_host(&self.host),
            }?;
            let docker = docker.negotiate_version().await?;
            let version = docker.version().await?;
            let info = docker.info().await?;
            Ok::<_, BollardError>((docker, version, info))
        };
        let (docker, version, info) = match tokio::time::timeout(QUICK, connect).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(source)) => {
                let unreachable = Unreachable::of_the_first(&self.host, &source);
                return Err(unreachable.into_error(operation));
            }
            Err(_) => return Err(Unreachable::slow(&self.host, QUICK).into_error(operation)),
        };
        let client = EngineClient::of(docker, &version, &info);
        *self.client.lock() = Some(client.clone());
        Ok((client, version, info))
    }

    /// The request for a container, as this engine wants it.
    fn body(
        &self,
        spec: &ContainerSpec,
        client: &EngineClient,
    ) -> Result<ContainerCreateBody, UnplacedError> {
        if client.is_podman {
            // Podman does not change a container's limits through this interface.
            let priority = Priority::Run;
            let spec = ContainerSpec {
                priority,
                ..spec.clone()
            };
            return create_body(&spec, Dialect::Podman, &self.setup);
        }
        let dialect = if client.maps_users {
            Dialect::RemappingDocker
        } else {
            Dialect::Docker
        };
        create_body(spec, dialect, &self.setup)
    }

    /// Runs a request with a time limit.
    async fn within<T>(
        &self,
        limit: Duration,
        operation: &'static str,
        request: impl Future<Output = Result<T, BollardError>>,
    ) -> Result<T, ExecutorError> {
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(match Unreachable::of(&self.host, &source) {
                Some(unreachable) => unreachable.into_error(operation),
                None => error(operation, source),
            }),
            Err(_) => Err(Unreachable::slow(&self.host, limit).into_error(operation)),
        }
    }

    /// Connects to the standard streams of a container that has not been started yet.
    async fn attach(&self, container: &ContainerId) -> Result<Attached, ExecutorError> {
        let operation = "attach to a container";
        let client = self.client(operation).await?;
        // No `logs`: containers have no log, and we attach before the start.
        let options = AttachContainerOptionsBuilder::new()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = self
            .within(
                QUICK,
                operation,
                client.attach_container(&container.0, Some(options)),
            )
            .await?;
        let output = attached
            .output
            .map_ok(chunk)
            .map_err(|source| error("read a container's output", source));
        Ok(Attached {
            input: Box::new(attached.input),
            output: output.boxed(),
        })
    }

    /// Asks for no more weight of a disk once the engine has failed over it.
    fn without_what_it_lacks(&self, error: ExecutorError) -> ExecutorError {
        if !lacks_disk_weight(&error) {
            return error;
        }
        let mut client = self.client.lock();
        client.iter_mut().for_each(|one| one.weighs_disk = false);
        ExecutorError {
            kind: ErrorKind::Again,
            ..error
        }
    }
}

fn error(operation: &'static str, source: BollardError) -> ExecutorError {
    let kind = match &source {
        BollardError::DockerResponseServerError {
            status_code: 404, ..
        } => ErrorKind::NotFound,
        BollardError::DockerResponseServerError {
            status_code: 304 | 409,
            ..
        } => ErrorKind::Conflict,
        BollardError::DockerResponseServerError { .. } => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    };
    ExecutorError {
        kind,
        operation,
        source: source.into(),
    }
}

#[async_trait]
impl Executor for DockerExecutor {
    async fn engine(&self) -> Result<Engine, ExecutorError> {
        // Asked again, since an engine that comes back may be another one.
        let (client, version, info) = self.connect(REACH).await?;
        let capabilities = Capabilities {
            max_starts_at_a_time: STARTS_AT_A_TIME,
            longest_start: LONGEST_START,
            needs_lanes: true,
            cuts_network: true,
            hands_over_sockets: true,
            limits: limits(&info),
            refuses_cpu_limit: !client.is_podman && info.cpu_cfs_quota == Some(false),
            has_nodes: false,
            mounts_parts: client.mounts_parts(),
        };
        let components = version.components.unwrap_or_default();
        let runc = components.iter().find(|component| component.name == "runc");
        let options = info.security_options.unwrap_or_default();
        Ok(Engine {
            name: format!(
                "{} {}",
                if client.is_podman { "Podman" } else { "Docker" },
                version.version.unwrap_or_default()
            ),
            runc: runc.map(|component| component.version.clone()),
            rootless: (client.is_podman && self.has_users_socket())
                || options.iter().any(|option| option.contains("rootless")),
            cores: info
                .ncpu
                .and_then(|cores| u32::try_from(cores).ok())
                .filter(|cores| *cores > 0),
            capabilities,
        })
    }

    async fn ping(&self) -> Result<(), ExecutorError> {
        let client = self.client(REACH).await?;
        self.within(QUICK, REACH, client.ping()).await.map(drop)
    }

    async fn has_volume(&self, name: &str) -> Result<bool, ExecutorError> {
        let operation = "look for the volume of SANDBOX_VOLUME";
        let client = self.client(operation).await?;
        let inspect = client.inspect_volume(name);
        match self.within(QUICK, operation, inspect).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId, ExecutorError> {
        let operation = "create a container";
        let client = self.connected(operation).await?;
        if self.setup.paths.have_parts_of_volumes() && !client.mounts_parts() {
            return Err(without_parts(operation));
        }
        let mut body = self.body(spec, &client).map_err(|source| ExecutorError {
            kind: ErrorKind::Unusable,
            operation,
            source: source.into(),
        })?;
        if !client.weighs_disk {
            leave_disk_weight_out(&mut body);
        }
        let create = client.docker.create_container(None, body);
        let created = self.within(SLOW, operation, create).await;
        let created = created.map_err(|error| with_advice(error, spec.limits.nano_cpus))?;
        let container = ContainerId(created.id);
        if let Some(wanted) = &spec.runtime
            && let Err(error) = self.has_runtime(&container, wanted).await
        {
            self.remove(&container).await?;
            return Err(error);
        }
        Ok(container)
    }

    async fn start(&self, container: &ContainerId) -> Result<Attached, ExecutorError> {
        // First, so that nothing is missed.
        let attached = self.attach(container).await?;
        let operation = "start a container";
        let client = self.client(operation).await?;
        let start = client.start_container(&container.0, None);
        let started = self.within(SLOW, operation, start).await;
        started.map_err(|error| self.without_what_it_lacks(error))?;
        Ok(attached)
    }

    async fn end_warm_up(
        &self,
        container: &ContainerId,
        limits: &ContainerLimits,
    ) -> Result<(), ExecutorError> {
        let operation = "limit a container's processor time";
        let client = self.connected(operation).await?;
        if client.is_podman {
            return Ok(());
        }
        let body = update_body(*limits);
        self.within(
            QUICK,
            operation,
            client.docker.update_container(&container.0, body),
        )
        .await
    }

    async fn state(&self, container: &ContainerId) -> Result<ContainerState, ExecutorError> {
        let operation = "inspect a container";
        let client = self.client(operation).await?;
        let details = self
            .within(
                QUICK,
                operation,
                client.inspect_container(&container.0, None),
            )
            .await?;
        Ok(state(&details.state.unwrap_or_default()))
    }

    async fn remove(&self, container: &ContainerId) -> Result<(), ExecutorError> {
        let operation = "remove a container";
        let client = self.client(operation).await?;
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        match self
            .within(
                SLOW,
                operation,
                client.remove_container(&container.0, Some(options)),
            )
            .await
        {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            // Somebody else is removing it.
            Err(error) if error.kind == ErrorKind::Conflict => Ok(()),
            answer => answer,
        }
    }

    async fn containers(
        &self,
        label: &str,
        value: &str,
    ) -> Result<Vec<ContainerInfo>, ExecutorError> {
        let operation = "list containers";
        let client = self.client(operation).await?;
        let filters = HashMap::from([("label", vec![format!("{label}={value}")])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters)
            .build();
        let containers = self
            .within(SLOW, operation, client.list_containers(Some(options)))
            .await?;
        let info = containers.into_iter().filter_map(|container| {
            Some(ContainerInfo {
                id: ContainerId(container.id?),
                labels: container.labels.unwrap_or_default(),
            })
        });
        Ok(info.collect())
    }

    async fn lanes(&self) -> Result<Vec<LaneInfo>, ExecutorError> {
        let operation = "list networks of runs";
        let client = self.client(operation).await?;
        let filters = HashMap::from([("name", vec![LANE_PREFIX])]);
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        let networks = self
            .within(QUICK, operation, client.list_networks(Some(options)))
            .await?;
        let lanes = networks.into_iter().filter_map(|network| {
            Some(LaneInfo {
                id: LaneId(network.id?),
                number: lane_number(&network.name?)?,
                labels: network.labels.unwrap_or_default(),
            })
        });
        Ok(lanes.collect())
    }

    async fn make_lane(&self, lane: &LaneSpec) -> Result<LaneId, ExecutorError> {
        let operation = "make a network for a run";
        let EngineClient {
            docker: client,
            is_podman,
            ..
        } = self.connected(operation).await?;
        let wanted = create_network_body(lane);
        let made = self
            .within(SLOW, operation, client.create_network(wanted.clone()))
            .await?;
        // Podman reports a network's settings in words of its own.
        if is_podman {
            return Ok(LaneId(made.id));
        }
        let inspect = client.inspect_network(&made.id, None::<InspectNetworkOptions>);
        let network = self.within(QUICK, operation, inspect).await;
        let id = LaneId(made.id.clone());
        let checked = network.and_then(|network| {
            network::check(&wanted, &network).map_err(|reason| ExecutorError {
                kind: ErrorKind::Refused,
                operation,
                source: reason.into(),
            })
        });
        if let Err(error) = checked {
            self.remove_lane(&id).await?;
            return Err(error);
        }
        Ok(id)
    }

    async fn remove_lane(&self, lane: &LaneId) -> Result<(), ExecutorError> {
        let operation = "remove a network of a run";
        let client = self.client(operation).await?;
        match self
            .within(SLOW, operation, client.remove_network(&lane.0))
            .await
        {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }
}
