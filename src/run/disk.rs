//! Watches what a running program writes: one conversation must neither exceed its quota nor fill the disk.
//!
//! The watch is a poll, so a program gets past the limit by what it writes between two looks. Looks are close
//! together while the tree is small and take a tenth of the time when it is large. Hence a conversation can be over its
//! limits when a run begins. Such a run may tidy up, but not grow; and where it is over them by more than one run can
//! have got past them, there are no further runs, or many short ones would get past any limit.

use std::time::Duration;

use tokio::time::Instant;

use super::ending::mebibytes;
use crate::workspace::{Usage, Workspace, Workspaces};

/// Time between two looks at a small tree.
const PAUSE: Duration = Duration::from_millis(25);
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
            bytes: found.bytes.max(limits.quota_bytes),
            entries: found.entries.max(limits.max_entries),
        })
    }

    /// Resolves, with a sentence for the model, when the run must be stopped. Never resolves otherwise.
    pub(super) async fn exceeded(self, workspaces: &Workspaces, workspace: &Workspace) -> String {
        let mut next_look = Instant::now() + PAUSE;
        loop {
            tokio::time::sleep(PAUSE).await;
            if workspaces.check_space().is_err() {
                return "The program was stopped because the server's disk is nearly full: write less, or ask the \
                        operator for room."
                    .to_owned();
            }
            let started = Instant::now();
            if started < next_look {
                continue;
            }
            // A tree that cannot be read right now is looked at again.
            let usage = workspace.usage_up_to(self.entries).await.ok();
            if let Some(reason) = usage.and_then(|usage| self.excess(&usage, workspaces)) {
                return reason;
            }
            let took = started.elapsed();
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
