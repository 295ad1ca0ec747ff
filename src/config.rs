//! Every setting, read once from environment variables into typed sections.
//!
//! [`variables::VARIABLES`] is the one table of names, defaults and meanings; [`Config::from_lookup`] is pure, so
//! that tests hand it a map. All errors are reported together, each with the variable's name and the form expected.

mod answers;
mod audit;
mod dialects;
mod dotenv;
mod environment;
pub mod foreign;
mod http;
mod kernel;
mod kubernetes;
mod log;
mod misspelt;
mod names;
mod network;
mod oauth;
mod packages;
mod pool;
mod reader;
mod replicas;
mod show;
mod toolset;
mod uids;
pub mod variable;
pub mod variables;

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use governor::Quota;
use ipnet::Ipv4Net;
use secrecy::SecretString;
use thiserror::Error;

pub use self::answers::{AnswerConfig, Inclusion};
pub use self::audit::{AuditConfig, AuditTarget};
pub use self::dialects::Dialect;
pub use self::dotenv::DotenvError;
pub use self::environment::Environment;
pub use self::foreign::foreign;
pub use self::http::{HttpConfig, Patience, listen_address};
pub use self::kernel::KernelConfig;
pub use self::kubernetes::{KubernetesConfig, Seccomp, ServerPod, Tolerated};
pub use self::log::{LogConfig, LogFormat};
pub use self::misspelt::misspelt;
pub use self::network::{NetworkConfig, NetworkMode};
pub(crate) use self::oauth::is_safe;
pub use self::oauth::{Allowed, CloudflareConfig, IntrospectionClient, OauthConfig, OauthTenant};
pub use self::packages::PackageConfig;
pub use self::pool::{PoolConfig, PoolSize, PoolSizes};
pub use self::reader::ConfigErrors;
use self::reader::Reader;
pub(crate) use self::reader::cpus;
pub use self::replicas::ReplicaConfig;
pub use self::toolset::Toolset;
pub use self::uids::UidRange;
use crate::control::Control;

/// Files, directories and other entries that one conversation may have.
const MAX_ENTRIES: u64 = 100_000;

/// How old a sandbox may be that is used again on a cluster, unless it may be idle for longer.
const LONGEST_USE: Duration = Duration::from_hours(24);
/// Time for what is around the run of a sandbox: its start, its end, and until it is noticed that it is too old.
const AROUND_A_RUN: Duration = Duration::from_hours(1);

/// What the address of an engine can begin with.
const ENGINE_SCHEMES: [&str; 3] = ["unix:///", "tcp://", "http://"];
/// The form of `DOCKER_HOST`, in words.
const ENGINE: &str =
    "an address such as `unix:///run/podman/podman.sock` or `tcp://127.0.0.1:2375`";
/// The form of `SANDBOX_VOLUME`, in words.
const VOLUME: &str = "the name of a volume, such as `mcp-code-sandbox`: letters, digits, `.`, `_` and `-`, at least two, \
                      with a letter or a digit first";

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where and for whom the server listens.
    pub http: HttpConfig,
    /// Whose access tokens are taken.
    pub oauth: OauthConfig,
    /// Which tools MCP clients are shown (`MCP_TOOLSET`).
    pub toolset: Toolset,
    /// What answers to MCP clients have beside text and pictures.
    pub answers: AnswerConfig,
    /// Where files are kept, and how they are linked to.
    pub storage: StorageConfig,
    /// Which container engine is used, and what a run may reach through it.
    pub engine: EngineConfig,
    /// What programs reach by name.
    pub network: NetworkConfig,
    /// What one run may use.
    pub limits: RunLimits,
    /// How many runs there may be.
    pub admission: AdmissionConfig,
    /// What is kept warm.
    pub pool: PoolConfig,
    /// How many kernels there may be.
    pub kernels: KernelConfig,
    /// What may be installed.
    pub packages: PackageConfig,
    /// Where it is recorded who did what.
    pub audit: AuditConfig,
    /// How the server logs.
    pub log: LogConfig,
}

