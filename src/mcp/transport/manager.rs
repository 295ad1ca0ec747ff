//! rmcp's sessions, each of which resumes its own streams only.
//!
//! rmcp finds a stream by the id of its last event alone, so the id of an event of another session would do as well.

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    EventStore, RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};

use super::events::Events;

/// All sessions, and what was sent on their streams.
pub(super) struct Manager {
    sessions: LocalSessionManager,
    events: Events,
}

impl Manager {
    pub(super) fn new(events: Events) -> Self {
        let mut sessions =
            LocalSessionManager::default().with_event_store(Arc::new(events.clone()));
        sessions.session_config.sse_retry = None;
        // Ours knows what it does not.
        sessions.session_config.keep_alive = None;
        Self { sessions, events }
    }
}

type Result<T> = std::result::Result<T, LocalSessionManagerError>;

impl SessionManager for Manager {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport)> {
        self.sessions.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage> {
        self.sessions.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool> {
        self.sessions.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<()> {
        self.sessions.close_session(id).await
    }

    /// The events of a stream are the session's before its client knows their ids.
    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        let stream = self.sessions.create_stream(id, message).await?;
        let (events, session) = (self.events.clone(), Arc::clone(id));
        Ok(stream.inspect(move |sent| {
            if let Some(event) = &sent.event_id {
                events.give(event, &session);
            }
        }))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<()> {
        self.sessions.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.sessions.create_standalone_stream(id).await
    }

    /// An event of another session is one that there is not.
    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        if !self.events.belongs(&last_event_id, id) {
            return Err(LocalSessionManagerError::SessionNotFound(Arc::clone(id)));
        }
        self.sessions.resume(id, last_event_id).await
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>> {
        self.sessions.restore_session(id).await
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.sessions.event_store()
    }
}
