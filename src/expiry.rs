//! Deletes conversations that nobody uses any more, and the least recently used ones when all of them together, or those
//! of a tenant, take too much space.
//!
//! A sweep does a bounded amount of work, and the next one continues where it stopped. What is in use is never deleted:
//! neither what a run or an upload holds ([`Workspaces::hold`]), nor what was used within [`Expiry::spared`]. That is
//! as long as a conversation keeps its warm sandbox or its kernel, in this server or in another one on the same root.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use tracing::{info, warn};

use crate::access::Access;
use crate::conversation::ConversationKey;
use crate::kernels::{KernelLoss, Kernels};
use crate::pool::Pool;
use crate::principal::Tenant;
use crate::workspace::{NOTE_EVERY, WorkspaceError, Workspaces};

/// Conversations whose last use is looked up in one sweep: a system call each.
const MAX_PER_SWEEP: usize = 10_000;
/// Conversations that one sweep deletes.
const REMOVALS: usize = 100;
/// How long one sweep measures, apart from finishing what it has begun.
const MEASURING: Duration = Duration::from_millis(500);
/// Pause after a sweep that has done everything there was to do.
const PAUSE: Duration = Duration::from_mins(1);
/// Pause after one that has not.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

/// The rules.
#[derive(Clone, Copy, Debug)]
pub struct ExpiryRules {
    /// How long a conversation may be unused.
    pub ttl: Option<Duration>,
    /// Bytes that all conversations together may take.
    pub limit: Option<u64>,
    /// How long a conversation keeps its warm sandbox or its kernel.
    pub idle_ttl: Duration,
}

/// Deletes conversations, and remembers what it knows of them.
#[derive(Debug)]
pub struct Expiry {
    rules: ExpiryRules,
    /// Knows how much each tenant may keep.
    access: Access,
    workspaces: Workspaces,
    pool: Pool,
    kernels: Kernels,
    /// When each was last used, as far as it was looked up.
    used: BTreeMap<ConversationKey, SystemTime>,
    /// Where the last sweep stopped looking.
    cursor: Option<ConversationKey>,
    /// Where it stopped measuring.
    measured: Option<ConversationKey>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Conversations that were deleted.
    pub expired: usize,
    /// Whether there is more to do at once.
    pub more: bool,
}

impl Expiry {
    /// Starts without any knowledge of conversations.
    pub fn new(
        rules: ExpiryRules,
        access: Access,
        workspaces: Workspaces,
        pool: Pool,
        kernels: Kernels,
    ) -> Self {
        Self {
            rules,
            access,
            workspaces,
            pool,
            kernels,
            used: BTreeMap::new(),
            cursor: None,
            measured: None,
        }
    }

