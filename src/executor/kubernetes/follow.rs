//! Follows all objects of a kind: first the list of them, then each change, for as long as the cluster answers.
//!
//! A watch may fall silent for good without an end. So each has a time limit, and one that brings nothing at all, not even
//! the bookmarks that come every minute, is given up for a new list.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchParams};
use kube::core::WatchEvent;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::error::ClusterError;

/// How long the cluster may take to list, and to begin a watch.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a watch lasts, in seconds.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may bring nothing.
const SILENCE: Duration = Duration::from_secs(90);

/// What is new.
#[derive(Debug)]
pub(super) enum News<K> {
    /// All there is.
    All(Vec<K>),
    /// It is there, and like this.
    Changed(K),
    /// It is not there any more.
    Gone(K),
}

/// All objects of a kind that have a label.
pub(super) struct Follow<K> {
    api: Api<K>,
    selector: String,
    /// Up to where everything is known.
    version: Option<String>,
    events: Option<BoxStream<'static, Result<WatchEvent<K>, kube::Error>>>,
}

impl<K> Follow<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    pub(super) fn new(api: Api<K>, selector: String) -> Self {
        Self {
            api,
            selector,
            version: None,
            events: None,
        }
    }

    /// What is new since the last time. Begins with a list.
    ///
    /// # Errors
    /// The cluster does not list them, or lets them not be watched. The next time begins with a list again.
    pub(super) async fn next(&mut self) -> Result<News<K>, ClusterError> {
        loop {
            if self.version.is_none() {
                return Ok(News::All(self.list().await?));
            }
            if self.events.is_none() {
                match self.watch().await {
                    Ok(events) => self.events = Some(events),
                    Err(error) => {
                        self.version = None;
                        return Err(error);
                    }
                }
            }
            if let Some(news) = self.event().await {
                return Ok(news);
            }
        }
    }

    async fn list(&mut self) -> Result<Vec<K>, ClusterError> {
        self.events = None;
        let params = ListParams::default().labels(&self.selector);
        let listed = ClusterError::within(ANSWER, self.api.list(&params)).await?;
        self.version = Some(listed.metadata.resource_version.unwrap_or_default());
        Ok(listed.items)
    }

    async fn watch(
        &mut self,
    ) -> Result<BoxStream<'static, Result<WatchEvent<K>, kube::Error>>, ClusterError> {
        let version = self.version.as_deref().unwrap_or_default();
        let params = WatchParams::default()
            .labels(&self.selector)
            .timeout(WATCH_SECONDS);
        let events = ClusterError::within(ANSWER, self.api.watch(&params, version)).await?;
        Ok(events.boxed())
    }

    /// The next event of the watch, if it is one.
    async fn event(&mut self) -> Option<News<K>> {
        let events = self.events.as_mut()?;
        match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)))) => {
                self.version = it.resource_version();
                Some(News::Changed(it))
            }
            Ok(Some(Ok(WatchEvent::Deleted(it)))) => {
                self.version = it.resource_version();
                Some(News::Gone(it))
            }
            Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                self.version = Some(bookmark.metadata.resource_version);
                None
            }
            // Its time is over.
            Ok(None) => {
                self.events = None;
                None
            }
            // It broke, or the cluster has forgotten what came after our version, or it is silent.
            Ok(Some(Ok(WatchEvent::Error(_)) | Err(_))) | Err(_) => {
                (self.events, self.version) = (None, None);
                None
            }
        }
    }
}

impl<K> Debug for Follow<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Follow")
            .field(&self.selector)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::stream;
    use http_body_util::{Either, Full, StreamBody};
    use hyper::body::Frame;
    use hyper::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// Of a cluster with one pod, where watches begin and then bring nothing.
    fn starved() -> Api<Pod> {
        let answer = async |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let body = if query.contains("watch=true") {
                let nothing = stream::pending::<Result<Frame<Bytes>, Infallible>>();
                Either::Right(StreamBody::new(nothing))
            } else {
                let pod = json!({ "metadata": { "name": "a" } });
                let list = json!({ "metadata": { "resourceVersion": "5" }, "items": [pod] });
                Either::Left(Full::new(Bytes::from(list.to_string())))
            };
            Ok::<_, Infallible>(Response::new(body))
        };
        Api::namespaced(Client::new(tower::service_fn(answer), "default"), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_brings_nothing_is_given_up_for_a_new_list() {
        let mut follow = Follow::new(starved(), "a=b".to_owned());
        for silence in [Duration::ZERO, SILENCE] {
            let begun = Instant::now();
            let News::All(pods) = follow.next().await.unwrap() else {
                panic!("no list");
            };
            assert_eq!(
                (pods.len(), begun.elapsed().as_secs()),
                (1, silence.as_secs())
            );
        }
    }
}
