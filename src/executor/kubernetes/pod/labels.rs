//! What is written on a pod: labels where the value may be one, and annotations for the rest. Readers see no difference.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::executor::spec::{ContainerSpec, NetworkAccess};

/// Label with the id of the executor that made the pod.
pub const EXECUTOR_LABEL: &str = "sandbox.executor";
/// Label that network policies select pods by.
const NETWORK_LABEL: &str = "sandbox.network";
/// How the names of our annotations begin.
const OURS: &str = "sandbox.";
/// Longest value of a label.
const LONGEST: usize = 63;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// What network policies know a sandbox by, which has this access to the network.
pub fn sandbox(network: &str) -> Labels {
    [role(), (NETWORK_LABEL.to_owned(), network.to_owned())].into()
}

/// The label of all sandboxes, whoever made them.
pub(super) fn role() -> (String, String) {
    ("sandbox.role".to_owned(), "sandbox".to_owned())
}

/// The labels and annotations of a pod. Languages such as `c++` and `c#` are no values of labels.
pub(super) fn of(spec: &ContainerSpec, executor: &str) -> (Labels, Labels) {
    let network = match spec.network {
        NetworkAccess::None | NetworkAccess::Listed(_) => "none",
        NetworkAccess::Bridge { .. } => "egress",
    };
    let (mut labels, annotations): (Labels, Labels) = spec
        .labels
        .clone()
        .into_iter()
        .partition(|(_, value)| is_legal(value));
    labels.extend(sandbox(network));
    labels.insert(EXECUTOR_LABEL.to_owned(), executor.to_owned());
    (labels, annotations)
}

/// What the labels of a container were.
pub fn all_labels(written: ObjectMeta) -> HashMap<String, String> {
    let annotations = written.annotations.unwrap_or_default().into_iter();
    let annotations = annotations.filter(|(name, _)| name.starts_with(OURS));
    let labels = written.labels.unwrap_or_default();
    labels.into_iter().chain(annotations).collect()
}

/// Whether it can be the value of a label.
fn is_legal(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= LONGEST
        && bytes.iter().all(|byte| inner(*byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_legal_or_not() {
        for legal in ["", "a", "python", "0a1b", "node.js", "a-b_c"] {
            assert!(is_legal(legal), "{legal}");
        }
        let long = "a".repeat(LONGEST + 1);
        for illegal in ["c++", "c#", "-a", "a-", "ä", "a b", long.as_str()] {
            assert!(!is_legal(illegal), "{illegal}");
        }
    }
}
