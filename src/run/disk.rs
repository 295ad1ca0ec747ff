//! Watches what a running program writes: one conversation must neither exceed its quota nor fill the disk.
//!
//! The watch is a poll, so a program gets past the limit by what it writes between two looks. Looks are close
//! together while the tree is small and never take more than a tenth of the time.

use std::time::Duration;

use tokio::time::Instant;

use super::ending::mebibytes;
use crate::workspace::{Usage, Workspace, Workspaces};

/// Time between two looks at a small tree.
const PAUSE: Duration = Duration::from_millis(25);
/// Pauses are at least this many times as long as a look takes.
const PAUSE_FACTOR: u32 = 10;

/// Resolves, with a sentence for the model, when the run must be stopped. Never resolves otherwise.
pub(super) async fn full(workspaces: &Workspaces, workspace: &Workspace) -> String {
    // A conversation that is over its quota already may run a program that tidies up, but not grow.
    let at_start = workspace.usage().await.ok();
    let quota = workspaces.limits().quota_bytes;
    let allowed = at_start
        .as_ref()
        .map_or(quota, |usage| usage.bytes.max(quota));
    let may_be_incomplete = at_start.is_some_and(|usage| !usage.complete);
    let mut pause = PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let started = Instant::now();
        if workspaces.check_space().is_err() {
            return "The program was stopped because the server's disk is nearly full: write less, or ask the operator \
                    for room."
                .to_owned();
        }
        // A tree that cannot be read right now is looked at again.
        let over = workspace
            .usage()
            .await
            .ok()
            .and_then(|usage| over_limit(&usage, allowed, may_be_incomplete, workspaces));
        if let Some(reason) = over {
            return reason;
        }
        pause = PAUSE.max(started.elapsed() * PAUSE_FACTOR);
    }
}

fn over_limit(
    usage: &Usage,
    allowed: u64,
    may_be_incomplete: bool,
    workspaces: &Workspaces,
) -> Option<String> {
    let limits = workspaces.limits();
    if !usage.complete && !may_be_incomplete {
        return Some(format!(
            "The program was stopped because /data holds more than {} files, or folders in folders too deep to count.",
            limits.max_entries
        ));
    }
    (usage.bytes > allowed).then(|| {
        format!(
            "The program was stopped because its files take {}, the limit for a conversation is {}: delete files in \
             /data, or start a new conversation.",
            mebibytes(usage.bytes),
            mebibytes(limits.quota_bytes)
        )
    })
}
