//! Sessions: which ones a caller has used lately over this interface, and ending them.
//!
//! A session is a conversation. Only those that were made or ran a program here are listed, and only to the caller that
//! ran it: the ids of MCP clients' conversations concern nobody else.

pub(super) mod single;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::{Extension, Json};
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use super::error::Failures;
use super::extract::{FromCaller, SessionPath};
use crate::api::code::Code;
use crate::conversation::Conversation;
use crate::http::HttpState;
use crate::principal::Principal;
use crate::recent::{Bounds, Recent};

/// What is listed: sessions for an hour after their last use, and of too many the latest.
const LISTED: Bounds = Bounds {
    age: Duration::from_hours(1),
    count: 10_000,
    bytes: usize::MAX,
};

/// The books on sessions.
#[derive(Debug)]
pub(in crate::http) struct Sessions(Mutex<Recent<(Principal, Conversation), SessionRecord>>);

#[derive(Clone, Copy, Debug)]
struct SessionRecord {
    created: SystemTime,
    last: SystemTime,
    runs: u64,
    /// Whether it was asked for, and so stays when no program was started in it.
    made: bool,
}

impl Default for Sessions {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(LISTED)))
    }
}

impl Sessions {
    /// Notes that a caller starts a program in a session.
    pub(super) fn note(&self, caller: &Principal, id: &Conversation) {
        self.touch(caller, id, 1);
    }

    /// Notes that a caller uses a session, and starts so many programs in it.
    fn touch(&self, caller: &Principal, id: &Conversation, runs: u64) {
        let now = SystemTime::now();
        let make = || SessionRecord {
            created: now,
            last: now,
            runs: 0,
            made: false,
        };
        let key = (caller.clone(), id.clone());
        self.0.lock().update(key, make, |session, _| {
            session.last = now;
            session.runs += runs;
            session.made |= runs == 0;
        });
    }

    /// Takes a note back: the program was refused, so none was started.
    pub(super) fn take_back(&self, caller: &Principal, id: &Conversation) {
        let mut book = self.0.lock();
        let key = (caller.clone(), id.clone());
        let Some(session) = book.get_mut(&key) else {
            return;
        };
        session.runs = session.runs.saturating_sub(1);
        if session.runs == 0 && !session.made {
            book.remove(&key);
        }
    }

    /// How many there are, of all callers.
    pub(super) fn count(&self) -> usize {
        self.0.lock().iter().count()
    }

    /// Forgets a session. Returns whether the caller had it.
    fn forget(&self, caller: &Principal, id: &Conversation) -> bool {
        let key = (caller.clone(), id.clone());
        self.0.lock().remove(&key).is_some()
    }

    fn of(&self, caller: &Principal) -> Vec<(Conversation, SessionRecord)> {
        let mut book = self.0.lock();
        let theirs = book.iter().filter(|((owner, _), _)| owner == caller);
        theirs
            .map(|((_, id), session)| (id.clone(), *session))
            .collect()
    }

    /// A session of a caller.
    fn get(&self, caller: &Principal, id: &Conversation) -> Result<SessionRecord, ApiError> {
        let key = (caller.clone(), id.clone());
        self.0.lock().get(&key).copied().ok_or_else(unknown)
    }
}

/// The sessions of a caller.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    /// Each session by its id.
    sessions: BTreeMap<String, Session>,
    /// How many there are.
    total: usize,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the name that clients see")]
struct Session {
    session_id: String,
    /// Whether a program runs in it.
    is_busy: bool,
    /// `busy` while a program runs in it, else `idle`.
    #[schema(example = "idle")]
    status: &'static str,
    /// When it was first used since it is listed, in seconds since 1970.
    created_at: f64,
    /// When its last program was started, in seconds since 1970.
    last_activity: f64,
    /// Programs that were started in it since then.
    execution_count: u64,
}

/// What became of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    success: bool,
    /// What happened, in a sentence.
    message: String,
}

impl Session {
    fn of(state: &HttpState, id: &Conversation, each: SessionRecord) -> Self {
        let is_busy = state.0.services.conversations.is_busy(id);
        Self {
            session_id: id.id().to_owned(),
            is_busy,
            status: if is_busy { "busy" } else { "idle" },
            created_at: seconds(each.created),
            last_activity: seconds(each.last),
            execution_count: each.runs,
        }
    }
}

/// Lists your sessions
///
/// Those that were made or ran a program over this interface within the last hour.
#[utoipa::path(
    get, path = "/api/v1/sessions", tag = "runs", operation_id = "list_sessions",
    responses((status = 200, description = "The sessions", body = SessionList), Failures)
)]
pub(super) async fn list(
    State(state): State<HttpState>,
    Extension(caller): Extension<Principal>,
) -> Json<SessionList> {
    let theirs = state.0.sessions.of(&caller).into_iter();
    let sessions: BTreeMap<_, _> = theirs
        .map(|(id, each)| (id.id().to_owned(), Session::of(&state, &id, each)))
        .collect();
    Json(SessionList {
        total: sessions.len(),
        sessions,
    })
}

/// Ends a session
///
/// Stops its programs and deletes its variables and files for ever.
#[utoipa::path(
    delete, path = "/api/v1/sessions/{session_id}", tag = "runs", operation_id = "end_session",
    params(("session_id" = String, Path, description = "The session, percent-encoded", min_length = 1, max_length = 256)),
    responses(
        (status = 200, description = "It is gone", body = Done),
        (status = 404, description = "There is no such session", body = super::error::ErrorBody),
        Failures
    )
)]
pub(super) async fn end(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    SessionPath(id): SessionPath,
) -> Result<Json<Done>, ApiError> {
    let existed = state.0.services.conversations.delete(&origin, &id).await?;
    let known = state.0.sessions.forget(&origin.caller, &id);
    if !existed && !known {
        return Err(unknown());
    }
    Ok(Json(Done {
        success: true,
        message: format!("Session {} terminated", id.id()),
    }))
}

fn unknown() -> ApiError {
    let message = "there is no such session: it has ended already, or it never ran a program";
    ApiError::new(Code::SessionNotFound, message)
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
