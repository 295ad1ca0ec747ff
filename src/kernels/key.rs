//! What there is at most one kernel for.

use crate::conversation::ConversationKey;
use crate::principal::Tenant;

/// A conversation, a language and a number, which have at most one kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KernelKey {
    /// Whose conversation it is.
    pub(super) tenant: Tenant,
    pub(super) conversation: ConversationKey,
    pub(super) language: String,
    /// 0, unless a client has several kernels of one language.
    pub(super) number: u32,
}
