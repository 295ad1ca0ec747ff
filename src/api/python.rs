//! One Python for each caller, as older servers have it: the tools `execute_python` and `pip_install`, and
//! `POST /execute` and `POST /pip_install`.

pub(crate) mod pip;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::error::CallError;
use super::names::translated;
use super::outcome::RunOutcome;
use crate::config::Toolset;
use crate::conversation::Conversation;
use crate::files::ConversationFiles;
use crate::principal::Principal;
use crate::run::outcome::RunStatus;
use crate::run::{KernelWish, RunRequest, TimeArgument, time_limit};
use crate::services::Services;

/// The language of these programs.
pub(crate) const PYTHON: &str = "python";
/// Longest time limit that this interface knows.
const MOST: Duration = Duration::from_mins(2);
/// The exit code of a program that was stopped.
const STOPPED: i32 = -1;

/// Longest time limit that a program of this interface may have.
pub(crate) fn longest(services: &Services) -> Duration {
    services.limits.timeout_max.min(MOST)
}

/// Puts that maximum into the schema of a time limit of the REST interface.
pub(crate) fn limit_timeout(schema: Option<&mut Value>, services: &Services) {
    let max = longest(services);
    let seconds = if max.subsec_nanos() == 0 {
        Value::from(max.as_secs())
    } else {
        Value::from(max.as_secs_f64())
    };
    if let Some(schema) = schema.and_then(Value::as_object_mut) {
        schema.insert("maximum".to_owned(), seconds);
    }
}

/// The time limit that an argument named `timeout` asks for.
pub(crate) fn time_limited(seconds: f64, max: Duration) -> Result<Duration, CallError> {
    time_limit(seconds, max).ok_or_else(|| {
        CallError::invalid(&format!(
            "timeout is {seconds:?}: it must be greater than 0 and at most {} seconds",
            max.as_secs_f64()
        ))
    })
}

/// How a program ended.
#[derive(Debug, Serialize, JsonSchema, ToSchema)]
pub(crate) struct Executed {
    /// What it printed to standard output.
    stdout: String,
    /// What it printed to standard error, and why it was stopped if it was.
    stderr: String,
    /// Its exit code, 128 + number for a death by signal, -1 when it was stopped.
    exit_code: i32,
    /// Seconds that it took.
    execution_time: f64,
    /// Whether it ended by itself with exit code 0.
    success: bool,
}

impl Executed {
    pub(crate) fn of(outcome: &RunOutcome) -> Self {
        Self {
            stdout: outcome.stdout.clone(),
            stderr: with_reason(Toolset::Python, outcome),
            exit_code: outcome.exit_code.unwrap_or(STOPPED),
            execution_time: Duration::from_millis(outcome.duration_ms).as_secs_f64(),
            success: outcome.success,
        }
    }
}

/// Standard error, and why the program was stopped if it did not end by itself.
pub(crate) fn with_reason(toolset: Toolset, outcome: &RunOutcome) -> String {
    let mut stderr = outcome.stderr.clone();
    // A program that the memory limit killed has an exit code, and nothing else says why it ended.
    let stopped = outcome.exit_code.is_none() || outcome.status == RunStatus::OutOfMemory;
    if let (true, Some(hint)) = (stopped, &outcome.hint) {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(&translated(toolset, hint));
    }
    stderr
}

/// The conversation of all calls of a caller that name no session.
pub(crate) fn conversation(
    files: &ConversationFiles,
    caller: &Principal,
) -> Result<Conversation, CallError> {
    let id = format!("python-{}", caller.tag()).parse()?;
    Ok(files.conversation(caller, id))
}

/// A run of Python.
pub(crate) fn request(
    services: &Services,
    caller: &Principal,
    code: String,
    stdin: Option<String>,
    timeout: Option<f64>,
) -> Result<RunRequest, CallError> {
    let max = longest(services);
    Ok(RunRequest {
        conversation: conversation(&services.files, caller)?,
        language: PYTHON.to_owned(),
        code,
        stdin,
        network: false,
        hosts: Vec::new(),
        granted: Vec::new(),
        secrets: Vec::new(),
        environment: BTreeMap::new(),
        timeout: timeout
            .map(|seconds| time_limited(seconds, max))
            .transpose()?,
        time_argument: Some(TimeArgument {
            name: "timeout",
            max,
        }),
        stateful: false,
        kernel: KernelWish::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::outcome::Truncated;
    use crate::run::outcome::Usage;

    fn text_of(status: RunStatus, exit_code: Option<i32>, hint: &str) -> String {
        with_reason(
            Toolset::Python,
            &RunOutcome {
                success: false,
                output: String::new(),
                stdout: String::new(),
                stderr: "said".to_owned(),
                exit_code,
                status,
                hint: Some(hint.to_owned()),
                remedy: None,
                duration_ms: 0,
                usage: Usage::default(),
                truncated: Truncated::default(),
                files: Vec::new(),
                files_truncated: false,
                files_left_out: 0,
                network: None,
                notes: Vec::new(),
                conversation_id: String::new(),
                run_id: String::new(),
                kernel_alive: None,
                kernel_restarted: false,
                kernel_restart_reason: None,
            },
        )
    }

    #[test]
    fn who_was_stopped_is_told_why() {
        let texts = [
            text_of(RunStatus::Timeout, None, "Too slow."),
            text_of(RunStatus::OutOfMemory, Some(137), "Too big."),
            text_of(RunStatus::Error, Some(1), "See stderr."),
        ];
        assert_eq!(texts, ["said\nToo slow.", "said\nToo big.", "said"]);
    }
}
