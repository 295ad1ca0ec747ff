//! What was sent on the event streams of sessions, so that a client whose connection broke can resume.
//!
//! rmcp forgets a stream as soon as its answer was handed to a connection, dead or alive. Here the latest events are
//! kept for a while: a client that comes back with the id of the last one gets all that followed, then live ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream;
use parking_lot::Mutex;
use rmcp::model::JsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage, SessionId,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::recent::{Bounds, Recent};

/// Events kept per stream: the heartbeats of half an hour.
const MAX_EVENTS: usize = 360;
/// What is kept of streams: how long one can be resumed after its last event, how many there are, since every request
/// of a session has one, however short, and what they take together.
const STREAMS: Bounds = Bounds {
    age: Duration::from_mins(10),
    count: 10_000,
    bytes: 32 << 20,
};
/// What rmcp appends to a session's id to name the session's own stream. Each of the others is for one request.
const OF_A_SESSION: &str = ":common";
/// How long the stream of a request may be silent. While its answer is pending, there is a sign of life every five
/// seconds; a request that was cancelled has no answer, and nothing says so.
const SILENCE: Duration = Duration::from_secs(30);

/// The latest events of all streams.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Inner>>);

struct Inner {
    logs: Recent<String, Log>,
    /// Events so far.
    count: u64,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            logs: Recent::new(STREAMS),
            count: 0,
        }
    }
}

/// The latest events of one stream.
struct Log {
    events: VecDeque<Event>,
    /// Number of the next event.
    next: u64,
    /// The session that it is of, once an event was handed to its client.
    session: Option<SessionId>,
    /// Whether the answer was sent, after which nothing comes.
    complete: bool,
    /// Wakes readers. Dropping it tells them that the log is gone.
    grown: watch::Sender<()>,
}

struct Event {
    message: ServerSseMessage,
    bytes: usize,
}

impl Inner {
    fn append(&mut self, stream: &str, message: &ServerSseMessage, bytes: usize) -> EventId {
        self.count += 1;
        // Higher than any before this stream was forgotten: a client that comes back with one of those gets all.
        let next = self.count;
        let id = |log: &Log| format!("{stream}_{}", log.next);
        self.logs.update(
            stream.to_owned(),
            || Log::new(next),
            |log, held| {
                let mut message = message.clone();
                let id = id(log);
                message.event_id = Some(id.clone());
                *held = *held + bytes - log.push(Event { message, bytes });
                id
            },
        )
    }
}

impl Log {
    fn new(next: u64) -> Self {
        Self {
            events: VecDeque::new(),
            next,
            session: None,
            complete: false,
            grown: watch::Sender::new(()),
        }
    }

    /// Adds an event. Returns how many bytes an old one took that makes way.
    fn push(&mut self, event: Event) -> usize {
        self.complete |= matches!(
            event.message.message.as_deref(),
            Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
        );
        self.events.push_back(event);
        self.next += 1;
        self.grown.send_replace(());
        if self.events.len() <= MAX_EVENTS {
            return 0;
        }
        self.events.pop_front().map_or(0, |event| event.bytes)
    }

    /// The event with this number, or the first one after it that is still there.
    fn at(&self, number: u64) -> Option<(u64, ServerSseMessage)> {
        let first = self.next - self.events.len() as u64;
        let number = number.max(first);
        let index = usize::try_from(number - first).ok()?;
        Some((number, self.events.get(index)?.message.clone()))
    }
}

/// Where a reader is in a stream.
struct Reader {
    events: Events,
    stream: String,
    next: u64,
    grown: watch::Receiver<()>,
}

impl Reader {
    async fn read(mut self) -> Option<(ServerSseMessage, Self)> {
        loop {
            self.grown.mark_unchanged();
            {
                let mut inner = self.events.0.lock();
                let log = inner.logs.get(&self.stream)?;
                if let Some((number, message)) = log.at(self.next) {
                    drop(inner);
                    self.next = number + 1;
                    return Some((message, self));
                }
                if log.complete {
                    return None;
                }
            }
            let grown = self.grown.changed();
            if self.stream.ends_with(OF_A_SESSION) {
                grown.await.ok()?;
            } else {
                timeout(SILENCE, grown).await.ok()?.ok()?;
            }
        }
    }
}

impl Events {
    /// Notes whose stream an event is on.
    pub(super) fn give(&self, event: &str, session: &SessionId) {
        if let Some((stream, _)) = event.rsplit_once('_')
            && let Some(log) = self.0.lock().logs.get_mut(&stream.to_owned())
        {
            log.session.get_or_insert_with(|| Arc::clone(session));
        }
    }

    /// Whether an event is on a stream of this session.
    pub(super) fn belongs(&self, event: &str, session: &SessionId) -> bool {
        let Some((stream, _)) = event.rsplit_once('_') else {
            return false;
        };
        if let Some(owner) = stream.strip_suffix(OF_A_SESSION) {
            return owner == &**session;
        }
        let mut inner = self.0.lock();
        let owner = inner
            .logs
            .get(&stream.to_owned())
            .and_then(|log| log.session.as_ref());
        owner == Some(session)
    }

    /// Ends a session's own stream for its readers: the session is closed.
    pub(super) fn end(&self, session: &str) {
        let stream = format!("{session}{OF_A_SESSION}");
        self.0.lock().logs.remove(&stream);
    }
}