/// How many are allowed per unit of time; all of them may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// How many.
    pub count: NonZeroU32,
    /// In a second, a minute or an hour.
    pub unit: RateUnit,
}

/// The unit of time of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// `s`
    Second,
    /// `m`
    Minute,
    /// `h`
    Hour,
}

impl RateLimit {
    /// The whole count may come at once; after that, requests have to be as far apart as the rate says.
    pub fn quota(self) -> Quota {
        match self.unit {
            RateUnit::Second => Quota::per_second(self.count),
            RateUnit::Minute => Quota::per_minute(self.count),
            RateUnit::Hour => Quota::per_hour(self.count),
        }
    }
}

impl FromStr for RateLimit {
    type Err = RateLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (count, unit) = text.split_once('/').ok_or(RateLimitError)?;
        let unit = match unit {
            "s" => RateUnit::Second,
            "m" => RateUnit::Minute,
            "h" => RateUnit::Hour,
            _ => return Err(RateLimitError),
        };
        let count = count.parse().map_err(|_| RateLimitError)?;
        Ok(Self { count, unit })
    }
}

/// The error for a string that is no rate.
#[derive(Debug, Error)]
#[error("a rate is a number and a time, such as `10/s`, `300/m` or `5000/h`")]
pub struct RateLimitError;

impl fmt::Display for RateLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            RateUnit::Second => "s",
            RateUnit::Minute => "m",
            RateUnit::Hour => "h",
        };
        write!(formatter, "{}/{unit}", self.count)
    }
}

/// Where files are kept, and how they are linked to.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Directory of all workspaces as the server sees it (`SANDBOX_ROOT`).
    pub root: PathBuf,
    /// The same directory as the container engine sees it (`SANDBOX_HOST_PATH`).
    pub host_path: PathBuf,
    /// The engine's volume that it is instead (`SANDBOX_VOLUME`).
    pub volume: Option<String>,
    /// Secret that turns conversation ids into directory names (`FILE_SECRET`).
    pub file_secret: SecretString,
    /// How long links to files are valid; `None` means unsigned links that do not expire (`FILE_URL_TTL`).
    pub link_ttl: Option<Duration>,
    /// How long a conversation may go unused before it is deleted; `None` means that it never is (`CONVERSATION_TTL`).
    pub conversation_ttl: Option<Duration>,
    /// Bytes that all conversations together may keep (`STORAGE_LIMIT`).
    pub limit: Option<u64>,
    /// Bytes one conversation may keep (`WORKSPACE_QUOTA`).
    pub quota: u64,
    /// Bytes that stay free on the file system (`DISK_FREE_FLOOR`).
    pub free_space_floor: u64,
    /// Largest upload in bytes, decoded (`MAX_UPLOAD_BYTES`).
    pub max_upload_bytes: u64,
    /// Files, directories and other entries that one conversation may have. No variable sets it.
    pub max_entries: u64,
}

/// Which container engine is used, and what a run may reach through it.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The cluster that is used in its place (`EXECUTOR`, `KUBE_…`).
    pub kubernetes: Option<KubernetesConfig>,
    /// Address of the engine; `None` means the usual socket (`DOCKER_HOST`).
    pub host: Option<String>,
    /// The engine's runtime for sandboxes; `None` means the engine's own (`SANDBOX_RUNTIME`).
    pub runtime: Option<String>,
    /// The control group above all sandboxes; `None` means the engine's own (`SANDBOX_CGROUP_PARENT`).
    pub cgroup_parent: Option<String>,
    /// The users that conversations have one each of; `None` means one user for all (`SANDBOX_UIDS`).
    pub uids: Option<UidRange>,
    /// Controls whose failure at the start does not refuse runs (`ALLOW_WEAKER_SANDBOX`).
    pub allow_weaker: Vec<Control>,
    /// Allows `network: true` without proof that the host is out of reach (`ALLOW_NETWORK`).
    pub allow_network: bool,
    /// File in which the firewall check reports; `None` means that the server does the check (`FIREWALL_REPORT`).
    pub firewall_report: Option<PathBuf>,
    /// Resolvers that runs with a network use; empty means those of the host (`RUN_DNS`).
    pub dns: Vec<IpAddr>,
    /// Addresses out of which each run with a network gets a network of its own (`RUN_SUBNETS`).
    pub subnets: Ipv4Net,
}

