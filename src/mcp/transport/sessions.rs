//! The sessions of streamable HTTP: how many there may be, whose they are, and which requests they are answering.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::principal::Principal;

/// Sessions at the same time. Further clients are served without one.
const MAX_SESSIONS: usize = 1000;

/// What is known about all sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    owners: HashMap<SessionId, Principal>,
    answering: HashSet<RequestKey>,
}

/// A request within its session.
type RequestKey = (String, String);

/// A request that is being answered. Dropping the last clone ends that.
pub(super) struct Answering {
    known: Arc<Mutex<Known>>,
    key: RequestKey,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self {
            manager,
            known: Arc::default(),
        }
    }

    /// Whether there may be one more.
    pub(super) async fn has_room(&self) -> bool {
        self.manager.sessions.read().await.len() < MAX_SESSIONS
    }

    /// Remembers whose a new session is, and forgets those that have ended.
    pub(super) async fn bind(&self, id: &str, owner: Principal) {
        // Only these count as ended if they are not among the live ones: others may be bound in between.
        let bound: Vec<_> = self.lock().owners.keys().cloned().collect();
        let live: HashSet<_> = self.manager.sessions.read().await.keys().cloned().collect();
        let mut known = self.lock();
        for ended in bound.iter().filter(|id| !live.contains(*id)) {
            known.owners.remove(ended);
        }
        known.owners.insert(id.into(), owner);
    }

    /// Whether the session is this caller's. One that does not exist is nobody's.
    pub(super) fn belongs_to(&self, id: &str, caller: &Principal) -> bool {
        self.lock().owners.get(id) == Some(caller)
    }

    /// Notes that a session answers a request; `None` if it is already answering another one with the same id, whose
    /// answer the session could not distinguish from this one's.
    pub(super) fn answer(&self, session: &str, request: &str) -> Option<Arc<Answering>> {
        let key = (session.to_owned(), request.to_owned());
        self.lock().answering.insert(key.clone()).then(|| {
            Arc::new(Answering {
                known: Arc::clone(&self.known),
                key,
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.answering.remove(&self.key);
    }
}
