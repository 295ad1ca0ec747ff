//! What the status of a pod means: whether its container runs, what it waits for, how it ended. Pure.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod, PodStatus};

use crate::executor::{ContainerEnd, ErrorKind};

/// How long a pod may have no node that has room for it: one that is going away may still take the room.
const ROOM_WAIT: Duration = Duration::from_secs(10);
/// How long making a container may fail: a node that is busy is refused what it needs at first, and tries again.
const TROUBLE_WAIT: Duration = Duration::from_secs(20);
/// What is to blame for a pod that has a deletion of the cluster's own before it.
const DISRUPTION: &str = "DisruptionTarget";

/// Parts of what is said of a pod, or of its container, that took too much of its node's disk. Ours can write to it only
/// by what they print.
const LOG_FULL: [&str; 2] = [
    "local storage usage exceeds",
    "local ephemeral storage limit",
];

/// Where a pod is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its container does not run yet.
    Waiting(Wait),
    /// Its container runs, as far as its node has told.
    Running,
    /// Its container does not run any more.
    Ended(ContainerEnd),
}

/// What a pod waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Whether it has a node.
    pub has_node: bool,
    /// In one word of the cluster's, such as `ContainerCreating`; empty if there is none yet.
    pub reason: String,
    /// In its sentences.
    pub message: String,
}

impl Standing {
    /// That of a pod.
    pub fn of(pod: &Pod) -> Self {
        let empty = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&empty);
        if let Some(end) = end(status) {
            return Self::Ended(end);
        }
        let state = container(status);
        if state.is_some_and(|state| state.running.is_some()) {
            return Self::Running;
        }
        let has_node = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        let waiting = state.and_then(|state| state.waiting.as_ref());
        let unscheduled = condition(status, "PodScheduled", "False");
        let (reason, message) = match (waiting, unscheduled) {
            (Some(waiting), _) => (waiting.reason.clone(), waiting.message.clone()),
            (None, Some(unscheduled)) => (unscheduled.reason.clone(), unscheduled.message.clone()),
            (None, None) => (None, None),
        };
        Self::Waiting(Wait {
            has_node,
            reason: reason.unwrap_or_default(),
            message: message.unwrap_or_default(),
        })
    }
}

impl Wait {
    /// Whether waiting is of no use any more, after it was waited that long; and then what kind of failure that is.
    pub fn is_in_vain(&self, waited: Duration) -> Option<ErrorKind> {
        match self.reason.as_str() {
            "Unschedulable" => (waited >= ROOM_WAIT).then_some(self.what_lacks()),
            "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImagePullBackOff"
            | "CreateContainerConfigError" => Some(ErrorKind::Refused),
            "CreateContainerError" | "RunContainerError" => {
                (waited >= TROUBLE_WAIT).then_some(ErrorKind::Refused)
            }
            _ => None,
        }
    }
}

/// What the scheduler says of nodes that have no room for a pod, and of those that it may not be on.
const NO_ROOM: [&str; 2] = ["Insufficient", "Too many pods"];
const NOT_ALLOWED: &str = "affinity";

impl Wait {
    /// What a pod lacks that no node takes.
    fn what_lacks(&self) -> ErrorKind {
        let says = |words: &str| self.message.contains(words);
        if says(NOT_ALLOWED) && !NO_ROOM.iter().any(|words| says(words)) {
            ErrorKind::NoNode
        } else {
            ErrorKind::Full
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match (self.reason.as_str(), self.has_node) {
            ("", true) => "its node has not begun",
            ("", false) => "it has no node yet",
            (reason, _) => reason,
        };
        formatter.write_str(reason)?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(formatter, ": {message}"),
        }
    }
}

fn container(status: &PodStatus) -> Option<&ContainerState> {
    let mut containers = status.container_statuses.iter().flatten();
    containers.next()?.state.as_ref()
}

fn condition<'a>(
    status: &'a PodStatus,
    type_: &str,
    is: &str,
) -> Option<&'a k8s_openapi::api::core::v1::PodCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.status == is)
}

/// How it ended, if it has. The pod's own reason comes first: with it, the container's state may be missing or mean
/// nothing.
fn end(status: &PodStatus) -> Option<ContainerEnd> {
    let phase = status.phase.as_deref();
    let is_over = matches!(phase, Some("Failed" | "Succeeded"));
    let terminated = container(status).and_then(|state| state.terminated.as_ref());
    match status.reason.as_deref() {
        Some(reason) if is_over || reason == "NodeLost" => {
            return Some(by_cluster(reason, status.message.as_deref()));
        }
        _ => {}
    }
    if let Some(disruption) = condition(status, DISRUPTION, "True")
        && (is_over || terminated.is_some())
    {
        let reason = disruption.reason.as_deref().unwrap_or(DISRUPTION);
        return Some(by_cluster(reason, disruption.message.as_deref()));
    }
    terminated
        .map(of_container)
        .or_else(|| is_over.then_some(ContainerEnd::Exited(None)))
}

fn of_container(terminated: &ContainerStateTerminated) -> ContainerEnd {
    match terminated.reason.as_deref() {
        Some("OOMKilled") => ContainerEnd::OutOfMemory,
        // It never ran, or its node does not know what became of it.
        Some(
            reason @ ("StartError"
            | "ContainerCannotRun"
            | "ContainerStatusUnknown"
            | "DeadlineExceeded"),
        ) => by_cluster(reason, terminated.message.as_deref()),
        _ => ContainerEnd::Exited(Some(terminated.exit_code.into())),
    }
}

