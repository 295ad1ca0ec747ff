//! Which sandboxes there are, whose, and until when. All of it is in memory: after a restart there are none, and their
//! conversations expire as any others.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::error;

use super::contexts::Contexts;
use super::process::Processes;
use crate::conversation::Conversation;
use crate::conversations::Conversations;
use crate::principal::Principal;
use crate::scope::Rights;

/// Most sandboxes of one caller.
const MAX_OF_ONE: usize = 100;
/// Most sandboxes of all callers.
const MAX_OF_ALL: usize = 10_000;
/// Characters of an id.
const ID_LENGTH: usize = 21;
/// How many are deleted at the same time.
const ENDED_AT_ONCE: usize = 8;
/// When a deletion that failed is tried again.
const AGAIN: Duration = Duration::from_mins(1);
/// When there is nothing to end.
const LATER: Duration = Duration::from_hours(1);

/// A sandbox: what its client calls a conversation that has an end.
pub(in crate::http) struct Sandbox {
    /// What it is called. Nobody can guess it.
    pub(super) id: String,
    /// Who made it.
    pub(super) owner: Principal,
    /// What the token lets its holder do that it was made with.
    pub(super) rights: Rights,
    pub(super) conversation: Conversation,
    pub(super) wish: Wish,
    pub(super) started: SystemTime,
    pub(super) processes: Processes,
    pub(super) contexts: Contexts,
    /// What lets somebody in.
    token: String,
    ends: Mutex<Instant>,
}

/// What was asked for with a sandbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    pub(super) template: String,
    pub(super) metadata: BTreeMap<String, String>,
    /// What all its programs find in their environment.
    pub(super) variables: BTreeMap<String, String>,
}

/// Why there is no further sandbox.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum SandboxesError {
    #[error(
        "you have {MAX_OF_ONE} sandboxes, which is the limit: kill some, or wait for their end"
    )]
    TooManyOfOne,
    #[error("the server has {MAX_OF_ALL} sandboxes, which is the limit: try again later")]
    TooManyOfAll,
}

/// All sandboxes.
#[derive(Debug, Default)]
pub(in crate::http) struct Sandboxes {
    book: Mutex<HashMap<String, Arc<Sandbox>>>,
    /// Some end may be sooner than the one that is waited for.
    changed: Notify,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sandbox({:?})", self.conversation)
    }
}

/// 126 random bits.
pub(super) fn new_id() -> String {
    let mut id = BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
    id.truncate(ID_LENGTH);
    id
}

impl Sandbox {
    pub(super) fn new(
        id: String,
        owner: (Principal, Rights),
        conversation: Conversation,
        wish: Wish,
        time: Duration,
    ) -> Self {
        Self {
            id,
            owner: owner.0,
            rights: owner.1,
            conversation,
            wish,
            started: SystemTime::now(),
            processes: Processes::default(),
            contexts: Contexts::default(),
            token: new_id(),
            ends: Mutex::new(Instant::now() + time),
        }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn is_token(&self, given: &[u8]) -> bool {
        given.ct_eq(self.token.as_bytes()).into()
    }

    /// How long it is still there.
    pub(super) fn left(&self) -> Duration {
        self.ends.lock().saturating_duration_since(Instant::now())
    }
}

impl Sandboxes {
    /// Adds a sandbox, if there may be one more.
    pub(super) fn add(&self, sandbox: Sandbox) -> Result<Arc<Sandbox>, SandboxesError> {
        let mut book = self.book.lock();
        let theirs = book.values().filter(|other| other.owner == sandbox.owner);
        if theirs.count() >= MAX_OF_ONE {
            return Err(SandboxesError::TooManyOfOne);
        }
        if book.len() >= MAX_OF_ALL {
            return Err(SandboxesError::TooManyOfAll);
        }
        let sandbox = Arc::new(sandbox);
        book.insert(sandbox.id.clone(), Arc::clone(&sandbox));
        self.changed.notify_one();
        Ok(sandbox)
    }

    /// The sandbox of this id, unless its time is over.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        let found = self.book.lock().get(id).cloned();
        found.filter(|sandbox| !sandbox.left().is_zero())
    }

    /// A caller's sandbox.
    pub(super) fn of(&self, owner: &Principal, id: &str) -> Option<Arc<Sandbox>> {
        self.find(id).filter(|sandbox| sandbox.owner == *owner)
    }

    /// All sandboxes of a caller, the latest first.
    pub(super) fn all_of(&self, owner: &Principal) -> Vec<Arc<Sandbox>> {
        let book = self.book.lock();
        let theirs = book
            .values()
            .filter(|sandbox| sandbox.owner == *owner && !sandbox.left().is_zero());
        let mut theirs: Vec<_> = theirs.cloned().collect();
        theirs.sort_by(|left, right| (right.started, &right.id).cmp(&(left.started, &left.id)));
        theirs
    }

    /// Has a sandbox end after so much time from now.
    pub(super) fn end_after(&self, sandbox: &Sandbox, time: Duration) {
        *sandbox.ends.lock() = Instant::now() + time;
        self.changed.notify_one();
    }

    /// Has a sandbox end no sooner than after so much time from now.
    pub(super) fn keep_for(&self, sandbox: &Sandbox, time: Duration) {
        if time > sandbox.left() {
            self.end_after(sandbox, time);
        }
    }

    /// Takes a sandbox out. False if it is out already.
    pub(super) fn remove(&self, sandbox: &Sandbox) -> bool {
        self.book.lock().remove(&sandbox.id).is_some()
    }

    /// Takes one back in that could not be deleted.
    pub(super) fn put_back(&self, sandbox: Arc<Sandbox>) {
        self.book.lock().insert(sandbox.id.clone(), sandbox);
        self.changed.notify_one();
    }

    /// Takes those out whose time is over, and says when the next one's is.
    fn ended(&self) -> (Vec<Arc<Sandbox>>, Instant) {
        let mut book = self.book.lock();
        let now = Instant::now();
        let ended = book.extract_if(|_, sandbox| *sandbox.ends.lock() <= now);
        let ended = ended.map(|(_, sandbox)| sandbox).collect();
        let next = book.values().map(|sandbox| *sandbox.ends.lock()).min();
        (ended, next.unwrap_or(now + LATER))
    }

    /// Deletes the conversations of sandboxes at their ends.
    pub(in crate::http) async fn maintain(&self, conversations: &Conversations) {
        loop {
            let (ended, next) = self.ended();
            // One that is slow to end keeps no other.
            stream::iter(ended)
                .for_each_concurrent(ENDED_AT_ONCE, |sandbox| self.end(conversations, sandbox))
                .await;
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn end(&self, conversations: &Conversations, sandbox: Arc<Sandbox>) {
        let key = sandbox.conversation.key();
        if let Err(error) = conversations.clear(key).await {
            error!(%error, "could not delete what a sandbox had left");
            *sandbox.ends.lock() = Instant::now() + AGAIN;
            self.put_back(sandbox);
        }
    }
}
