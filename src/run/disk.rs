//! Watches what a running program writes: one conversation must neither exceed its quota nor fill the disk.
//!
//! The watch polls: every 25 ms while the tree is small, otherwise for a tenth of the time, and for up to half of it
//! while free space or free inodes drop, or files grow quickly. Where others serve the file system and each look takes
//! requests, it does so a tenth as often. A run can overshoot by what it writes between two
//! checks, so the next one may begin over quota but not grow; far over quota, none begins. What a kernel has open of
//! deleted files counts from the end of its cell, when it can be seen.

use std::time::Duration;

use sandbox_init::Held;
use tokio::time::Instant;

use super::Runs;
use super::excess::DiskExcess;
use crate::gate::floor::Taker;
use crate::sandbox::Scale;
use crate::workspace::{FreeSpace, Usage, Workspace, Workspaces};

/// Time between two checks of a small tree.
const PAUSE: Duration = Duration::from_millis(25);
/// The same while free space on the file system is shrinking.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// Pauses are no shorter than this on a file system that others serve.
const SERVED_PAUSE: Duration = Duration::from_millis(250);
/// A loss of free space that is too small to matter.
const LITTLE: u64 = 1 << 20;
/// A check is due when free space has dropped by the conversation's remaining room divided by this.
const ROOM_PART: u64 = 4;
/// Pauses are usually this many times as long as a check takes.
const PAUSE_FACTOR: u32 = 10;
/// The same while something grows quickly.
const HASTY_FACTOR: u32 = 2;
/// Pauses are no longer than this where the file system does not count inodes: nothing else there shows that a program
/// makes empty files.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A loss of inodes that is too small to matter.
const FEW: u64 = 1_000;
/// Bytes over the quota with which a run may still begin: more than a fast disk writes between two checks.
const EXCESS_BYTES: u64 = 512 << 20;
/// A run may still begin with this many times the limit on files.
const EXCESS_FACTOR: u64 = 4;

/// The most that a run may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    bytes: u64,
    entries: u64,
    /// Bytes that its conversation may have.
    quota: u64,
    /// What it may add to what it finds.
    room: Room,
    found: Usage,
}

/// What the free space of the file system reveals between two checks. Others write too, so it only says when to check.
struct FreeSpaceTrend {
    /// At the last check.
    at_scan: FreeSpace,
    /// A moment ago.
    last: FreeSpace,
    /// What the conversation may add, as of the last check.
    room: Room,
}

/// What a conversation may add.
#[derive(Clone, Copy, Debug)]
struct Room {
    bytes: u64,
    entries: u64,
}

impl FreeSpaceTrend {
    fn new(free: FreeSpace, room: Room) -> Self {
        Self {
            at_scan: free,
            last: free,
            room,
        }
    }

    /// How soon to read it again, and whether so much is gone that the tree should be checked.
    fn read(&mut self, free: FreeSpace) -> (Duration, bool) {
        let shrinks = lost(self.last, free).bytes > LITTLE;
        self.last = free;
        let lost = lost(self.at_scan, free);
        let fills_up = lost.bytes > LITTLE.max(self.room.bytes / ROOM_PART)
            || lost.entries > FEW.max(self.room.entries / ROOM_PART);
        (if shrinks { SHORT_PAUSE } else { PAUSE }, fills_up)
    }

    fn scanned(&mut self, free: FreeSpace, room: Room) {
        (self.at_scan, self.room) = (free, room);
    }
}

/// What the file system has lost in between. Inodes that it does not count are never lost.
fn lost(before: FreeSpace, after: FreeSpace) -> Room {
    let inodes = before.inodes.zip(after.inodes);
    Room {
        bytes: before.bytes.saturating_sub(after.bytes),
        entries: inodes.map_or(0, |(before, after)| before.saturating_sub(after)),
    }
}

/// When to check the tree.
struct ScanSchedule {
    /// When the last complete check started.
    last: Instant,
    /// How many entries it found.
    entries: u64,
    /// When the next one is due.
    usual: Instant,
    /// The same while the file system fills up.
    hasty: Instant,
}

impl ScanSchedule {
    fn new(entries: u64) -> Self {
        let last = Instant::now();
        Self {
            last,
            entries,
            usual: last + PAUSE,
            hasty: last,
        }
    }

    fn due(&self, now: Instant, fills_up: bool) -> bool {
        now >= (if fills_up { self.hasty } else { self.usual })
    }

