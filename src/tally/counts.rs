//! What is counted of a tenant on a day.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CountedRun;

/// Tenants of a day that are told apart.
pub(super) const MAX_TENANTS: usize = 2_000;
/// Stands for all others of a day. No tenant has the name.
pub(super) const OTHERS: &str = "(others)";

/// What tenants used on a day, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct AllCounts(pub(super) BTreeMap<String, DayCounts>);

impl AllCounts {
    /// Those of a tenant, or of the others if there are many already.
    pub(super) fn of(&mut self, tenant: &str) -> &mut DayCounts {
        let is_known = self.0.contains_key(tenant);
        let name = if is_known || self.0.len() < MAX_TENANTS {
            tenant
        } else {
            OTHERS
        };
        self.0.entry(name.to_owned()).or_default()
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, other: &Self) {
        for (tenant, counts) in &other.0 {
            self.of(tenant).add(counts);
        }
    }
}

/// What a tenant used on a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DayCounts {
    /// Runs and installs by language.
    pub languages: BTreeMap<String, LanguageCounts>,
    /// Bytes of files that were stored.
    pub uploaded_bytes: u64,
    /// Bytes of files that were sent.
    pub downloaded_bytes: u64,
    /// Runs that ended in each hour of the day.
    pub hours: BTreeMap<i8, HourCounts>,
}

/// What programs of a language took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LanguageCounts {
    /// Runs by how they ended, or why there was none.
    pub runs: BTreeMap<String, u64>,
    /// Processor time in milliseconds, as far as it is known.
    pub cpu_ms: u64,
    /// Elapsed time in milliseconds.
    pub wall_ms: u64,
    /// Installs that succeeded.
    pub installs: u64,
}

/// What runs took that ended in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HourCounts {
    /// How many.
    pub runs: u64,
    /// Their processor time in milliseconds.
    pub cpu_ms: u64,
}

impl DayCounts {
    pub(super) fn language(&mut self, language: &str) -> &mut LanguageCounts {
        self.languages.entry(language.to_owned()).or_default()
    }

    pub(super) fn add_run(&mut self, run: CountedRun<'_>, hour: i8) {
        let counts = self.language(run.language);
        *counts.runs.entry(run.status.to_owned()).or_default() += 1;
        counts.cpu_ms += run.cpu_ms;
        counts.wall_ms += run.wall_ms;
        let hour = self.hours.entry(hour).or_default();
        hour.runs += 1;
        hour.cpu_ms += run.cpu_ms;
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, other: &Self) {
        for (language, counts) in &other.languages {
            self.language(language).add(counts);
        }
        self.uploaded_bytes += other.uploaded_bytes;
        self.downloaded_bytes += other.downloaded_bytes;
        for (hour, counts) in &other.hours {
            self.hours.entry(*hour).or_default().add_all([counts]);
        }
    }
}

impl LanguageCounts {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (status, count) in &other.runs {
            *self.runs.entry(status.clone()).or_default() += count;
        }
        self.cpu_ms += other.cpu_ms;
        self.wall_ms += other.wall_ms;
        self.installs += other.installs;
    }
}

impl HourCounts {
    /// Adds those of other hours.
    pub(super) fn add_all<'a>(&mut self, others: impl IntoIterator<Item = &'a Self>) {
        for other in others {
            self.runs += other.runs;
            self.cpu_ms += other.cpu_ms;
        }
    }
}
