//! Watches what a running program writes: one conversation must neither exceed its quota nor fill the disk.
//!
//! The watch is a poll, so a program gets past the limit by what it writes between two looks. Looks are close
//! together while the tree is small and take a tenth of the time when it is large, but half of it as soon as the file
//! system loses much of the room that the conversation has left: that is asked far more often, for it costs next to
//! nothing. Hence a conversation can be over its
//! limits when a run begins. Such a run may tidy up, but not grow; and where it is over them by more than one run can
//! have got past them, there are no further runs, or many short ones would get past any limit.

use std::time::Duration;

use tokio::time::Instant;

use super::ending::mebibytes;
use crate::workspace::{Usage, Workspace, Workspaces};

/// Time between two looks at a small tree.
const PAUSE: Duration = Duration::from_millis(25);
/// The same while the free space of the file system is shrinking.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// A loss of free space that does not matter.
const LITTLE: u64 = 1 << 20;
/// A loss of this part of the room that the conversation has left calls for a look.
const ROOM_PART: u64 = 4;
/// Pauses are at least this many times as long as a look takes.
const PAUSE_FACTOR: u32 = 10;
/// Pauses are no longer than this, so that not even a slow look lets much through.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Bytes over the quota with which a run may still begin: more than a fast disk takes between two looks.
const EXCESS_BYTES: u64 = 512 << 20;
/// Times the limit on files with which a run may still begin.
const EXCESS_FACTOR: u64 = 4;

/// What a run may have at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    bytes: u64,
    entries: u64,
    /// Bytes that it may add to what it finds.
    room: u64,
}

/// What the free space of the file system tells between two looks. Others write too, so it only tells when to look.
struct Gauge {
    /// At the last look.
    at_look: u64,
    /// A moment ago.
    last: u64,
    /// What the conversation may add, by the last look.
    room: u64,
}

impl Gauge {
    fn new(free: u64, room: u64) -> Self {
        Self {
            at_look: free,
            last: free,
            room,
        }
    }

    /// How soon to read it again, and whether so much is gone that somebody should look.
    fn read(&mut self, free: u64) -> (Duration, bool) {
        let shrinks = self.last.saturating_sub(free) > LITTLE;
        self.last = free;
        let fills_up = self.at_look.saturating_sub(free) > LITTLE.max(self.room / ROOM_PART);
        (if shrinks { SHORT_PAUSE } else { PAUSE }, fills_up)
    }

    fn looked(&mut self, free: u64, room: u64) {
        (self.at_look, self.room) = (free, room);
    }
}

impl Allowance {
    /// Looks at what a run finds, before it can add to it. `Err` with a sentence for the model when that is far too
    /// much already.
    pub(super) async fn of(workspaces: &Workspaces, workspace: &Workspace) -> Result<Self, String> {
        let limits = workspaces.limits();
        let mut found = workspace.usage().await;
        if found.as_ref().is_ok_and(|found| !found.complete) {
            let most = limits.max_entries * EXCESS_FACTOR;
            found = workspace.usage_up_to(most).await;
        }
        // A tree that cannot be read right now is looked at again, while the program runs.
        let found = found.unwrap_or(Usage {
            complete: true,
            ..Usage::default()
        });
        if !found.complete || found.bytes > limits.quota_bytes.saturating_add(EXCESS_BYTES) {
            return Err(
                "The program was not started because the conversation's files in /data are far over its limits: \
                 delete the conversation, or start a new one."
                    .to_owned(),
            );
        }
        Ok(Self {
            room: limits.quota_bytes.saturating_sub(found.bytes),
            bytes: found.bytes.max(limits.quota_bytes),
            entries: found.entries.max(limits.max_entries),
        })
    }

    /// Resolves, with a sentence for the model, when the run must be stopped. Never resolves otherwise.
    pub(super) async fn exceeded(self, workspaces: &Workspaces, workspace: &Workspace) -> String {
        let mut gauge = Gauge::new(workspaces.check_space().unwrap_or(0), self.room);
        let (mut next_look, mut hasty_look) = (Instant::now() + PAUSE, Instant::now());
        let mut pause = PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let Ok(free) = workspaces.check_space() else {
                return "The program was stopped because the server's disk is nearly full: write less, or ask the \
                        operator for room."
                    .to_owned();
            };
            let fills_up;
            (pause, fills_up) = gauge.read(free);
            let started = Instant::now();
            if started < (if fills_up { hasty_look } else { next_look }) {
                continue;
            }
            // A tree that cannot be read right now is looked at again.
            if let Ok(usage) = workspace.usage_up_to(self.entries).await {
                if let Some(reason) = self.excess(&usage, workspaces) {
                    return reason;
                }
                gauge.looked(free, self.bytes.saturating_sub(usage.bytes));
            }
            let took = started.elapsed();
            hasty_look = started + took * 2;
            next_look = started + took + (took * PAUSE_FACTOR).min(LONGEST_PAUSE);
        }
    }

    fn excess(self, usage: &Usage, workspaces: &Workspaces) -> Option<String> {
        let limits = workspaces.limits();
        if !usage.complete {
            return Some(format!(
                "The program was stopped because /data holds more than {} files, or folders in folders too deep to \
                 count.",
                limits.max_entries
            ));
        }
        (usage.bytes > self.bytes).then(|| {
            format!(
                "The program was stopped because its files take {}, the limit for a conversation is {}: delete files \
                 in /data, or start a new conversation.",
                mebibytes(usage.bytes),
                mebibytes(limits.quota_bytes)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_a_part_of_the_room_calls_for_a_look() {
        let mut gauge = Gauge::new(1000 << 20, 40 << 20);
        assert_eq!(gauge.read(999 << 20), (PAUSE, false));
        assert_eq!(gauge.read(995 << 20), (SHORT_PAUSE, false));
        assert_eq!(gauge.read(989 << 20), (SHORT_PAUSE, true));
        // Nearly nothing is left: every loss matters that is not little.
        gauge.looked(989 << 20, 1);
        assert_eq!(gauge.read(989 << 20), (PAUSE, false));
        assert_eq!(gauge.read(987 << 20), (SHORT_PAUSE, true));
        assert_eq!(gauge.read(2000 << 20), (PAUSE, false));
    }
}
