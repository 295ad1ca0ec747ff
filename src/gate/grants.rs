//! Hosts that people have allowed to their programs, or refused, when they were asked (`NETWORK_ASK`). Each holds for one
//! caller and conversation, in memory and for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Gate;
use super::network::Reach;
use crate::allow_list::{AllowList, Entry, Pattern};
use crate::conversation::{Conversation, ConversationKey};
use crate::principal::Principal;
use crate::recent::{Bounds, Recent};

/// How long what was allowed holds.
pub(crate) const ALLOWED_FOR: Duration = Duration::from_hours(8);
/// How long nobody is asked again for what was refused.
const REFUSED_FOR: Duration = Duration::from_mins(10);
/// The same for a question that was closed without an answer.
const CLOSED_FOR: Duration = Duration::from_mins(1);
/// How long a question of an earlier call can be answered.
const QUESTION_FOR: Duration = Duration::from_mins(10);
/// Most hosts of one question: nobody reads more.
const MAX_ASKED: usize = 5;
/// Most conversations with answers.
const MAX_CONVERSATIONS: usize = 10_000;
/// Most hosts of one conversation.
const MAX_HOSTS: usize = 32;

/// What somebody said who was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    Allowed,
    Refused,
    /// Nothing: the question was closed, or nobody was there.
    Closed,
}

/// What people have answered. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Grants(Arc<Mutex<Recent<(Principal, ConversationKey), Answers>>>);

/// The answers of one caller for one conversation.
#[derive(Debug, Default)]
struct Answers {
    hosts: BTreeMap<Entry, (Consent, Instant)>,
    /// The latest question that its client was given to ask.
    question: Option<Question>,
    /// Held while somebody is asked, so that nobody is asked twice at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A question that a client was given to ask.
#[derive(Debug)]
struct Question {
    name: String,
    hosts: Vec<Entry>,
    /// Until when it may be answered.
    until: Instant,
}

impl Default for Grants {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Recent::new(Bounds {
            age: ALLOWED_FOR,
            count: MAX_CONVERSATIONS,
            bytes: 0,
        }))))
    }
}

impl Grants {
    /// Notes what a person has answered, in place of what they said before.
    pub(crate) fn note(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        hosts: &[Entry],
        consent: Consent,
    ) {
        let holds_for = match consent {
            Consent::Allowed => ALLOWED_FOR,
            Consent::Refused => REFUSED_FOR,
            Consent::Closed => CLOSED_FOR,
        };
        let until = Instant::now() + holds_for;
        self.of(caller, conversation, |answers| {
            let answered = hosts.iter().map(|host| (host.clone(), (consent, until)));
            answers.hosts.extend(answered);
        });
    }

    /// The hosts that were allowed to a caller's programs of a conversation.
    pub(crate) fn allowed(&self, caller: &Principal, conversation: &ConversationKey) -> Vec<Entry> {
        let mut all = self.0.lock();
        let Some(answers) = all.get(&(caller.clone(), conversation.clone())) else {
            return Vec::new();
        };
        let now = Instant::now();
        let allowed = answers.hosts.iter();
        let allowed = allowed
            .filter(|(_, (consent, until))| *consent == Consent::Allowed && *until > now)
            .map(|(host, _)| host.clone());
        allowed.collect()
    }

    /// A question that the caller's client is to ask, by a name that nobody guesses. It replaces an earlier one.
    pub(crate) fn question(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        hosts: &[Entry],
    ) -> String {
        let name = format!("reach_{}", hex::encode(rand::random::<[u8; 16]>()));
        let question = Question {
            name: name.clone(),
            hosts: hosts.to_vec(),
            until: Instant::now() + QUESTION_FOR,
        };
        self.of(caller, conversation, |answers| {
            answers.question = Some(question);
        });
        name
    }

    /// The name of the question that was put last, if it was for these hosts. It can be answered once.
    pub(crate) fn take_question(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        hosts: &[Entry],
    ) -> Option<String> {
        let question = self.of(caller, conversation, |answers| answers.question.take())?;
        (question.hosts == hosts && question.until > Instant::now()).then_some(question.name)
    }

    /// Whose turn it is to ask.
    pub(crate) fn turn(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
    ) -> Arc<tokio::sync::Mutex<()>> {
        self.of(caller, conversation, |answers| Arc::clone(&answers.turn))
    }