fn by_cluster(reason: &str, message: Option<&str>) -> ContainerEnd {
    let message = message.map_or("", str::trim);
    let told = if message.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {message}")
    };
    if LOG_FULL.iter().any(|part| message.contains(part)) {
        ContainerEnd::LogFull(told)
    } else {
        ContainerEnd::ByEngine(told)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn standing(status: &Value) -> Standing {
        let pod = json!({ "metadata": {}, "spec": { "containers": [], "nodeName": "n1" }, "status": status });
        Standing::of(&serde_json::from_value(pod).unwrap())
    }

    fn with_state(phase: &str, state: &Value) -> Value {
        let container = json!({ "name": "r", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        json!({ "phase": phase, "containerStatuses": [container] })
    }

    fn ended_by(reason: &str) -> Standing {
        Standing::Ended(ContainerEnd::ByEngine(reason.to_owned()))
    }

    #[test]
    fn the_end_is_what_the_cluster_knows_of_it() {
        let terminated = |reason: &str, code: i32| {
            standing(&with_state(
                "Failed",
                &json!({ "terminated": { "reason": reason, "exitCode": code } }),
            ))
        };
        let ended = |end| Standing::Ended(end);
        assert_eq!(
            terminated("OOMKilled", 137),
            ended(ContainerEnd::OutOfMemory)
        );
        assert_eq!(
            terminated("Error", 70),
            ended(ContainerEnd::Exited(Some(70)))
        );
        assert_eq!(
            terminated("Completed", 0),
            ended(ContainerEnd::Exited(Some(0)))
        );
        assert_eq!(terminated("StartError", 128), ended_by("StartError"));
        assert_eq!(
            standing(&json!({ "phase": "Failed" })),
            ended(ContainerEnd::Exited(None))
        );
    }

    #[test]
    fn the_pods_own_reason_goes_before_its_container() {
        // The states of containers are missing, or never changed.
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "Too much. " });
        assert_eq!(standing(&evicted), ended_by("Evicted: Too much."));
        let mut deadline = with_state("Failed", &json!({ "running": {} }));
        deadline["reason"] = "DeadlineExceeded".into();
        assert_eq!(standing(&deadline), ended_by("DeadlineExceeded"));
        // A node that is not heard of leaves its pods running.
        let mut lost = with_state("Running", &json!({ "running": {} }));
        lost["reason"] = "NodeLost".into();
        assert_eq!(standing(&lost), ended_by("NodeLost"));
        let mut preempted = with_state(
            "Failed",
            &json!({ "terminated": { "reason": "Error", "exitCode": 143 } }),
        );
        preempted["conditions"] = json!([
            { "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }
        ]);
        assert_eq!(standing(&preempted), ended_by("PreemptionByScheduler"));
    }

    #[test]
    fn a_pod_that_printed_too_much_is_told_from_one_whose_node_is_full() {
        let evicted = |message: &str| {
            standing(&json!({ "phase": "Failed", "reason": "Evicted", "message": message }))
        };
        for message in [
            "Pod ephemeral local storage usage exceeds the total limit of containers 67108864.",
            "Container r exceeded its local ephemeral storage limit \"64Mi\".",
        ] {
            let full = ContainerEnd::LogFull(format!("Evicted: {message}"));
            assert_eq!(evicted(message), Standing::Ended(full));
        }
        let of_node = "The node was low on resource: ephemeral-storage.";
        assert_eq!(evicted(of_node), ended_by(&format!("Evicted: {of_node}")));
    }

    #[test]
    fn what_a_pod_waits_for_is_told_or_ends_the_wait() {
        let waiting = |status: &Value| match standing(status) {
            Standing::Waiting(wait) => wait,
            other => panic!("{other:?}"),
        };
        let (soon, late) = (Duration::ZERO, Duration::from_mins(1));
        let unscheduled = waiting(&json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
              "message": "0/2 nodes are available: 2 Insufficient memory." }
        ] }));
        assert_eq!(
            unscheduled.to_string(),
            "Unschedulable: 0/2 nodes are available: 2 Insufficient memory."
        );
        assert_eq!(unscheduled.is_in_vain(soon), None);
        assert_eq!(unscheduled.is_in_vain(late), Some(ErrorKind::Full));
        let lacks = |message: &str| {
            let (reason, message) = ("Unschedulable".to_owned(), message.to_owned());
            let wait = Wait {
                has_node: false,
                reason,
                message,
            };
            wait.is_in_vain(late)
        };
        let not_allowed = "2 node(s) didn't match Pod's node affinity.";
        let room = format!("0/3 nodes are available: 1 Insufficient memory, {not_allowed}");
        assert_eq!(lacks(&room), Some(ErrorKind::Full));
        let none = format!("0/2 nodes are available: {not_allowed}");
        assert_eq!(lacks(&none), Some(ErrorKind::NoNode));
        let of = |reason: &str| {
            waiting(&with_state(
                "Pending",
                &json!({ "waiting": { "reason": reason } }),
            ))
        };
        for (reason, at_first, at_last) in [
            ("ContainerCreating", None, None),
            ("ErrImagePull", None, None),
            (
                "ImagePullBackOff",
                Some(ErrorKind::Refused),
                Some(ErrorKind::Refused),
            ),
            (
                "ErrImageNeverPull",
                Some(ErrorKind::Refused),
                Some(ErrorKind::Refused),
            ),
            ("CreateContainerError", None, Some(ErrorKind::Refused)),
        ] {
            let wait = of(reason);
            assert_eq!(wait.is_in_vain(soon), at_first, "{reason}");
            assert_eq!(wait.is_in_vain(late), at_last, "{reason}");
        }
        let begun = waiting(&json!({ "phase": "Pending" }));
        assert_eq!(begun.to_string(), "its node has not begun");
    }

    #[test]
    fn what_runs_runs() {
        let running = with_state("Running", &json!({ "running": {} }));
        assert_eq!(standing(&running), Standing::Running);
    }
}
