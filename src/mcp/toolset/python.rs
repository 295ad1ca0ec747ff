//! `execute_python` and `pip_install`: one Python for a caller, with answers in its words.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;

use crate::conversation::ConversationId;
use crate::mcp::error::ToolError;
use crate::principal::Principal;
use crate::run::outcome::RunOutcome;
use crate::run::{KernelWish, RunRequest, Runs};

/// Longest time limit that a call may ask for.
const MAX_SECONDS: u64 = 120;
/// The exit code of a program that was stopped.
const STOPPED: i32 = -1;

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
            stderr: with_reason(outcome),
            exit_code: outcome.exit_code.unwrap_or(STOPPED),
            execution_time: Duration::from_millis(outcome.duration_ms).as_secs_f64(),
            success: outcome.success,
        }
    }
}

/// Standard error, and for a program that did not end by itself why it was stopped.
pub(super) fn with_reason(outcome: &RunOutcome) -> String {
    let mut stderr = outcome.stderr.clone();
    if let (None, Some(hint)) = (outcome.exit_code, &outcome.hint) {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        // As the argument is called here.
        stderr.push_str(&hint.replace("timeoutSeconds", "timeout"));
    }
    stderr
}

/// What all calls of a caller that name no session share.
pub(crate) fn conversation(caller: &Principal) -> Result<ConversationId, ToolError> {
    Ok(format!("python-{}", caller.tag()).parse()?)
}

/// A run of Python.
pub(crate) fn request(
    runs: &Runs,
    caller: &Principal,
    code: String,
    timeout: Option<f64>,
) -> Result<RunRequest, ToolError> {
    let most = runs
        .limits
        .timeout_max
        .min(Duration::from_secs(MAX_SECONDS));
    let limit = |seconds: f64| match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if seconds > 0.0 && limit <= most => Ok(limit.max(Duration::from_millis(1))),
        _ => Err(ToolError::missing(&format!(
            "timeout is {seconds:?}: it must be greater than 0 and at most {} seconds",
            most.as_secs()
        ))),
    };
    Ok(RunRequest {
        conversation: conversation(caller)?,
        language: "python".to_owned(),
        code,
        network: false,
        environment: BTreeMap::new(),
        timeout: timeout.map(limit).transpose()?,
        stateful: false,
        kernel: KernelWish::default(),
    })
}
