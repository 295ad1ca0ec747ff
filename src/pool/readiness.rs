//! Tells whether a run would find large libraries loaded, before it has its turn.

use super::{Kind, Pool, Warm};
use crate::conversation::ConversationKey;
use crate::runner::{Load, Runner};
use crate::workspace::WorkspaceError;

impl Warm {
    /// Whether large libraries are loaded in it, ahead or by its programs.
    fn is_loaded(&self) -> bool {
        self.load == Load::Full || self.used.is_some()
    }
}

impl Pool {
    /// Whether large libraries are loaded in what a run of this conversation would get now. Another one may take it until
    /// its turn comes.
    ///
    /// # Errors
    /// Trouble with the storage.
    pub async fn has_loaded(
        &self,
        key: &ConversationKey,
        runner: &Runner,
    ) -> Result<bool, WorkspaceError> {
        let kind = Kind::of(runner);
        let (own, pooled) = {
            let shelf = self.0.shelf.lock();
            let own = shelf.own_passes(key, &kind, Warm::is_loaded);
            (own, shelf.has_pooled(&kind, Load::Full))
        };
        match own {
            Some(is_loaded) => Ok(is_loaded),
            // Only a new conversation gets one from the pool.
            None => Ok(pooled && self.0.workspaces.find(key).await?.is_none()),
        }
    }
}