/// What one run may use.
#[derive(Clone, Debug)]
pub struct RunLimits {
    /// Time limit of a run that does not ask for one (`RUN_TIMEOUT`).
    pub timeout: Duration,
    /// Longest time limit that a run may ask for (`RUN_TIMEOUT_MAX`).
    pub timeout_max: Duration,
    /// Cores, in billionths; `None` means no limit (`RUN_CPUS`).
    pub nano_cpus: Option<i64>,
    /// Memory in bytes, none of it swapped (`RUN_MEMORY`).
    pub memory: u64,
    /// Processes and threads (`RUN_PIDS`).
    pub pids: u32,
    /// Bytes kept of standard output, and as many of standard error (`RUN_OUTPUT_LIMIT`).
    pub output: usize,
    /// Largest single file in bytes (`RUN_FILE_SIZE`).
    pub file_size: u64,
    /// Largest program in bytes (`MAX_CODE_BYTES`).
    pub code: usize,
    /// How long a call waits for a run that may take longer (`CALL_BUDGET`).
    pub call_budget: Duration,
    /// Characters of output in one answer (`OUTPUT_FOR_MODEL`).
    pub output_for_model: usize,
}

/// How many runs there may be.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionConfig {
    /// Runs at the same time (`MAX_CONCURRENT_RUNS`).
    pub concurrent: usize,
    /// Runs of one conversation at the same time (`MAX_RUNS_PER_CONVERSATION`).
    pub per_conversation: usize,
    /// Runs that wait for a place (`MAX_QUEUED_RUNS`).
    pub queued: usize,
    /// Longest wait for a place (`MAX_QUEUE_WAIT`).
    pub wait: Duration,
}

impl Config {
    /// The configuration for a selftest: missing secrets are generated, since no client connects, and by default only
    /// errors are logged.
    ///
    /// # Errors
    /// All bad values at once.
    pub fn for_selftest(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        Self::from_lookup(&|name| {
            set(name).or_else(|| match name {
                "MCP_API_TOKEN" | "FILE_SECRET" => Some(hex::encode(rand::random::<[u8; 32]>())),
                "RUST_LOG" => Some("error".to_owned()),
                _ => None,
            })
        })
    }

