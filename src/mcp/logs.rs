//! What the server reports about its runs as log notifications, to clients that have asked for them.
//!
//! The newest revision asks with each request, older ones once for a session. A client that has not asked gets none.
#![expect(
    deprecated,
    reason = "log notifications are; the clients that use them are not gone"
)]

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;

use super::caller::Caller;
use super::client::Client;
use crate::api::outcome::RunOutcome;

/// Reports a run that has ended.
pub(super) async fn ended(
    context: &RequestContext<RoleServer>,
    caller: &Caller,
    client: &Client,
    outcome: &RunOutcome,
) {
    let level = if outcome.success {
        LoggingLevel::Info
    } else {
        LoggingLevel::Warning
    };
    let asked = match context.meta.protocol_version() {
        Some(_) => context.meta.log_level(),
        None => client.log_level(),
    };
    if !caller.may_stream || asked.is_none_or(|asked| (level as u8) < asked as u8) {
        return;
    }
    let data = json!({
        "runId": outcome.run_id,
        "status": outcome.status.into_str(),
        "exitCode": outcome.exit_code,
        "durationMs": outcome.duration_ms,
    });
    let message = LoggingMessageNotificationParam::new(level, data).with_logger("run");
    // A client that is gone does not hear it.
    let _ = context.peer.notify_logging_message(message).await;
}
