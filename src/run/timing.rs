//! Where the time of a run went, for the metrics.

use std::time::Duration;

use strum::{IntoStaticStr, VariantNames};
use tokio::time::Instant;

use crate::metrics::{Metrics, WayLabels};
use crate::pool::SandboxSource;

/// A part of a run's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Phase {
    /// It waits for its kernel and for a place.
    Queue,
    /// It gets a sandbox, and its files are listed.
    Start,
    /// The program runs.
    Run,
    /// Its files are listed again and its outcome is put together.
    Answer,
}

/// A stopwatch that is read at the end of each phase.
#[derive(Debug)]
pub(super) struct Timing {
    since: Instant,
    phases: Vec<(Phase, Duration)>,
    way: Option<SandboxSource>,
}

impl Timing {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            phases: Vec::with_capacity(4),
            way: None,
        }
    }

    /// Starts the first phase.
    pub(super) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Ends a phase and starts the next one.
    pub(super) fn end(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases.push((phase, now - self.since));
        self.since = now;
    }

    /// Ends the start: the sandbox is there.
    pub(super) fn started(&mut self, way: SandboxSource) {
        self.way = Some(way);
        self.end(Phase::Start);
    }

    /// Adds the times to the metrics.
    pub(super) fn record(&self, metrics: &Metrics, language: &str) {
        for (phase, took) in &self.phases {
            metrics.observe(language, phase.into_str(), *took);
        }
        if let Some(way) = self.way {
            let labels = WayLabels {
                way: way.into_str(),
            };
            metrics.starts.get_or_create_owned(&labels).inc();
        }
    }
}
