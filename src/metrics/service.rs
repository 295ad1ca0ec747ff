//! The metrics of servers whose tools are `execute_python` and `pip_install`, for dashboards that were made for those.
//! They count the same things as ours, under names and labels of their own.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::SECONDS;

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    /// `success` or `error`.
    status: &'static str,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Wrong {
    /// The status of a run, or the code of an install.
    error_type: &'static str,
}

/// Those metrics.
#[derive(Debug)]
pub(super) struct ServiceMetrics {
    executions: Family<Ended, Counter>,
    durations: Histogram,
    installs: Family<Ended, Counter>,
    errors: Family<Wrong, Counter>,
}

impl ServiceMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            executions: Family::default(),
            durations: Histogram::new(SECONDS),
            installs: Family::default(),
            errors: Family::default(),
        };
        // A rate needs a zero to start from.
        for status in ["success", "error"] {
            metrics.executions.get_or_create_owned(&Ended { status });
            metrics.installs.get_or_create_owned(&Ended { status });
        }
        registry.register(
            "sandbox_executions",
            "Programs run",
            metrics.executions.clone(),
        );
        registry.register_with_unit(
            "sandbox_execution_duration",
            "Time that programs took",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register(
            "sandbox_package_installs",
            "Packages asked for",
            metrics.installs.clone(),
        );
        registry.register(
            "sandbox_errors",
            "Programs and installs that failed, by why",
            metrics.errors.clone(),
        );
        metrics
    }

    /// Has the errors of something that can end in this way at zero.
    pub(super) fn expect(&self, outcome: &'static str) {
        if outcome != "ok" {
            let wrong = Wrong {
                error_type: outcome,
            };
            self.errors.get_or_create_owned(&wrong);
        }
    }

    pub(super) fn run(&self, status: &'static str, took: Option<Duration>) {
        self.count(&self.executions, status);
        if let Some(took) = took {
            self.durations.observe(took.as_secs_f64());
        }
    }

    pub(super) fn install(&self, outcome: &'static str) {
        self.count(&self.installs, outcome);
    }

    fn count(&self, family: &Family<Ended, Counter>, outcome: &'static str) {
        let good = outcome == "ok";
        let status = if good { "success" } else { "error" };
        family.get_or_create_owned(&Ended { status }).inc();
        if !good {
            let wrong = Wrong {
                error_type: outcome,
            };
            self.errors.get_or_create_owned(&wrong).inc();
        }
    }
}
