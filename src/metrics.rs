//! What the server counts for its operator: every metric there is, in one struct with its own registry.
//!
//! Counters and histograms are kept up to date where things happen; gauges are set by `http::metrics` when somebody
//! asks. Labels come from short lists: languages of runners, our own words, route templates. A conversation, a path or
//! anything else that a caller chooses is never one.

mod egress;
mod labels;
mod process;
mod service;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::egress::EgressMetrics;
use self::labels::BuildLabels;
pub use self::labels::{
    AnswerLabels, HttpLabels, InstallLabels, InstallTimeLabels, KernelLabels, LostLabels,
    NodeLabels, PhaseLabels, RunLabels, WarmLabels, WayLabels,
};
use self::service::ServiceMetrics;
use crate::config::Toolset;
use crate::egress::NetworkReport;

/// The media type of [`Metrics::render`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The language of a run that named none that has a runner.
pub const UNKNOWN_LANGUAGE: &str = "unknown";
/// How HTTP requests are answered: well, without a valid token, too early, with a mistake of the caller or of the
/// server.
pub const ANSWER_KINDS: [&str; 5] = [
    "ok",
    "unauthorized",
    "too_many",
    "caller_error",
    "server_error",
];
/// From a warm run's millisecond to the longest time limit.
const SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Every metric. The texts of [`Metrics::new`] say what each is for.
#[derive(Debug)]
pub struct Metrics {
    /// Runs asked for.
    pub runs: Family<RunLabels, Counter>,
    /// Where their time went.
    pub phases: Family<PhaseLabels, Histogram, fn() -> Histogram>,
    /// How they got their sandboxes.
    pub starts: Family<WayLabels, Counter>,
    /// Installs of packages asked for.
    pub installs: Family<InstallLabels, Counter>,
    /// How long the successful ones took.
    pub install_times: Family<InstallTimeLabels, Histogram, fn() -> Histogram>,
    /// Runs in progress.
    pub places_used: Gauge,
    /// `MAX_CONCURRENT_RUNS`.
    pub places: Gauge,
    /// Runs that wait.
    pub queue_length: Gauge,
    /// `MAX_QUEUED_RUNS`.
    pub queue_places: Gauge,
    /// Warm sandboxes.
    pub warm: Family<WarmLabels, Gauge>,
    /// Kernels that live.
    pub kernels: Family<KernelLabels, Gauge>,
    /// Kernels that ended.
    pub lost_kernels: Family<LostLabels, Counter>,
    /// What runs and package clients did in the network of listed hosts.
    egress: EgressMetrics,
    /// Containers of this server.
    pub containers: Gauge,
    /// The same on each node of a cluster.
    pub containers_by_node: Family<NodeLabels, Gauge>,
    /// 1 when the container engine answers.
    pub engine_up: Gauge,
    /// Whether `ACCESS_FILE` is as it was read.
    pub access_file_ok: Gauge,
    /// 1 when the server can run programs.
    pub ready: Gauge,
    /// 1 when the audit log can be written, and when there is none.
    pub audit_ok: Gauge,
    /// Uploads stored.
    pub uploads: Counter,
    /// Their bytes.
    pub uploaded_bytes: Counter,
    /// Conversations with files.
    pub conversations: Gauge,
    /// What they take of the disk.
    pub stored_bytes: Gauge,
    /// What they may take, `STORAGE_LIMIT`; 0 where there is no limit.
    pub storage_limit: Gauge,
    /// When that was measured.
    pub storage_measured: Gauge,
    /// Free space on the file system of `SANDBOX_ROOT`.
    pub free_bytes: Gauge,
    /// Requests, including those whose client went away.
    pub http_requests: Family<HttpLabels, Counter>,
    /// The same by little, so that all of it is there before the first request.
    pub http_answers: Family<AnswerLabels, Counter>,
    /// The same under the names of other servers, if clients see their tools.
    service: Option<ServiceMetrics>,
    /// Held while gauges are set and written, so that two simultaneous requests do not get half of each.
    registry: Mutex<Registry>,
}

fn register_build(ours: &mut Registry) {
    let build = BuildLabels {
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("BUILD_COMMIT"),
    };
    ours.register("build", "What was built", Info::new(build));
}

