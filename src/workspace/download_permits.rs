//! Limits how many files are downloaded at a time: in all, since each has an open file and a buffer, and for each
//! conversation, so that those who have the links of one do not keep others from theirs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::conversation::ConversationKey;

/// Downloads at a time.
const IN_ALL: usize = 64;
/// Downloads at a time of one conversation.
const OF_ONE: usize = 32;

/// How many are taken by each conversation.
#[derive(Debug, Default)]
pub(super) struct DownloadPermits(Mutex<HashMap<ConversationKey, usize>>);

/// A place for a download. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct DownloadSlot {
    slots: Arc<DownloadPermits>,
    key: ConversationKey,
}

impl DownloadPermits {
    /// Takes a place. `None` if none is free.
    pub(super) fn take(self: &Arc<Self>, key: &ConversationKey) -> Option<DownloadSlot> {
        let mut taken = self.0.lock();
        if taken.values().sum::<usize>() >= IN_ALL {
            return None;
        }
        let own = taken.entry(key.clone()).or_default();
        if *own >= OF_ONE {
            return None;
        }
        *own += 1;
        Some(DownloadSlot {
            slots: Arc::clone(self),
            key: key.clone(),
        })
    }
}

impl Drop for DownloadSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.0.lock();
        if let Some(own) = taken.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.key);
            }
        }
    }
}
