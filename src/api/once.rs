//! Programs with a conversation of their own each, which is deleted afterwards. Until then, and for ten minutes in the
//! ledger, what they printed is their caller's.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tracing::error;

use super::outcome::RunOutcome;
use super::python::with_reason;
use crate::audit::Origin;
use crate::config::Toolset;
use crate::ledger::RunHandle;
use crate::run::RunRequest;
use crate::services::Services;

/// Starts a program without network under the usual time limit. What it leaves is deleted by a task of `calls`, however
/// it ends and whoever still waits for it.
pub(crate) fn start(
    services: &Services,
    calls: &TaskTracker,
    origin: Origin,
    language: &str,
    code: String,
) -> Arc<RunHandle> {
    let conversation = services.files.new_conversation(&origin.caller);
    let request = RunRequest::plain(conversation, language, code);
    let run = services.ledger.start(origin, request);
    let (conversations, ended) = (services.conversations.clone(), Arc::clone(&run));
    calls.spawn(async move {
        ended.ended().await;
        if let Err(error) = conversations.clear(ended.conversation.key()).await {
            error!(%error, "could not delete what a program had left");
        }
    });
    run
}

/// What went wrong in a program that did not end well. Never empty.
pub(crate) fn complaint(outcome: &RunOutcome) -> String {
    let said = with_reason(Toolset::Default, outcome);
    if !said.trim().is_empty() {
        return said;
    }
    let hint = outcome.hint.as_deref();
    hint.unwrap_or("The program did not end well.").to_owned()
}
