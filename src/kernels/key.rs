//! What there is at most one kernel for.

use crate::conversation::ConversationKey;

/// A conversation and a language, which have at most one kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KernelKey {
    pub(super) conversation: ConversationKey,
    pub(super) language: String,
}
