//! What clients and the operator can do here, for both edges. They hand each tool and each route the part that it uses.

use std::sync::Arc;

use crate::admin::Admin;
use crate::config::RunLimits;
use crate::conversations::Conversations;
use crate::files::ConversationFiles;
use crate::ledger::Ledger;
use crate::packages::Packages;
use crate::status::Status;

/// What clients can do here.
#[derive(Clone, Debug)]
pub struct Services {
    /// Lists and reads files.
    pub files: ConversationFiles,
    /// Takes, renames and deletes files, and deletes conversations.
    pub conversations: Conversations,
    /// Starts runs and finds them again.
    pub ledger: Ledger,
    /// Installs libraries.
    pub packages: Packages,
    /// What the operator can do.
    pub admin: Admin,
    /// Tells how the server is.
    pub status: Status,
    /// What one run may use.
    pub limits: Arc<RunLimits>,
}
