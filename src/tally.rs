//! What tenants use, by day and language, for the operator.
//!
//! ```text
//! runs, installs, files ─▶ counted ──every few seconds, at a question, at the end──▶ SANDBOX_ROOT/.usage/<day>.json
//! ```
//!
//! Counting takes a lock and no disk, so that nothing waits for it. What is counted and not written yet is lost with a
//! server that is killed. Days are those of UTC.

mod counts;
mod files;

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;
use tokio::sync;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use self::counts::AllCounts;
pub use self::counts::{DayCounts, HourCounts, LanguageCounts};
use self::files::{DayFiles, KEPT_DAYS};
use crate::principal::Tenant;

/// Pause between two times at which what was counted is written.
const WRITE_EVERY: Duration = Duration::from_secs(5);
/// The pause is at least this many times as long as writing took.
const WRITE_SHARE: u32 = 20;
/// How long the last counts may take to be written at shutdown.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Pause before it is tried again while another server writes.
const TURN_WAIT: Duration = Duration::from_millis(50);
/// Hours of a day that are summed up as its last.
const HOURS: i8 = 24;

/// Counts what tenants use. Clones share one state; by default nothing is counted.
#[derive(Clone, Debug, Default)]
pub struct Tally(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// What is not written yet.
    counted: Mutex<BTreeMap<Date, AllCounts>>,
    /// Whoever waits for them waits off the threads that block.
    files: Arc<sync::Mutex<DayFiles>>,
}

/// What a tenant used on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantDay {
    /// Which one, of UTC.
    pub day: Date,
    /// The name of who it is, or a word for many in parentheses.
    pub tenant: String,
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
        let files = DayFiles::open(root)?;
        if let Ok(turn) = files.turn() {
            turn.tidy(KEPT_DAYS);
        }
        Ok(Self(Some(Arc::new(Shared {
            counted: Mutex::default(),
            files: Arc::new(sync::Mutex::new(files)),
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
        let all = counted.entry(now.date()).or_default();
        add(all.of(tenant.name()), now.hour());
    }

    /// Writes what was counted, again and again until `stop`.
    pub async fn maintain(&self, stop: &CancellationToken) {
        if self.0.is_none() {
            return;
        }
        let mut is_written = true;
        let mut pause = WRITE_EVERY;
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            let begun = Instant::now();
            let written = self.write().await;
            match written {
                Ok(()) => is_written = true,
                Err(error) if is_written && !is_busy(&error) => {
                    warn!(%error, "what tenants use cannot be written: it is kept in memory");
                    is_written = false;
                }
                Err(error) => debug!(%error, "what tenants use cannot be written"),
            }
            pause = WRITE_EVERY.max(begun.elapsed() * WRITE_SHARE);
        }
    }

    /// Writes what was counted.
    ///
    /// # Errors
    /// It cannot be written, and is still to be.
    pub async fn write(&self) -> io::Result<()> {
        match &self.0 {
            Some(shared) => shared.off_thread(Shared::write).await,
            None => Ok(()),
        }
    }

    /// Writes what was counted last, and waits a moment for that.
    pub async fn stopped(&self) {
        let last = async {
            loop {
                match self.write().await {
                    Err(error) if is_busy(&error) => sleep(TURN_WAIT).await,
                    written => break written,
                }
            }
        };
        let written = timeout(LAST_WAIT, last).await;
        if let Err(error) = written.unwrap_or_else(|late| Err(late.into())) {
            warn!(%error, "what tenants used last may be lost");
        }
    }

    /// Adds what each tenant used from one day to another to a sum, a day at a time, as long as `add` wants more.
    ///
    /// # Errors
    /// What was written cannot be read.
    pub async fn fold<T: Send + 'static>(
        &self,
        days: RangeInclusive<Date>,
        mut sum: T,
        mut add: impl FnMut(&mut T, TenantDay) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<T> {
        let Some(shared) = &self.0 else {
            return Ok(sum);
        };
        let sum = shared.off_thread(move |shared, files| {
            let _ = shared.write(files);
            let mut all = files.days()?;
            all.extend(shared.counted.lock().keys());
            all.sort_unstable();
            all.dedup();
            for day in all.into_iter().filter(|day| days.contains(day)) {
                for (tenant, counts) in shared.on(day, files)?.0 {
                    let used = TenantDay {
                        day,
                        tenant,
                        counts,
                    };
                    if add(&mut sum, used).is_break() {
                        return Ok(sum);
                    }
                }
            }
            Ok(sum)
        });
        sum.await
    }

    /// Runs and processor time of tenants, by their names, in the last 24 hours, which begin with a whole one.
    ///
    /// # Errors
    /// What was written cannot be read.
    pub async fn last_day(&self) -> io::Result<BTreeMap<String, HourCounts>> {
        let Some(shared) = &self.0 else {
            return Ok(BTreeMap::new());
        };
        let used = shared.off_thread(|shared, files| shared.last_day(files, Timestamp::now()));
        used.await
    }
}

impl Shared {
    /// Does something with the files that may block.
    async fn off_thread<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &DayFiles) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let shared = Arc::clone(self);
        let files = Arc::clone(&shared.files).lock_owned().await;
        tokio::task::spawn_blocking(move || work(&shared, &files)).await?
    }

    /// Adds what was counted to the files. What cannot be written is kept.
    fn write(&self, files: &DayFiles) -> io::Result<()> {
        if self.counted.lock().is_empty() {
            return Ok(());
        }
        let turn = files.turn()?;
        let counted = mem::take(&mut *self.counted.lock());
        let mut result = Ok(());
        for (day, counts) in counted {
            let added = turn.add(day, &counts);
            if added.is_err() {
                self.counted.lock().entry(day).or_default().add(&counts);
                result = added;
            }
        }
        result
    }

    /// What is known of a day: what could not be written is counted all the same.
    fn on(&self, day: Date, files: &DayFiles) -> io::Result<AllCounts> {
        let mut all = files.read(day)?;
        if let Some(counts) = self.counted.lock().get(&day) {
            all.add(counts);
        }
        Ok(all)
    }

    fn last_day(
        &self,
        files: &DayFiles,
        now: Timestamp,
    ) -> io::Result<BTreeMap<String, HourCounts>> {
        let _ = self.write(files);
        let now = TimeZone::UTC.to_datetime(now);
        let (day, hour) = (now.date(), now.hour());
        let before = day.saturating_sub(1.day());
        let mut sums: BTreeMap<_, HourCounts> = BTreeMap::new();
        for (day, hours) in [(before, hour..HOURS), (day, 0..hour + 1)] {
            for (tenant, counts) in self.on(day, files)?.0 {
                let hours = counts.hours.range(hours.clone());
                let sum = sums.entry(tenant).or_default();
                sum.add_all(hours.map(|(_, hour)| hour));
            }
        }
        Ok(sums)
    }
}

/// Whether another server has the files.
fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The day that it is.
pub fn today() -> Date {
    TimeZone::UTC.to_datetime(Timestamp::now()).date()
}

#[cfg(test)]
mod tests;
