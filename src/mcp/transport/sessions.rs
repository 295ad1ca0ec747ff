//! The sessions of streamable HTTP: how many there may be, whose they are, which requests they are answering, and when
//! one has been silent for too long.
//!
//! rmcp counts messages only, so that it would end a session under a long run, and under a client that just listens.
//! Here a session is in use while one of its answers is being made or its stream is open.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::events::Events;
use super::manager::Manager;
use crate::principal::Principal;

/// Sessions at the same time. Further clients are served without one.
const MAX_SESSIONS: usize = 1000;
/// Sessions that their clients have ended and that are remembered as such, the latest ones.
const MAX_GONE: usize = 1000;
/// How often silent sessions are looked for, at most and at least.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What is known about all sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    manager: Arc<Manager>,
    events: Events,
    known: Arc<Mutex<Known>>,
    /// How long a session may be silent.
    idle: Duration,
}

#[derive(Default)]
struct Known {
    open: HashMap<SessionId, Session>,
    /// Those that their clients have ended, with whose they were.
    gone: VecDeque<(SessionId, Principal)>,
}

struct Session {
    owner: Principal,
    /// The revision that was agreed on.
    revision: String,
    /// Requests that are being answered and streams that are open.
    uses: usize,
    answering: HashSet<RequestId>,
    /// When the last use began or ended.
    used: Instant,
}

impl Session {
    fn is_silent(&self, idle: Duration) -> bool {
        self.uses == 0 && self.answering.is_empty() && self.used.elapsed() >= idle
    }
}

/// How a caller stands to a session that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the caller's.
    Own,
    /// This caller has ended it.
    Gone,
    /// Nothing is known of it: it was silent for too long, the server was restarted, or it is another caller's.
    Unknown,
}

/// A session in use. Dropping it ends that.
pub(super) struct InUse {
    known: Arc<Mutex<Known>>,
    session: SessionId,
}

/// A request that is being answered. Dropping the last clone ends that.
pub(super) struct Answering {
    known: Arc<Mutex<Known>>,
    session: SessionId,
    request: RequestId,
}

impl Sessions {
    pub(super) fn new(manager: Arc<Manager>, events: Events, idle: Duration) -> Self {
        Self {
            manager,
            events,
            known: Arc::default(),
            idle,
        }
    }

    /// Ends sessions that are silent for too long, for ever.
    pub(super) async fn keep(self) {
        let pause = (self.idle / 4).clamp(CHECK_INTERVAL.0, CHECK_INTERVAL.1);
        loop {
            sleep(pause).await;
            for id in self.take(|session| session.is_silent(self.idle)) {
                debug!(session = %id, "a session was silent for too long");
                self.close(&id).await;
            }
        }
    }

    /// Ends those of callers who have left.
    pub(super) async fn end_those_of(&self, has_left: impl Fn(&Principal) -> bool) {
        for id in self.take(|session| has_left(&session.owner)) {
            debug!(session = %id, "ended a session whose caller has no token any more");
            self.close(&id).await;
        }
    }

    fn take(&self, goes: impl Fn(&Session) -> bool) -> Vec<SessionId> {
        let mut known = self.known.lock();
        let taken = known.open.extract_if(|_, session| goes(session));
        taken.map(|(id, _)| id).collect()
    }

    /// Whether there may be one more.
    pub(super) fn has_room(&self) -> bool {
        self.known.lock().open.len() < MAX_SESSIONS
    }

    /// Remembers a new session.
    pub(super) fn open(&self, id: &str, owner: Principal, revision: String) {
        let session = Session {
            owner,
            revision,
            uses: 0,
            answering: HashSet::new(),
            used: Instant::now(),
        };
        self.known.lock().open.insert(id.into(), session);
    }

    /// Forgets a session that its client has ended.
    pub(super) async fn end(&self, id: &str) {
        {
            let mut known = self.known.lock();
            let Some(session) = known.open.remove(id) else {
                return;
            };
            known.gone.push_back((id.into(), session.owner));
            if known.gone.len() > MAX_GONE {
                known.gone.pop_front();
            }
        }
        self.close(id).await;
    }

    async fn close(&self, id: &str) {
        // One that has ended by itself is closed already.
        let _ = self.manager.close_session(&id.into()).await;
        self.events.end(id);
    }

    /// How this caller stands to the session.
    pub(super) fn standing(&self, id: &str, caller: &Principal) -> Standing {
        let known = self.known.lock();
        match known.open.get(id) {
            Some(session) if session.owner != *caller => Standing::Unknown,
            Some(session) if session.is_silent(self.idle) => Standing::Unknown,
            Some(_) => Standing::Own,
            None => {
                let is_this =
                    |(gone, owner): &(SessionId, Principal)| **gone == *id && owner == caller;
                if known.gone.iter().any(is_this) {
                    Standing::Gone
                } else {
                    Standing::Unknown
                }
            }
        }
    }

    /// The revision of a caller's session.
    pub(super) fn revision(&self, id: &str, caller: &Principal) -> Option<String> {
        let known = self.known.lock();
        let session = known.open.get(id)?;
        (session.owner == *caller).then(|| session.revision.clone())
    }

    /// Uses a session for as long as the guard lives.
    pub(super) fn hold(&self, id: &str) -> InUse {
        if let Some(session) = self.known.lock().open.get_mut(id) {
            session.uses += 1;
            session.used = Instant::now();
        }
        InUse {
            known: Arc::clone(&self.known),
            session: id.into(),
        }
    }

    /// Notes that a session answers a request; `None` if it is already answering another one with the same id, whose
    /// answer the session could not distinguish from this one's.
    pub(super) fn answer(&self, id: &str, request: &RequestId) -> Option<Arc<Answering>> {
        let mut known = self.known.lock();
        let session = known.open.get_mut(id)?;
        session.answering.insert(request.clone()).then(|| {
            Arc::new(Answering {
                known: Arc::clone(&self.known),
                session: id.into(),
                request: request.clone(),
            })
        })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        if let Some(session) = known.open.get_mut(&self.session) {
            session.uses = session.uses.saturating_sub(1);
            session.used = Instant::now();
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        if let Some(session) = known.open.get_mut(&self.session) {
            session.answering.remove(&self.request);
            session.used = Instant::now();
        }
    }
}
