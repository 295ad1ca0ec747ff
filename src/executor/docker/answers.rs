//! What an engine answers, in our words. Pure.

use bollard::container::LogOutput;
use bollard::models::{ImageInspect, ImageSummary, SystemInfo};

use crate::executor::{Chunk, ErrorKind, ExecutorError, Image, Stream};

/// The limits that the engine sets. If asked for any other, it creates the container without that, and only warns.
pub(super) fn limits(info: &SystemInfo) -> Vec<&'static str> {
    let limits = [
        ("memory", info.memory_limit),
        ("swap", info.swap_limit),
        ("processes", info.pids_limit),
        ("processor", info.cpu_cfs_quota),
    ];
    let known = limits.into_iter().filter(|(_, has)| *has == Some(true));
    known.map(|(name, _)| name).collect()
}

/// Adds what to do if an engine, which reported otherwise, refuses a container for its limit on processor time.
pub(super) fn with_advice(error: ExecutorError, nano_cpus: Option<i64>) -> ExecutorError {
    let said = error.source.to_string().to_ascii_lowercase();
    let advice = if error.kind != ErrorKind::Refused || nano_cpus.is_none() {
        return error;
    } else if said.contains("range of cpus") {
        "set RUN_CPUS to no more than the engine has"
    } else if said.contains("nanocpu") || said.contains("cfs") || said.contains("cpu quota") {
        "set RUN_CPUS=0, which leaves the limit on processor time out"
    } else {
        return error;
    };
    ExecutorError {
        kind: ErrorKind::Unusable,
        source: format!("{}: {advice}", error.source).into(),
        ..error
    }
}

/// A piece of a container's output.
pub(super) fn chunk(output: LogOutput) -> Chunk {
    let stream = match output {
        LogOutput::StdErr { .. } => Stream::Stderr,
        LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => {
            Stream::Stdout
        }
    };
    Chunk {
        stream,
        bytes: output.into_bytes(),
    }
}

/// An image, from what the list and the image itself say.
pub(super) fn image(summary: ImageSummary, details: ImageInspect) -> Image {
    let config = details.config.unwrap_or_default();
    let command = config
        .entrypoint
        .into_iter()
        .flatten()
        .chain(config.cmd.into_iter().flatten())
        .collect();
    // Early versions of the containerd image store list images without their labels.
    let labels = if summary.labels.is_empty() {
        config.labels.unwrap_or_default()
    } else {
        summary.labels
    };
    Image {
        name: summary
            .repo_tags
            .into_iter()
            .find(|tag| !tag.contains("<none>"))
            .unwrap_or_else(|| summary.id.clone()),
        id: summary.id,
        created: summary.created,
        labels,
        command,
        env: config.env.unwrap_or_default(),
    }
}