    /// Reads variables from `lookup`. An empty value counts as not set.
    ///
    /// # Errors
    /// All bad values at once.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(lookup);
        let http = HttpConfig::read(&mut reader);
        let oauth = OauthConfig::read(&mut reader, &http.public_base_url);
        let storage = StorageConfig::read(&mut reader);
        let engine = EngineConfig::read(&mut reader);
        let network = NetworkConfig::read(&mut reader);
        let limits = RunLimits::read(&mut reader);
        let config = Self {
            http,
            oauth,
            storage,
            engine,
            network,
            admission: AdmissionConfig::read(&mut reader, limits.memory),
            limits,
            pool: PoolConfig::read(&mut reader),
            kernels: KernelConfig::read(&mut reader),
            packages: PackageConfig::read(&mut reader),
            audit: AuditConfig::read(&mut reader),
            log: LogConfig::read(&mut reader),
            toolset: Toolset::read(&mut reader),
            answers: AnswerConfig::read(&mut reader),
        };
        config.check_across(&mut reader);
        reader.finish(config)
    }

    /// Longest time that a conversation keeps a sandbox after its last run, with or without a kernel; zero if never.
    pub fn longest_idle(&self) -> Duration {
        let warm = self.pool.is_any().then_some(self.pool.idle_ttl);
        let kernel = (self.kernels.max_kernels > 0).then_some(self.kernels.idle);
        warm.max(kernel).unwrap_or_default()
    }

    /// How old a sandbox may be that is used again; `None` if nothing ends it by itself, as a cluster does.
    pub fn longest_use(&self) -> Option<Duration> {
        self.engine.kubernetes.as_ref()?;
        Some(LONGEST_USE.max(self.longest_idle()))
    }

    /// How long a sandbox may live on a cluster: its last use is begun in time for its run to end.
    pub fn longest_life(&self) -> Duration {
        let longest_use = self.longest_use().unwrap_or_default();
        let last_run = self.limits.timeout_max.saturating_add(AROUND_A_RUN);
        longest_use.saturating_add(last_run)
    }

    /// Whether the server is one of several, of which one leads.
    pub fn is_replica(&self) -> bool {
        let kubernetes = self.engine.kubernetes.as_ref();
        kubernetes.is_some_and(|kubernetes| kubernetes.replicas.lease.is_some())
    }

    /// Checks what no single variable shows.
    fn check_across(&self, reader: &mut Reader<'_>) {
        if self.limits.timeout > self.limits.timeout_max {
            let max = humantime::format_duration(self.limits.timeout_max);
            reader.reject(
                "RUN_TIMEOUT",
                &format!("a duration of at most RUN_TIMEOUT_MAX, which is {max}"),
            );
        }
        let ttl = self.storage.conversation_ttl;
        if ttl.is_some_and(|ttl| ttl <= self.pool.idle_ttl) {
            let min = humantime::format_duration(self.pool.idle_ttl);
            reader.reject(
                "CONVERSATION_TTL",
                &format!(
                    "0 or a duration longer than SANDBOX_IDLE_TTL, which is {min}, such as `7d`"
                ),
            );
        }
        let engine = &self.engine;
        if engine.kubernetes.is_some() && engine.allow_network && engine.dns.is_empty() {
            let expected = "addresses of resolvers with EXECUTOR=kubernetes and ALLOW_NETWORK=1: the cluster's own would tell \
                            programs the names of its services";
            reader.reject("RUN_DNS", expected);
        }
        if engine.kubernetes.is_some() && self.network.allow.is_some() {
            let name = if reader.is_set("NETWORK_ALLOW") {
                "NETWORK_ALLOW"
            } else {
                "NETWORK"
            };
            let expected = "left out with EXECUTOR=kubernetes: sockets cannot be handed over from one node to another";
            reader.reject(name, expected);
        }
        if self.network.allow.is_none() && self.network.secrets_file.is_some() {
            let expected = "left out where no hosts are listed, since secrets are for listed hosts: set NETWORK_ALLOW, and \
                            leave NETWORK out";
            reader.reject("SECRETS_FILE", expected);
        }
        let replicas = engine.kubernetes.as_ref().map(|cluster| &cluster.replicas);
        let is_somewhere = replicas.is_some_and(|it| it.lease.is_some() && it.pod_ip.is_none());
        if is_somewhere && self.http.addr.ip().is_unspecified() {
            let expected =
                "the address of this server's pod with LEADER_LEASE, unless MCP_HTTP_ADDR has one";
            reader.reject("POD_IP", expected);
        }
        if self.storage.volume.is_some() && reader.is_set("SANDBOX_HOST_PATH") {
            reader.reject(
                "SANDBOX_VOLUME",
                "left out where SANDBOX_HOST_PATH is set: files are in a volume or in a directory of the engine's host",
            );
        }
        if !self.storage.host_path.is_absolute() {
            reader.reject(
                "SANDBOX_HOST_PATH",
                "an absolute path, since the engine resolves it",
            );
        }
    }
}

