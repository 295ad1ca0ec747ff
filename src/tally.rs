//! What tenants use, by day and language, for the operator.
//!
//! ```text
//! runs, installs, files ─▶ counted ──every few seconds, at a question, at the end──▶ SANDBOX_ROOT/.usage/<day>/<tenant>
//! ```
//!
//! Counting takes a lock and no disk, so that nothing waits for it. What is counted and not written yet is lost with a
//! server that is killed. Days are those of UTC.

mod counts;
mod files;

use std::collections::HashMap;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use self::counts::{DayCounts, HourCounts, LanguageCounts};
use self::files::DayFiles;
use crate::principal::Tenant;

/// Pause between two times at which what was counted is written.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// The pause is at least this many times as long as writing took.
const WRITE_SHARE: u32 = 20;
/// Days for which counts are kept.
const KEPT_DAYS: i32 = 400;
/// Hours of a day that are summed up as its last.
const HOURS: i8 = 24;

/// Counts what tenants use. Clones share one state; by default nothing is counted.
#[derive(Clone, Debug, Default)]
pub struct Tally(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// What is not written yet.
    counted: Mutex<HashMap<(Date, Tenant), DayCounts>>,
    files: Mutex<DayFiles>,
}

/// What a tenant used on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantDay {
    /// Which one, of UTC.
    pub day: Date,
    /// Who.
    pub tenant: Tenant,
    /// How much.
    pub counts: DayCounts,
}

/// A run that has ended, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct CountedRun<'a> {
    /// Of a runner, or a word for those that there are none for.
    pub language: &'a str,
    /// The status of an outcome, or why there was none.
    pub status: &'static str,
    /// Processor time in milliseconds, as far as it is known.
    pub cpu_ms: u64,
    /// Elapsed time in milliseconds.
    pub wall_ms: u64,
}

impl Tally {
    /// Counts in a directory of its own below `root`.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self(Some(Arc::new(Shared {
            counted: Mutex::default(),
            files: Mutex::new(DayFiles::open(root)?),
        }))))
    }

    /// Whether anything is counted.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Counts a run that has ended.
    pub fn run(&self, tenant: &Tenant, run: CountedRun<'_>) {
        self.count(tenant, |counts, hour| counts.add_run(run, hour));
    }

    /// Counts an install that succeeded, for programs of a language.
    pub fn install(&self, tenant: &Tenant, language: &str) {
        self.count(tenant, |counts, _| {
            counts.language(language).installs += 1;
        });
    }

    /// Counts bytes of a file that was stored.
    pub fn uploaded(&self, tenant: &Tenant, bytes: u64) {
        self.count(tenant, |counts, _| counts.uploaded_bytes += bytes);
    }

    /// Counts bytes of files that were sent.
    pub fn downloaded(&self, tenant: &Tenant, bytes: u64) {
        self.count(tenant, |counts, _| counts.downloaded_bytes += bytes);
    }

    fn count(&self, tenant: &Tenant, add: impl FnOnce(&mut DayCounts, i8)) {
        let Some(shared) = &self.0 else {
            return;
        };
        let now = TimeZone::UTC.to_datetime(Timestamp::now());
        let mut counted = shared.counted.lock();
        let counts = counted.entry((now.date(), tenant.clone())).or_default();
        add(counts, now.hour());
    }

    /// Writes what was counted, again and again until `stop`.
    pub async fn maintain(&self, stop: &CancellationToken) {
        if self.0.is_none() {
            return;
        }
        let mut is_written = true;
        let mut pause = WRITE_EVERY;
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            let begun = Instant::now();
            let written = self.write().await;
            match &written {
                Ok(()) => {}
                Err(error) if is_written => {
                    warn!(%error, "what tenants use cannot be written: it is kept in memory");
                }
                Err(error) => debug!(%error, "what tenants use cannot be written"),
            }
            is_written = written.is_ok();
            pause = WRITE_EVERY.max(begun.elapsed() * WRITE_SHARE);
        }
    }

    /// Writes what was counted.
    ///
    /// # Errors
    /// It cannot be written, and is still to be.
    pub async fn write(&self) -> io::Result<()> {
        self.off_thread(|shared| shared.write(&mut shared.files.lock()))
            .await
            .unwrap_or(Ok(()))
    }

    /// What each tenant used from one day to another, in no order.
    ///
    /// # Errors
    /// What was written cannot be read.
    pub async fn between(&self, from: Date, to: Date) -> io::Result<Vec<TenantDay>> {
        self.off_thread(move |shared| shared.between(from, to))
            .await
            .unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Runs and processor time of these tenants in the last 24 hours, which begin with a whole one.
    ///
    /// # Errors
    /// What was written cannot be read.
    pub async fn last_day(&self, tenants: Vec<Tenant>) -> io::Result<HashMap<Tenant, HourCounts>> {
        self.off_thread(move |shared| shared.last_day(tenants, Timestamp::now()))
            .await
            .unwrap_or_else(|| Ok(HashMap::new()))
    }

    /// Does something that may block. `None` if nothing is counted.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Option<T> {
        let shared = Arc::clone(self.0.as_ref()?);
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        Some(done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
    }
}