    /// Sweeps until the caller cancels it; deletions that have begun are finished in the background.
    pub async fn maintain(mut self) {
        if self.rules.ttl.is_none() && self.rules.limit.is_none() && !self.access.is_shared() {
            return;
        }
        loop {
            let pause = match self.sweep(SystemTime::now()).await {
                Ok(Swept { more: true, .. }) => SHORT_PAUSE,
                Ok(_) => PAUSE,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(error, "cannot look for conversations that have expired");
                    PAUSE
                }
            };
            // Every check of a conversation that grows beyond the limit asks for a sweep, so there is always a pause.
            tokio::time::sleep(SHORT_PAUSE).await;
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(SHORT_PAUSE)) => {}
                () = self.workspaces.over_limit() => {}
            }
        }
    }

    /// Sweeps once, as if the time were `now`.
    ///
    /// # Errors
    /// The conversations cannot be listed. What cannot be measured or deleted is logged and left out.
    pub async fn sweep(&mut self, now: SystemTime) -> Result<Swept, WorkspaceError> {
        let all_seen = self.look().await?;
        let has_limit = self.rules.limit.is_some() || !self.access.storage_limits().is_empty();
        let all_measured = !has_limit || self.measure().await?;
        let unused = self.unused(now);
        let many = unused.len() > REMOVALS;
        let mut expired = 0;
        for (key, since) in unused.into_iter().take(REMOVALS) {
            expired += usize::from(self.remove(&key, since, "unused").await);
        }
        let (removed, enough) = self.make_room(now).await;
        Ok(Swept {
            expired: expired + removed,
            more: many || !all_seen || !all_measured || !enough,
        })
    }

    /// Looks up when conversations were last used. Returns whether it reached the last one.
    async fn look(&mut self) -> Result<bool, WorkspaceError> {
        let mut keys = self.workspaces.keys().await?;
        keys.sort_unstable();
        self.used.retain(|key, _| keys.binary_search(key).is_ok());
        let start = match &self.cursor {
            Some(cursor) => keys.partition_point(|key| key <= cursor),
            None => 0,
        };
        let next: Vec<_> = keys[start..].iter().take(MAX_PER_SWEEP).cloned().collect();
        let round = start + next.len() == keys.len();
        self.cursor = if round { None } else { next.last().cloned() };
        self.used.extend(self.workspaces.last_uses(next).await?);
        Ok(round)
    }

    /// Measures those that are new or may have grown. Returns whether it got through all of them.
    async fn measure(&mut self) -> Result<bool, WorkspaceError> {
        let unknown = |key: &&ConversationKey| !self.workspaces.is_measured(key);
        let unknown: Vec<_> = self.used.keys().filter(unknown).cloned().collect();
        // Those that are always busy must not take up the time of the others.
        let unknown = beginning_after(self.measured.as_ref(), unknown);
        let done = self.workspaces.measure(unknown.clone(), MEASURING).await?;
        self.measured = done.checked_sub(1).map(|last| unknown[last].clone());
        Ok(done == unknown.len())
    }

    /// How recently a conversation must have been used to count as in use.
    fn spared(&self) -> Duration {
        self.rules.idle_ttl + NOTE_EVERY
    }

    /// Those whose time is over, the oldest first, each with the time since which it must not have been used.
    fn unused(&self, now: SystemTime) -> Vec<(ConversationKey, SystemTime)> {
        let Some(ttl) = self.rules.ttl else {
            return Vec::new();
        };
        self.idle_for(now, ttl.max(self.spared()))
    }

    fn idle_for(&self, now: SystemTime, time: Duration) -> Vec<(ConversationKey, SystemTime)> {
        let Some(since) = now.checked_sub(time) else {
            return Vec::new();
        };
        let idle = self.used.iter().filter(|(_, used)| **used <= since);
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable_by_key(|(_, used)| **used);
        idle.into_iter()
            .map(|(key, _)| (key.clone(), since))
            .collect()
    }

    /// Deletes the least recently used ones until the rest fits into every limit. Returns how many, and whether it could
    /// do no more.
    async fn make_room(&mut self, now: SystemTime) -> (usize, bool) {
        let limits: HashMap<_, _> = self.access.storage_limits().into_iter().collect();
        self.workspaces
            .keep_full(|tenant| limits.contains_key(tenant));
        let (mut removed, mut enough) = (0, true);
        let mut stored = self.workspaces.stored_by_tenant();
        for (tenant, limit) in limits {
            let bytes = stored.remove(&tenant).unwrap_or_default();
            let (gone, is_enough) = self.make_room_of(Some(&tenant), bytes, limit, now).await;
            (removed, enough) = (removed + gone, enough && is_enough);
        }
        // After those of tenants, which may have made room for all.
        if let Some(limit) = self.rules.limit {
            let bytes = self.workspaces.stored();
            let (gone, is_enough) = self.make_room_of(None, bytes, limit, now).await;
            (removed, enough) = (removed + gone, enough && is_enough);
        }
        (removed, enough)
    }

    /// Deletes the least recently used ones of a tenant, or of all if `owner` is `None`, until the rest of `bytes` fits.
    async fn make_room_of(
        &mut self,
        owner: Option<&Tenant>,
        mut bytes: u64,
        limit: u64,
        now: SystemTime,
    ) -> (usize, bool) {
        let mut removed = 0;
        if bytes > limit {
            let mut idle = self.idle_for(now, self.spared());
            if let Some(owner) = owner {
                idle.retain(|(key, _)| self.workspaces.tenant_of(key) == *owner);
            }
            for (key, since) in idle {
                if bytes <= limit {
                    break;
                }
                if removed == REMOVALS {
                    return (removed, false);
                }
                let size = self.workspaces.size_of(&key);
                if self.remove(&key, since, "storage_limit").await {
                    bytes = bytes.saturating_sub(size);
                    removed += 1;
                }
            }
        }
        let full = (bytes > limit).then_some(limit);
        if self.workspaces.set_full(owner, full) && full.is_some() {
            warn!(
                storage.tenant = owner.map(Tenant::name),
                storage.bytes = bytes,
                storage.limit = limit,
                "a limit on storage is exceeded by conversations in use: no new runs and uploads"
            );
        }
        (removed, true)
    }

    async fn remove(&mut self, key: &ConversationKey, since: SystemTime, reason: &str) -> bool {
        let (pool, kernels, owner) = (self.pool.clone(), self.kernels.clone(), key.clone());
        let retire = move || {
            pool.retire(&owner);
            kernels.retire(&owner, KernelLoss::Deleted);
        };
        match self.workspaces.expire(key, since, retire).await {
            Ok(Some(bytes)) => {
                info!(
                    conversation.key = key.short(),
                    conversation.bytes = bytes,
                    reason,
                    "conversation expired"
                );
                self.used.remove(key);
                true
            }
            Ok(None) => false,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    conversation.key = key.short(),
                    error, "files of an expired conversation remain"
                );
                false
            }
        }
    }
}

/// The keys, which are in order, starting with the one after `cursor` and wrapping around to it.
fn beginning_after(
    cursor: Option<&ConversationKey>,
    mut keys: Vec<ConversationKey>,
) -> Vec<ConversationKey> {
    let start = keys.partition_point(|key| Some(key) <= cursor);
    keys.rotate_left(start);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gets_its_turn_to_be_measured() {
        let key = |digit: char| digit.to_string().repeat(64).parse().unwrap();
        let keys: Vec<ConversationKey> = "abc".chars().map(key).collect();
        let mut cursor = None;
        let mut first = String::new();
        // All of them are busy, and there is time for only one.
        for _ in 0..4 {
            cursor = beginning_after(cursor.as_ref(), keys.clone())
                .into_iter()
                .next();
            first.extend(cursor.as_ref().map(|key| &key.as_str()[..1]));
        }
        assert_eq!(first, "abca");
    }
}
