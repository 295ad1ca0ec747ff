//! Hosts that people have allowed to their programs, or refused, when they were asked (`NETWORK_ASK`). Each holds for one
//! caller and conversation, in memory and for a while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Gate;
use super::network::Reach;
use crate::allow_list::{Entry, Pattern};
use crate::conversation::{Conversation, ConversationKey};
use crate::principal::Principal;
use crate::recent::{Bounds, Recent};

/// How long what was allowed holds.
pub(crate) const ALLOWED_FOR: Duration = Duration::from_hours(8);
/// How long nobody is asked again for what was refused.
const REFUSED_FOR: Duration = Duration::from_mins(10);
/// As many answers are kept, of each kind.
const MAX_ANSWERS: usize = 10_000;

/// For whom a host was allowed, and which.
type Asked = (Principal, ConversationKey, Entry);

/// What people have answered. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Grants(Arc<Mutex<Answers>>);

#[derive(Debug)]
struct Answers {
    allowed: Recent<Asked, ()>,
    refused: Recent<Asked, ()>,
}

impl Default for Grants {
    fn default() -> Self {
        let answers = |age| {
            Recent::new(Bounds {
                age,
                count: MAX_ANSWERS,
                bytes: 0,
            })
        };
        Self(Arc::new(Mutex::new(Answers {
            allowed: answers(ALLOWED_FOR),
            refused: answers(REFUSED_FOR),
        })))
    }
}

impl Grants {
    /// Notes what a person has answered.
    pub(crate) fn note(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        hosts: &[Entry],
        is_allowed: bool,
    ) {
        let mut answers = self.0.lock();
        for host in hosts {
            let asked = (caller.clone(), conversation.clone(), host.clone());
            if is_allowed {
                answers.refused.remove(&asked);
                answers.allowed.insert(asked, (), 0);
            } else {
                answers.refused.insert(asked, (), 0);
            }
        }
    }

    /// The hosts that were allowed to a caller's programs of a conversation.
    pub(crate) fn allowed(&self, caller: &Principal, conversation: &ConversationKey) -> Vec<Entry> {
        let mut answers = self.0.lock();
        let theirs = answers
            .allowed
            .iter()
            .filter(|((who, which, _), ())| who == caller && which == conversation);
        theirs.map(|((_, _, host), ())| host.clone()).collect()
    }

    /// Whether a host was refused lately.
    pub(crate) fn is_refused(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        host: &Entry,
    ) -> bool {
        let asked = (caller.clone(), conversation.clone(), host.clone());
        self.0.lock().refused.get(&asked).is_some()
    }
}

impl Gate {
    /// Of the hosts that a run names, those for which the person at its client can be asked: single hosts that are not
    /// listed, and that were neither allowed to it nor refused lately.
    pub(crate) fn askable(
        &self,
        caller: &Principal,
        conversation: &Conversation,
        hosts: &[String],
    ) -> Vec<Entry> {
        if !self.network.asks() || hosts.is_empty() {
            return Vec::new();
        }
        let limits = self.access.limits(conversation.tenant());
        let Reach::Listed(list) = self.network.reach(&limits.network) else {
            return Vec::new();
        };
        let key = conversation.key();
        let allowed = self.grants.allowed(caller, key);
        let unlisted = hosts.iter().filter(|host| {
            let host = std::slice::from_ref(*host);
            list.narrowed(host).is_err()
        });
        let entries: BTreeSet<Entry> = unlisted.filter_map(|host| host.parse().ok()).collect();
        let askable = entries.into_iter().filter(|entry| {
            matches!(entry.pattern, Pattern::Exact(_))
                && !allowed.contains(entry)
                && !self.grants.is_refused(caller, key, entry)
        });
        askable.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Entry {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_for_one_caller_and_conversation_and_for_a_while() {
        let grants = Grants::default();
        let callers = ["one", "other"].map(Principal::of_token);
        let keys = ["a", "b"].map(|digit| digit.repeat(64).parse::<ConversationKey>().unwrap());
        let asked = [host("api.example.org"), host("db.example.org:5432")];
        grants.note(&callers[0], &keys[0], &asked, true);
        grants.note(&callers[0], &keys[1], &asked[..1], false);
        let allowed =
            |caller: usize, key: usize| grants.allowed(&callers[caller], &keys[key]).len();
        assert_eq!([allowed(0, 0), allowed(0, 1), allowed(1, 0)], [2, 0, 0]);
        assert!(grants.is_refused(&callers[0], &keys[1], &asked[0]));
        assert!(!grants.is_refused(&callers[0], &keys[0], &asked[0]));
        tokio::time::advance(REFUSED_FOR).await;
        assert!(!grants.is_refused(&callers[0], &keys[1], &asked[0]));
        tokio::time::advance(ALLOWED_FOR).await;
        assert_eq!(allowed(0, 0), 0);
    }
}