impl Metrics {
    /// Everything at zero, with the metrics of the servers whose tools clients see.
    pub fn new(toolset: Toolset) -> Arc<Self> {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut metrics = Self {
            runs: Family::default(),
            phases: Family::new_with_constructor(seconds),
            starts: Family::default(),
            installs: Family::default(),
            install_times: Family::new_with_constructor(seconds),
            places_used: Gauge::default(),
            places: Gauge::default(),
            queue_length: Gauge::default(),
            queue_places: Gauge::default(),
            warm: Family::default(),
            kernels: Family::default(),
            lost_kernels: Family::default(),
            egress: EgressMetrics::default(),
            containers: Gauge::default(),
            containers_by_node: Family::default(),
            engine_up: Gauge::default(),
            access_file_ok: Gauge::default(),
            ready: Gauge::default(),
            audit_ok: Gauge::default(),
            uploads: Counter::default(),
            uploaded_bytes: Counter::default(),
            conversations: Gauge::default(),
            stored_bytes: Gauge::default(),
            storage_limit: Gauge::default(),
            storage_measured: Gauge::default(),
            free_bytes: Gauge::default(),
            http_requests: Family::default(),
            http_answers: Family::default(),
            service: None,
            registry: Mutex::default(),
        };
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("mcp_sandbox");
        register_build(ours);
        metrics.register_runs(ours);
        metrics.register_installs(ours);
        metrics.egress.register(ours);
        metrics.register_requests(ours);
        metrics.register_places(ours);
        metrics.register_health(ours);
        metrics.register_storage(ours);
        metrics.service = (toolset == Toolset::Python).then(|| ServiceMetrics::new(&mut registry));
        registry.register_collector(Box::new(process::Process));
        metrics.registry = Mutex::new(registry);
        Arc::new(metrics)
    }

    fn register_runs(&self, ours: &mut Registry) {
        ours.register(
            "runs",
            "Runs asked for, by how they ended",
            self.runs.clone(),
        );
        ours.register_with_unit(
            "run_phase",
            "Time of runs: queue for a place, start of a sandbox, run of the program, answer with its files",
            Unit::Seconds,
            self.phases.clone(),
        );
        ours.register(
            "run_starts",
            "Runs by sandbox: the conversation's own, one of the pool, one started for them (cold), or their kernel",
            self.starts.clone(),
        );
        // A rate needs a zero to start from.
        for way in ["own", "pool", "cold", "kernel"] {
            self.starts.get_or_create_owned(&WayLabels { way });
        }
        ours.register(
            "kernels_lost",
            "Kernels that ended, by why",
            self.lost_kernels.clone(),
        );
    }

    fn register_installs(&self, ours: &mut Registry) {
        ours.register(
            "installs",
            "Installs of packages asked for, by what came of them",
            self.installs.clone(),
        );
        ours.register_with_unit(
            "install_duration",
            "Time of installs that succeeded",
            Unit::Seconds,
            self.install_times.clone(),
        );
    }

    fn register_requests(&self, ours: &mut Registry) {
        ours.register(
            "http_requests",
            "HTTP requests by route, with status 499 when the client went away",
            self.http_requests.clone(),
        );
        ours.register(
            "http_answers",
            "HTTP requests by what came of them: ok, unauthorized, too_many, caller_error, server_error",
            self.http_answers.clone(),
        );
        for kind in ANSWER_KINDS {
            self.http_answers
                .get_or_create_owned(&AnswerLabels { kind });
        }
        ours.register("uploads", "Files uploaded", self.uploads.clone());
        ours.register_with_unit(
            "uploaded",
            "Bytes of files uploaded",
            Unit::Bytes,
            self.uploaded_bytes.clone(),
        );
    }

    fn register_places(&self, ours: &mut Registry) {
        let mut gauge = |name: &str, help: &str, gauge: &Gauge| {
            ours.register(name, help, gauge.clone());
        };
        gauge(
            "places_used",
            "Places for runs that are taken",
            &self.places_used,
        );
        gauge("places", "Places for runs", &self.places);
        gauge(
            "queue_length",
            "Runs that wait for a place",
            &self.queue_length,
        );
        gauge(
            "queue_places",
            "Runs that may wait at a time",
            &self.queue_places,
        );
        gauge(
            "containers",
            "Containers that are alive or being removed",
            &self.containers,
        );
        ours.register(
            "node_containers",
            "Containers that are alive, on each node of a cluster",
            self.containers_by_node.clone(),
        );
        ours.register(
            "warm_sandboxes",
            "Warm sandboxes: pooled, owned by a conversation, cleaning after its run, or starting for the pool",
            self.warm.clone(),
        );
        ours.register(
            "kernels",
            "Kernels of stateful runs: idle, or busy with a run",
            self.kernels.clone(),
        );
    }

    fn register_health(&self, ours: &mut Registry) {
        let mut gauge = |name: &str, help: &str, gauge: &Gauge| {
            ours.register(name, help, gauge.clone());
        };
        gauge(
            "engine_up",
            "Whether the container engine answers",
            &self.engine_up,
        );
        gauge(
            "access_file_ok",
            "Whether ACCESS_FILE could be used when it last changed, 1 without one",
            &self.access_file_ok,
        );
        gauge("ready", "Whether programs can be run", &self.ready);
        gauge(
            "audit_ok",
            "Whether the audit log can be written; 1 without AUDIT_LOG",
            &self.audit_ok,
        );
    }