#[async_trait]
impl EventStore for Events {
    async fn store_event(
        &self,
        stream_id: &str,
        event: &ServerSseMessage,
    ) -> Result<EventId, EventStoreError> {
        // Measured before locking: answers can be large, and the lock is for all sessions.
        let json = event.message.as_deref().map(serde_json::to_vec);
        let bytes = json.and_then(Result::ok).map_or(0, |json| json.len());
        Ok(self.0.lock().append(stream_id, event, bytes))
    }

    async fn replay_events_after(
        &self,
        last_event_id: &str,
    ) -> Result<EventStream, EventStoreError> {
        let (stream, number) = last_event_id
            .rsplit_once('_')
            .ok_or("the event id is not one of ours")?;
        let number: u64 = number.parse()?;
        let grown = {
            let mut inner = self.0.lock();
            let log = inner
                .logs
                .get(&stream.to_owned())
                .ok_or("the stream is not kept any more")?;
            log.grown.subscribe()
        };
        let reader = Reader {
            events: self.clone(),
            stream: stream.to_owned(),
            next: number.saturating_add(1),
            grown,
        };
        Ok(Box::pin(stream::unfold(reader, Reader::read)))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use rmcp::model::{EmptyResult, RequestId, ServerJsonRpcMessage, ServerResult};

    use super::*;

    fn message(retry: u64) -> ServerSseMessage {
        ServerSseMessage::retry(Duration::from_millis(retry))
    }

    fn answer() -> ServerSseMessage {
        let result = ServerResult::EmptyResult(EmptyResult {});
        ServerSseMessage::from_message(ServerJsonRpcMessage::response(result, RequestId::Number(1)))
    }

    #[tokio::test]
    async fn a_client_reads_on_after_the_last_event_it_saw() {
        let events = Events::default();
        let first = events.store_event("s", &message(1)).await.unwrap();
        let mut other = events.replay_events_after(&first).await.unwrap();
        events.store_event("s", &message(2)).await.unwrap();
        events.store_event("other", &message(9)).await.unwrap();
        events.store_event("s", &answer()).await.unwrap();
        let ids = |events: Vec<ServerSseMessage>| {
            events
                .into_iter()
                .map(|event| event.event_id.unwrap())
                .collect::<Vec<_>>()
        };
        // A reader that was there before, and one that comes after the end.
        let early = ids(other.by_ref().collect().await);
        let late = ids(events
            .replay_events_after(&first)
            .await
            .unwrap()
            .collect()
            .await);
        assert_eq!(
            (early, late),
            (
                vec!["s_2".to_owned(), "s_3".to_owned()],
                vec!["s_2".to_owned(), "s_3".to_owned()]
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_forgotten_by_age_and_by_size() {
        let events = Events::default();
        let first = events.store_event("old", &message(1)).await.unwrap();
        tokio::time::advance(STREAMS.age).await;
        for _ in 0..MAX_EVENTS + 5 {
            events.store_event("new", &message(1)).await.unwrap();
        }
        assert!(events.replay_events_after(&first).await.is_err());
        assert_eq!(
            events
                .0
                .lock()
                .logs
                .get(&"new".to_owned())
                .unwrap()
                .events
                .len(),
            MAX_EVENTS
        );
        let next = events
            .replay_events_after("new_1")
            .await
            .unwrap()
            .next()
            .await;
        // The first of these came after one of the other stream, and five are gone.
        assert_eq!(next.unwrap().event_id.unwrap(), "new_7");
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_of_a_request_ends_when_it_is_silent() {
        let events = Events::default();
        let first = events.store_event("s", &message(1)).await.unwrap();
        let read = events.replay_events_after(&first).await.unwrap();
        let signs_of_life = async {
            for _ in 0..3 {
                tokio::time::sleep(SILENCE / 2).await;
                events.store_event("s", &message(2)).await.unwrap();
            }
        };
        let both = async { tokio::join!(read.count(), signs_of_life) };
        assert_eq!(timeout(STREAMS.age, both).await.unwrap(), (3, ()));
        // The stream of a session may be silent.
        let first = events.store_event("s:common", &message(1)).await.unwrap();
        let mut read = events.replay_events_after(&first).await.unwrap();
        assert!(timeout(STREAMS.age, read.next()).await.is_err());
    }

    #[tokio::test]
    async fn of_many_streams_the_latest_are_kept() {
        let events = Events::default();
        for number in 0..STREAMS.count {
            let stream = number.to_string();
            events.store_event(&stream, &answer()).await.unwrap();
        }
        // The oldest stream goes on.
        events.store_event("0", &answer()).await.unwrap();
        events.store_event("new", &answer()).await.unwrap();
        let mut inner = events.0.lock();
        let there =
            ["0", "1", "2", "new"].map(|stream| inner.logs.get(&stream.to_owned()).is_some());
        assert_eq!(there, [true, false, true, true]);
    }

    #[tokio::test]
    async fn foreign_ids_are_refused() {
        let events = Events::default();
        for id in ["", "0", "s_1", "s_x", "_", "s_18446744073709551615"] {
            assert!(events.replay_events_after(id).await.is_err(), "{id}");
        }
    }
}