impl Shared {
    /// Adds what was counted to the files. What cannot be written is kept.
    fn write(&self, files: &mut DayFiles) -> io::Result<()> {
        let counted = mem::take(&mut *self.counted.lock());
        if counted.is_empty() {
            return Ok(());
        }
        let mut result = files.forget_before(today().saturating_sub(KEPT_DAYS.days()));
        let turn = files.turn();
        for ((day, tenant), counts) in counted {
            if result.is_ok() {
                result = turn.add(day, &tenant, &counts);
            }
            if result.is_err() {
                let mut counted = self.counted.lock();
                counted.entry((day, tenant)).or_default().add(&counts);
            }
        }
        result
    }

    /// What could not be written is counted all the same.
    fn between(&self, from: Date, to: Date) -> io::Result<Vec<TenantDay>> {
        let mut files = self.files.lock();
        let _ = self.write(&mut files);
        let mut found = HashMap::new();
        for day in files.days()? {
            if (from..=to).contains(&day) {
                for tenant in files.tenants(day)? {
                    let counts = files.read(day, &tenant)?;
                    found.insert((day, tenant), counts);
                }
            }
        }
        for ((day, tenant), counts) in &*self.counted.lock() {
            if (from..=to).contains(day) {
                let all = found.entry((*day, tenant.clone())).or_default();
                all.add(counts);
            }
        }
        let found = found.into_iter();
        Ok(found
            .map(|((day, tenant), counts)| TenantDay {
                day,
                tenant,
                counts,
            })
            .collect())
    }

    fn last_day(
        &self,
        tenants: Vec<Tenant>,
        now: Timestamp,
    ) -> io::Result<HashMap<Tenant, HourCounts>> {
        let mut files = self.files.lock();
        let _ = self.write(&mut files);
        let now = TimeZone::UTC.to_datetime(now);
        let (day, hour) = (now.date(), now.hour());
        let before = day.saturating_sub(1.day());
        let counted = self.counted.lock();
        let mut sums = HashMap::new();
        for tenant in tenants {
            let mut sum = HourCounts::default();
            for (day, hours) in [(before, hour..HOURS), (day, 0..hour + 1)] {
                let mut counts = files.read(day, &tenant)?;
                if let Some(counted) = counted.get(&(day, tenant.clone())) {
                    counts.add(counted);
                }
                sum.add_all(counts.hours.range(hours).map(|(_, hour)| hour));
            }
            sums.insert(tenant, sum);
        }
        Ok(sums)
    }
}

/// The day that it is.
pub fn today() -> Date {
    TimeZone::UTC.to_datetime(Timestamp::now()).date()
}

#[cfg(test)]
mod tests;
