//! Tells how soon a run would have a sandbox, before it has its turn.

use super::{Kind, Pool, Warm};
use crate::conversation::ConversationKey;
use crate::runner::{Load, Runner};
use crate::workspace::WorkspaceError;

impl Warm {
    /// Whether programs that want this find it loaded.
    fn has(&self, load: Load) -> bool {
        self.load >= load || self.used.is_some()
    }
}

impl Pool {
    /// Whether what a run of this conversation would get now has what it wants. Another one may take it until then.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn is_ready_for(
        &self,
        key: &ConversationKey,
        runner: &Runner,
        load: Load,
    ) -> Result<bool, WorkspaceError> {
        let kind = Kind::of(runner);
        let (own, pooled) = {
            let shelf = self.0.shelf.lock();
            let own = shelf.own_passes(key, &kind, |warm| warm.has(load));
            (own, shelf.has_pooled(&kind, load))
        };
        match own {
            Some(passes) => Ok(passes),
            // Only a new conversation gets one from the pool.
            None => Ok(pooled && self.0.workspaces.find(key).await?.is_none()),
        }
    }
}
