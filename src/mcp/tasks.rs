//! Runs as tasks of the extension `io.modelcontextprotocol/tasks`, for clients that poll for the end of a long call
//! themselves.
//!
//! rmcp has a task manager. We use the ledger: it keeps the same things for every client, by caller, so that a task is
//! a run under the same id.

use std::time::SystemTime;

use jiff::Timestamp;
use rmcp::model::{
    CallToolResult, DetailedTask, ErrorData, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;

use crate::ledger::{KEPT, RunHandle};

/// How often a client should ask.
const POLL_MS: u64 = 1000;

/// A run as a task in progress.
pub(super) fn task(run: &RunHandle) -> Task {
    let life = run.timeout + KEPT;
    Task::new(
        &run.id,
        TaskStatus::Working,
        timestamp(run.created),
        timestamp(SystemTime::now()),
    )
    .with_ttl_ms(u64::try_from(life.as_millis()).unwrap_or(u64::MAX))
    .with_poll_interval_ms(POLL_MS)
    .with_status_message(run.progress.stage.borrow().describe())
}

/// A task with its state. `result` is the answer to the call, once there is one.
pub(super) fn detailed(
    run: &RunHandle,
    result: Option<Result<CallToolResult, ErrorData>>,
) -> DetailedTask {
    let payload = match result {
        None => TaskPayload::Working,
        Some(_) if run.was_cancelled() => TaskPayload::Cancelled,
        Some(Ok(result)) => TaskPayload::Completed {
            result: object(serde_json::to_value(result)),
        },
        Some(Err(error)) => TaskPayload::Failed {
            error: object(serde_json::to_value(error)),
        },
    };
    DetailedTask::new(task(run), payload)
}

/// There is no such task for this caller.
pub(super) fn unknown(id: &str) -> ErrorData {
    let id: String = id.chars().take(64).collect();
    ErrorData::invalid_params(format!("unknown task: {id}"), None)
}

fn object(value: serde_json::Result<Value>) -> JsonObject {
    match value {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

fn timestamp(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().to_string()
}