    fn register_storage(&self, ours: &mut Registry) {
        ours.register(
            "conversations",
            "Conversations with files, when last measured",
            self.conversations.clone(),
        );
        let mut with_unit = |name: &str, help: &str, unit: Unit, gauge: &Gauge| {
            ours.register_with_unit(name, help, unit, gauge.clone());
        };
        with_unit(
            "stored",
            "Disk that conversations take, when last measured",
            Unit::Bytes,
            &self.stored_bytes,
        );
        with_unit(
            "storage_limit",
            "Disk that conversations may take, 0 without STORAGE_LIMIT",
            Unit::Bytes,
            &self.storage_limit,
        );
        with_unit(
            "storage_free",
            "Free space on the file system of SANDBOX_ROOT",
            Unit::Bytes,
            &self.free_bytes,
        );
        with_unit(
            "storage_measured_timestamp",
            "When conversations were last measured, 0 before the first time",
            Unit::Seconds,
            &self.storage_measured,
        );
    }

    /// Has everything that runs of a language can add to at zero, if it is not there yet: a rate needs a zero to start
    /// from.
    pub fn expect_runs(
        &self,
        language: &str,
        statuses: impl IntoIterator<Item = &'static str>,
        phases: impl IntoIterator<Item = &'static str>,
    ) {
        for status in statuses {
            let language = language.to_owned();
            self.runs
                .get_or_create_owned(&RunLabels { language, status });
            if let Some(service) = &self.service {
                service.expect(status);
            }
        }
        for phase in phases {
            let language = language.to_owned();
            self.phases
                .get_or_create_owned(&PhaseLabels { language, phase });
        }
    }

    /// The same for installs.
    pub fn expect_installs(
        &self,
        language: &str,
        outcomes: impl IntoIterator<Item = &'static str>,
    ) {
        for outcome in outcomes {
            let language = language.to_owned();
            if outcome == "ok" {
                let language = language.clone();
                self.install_times
                    .get_or_create_owned(&InstallTimeLabels { language });
            }
            self.installs
                .get_or_create_owned(&InstallLabels { language, outcome });
            if let Some(service) = &self.service {
                service.expect(outcome);
            }
        }
    }

    /// Counts an HTTP request.
    pub fn answered(&self, labels: &HttpLabels) {
        let kind = match labels.status {
            0..400 => "ok",
            401 => "unauthorized",
            429 => "too_many",
            400..500 => "caller_error",
            _ => "server_error",
        };
        self.http_requests.get_or_create_owned(labels).inc();
        self.http_answers
            .get_or_create_owned(&AnswerLabels { kind })
            .inc();
    }

    /// Adds a run, and how long its program took if there was one.
    pub fn count_run(&self, language: &str, status: &'static str, took: Option<Duration>) {
        let labels = RunLabels {
            language: language.to_owned(),
            status,
        };
        self.runs.get_or_create_owned(&labels).inc();
        if let Some(service) = &self.service {
            service.run(status, took);
        }
    }

    /// Adds to the time that runs of a language spent in a phase.
    pub fn observe(&self, language: &str, phase: &'static str, took: Duration) {
        let labels = PhaseLabels {
            language: language.to_owned(),
            phase,
        };
        self.phases
            .get_or_create_owned(&labels)
            .observe(took.as_secs_f64());
    }

    /// Adds an install; its time only counts if it succeeded.
    pub fn installed(&self, language: &str, outcome: &'static str, took: Duration) {
        let language = language.to_owned();
        if outcome == "ok" {
            let labels = InstallTimeLabels {
                language: language.clone(),
            };
            let times = self.install_times.get_or_create_owned(&labels);
            times.observe(took.as_secs_f64());
        }
        if let Some(service) = &self.service {
            service.install(outcome);
        }
        let labels = InstallLabels { language, outcome };
        self.installs.get_or_create_owned(&labels).inc();
    }

    /// Adds what a run or a package client did in the network of listed hosts.
    pub(crate) fn count_traffic(&self, report: &NetworkReport) {
        self.egress.count(report);
    }

    /// Counts a kernel that ended.
    pub fn lost_kernel(&self, why: &'static str) {
        let labels = LostLabels { why };
        self.lost_kernels.get_or_create_owned(&labels).inc();
    }

    /// All metrics as `OpenMetrics` text, after `refresh` has set the gauges.
    pub fn render(&self, refresh: impl FnOnce(&Self)) -> String {
        let registry = self.registry.lock();
        refresh(self);
        let mut text = String::new();
        text::encode(&mut text, &registry).expect("writing to a string cannot fail");
        text
    }
}

/// Sets a gauge to a number of things.
pub fn set(gauge: &Gauge, number: impl TryInto<i64>) {
    gauge.set(number.try_into().unwrap_or(i64::MAX));
}
