//! What dialects need whose clients send Bash.

use crate::principal::Tenant;
use crate::services::Services;

/// The image that has all that such a client's programs call.
pub(super) const WORKBENCH: &str = "workbench";
/// The one that has Bash and the usual tools.
pub(super) const SHELL: &str = "shell";

/// The language in which a tenant's Bash is run.
pub(super) fn language(services: &Services, tenant: &Tenant) -> &'static str {
    let view = services.status.view_for(tenant);
    if view.find(WORKBENCH).is_some() {
        WORKBENCH
    } else {
        SHELL
    }
}

/// A text as one word.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
