//! How a run ended, complete: what the edges show of it is made from this.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;
use utoipa::ToSchema;

use super::RunError;
use super::hint::Hint;
use super::texts::Texts;
use crate::allow_list::AllowList;
use crate::egress::NetworkReport;
use crate::kernels::KernelLoss;
use crate::links::FileLink;
use crate::sandbox::Captured;

/// A run that is over, or that ended before it began. A program that fails has an outcome too.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: RunStatus,
    /// Exit code, 128 + number for a death by signal, none when the program was stopped before its end.
    pub exit_code: Option<i32>,
    /// What there is to say about that.
    pub hint: Hint,
    /// What it took.
    pub usage: Usage,
    /// From handing over the program to its end.
    pub wall: Duration,
    /// What it printed.
    pub captured: Captured,
    /// What it made or changed, then some other files of the conversation.
    pub files: Vec<FileLink>,
    /// Whether there are more files than these.
    pub files_truncated: bool,
    /// How many more, as far as they were counted.
    pub files_left_out: usize,
    /// Why the kernel is gone that it would have had.
    pub lost_kernel: Option<KernelLoss>,
    /// What it did in the network of listed hosts, if it had that.
    pub network: Option<NetworkReport>,
}

impl Outcome {
    /// Adds what it did in the network of these hosts.
    pub(super) fn add_network(&mut self, report: NetworkReport, list: &AllowList) {
        if self.status != RunStatus::Ok {
            self.hint.unlisted_hosts = report
                .unlisted()
                .map(|host| (host.to_owned(), list.in_words()));
        }
        self.network = Some(report);
    }

    /// One of a program that printed this and ended well.
    #[cfg(test)]
    pub(crate) fn ok(captured: Captured) -> Self {
        Self {
            status: RunStatus::Ok,
            exit_code: Some(0),
            hint: Hint::default(),
            usage: Usage::default(),
            wall: Duration::ZERO,
            captured,
            files: Vec::new(),
            files_truncated: false,
            files_left_out: 0,
            lost_kernel: None,
            network: None,
        }
    }
}

/// An outcome with its texts, which are made once.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The outcome.
    pub outcome: Outcome,
    pub(crate) texts: Texts,
}

/// What came of a run that was asked for, for all who wait for it.
pub type RunResult = Arc<Result<Rendered, RunError>>;

impl Rendered {
    /// Bytes of what programs decide the length of: what they print, and the names that they give to files.
    pub(crate) fn size(&self) -> usize {
        let texts = [&self.texts.output, &self.texts.stdout, &self.texts.stderr];
        let files = self.outcome.files.iter();
        let names = files.flat_map(|file| [&file.name, &file.url, &file.mime_type]);
        texts.into_iter().chain(names).map(String::len).sum()
    }
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
    pub(crate) fn unreported(wall: Duration) -> Self {
        Self {
            wall_ms: milliseconds(wall),
            ..Self::default()
        }
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
