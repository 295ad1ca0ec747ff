//! What the cluster says of our pods, by one watch of all of them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::debug;

use super::follow::{Follow, News};
use super::verdict::Standing;
use crate::executor::ContainerId;

/// Pauses before a cluster that does not answer is asked again.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// All pods, as far as is known.
type Known = HashMap<ContainerId, Seen>;

/// What is known of a pod.
#[derive(Debug)]
struct Seen {
    /// Where it is in its life.
    standing: Standing,
    /// The node that it is on.
    node: Option<String>,
}

impl Seen {
    fn of(pod: &Pod) -> Self {
        Self {
            standing: Standing::of(pod),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        }
    }
}

/// What the cluster says of our pods. The watch ends with it.
#[derive(Debug)]
pub(super) struct Pods {
    known: watch::Receiver<Known>,
    _watching: AbortOnDropHandle<()>,
}

impl Pods {
    /// Those with the label `selector` says.
    pub(super) fn follow(api: Api<Pod>, selector: String) -> Self {
        let (sender, known) = watch::channel(Known::default());
        Self {
            known,
            _watching: AbortOnDropHandle::new(
                TaskTracker::new().spawn(keep(api, selector, sender)),
            ),
        }
    }

    /// Where a pod is in its life; `None` if it is not known, or not any more.
    pub(super) fn standing(&self, pod: &ContainerId) -> Option<Standing> {
        let known = self.known.borrow();
        known.get(pod).map(|seen| seen.standing.clone())
    }

    /// The node that a pod is on, if that is known.
    pub(super) fn node(&self, pod: &ContainerId) -> Option<String> {
        self.known.borrow().get(pod)?.node.clone()
    }

    /// How many that have not ended are on each node.
    pub(super) fn by_node(&self) -> BTreeMap<String, usize> {
        count_by_node(&self.known.borrow())
    }

    /// Waits until it is known of a pod what `is` asks for.
    pub(super) async fn until(
        &self,
        pod: &ContainerId,
        is: impl Fn(Option<&Standing>) -> bool,
    ) -> Option<Standing> {
        let mut known = self.known.clone();
        let standing = |known: &Known| known.get(pod).map(|seen| seen.standing.clone());
        match known
            .wait_for(|known| is(known.get(pod).map(|seen| &seen.standing)))
            .await
        {
            Ok(known) => standing(&known),
            // It does not end before us.
            Err(_) => None,
        }
    }
}

async fn keep(api: Api<Pod>, selector: String, sender: watch::Sender<Known>) {
    let mut follow = Follow::new(api, selector);
    let mut pause = RETRY;
    loop {
        match follow.next().await {
            Ok(news) => {
                pause = RETRY;
                sender.send_modify(|known| learn(known, news));
            }
            Err(error) => {
                debug!(%error, "cannot follow pods now");
                tokio::time::sleep(pause).await;
                pause = LONGEST_RETRY.min(pause * 2);
            }
        }
    }
}

fn learn(known: &mut Known, news: News<Pod>) {
    let id = |pod: &Pod| ContainerId(pod.name_any());
    match news {
        News::All(pods) => {
            let all = pods.iter().map(|pod| (id(pod), Seen::of(pod)));
            *known = all.collect();
        }
        News::Changed(pod) => drop(known.insert(id(&pod), Seen::of(&pod))),
        News::Gone(pod) => drop(known.remove(&id(&pod))),
    }
}

fn count_by_node(known: &Known) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for seen in known.values() {
        if let (Some(node), false) = (&seen.node, matches!(seen.standing, Standing::Ended(_))) {
            *counts.entry(node.clone()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: Option<&str>, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [] }, "status": { "phase": phase },
        }))
        .unwrap()
    }

    #[test]
    fn pods_that_have_not_ended_are_counted_by_node() {
        let mut known = Known::default();
        let all = vec![
            pod("a", Some("n1"), "Running"),
            pod("b", Some("n1"), "Pending"),
            pod("c", Some("n2"), "Failed"),
            pod("d", None, "Pending"),
        ];
        learn(&mut known, News::All(all));
        assert_eq!(count_by_node(&known), [("n1".to_owned(), 2)].into());
        learn(&mut known, News::Changed(pod("d", Some("n2"), "Running")));
        learn(&mut known, News::Gone(pod("a", Some("n1"), "Running")));
        let both = [("n1".to_owned(), 1), ("n2".to_owned(), 1)];
        assert_eq!(count_by_node(&known), both.into());
    }
}
