//! What the cluster says of our pods, by one watch of all of them.

use std::collections::HashMap;
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

/// Where all pods are, as far as is known.
type Known = HashMap<ContainerId, Standing>;

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
        self.known.borrow().get(pod).cloned()
    }

    /// Waits until it is known of a pod what `is` asks for.
    pub(super) async fn until(
        &self,
        pod: &ContainerId,
        is: impl Fn(Option<&Standing>) -> bool,
    ) -> Option<Standing> {
        let mut known = self.known.clone();
        match known.wait_for(|known| is(known.get(pod))).await {
            Ok(known) => known.get(pod).cloned(),
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
            let all = pods.iter().map(|pod| (id(pod), Standing::of(pod)));
            *known = all.collect();
        }
        News::Changed(pod) => drop(known.insert(id(&pod), Standing::of(&pod))),
        News::Gone(pod) => drop(known.remove(&id(&pod))),
    }
}