    /// How soon there will be `room` more entries, at the pace since the last check.
    fn record(&mut self, started: Instant, entries: u64, room: u64) -> Duration {
        let grown = entries.saturating_sub(self.entries);
        let nanos = ((started - self.last).as_nanos() * u128::from(room))
            .checked_div(u128::from(grown))
            .and_then(|nanos| u64::try_from(nanos).ok());
        (self.last, self.entries) = (started, entries);
        nanos.map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Plans the next check, after one that took `took`. The gauge shows growth in between if `gauged`.
    fn plan(&mut self, started: Instant, took: Duration, time_left: Duration, gauged: bool) {
        let shortest = took * HASTY_FACTOR;
        let fraction = took * PAUSE_FACTOR;
        let longest = if gauged {
            fraction
        } else {
            fraction.min(LONGEST_PAUSE).max(shortest)
        };
        self.hasty = started + shortest;
        self.usual = started + took + (time_left / 2).clamp(shortest, longest);
    }
}

impl Allowance {
    /// From what a run finds, before it can add to it.
    ///
    /// # Errors
    /// That is already far too much.
    pub(super) async fn of(
        workspaces: &Workspaces,
        workspace: &Workspace,
        mut found: Option<Usage>,
    ) -> Result<Self, DiskExcess> {
        let (limits, quota) = (workspaces.limits(), workspace.quota());
        if found.is_some_and(|found| !found.complete) {
            let max_counted = limits.max_entries * EXCESS_FACTOR;
            found = workspace.usage_up_to(max_counted).await.ok();
        }
        // A tree that cannot be read right now is checked again while the program runs.
        let found = found.unwrap_or(Usage {
            complete: true,
            ..Usage::default()
        });
        if !found.complete || found.bytes > quota.saturating_add(EXCESS_BYTES) {
            return Err(DiskExcess::FarOver);
        }
        Ok(Self {
            room: Room {
                bytes: quota.saturating_sub(found.bytes),
                entries: limits.max_entries.saturating_sub(found.entries),
            },
            bytes: found.bytes.max(quota),
            quota,
            entries: found.entries.max(limits.max_entries),
            found,
        })
    }

    /// Resolves when the run must be stopped, and never otherwise.
    pub(super) async fn exceeded(
        self,
        runs: &Runs,
        workspace: &Workspace,
        scale: Scale,
    ) -> DiskExcess {
        let taker = runs.gate.floor.register(self.found, scale);
        tokio::select! {
            () = taker.blamed() => DiskExcess::ServerDisk,
            // Boxed, because it is large and would be part of every caller's future.
            excess = Box::pin(self.watch(&runs.files.workspaces, workspace, &taker)) => excess,
        }
    }

    /// Resolves when its own limits are exceeded.
    async fn watch(
        self,
        workspaces: &Workspaces,
        workspace: &Workspace,
        taker: &Taker,
    ) -> DiskExcess {
        let free = workspaces.check_space().unwrap_or_default();
        let mut trend = FreeSpaceTrend::new(free, self.room);
        let mut schedule = ScanSchedule::new(self.found.entries);
        let mut pause = PAUSE;
        let shortest = if workspaces.are_served() {
            SERVED_PAUSE
        } else {
            Duration::ZERO
        };
        loop {
            tokio::time::sleep(pause.max(shortest)).await;
            let space = workspaces.check_space();
            let is_short = space.is_err();
            // Where too little is free, it matters only who takes more of it.
            let free = space.unwrap_or_default();
            let fills_up;
            (pause, fills_up) = trend.read(free);
            let started = Instant::now();
            if !schedule.due(started, fills_up || is_short) {
                if is_short {
                    taker.is_short();
                }
                continue;
            }
            let mut time_left = Duration::MAX;
            // A tree that cannot be read right now is checked again.
            if let Ok(usage) = workspace.usage_up_to(self.entries).await {
                taker.measured(&usage);
                if let Some(excess) = self.excess(&usage, workspaces) {
                    return excess;
                }
                let room = Room {
                    bytes: self.bytes.saturating_sub(usage.bytes),
                    entries: self.entries.saturating_sub(usage.entries),
                };
                trend.scanned(free, room);
                time_left = schedule.record(started, usage.entries, room.entries);
            }
            if is_short {
                taker.is_short();
            }
            let gauged = free.inodes.is_some();
            schedule.plan(started, started.elapsed(), time_left, gauged);
        }
    }

