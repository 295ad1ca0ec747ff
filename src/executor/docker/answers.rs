//! What an engine answers, in our words. Pure.

use bollard::container::LogOutput;
use bollard::models::{ContainerState as ReportedState, ImageInspect, ImageSummary, SystemInfo};

use crate::executor::{
    Chunk, ContainerEnd, ContainerState, ErrorKind, ExecutorError, Image, Stream,
};

/// The limits that the engine sets. If asked for any other, it creates the container without that, and only warns.
pub(super) fn limits(info: &SystemInfo) -> Vec<&'static str> {
    let limits = [
        ("memory", info.memory_limit),
        ("swap", info.swap_limit),
        ("processes", info.pids_limit),
        ("processor", info.cpu_cfs_quota),
    ];
    let known = limits.into_iter().filter(|(_, has)| *has == Some(true));
    // Of buffers it reports nothing, and refuses a container for which it cannot set them.
    known.map(|(name, _)| name).chain(["buffers"]).collect()
}

/// Adds what to do if an engine, which reported otherwise, refuses a container for its limit on processor time.
pub(super) fn with_advice(error: ExecutorError, nano_cpus: Option<i64>) -> ExecutorError {
    let message = error.source.to_string().to_ascii_lowercase();
    let advice = if error.kind != ErrorKind::Refused || nano_cpus.is_none() {
        return error;
    } else if message.contains("range of cpus") {
        "set RUN_CPUS to no more than the engine has"
    } else if message.contains("nanocpu")
        || message.contains("cfs")
        || message.contains("cpu quota")
    {
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

/// Whether an engine failed for the weight of a container's disk. With version 2 of control groups, Docker does not
/// notice that the kernel has none.
pub(super) fn lacks_disk_weight(error: &ExecutorError) -> bool {
    let message = error.source.to_string();
    ["/io.weight", "/io.bfq.weight"]
        .iter()
        .any(|file| message.contains(file))
}

/// The error for a container that would see the files of all conversations.
pub(super) fn without_parts(operation: &'static str) -> ExecutorError {
    ExecutorError {
        kind: ErrorKind::Unusable,
        operation,
        source: "the engine that answers now mounts no parts of volumes (SANDBOX_VOLUME)".into(),
    }
}

/// A container's state. Not every engine reports a paused container as running.
pub(super) fn state(reported: &ReportedState) -> ContainerState {
    if reported.paused == Some(true) {
        ContainerState::Paused
    } else if reported.running == Some(true) {
        ContainerState::Running
    } else if reported.oom_killed == Some(true) {
        ContainerState::Ended(ContainerEnd::OutOfMemory)
    } else {
        ContainerState::Ended(ContainerEnd::Exited(reported.exit_code))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_of_those_that_an_engine_reports_together() {
        let reported = |running, paused, oom_killed| {
            state(&ReportedState {
                running: Some(running),
                paused: Some(paused),
                oom_killed: Some(oom_killed),
                exit_code: Some(137),
                ..Default::default()
            })
        };
        assert_eq!(reported(true, false, true), ContainerState::Running);
        for running in [true, false] {
            assert_eq!(reported(running, true, false), ContainerState::Paused);
        }
        let ended = |end| ContainerState::Ended(end);
        assert_eq!(
            reported(false, false, true),
            ended(ContainerEnd::OutOfMemory)
        );
        assert_eq!(
            reported(false, false, false),
            ended(ContainerEnd::Exited(Some(137)))
        );
    }

    #[test]
    fn only_a_missing_weight_is_taken_for_one() {
        let lacks = |source: &str| {
            lacks_disk_weight(&ExecutorError {
                kind: ErrorKind::Refused,
                operation: "start a container",
                source: source.into(),
            })
        };
        for file in ["io.weight", "io.bfq.weight"] {
            assert!(lacks(&format!(
                "runc create failed: openat2 /sys/fs/cgroup/docker/0a1b/{file}: no such file or directory"
            )));
        }
        assert!(!lacks(
            "runc create failed: openat2 /sys/fs/cgroup/docker/0a1b/cpu.weight: no such file or directory"
        ));
    }
}
