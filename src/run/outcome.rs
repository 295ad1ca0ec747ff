//! What a run gives: the object that every client sees.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;
use utoipa::ToSchema;

use super::ending::Verdict;
use crate::kernels::Lost;
use crate::sandbox::Captured;

/// A run that is over, before anybody is told of it.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub(crate) verdict: Verdict,
    /// From handing over the program to its end.
    pub(crate) wall: Duration,
    /// What it printed.
    pub(crate) captured: Captured,
    /// See [`RunOutcome::files`].
    pub(super) files: Vec<FileLink>,
    /// See [`RunOutcome::files_truncated`].
    pub(super) files_truncated: bool,
    /// See [`RunOutcome::files_left_out`].
    pub(super) files_left_out: usize,
    /// What became of the kernel that it would have had.
    pub(super) lost: Option<Lost>,
}

impl Finished {
    /// One that has no files and lost no kernel.
    pub(super) fn bare(verdict: Verdict, wall: Duration, captured: Captured) -> Self {
        Self {
            verdict,
            wall,
            captured,
            files: Vec::new(),
            files_truncated: false,
            files_left_out: 0,
            lost: None,
        }
    }
}

/// The result of one run. A program that fails is a result too, with `success: false`.
#[derive(Clone, Debug, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    /// Whether the program ended by itself with exit code 0.
    pub success: bool,
    /// Standard output and error in the order in which they came; what programs other than Python, TypeScript and Bash
    /// write to both within microseconds may be grouped. Colours are removed and progress bars are in their last state;
    /// of long output head and tail, with a line between them that says how to read the rest.
    pub output: String,
    /// Standard output alone, as far as there is room for it beside `output`.
    pub stdout: String,
    /// Standard error alone, as far as there is room for it beside `output`.
    pub stderr: String,
    /// Exit code, 128 + number for a death by signal, null when the program was stopped before its end.
    pub exit_code: Option<i32>,
    /// How the run ended.
    pub status: RunStatus,
    /// What happened and what to do about it, when `status` is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Milliseconds from handing over the program to its end.
    pub duration_ms: u64,
    /// What the program took.
    pub usage: Usage,
    /// Bytes of output that were left out because they were more than the limit.
    pub truncated: Truncated,
    /// What the run made or changed, then at most a dozen other files of the conversation: `list_files` lists them all.
    pub files: Vec<FileLink>,
    /// Whether there are more files than `files` lists.
    pub files_truncated: bool,
    /// How many more, as far as they were counted; missing when there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_left_out: usize,
    /// What there is to know about the pictures of this answer: which were scaled down, which are not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The conversation: give it again to find the same files.
    pub conversation_id: String,
    /// The run: `get_run` reads its whole output, and its outcome while and after it runs.
    pub run_id: String,
    /// Whether a stateful run had a new kernel although there was one before: what that had in variables is lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_restarted: bool,
    /// Why, if it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_restart_reason: Option<String>,
}

impl RunOutcome {
    /// Bytes of what programs decide the length of: what they print, and the names that they give to files.
    pub(super) fn size(&self) -> usize {
        let texts = [&self.output, &self.stdout, &self.stderr];
        let files = self.files.iter();
        let names = files.flat_map(|file| [&file.name, &file.url, &file.mime_type]);
        texts.into_iter().chain(names).map(String::len).sum()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How a run ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RunStatus {
    /// It has not ended: `get_run` waits for its end.
    Running,
    /// By itself, with exit code 0.
    Ok,
    /// By itself, with another exit code, or by a signal.
    Error,
    /// It took longer than its time limit.
    Timeout,
    /// The memory limit killed it.
    OutOfMemory,
    /// It printed far more than the output limit.
    OutputLimit,
    /// Its files took more than the conversation may keep, or the disk is full.
    DiskLimit,
    /// The caller cancelled it, or the server was stopped.
    Cancelled,
    /// The container engine failed; the program is not to blame.
    EngineLost,
}

impl RunStatus {
    /// The words of those that have ended.
    pub const ENDED: [&str; 8] = [
        "ok",
        "error",
        "timeout",
        "out_of_memory",
        "output_limit",
        "disk_limit",
        "cancelled",
        "engine_lost",
    ];
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Processor time in milliseconds, null when it is not known.
    pub cpu_ms: Option<u64>,
    /// Most memory in use at one time in bytes, null when it is not known.
    pub peak_memory_bytes: Option<u64>,
    /// Elapsed time in milliseconds.
    pub wall_ms: u64,
}

impl Usage {
    /// Of a run of which nothing was reported.
    pub(super) fn unreported(wall: Duration) -> Self {
        Self {
            wall_ms: milliseconds(wall),
            ..Self::default()
        }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes of output that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, ToSchema)]
pub struct Truncated {
    /// Of standard output.
    pub stdout: u64,
    /// Of standard error.
    pub stderr: u64,
}

impl Truncated {
    pub(super) fn of(captured: &Captured) -> Self {
        Self {
            stdout: captured.stdout.dropped,
            stderr: captured.stderr.dropped,
        }
    }
}

/// A file of the conversation.
#[derive(Clone, Debug, Serialize, JsonSchema, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileLink {
    /// Its name, with directories below `/data`.
    pub name: String,
    /// Where anyone who has this address can download it.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// Its type by its name.
    pub mime_type: String,
    /// Whether this run made or changed it.
    pub new: bool,
}
