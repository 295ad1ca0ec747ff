//! Two requests with the same id: clients do send them, and both get their answer.
//!
//! rmcp keeps requests by id, so that it answers only one of two with the same id. On a stream of our own, each request
//! gets an id of ours on the way in, and its answer the client's id on the way out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use super::greeting::Greeted;

/// Cancelled requests whose ids are kept: an answer may be on its way.
const MAX_CANCELLED: usize = 64;

/// A transport whose requests never have the same id. When its client goes away, `gone` is cancelled: rmcp itself would
/// wait for what still runs.
pub(crate) struct UniqueIds<T> {
    inner: Greeted<T>,
    gone: CancellationToken,
    ids: Arc<Mutex<Ids>>,
    pending: Arc<Pending>,
}

/// Held by each request until its handler has returned, and by each message of ours until it has been passed on.
struct Pending;

/// What a transport has not done yet. It keeps growing if a client does not read its answers.
#[derive(Clone)]
pub(super) struct Backlog(Weak<Pending>);

impl Backlog {
    pub(super) fn count(&self) -> usize {
        self.0.strong_count()
    }
}

#[derive(Default)]
struct Ids {
    last: i64,
    /// The client's id by ours.
    theirs: HashMap<RequestId, RequestId>,
    /// Ours by the client's, the latest if there are several.
    ours: HashMap<RequestId, RequestId>,
    /// Ours of requests that were cancelled, which rmcp does not answer.
    cancelled: VecDeque<RequestId>,
}

impl Ids {
    fn assign(&mut self, theirs: RequestId) -> RequestId {
        self.last += 1;
        let ours = RequestId::Number(self.last);
        self.ours.insert(theirs.clone(), ours.clone());
        self.theirs.insert(ours.clone(), theirs);
        ours
    }

    fn leave(&mut self, ours: &RequestId) -> Option<RequestId> {
        let theirs = self.theirs.remove(ours)?;
        if self.ours.get(&theirs) == Some(ours) {
            self.ours.remove(&theirs);
        }
        Some(theirs)
    }

    /// Notes that the latest request with this id is cancelled. Returns our id for it.
    fn cancel(&mut self, theirs: &RequestId) -> Option<RequestId> {
        let ours = self.ours.get(theirs)?.clone();
        self.cancelled.push_back(ours.clone());
        if self.cancelled.len() > MAX_CANCELLED
            && let Some(oldest) = self.cancelled.pop_front()
        {
            self.leave(&oldest);
        }
        Some(ours)
    }

    fn translate_in(&mut self, message: &mut ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => request.id = self.assign(request.id.clone()),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &mut notification.notification
                {
                    // No id is passed on for a request that was answered: the number may be our id for another one.
                    let theirs = cancelled.params.request_id.take();
                    cancelled.params.request_id = theirs.and_then(|id| self.cancel(&id));
                }
            }
            _ => {}
        }
    }

    fn translate_out(&mut self, message: &mut ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            _ => None,
        };
        if let Some(id) = id
            && let Some(theirs) = self.leave(id)
        {
            *id = theirs;
        }
    }
}

impl<T> UniqueIds<T> {
    pub(crate) fn new(inner: T, gone: CancellationToken) -> Self {
        Self {
            inner: Greeted::new(inner),
            gone,
            ids: Arc::default(),
            pending: Arc::new(Pending),
        }
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog(Arc::downgrade(&self.pending))
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for UniqueIds<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.ids.lock().translate_out(&mut item);
        let (sent, pending) = (self.inner.send(item), Arc::clone(&self.pending));
        async move {
            let result = sent.await;
            drop(pending);
            result
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let Some(mut message) = self.inner.receive().await else {
            self.gone.cancel();
            return None;
        };
        self.ids.lock().translate_in(&mut message);
        if matches!(message, JsonRpcMessage::Request(_)) {
            message.insert_extension(Arc::clone(&self.pending));
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_own_id_and_its_answer_the_clients() {
        let mut ids = Ids::default();
        let theirs = RequestId::String("a".into());
        let (first, second) = (ids.assign(theirs.clone()), ids.assign(theirs.clone()));
        assert_ne!(first, second);
        // A cancellation means the latest.
        assert_eq!(ids.ours[&theirs], second);
        assert_eq!(ids.leave(&first), Some(theirs.clone()));
        assert_eq!(ids.leave(&second), Some(theirs.clone()));
        assert_eq!(
            (ids.leave(&second), ids.theirs.len(), ids.ours.len()),
            (None, 0, 0)
        );
    }

    #[test]
    fn cancelled_requests_are_forgotten_without_an_answer() {
        let mut ids = Ids::default();
        for number in 0..1000 {
            let theirs = RequestId::Number(number);
            let ours = ids.assign(theirs.clone());
            assert_eq!(ids.cancel(&theirs), Some(ours));
        }
        assert_eq!(
            (ids.theirs.len(), ids.ours.len()),
            (MAX_CANCELLED, MAX_CANCELLED)
        );
        // One that was answered after all.
        let latest = RequestId::Number(999);
        let ours = ids.ours[&latest].clone();
        assert_eq!(ids.leave(&ours), Some(latest.clone()));
        assert_eq!(ids.cancel(&latest), None);
    }
}
