//! What there is at most one kernel for.

use crate::conversation::ConversationKey;
use crate::principal::Tenant;

/// A conversation and a language, which have at most one kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KernelKey {
    /// Whose conversation it is.
    pub(super) tenant: Tenant,
    pub(super) conversation: ConversationKey,
    pub(super) language: String,
}