impl StorageConfig {
    fn read(reader: &mut Reader<'_>) -> Self {
        let root = reader.absolute_path("SANDBOX_ROOT");
        Self {
            host_path: reader
                .path("SANDBOX_HOST_PATH")
                .unwrap_or_else(|| root.clone()),
            root,
            volume: reader
                .text("SANDBOX_VOLUME")
                .map(|_| reader.parse("SANDBOX_VOLUME", VOLUME, String::new(), names::volume)),
            file_secret: reader.secret("FILE_SECRET", 32),
            link_ttl: reader.optional_duration("FILE_URL_TTL"),
            conversation_ttl: reader.optional_duration("CONVERSATION_TTL"),
            limit: reader.optional_size("STORAGE_LIMIT", 1 << 20),
            quota: reader.size("WORKSPACE_QUOTA", 1 << 20),
            free_space_floor: reader.size("DISK_FREE_FLOOR", 0),
            max_upload_bytes: reader.size("MAX_UPLOAD_BYTES", 1),
            max_entries: MAX_ENTRIES,
        }
    }
}

impl EngineConfig {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            kubernetes: KubernetesConfig::read(reader),
            host: reader.text("DOCKER_HOST").map(|_| {
                reader.parse("DOCKER_HOST", ENGINE, String::new(), |value| {
                    let known = ENGINE_SCHEMES.iter().any(|known| value.starts_with(known));
                    known.then(|| value.to_owned())
                })
            }),
            runtime: reader.word("SANDBOX_RUNTIME", "runsc"),
            cgroup_parent: reader.word("SANDBOX_CGROUP_PARENT", "sandboxes.slice"),
            uids: UidRange::read(reader),
            allow_weaker: reader.controls("ALLOW_WEAKER_SANDBOX"),
            allow_network: reader.flag("ALLOW_NETWORK"),
            firewall_report: reader.path("FIREWALL_REPORT"),
            dns: reader.resolvers("RUN_DNS"),
            subnets: reader.subnets("RUN_SUBNETS"),
        }
    }
}

impl RunLimits {
    fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            timeout: reader.duration("RUN_TIMEOUT"),
            timeout_max: reader.duration("RUN_TIMEOUT_MAX"),
            nano_cpus: reader.nano_cpus("RUN_CPUS"),
            memory: reader.size("RUN_MEMORY", 16 << 20),
            pids: reader.count("RUN_PIDS", 8).try_into().unwrap_or(u32::MAX),
            output: reader.bytes_in_memory("RUN_OUTPUT_LIMIT", 1 << 10, 64 << 20),
            file_size: reader.size("RUN_FILE_SIZE", 1 << 20),
            code: reader.bytes_in_memory("MAX_CODE_BYTES", 1, 4 << 20),
            call_budget: reader.duration("CALL_BUDGET"),
            output_for_model: reader.count("OUTPUT_FOR_MODEL", 1000),
        }
    }
}

impl AdmissionConfig {
    fn read(reader: &mut Reader<'_>, run_memory: u64) -> Self {
        let concurrent = reader
            .optional_count("MAX_CONCURRENT_RUNS", 1)
            .unwrap_or_else(|| Self::fitting(run_memory));
        Self {
            concurrent,
            per_conversation: reader
                .optional_count("MAX_RUNS_PER_CONVERSATION", 1)
                .unwrap_or(concurrent.div_ceil(2)),
            queued: reader.count("MAX_QUEUED_RUNS", 0),
            wait: reader.duration("MAX_QUEUE_WAIT"),
        }
    }
}

impl AdmissionConfig {
    /// Four per core, but no more than fit into three quarters of the memory: the rest is for waiting warm sandboxes
    /// and for the host.
    fn fitting(run_memory: u64) -> usize {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let fitting = usize::try_from(memory() / 4 * 3 / run_memory.max(1));
        (cores * 4).min(fitting.unwrap_or(usize::MAX)).max(1)
    }
}

/// Memory of the machine in bytes.
fn memory() -> u64 {
    let memory = rustix::system::sysinfo();
    memory.totalram as u64 * u64::from(memory.mem_unit)
}