    /// Forgets all answers for a conversation.
    pub(crate) fn forget(&self, conversation: &ConversationKey) {
        let mut all = self.0.lock();
        let theirs = all.iter().filter(|((_, key), _)| key == conversation);
        let theirs: Vec<_> = theirs.map(|(id, _)| id.clone()).collect();
        for id in theirs {
            all.remove(&id);
        }
    }

    /// Whether nothing was answered for a host lately, and there is room for an answer.
    fn may_ask(&self, caller: &Principal, conversation: &ConversationKey, hosts: &[Entry]) -> bool {
        self.of(caller, conversation, |answers| {
            let now = Instant::now();
            answers.hosts.retain(|_, (_, until)| *until > now);
            answers.hosts.len() + hosts.len() <= MAX_HOSTS
                && !hosts.iter().any(|host| answers.hosts.contains_key(host))
        })
    }

    fn of<T>(
        &self,
        caller: &Principal,
        conversation: &ConversationKey,
        change: impl FnOnce(&mut Answers) -> T,
    ) -> T {
        let id = (caller.clone(), conversation.clone());
        let mut all = self.0.lock();
        all.update(id, Answers::default, |answers, _| change(answers))
    }
}

impl Gate {
    /// The hosts for which the person at a client has to be asked before a run that names these: hosts of which no list
    /// has anything. None if they may not be asked, or have answered lately. Only whoever has no list of their own can
    /// widen it.
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
        let (None, Reach::Listed(list)) =
            (&limits.network.allow, self.network.reach(&limits.network))
        else {
            return Vec::new();
        };
        let key = conversation.key();
        let allowed = self.grants.allowed(caller, key);
        let mut asked = Vec::new();
        for host in hosts.iter().filter_map(|host| host.parse::<Entry>().ok()) {
            let is_new = !list.covers(&host.pattern) && !allowed.contains(&host);
            if is_new && matches!(host.pattern, Pattern::Exact(_)) && !asked.contains(&host) {
                asked.push(host);
            }
        }
        let fits = asked.len() <= MAX_ASKED && {
            let more = AllowList::new(allowed.iter().chain(&asked).cloned());
            more.is_ok_and(|more| list.and(&more).is_ok())
        };
        if fits && self.grants.may_ask(caller, key, &asked) {
            asked
        } else {
            Vec::new()
        }
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
        grants.note(&callers[0], &keys[0], &asked, Consent::Allowed);
        grants.note(&callers[0], &keys[1], &asked[..1], Consent::Refused);
        let allowed =
            |caller: usize, key: usize| grants.allowed(&callers[caller], &keys[key]).len();
        assert_eq!([allowed(0, 0), allowed(0, 1), allowed(1, 0)], [2, 0, 0]);
        assert!(!grants.may_ask(&callers[0], &keys[1], &asked[..1]));
        assert!(grants.may_ask(&callers[1], &keys[1], &asked[..1]));
        grants.note(&callers[0], &keys[0], &asked[..1], Consent::Refused);
        assert_eq!(allowed(0, 0), 1);
        tokio::time::advance(REFUSED_FOR).await;
        assert!(grants.may_ask(&callers[0], &keys[1], &asked[..1]));
        tokio::time::advance(ALLOWED_FOR).await;
        assert_eq!(allowed(0, 0), 0);
        grants.note(&callers[0], &keys[0], &asked, Consent::Allowed);
        grants.forget(&keys[0]);
        assert_eq!(allowed(0, 0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_once_and_in_time() {
        let (grants, caller) = (Grants::default(), Principal::of_token("one"));
        let key = "a".repeat(64).parse::<ConversationKey>().unwrap();
        let [asked, other] = ["api.example.org", "evil.example"].map(|name| [host(name)]);
        let take = |hosts| grants.take_question(&caller, &key, hosts);
        assert_eq!(take(&asked), None);
        let name = grants.question(&caller, &key, &asked);
        assert_eq!([take(&asked), take(&asked)], [Some(name), None]);
        grants.question(&caller, &key, &asked);
        assert_eq!(take(&other), None);
        grants.question(&caller, &key, &asked);
        tokio::time::advance(QUESTION_FOR).await;
        assert_eq!(take(&asked), None);
    }
}