    fn excess(self, usage: &Usage, workspaces: &Workspaces) -> Option<DiskExcess> {
        let limits = workspaces.limits();
        if !usage.complete {
            return Some(DiskExcess::Files {
                limit: limits.max_entries,
            });
        }
        (usage.bytes > self.bytes).then_some(DiskExcess::Bytes {
            taken: usage.bytes,
            deleted: usage.deleted,
            quota: self.quota,
        })
    }
}

/// Why a kernel cannot stay after its cell: what it has open of deleted files takes more than is left of the quota.
/// `None` if it can.
pub(super) async fn held_too_much(workspace: &Workspace, held: Held) -> Option<DiskExcess> {
    if held.seen() < LITTLE {
        return None;
    }
    let quota = workspace.quota();
    // A tree that cannot be read right now is measured with the next run.
    let named = workspace.usage().await.map_or(0, |usage| usage.bytes);
    let held = held.seen();
    (held > quota.saturating_sub(named)).then_some(DiskExcess::Held { held, named, quota })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(mebibytes: u64, inodes: u64) -> FreeSpace {
        FreeSpace {
            bytes: mebibytes << 20,
            inodes: Some(inodes),
        }
    }

    fn room(bytes: u64, entries: u64) -> Room {
        Room { bytes, entries }
    }

    #[test]
    fn a_loss_of_a_part_of_the_room_calls_for_a_look() {
        let mut trend = FreeSpaceTrend::new(free(1000, 0), room(40 << 20, 0));
        assert_eq!(trend.read(free(999, 0)), (PAUSE, false));
        assert_eq!(trend.read(free(995, 0)), (SHORT_PAUSE, false));
        assert_eq!(trend.read(free(989, 0)), (SHORT_PAUSE, true));
        // Almost nothing is left, so every loss matters that is not tiny.
        trend.scanned(free(989, 0), room(1, 0));
        assert_eq!(trend.read(free(989, 0)), (PAUSE, false));
        assert_eq!(trend.read(free(987, 0)), (SHORT_PAUSE, true));
        assert_eq!(trend.read(free(2000, 0)), (PAUSE, false));
    }

    #[test]
    fn many_new_files_call_for_a_look() {
        let mut trend = FreeSpaceTrend::new(free(1, 90_000), room(1, 40_000));
        assert_eq!(trend.read(free(1, 80_000)), (PAUSE, false));
        assert_eq!(trend.read(free(1, 79_999)), (PAUSE, true));
        trend.scanned(free(1, 80_000), room(1, 100));
        assert_eq!(trend.read(free(1, 79_000)), (PAUSE, false));
        assert_eq!(trend.read(free(1, 78_999)), (PAUSE, true));
        let uncounted = FreeSpace {
            bytes: 1 << 20,
            inodes: None,
        };
        assert_eq!(trend.read(uncounted), (PAUSE, false));
    }

    #[test]
    fn slow_checks_take_a_tenth_of_the_time() {
        let pause = |gauged| {
            let mut schedule = ScanSchedule::new(0);
            let started = schedule.last;
            schedule.plan(started, Duration::from_secs(1), Duration::MAX, gauged);
            (schedule.usual - started).as_secs()
        };
        assert_eq!((pause(true), pause(false)), (11, 3));
    }

    /// Milliseconds from the start of a check to the next one, when checks take 10 ms.
    fn next_after(before: u64, after_ms: u64, entries: u64, room: u64) -> u128 {
        let mut schedule = ScanSchedule::new(before);
        let started = schedule.last + Duration::from_millis(after_ms);
        let left = schedule.record(started, entries, room);
        schedule.plan(started, Duration::from_millis(10), left, true);
        (schedule.usual - started).as_millis()
    }

    #[test]
    fn the_next_look_comes_before_files_are_too_many() {
        assert_eq!(next_after(5, 100, 5, 1_000), 110, "nothing grows");
        assert_eq!(next_after(500, 100, 5, 1_000), 110, "it shrinks");
        assert_eq!(next_after(0, 100, 100, 1_000), 110, "a second is left");
        assert_eq!(next_after(0, 100, 1_000, 1_000), 60, "100 ms are left");
        assert_eq!(next_after(0, 100, 1_000, 1), 30, "hardly any is left");
        assert_eq!(next_after(0, 100, 1_000, 0), 30);
        assert_eq!(next_after(0, 1, 1, u64::MAX), 110);
    }
}
