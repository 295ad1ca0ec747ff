//! A request to run a program.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allow_list::Entry;
use crate::conversation::Conversation;
use crate::gate::Asked;
use crate::sandbox::RecordMark;

/// A request to run a program.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The conversation whose files it sees.
    pub conversation: Conversation,
    /// Language or alias.
    pub language: String,
    /// Source code.
    pub code: String,
    /// What it reads from its standard input.
    pub stdin: Option<String>,
    /// Whether it may use the network.
    pub network: bool,
    /// The listed hosts that it may reach there; none means all of them.
    pub hosts: Vec<String>,
    /// Hosts that a person has allowed to it beside the listed ones. The ledger sets it.
    pub granted: Vec<Entry>,
    /// The variables of the secrets that it may use there.
    pub secrets: Vec<String>,
    /// The caller's environment variables.
    pub environment: BTreeMap<String, String>,
    /// Time limit; `None` means the configured one.
    pub timeout: Option<Duration>,
    /// How the caller could have given another one, for advice; `None` where that is not possible.
    pub time_argument: Option<TimeArgument>,
    /// Whether it runs in the conversation's kernel of this language, where variables live on.
    pub stateful: bool,
    /// How it wants that kernel. Ignored unless `stateful`.
    pub kernel: KernelWish,
}

impl RunRequest {
    /// A program with nothing but the usual limits: no input, no network, no variables kept.
    pub fn plain(conversation: Conversation, language: &str, code: String) -> Self {
        Self {
            conversation,
            language: language.to_owned(),
            code,
            stdin: None,
            network: false,
            hosts: Vec::new(),
            granted: Vec::new(),
            secrets: Vec::new(),
            environment: BTreeMap::new(),
            timeout: None,
            time_argument: None,
            stateful: false,
            kernel: KernelWish::default(),
        }
    }

    /// What it asks for of the network, if it does.
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.network.then(|| Asked {
            hosts: self.hosts.clone(),
            granted: self.granted.clone(),
            secrets: self.secrets.clone(),
        })
    }
}

/// What the argument for a time limit is called where a run was requested, and the most that it accepts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeArgument {
    /// Its name.
    pub name: &'static str,
    /// The longest time limit.
    pub max: Duration,
}

/// How a stateful run wants its kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWish {
    /// Whether it waits its turn while another run has the kernel, instead of being refused.
    pub wait: bool,
    /// Whether it wants a new kernel, and an existing one to be ended.
    pub restart: bool,
    /// Which one, if its client has several of one language.
    pub number: u32,
    /// What records of the cell begin with, if its caller reads them with
    /// [`CellEvents`](crate::ledger::CellEvents).
    pub records: Option<RecordMark>,
}

/// The time limit that a caller gave in `seconds`. Tiny values count as a millisecond, so that it is never zero. `None`
/// when it is not greater than 0 or exceeds `max`, by however little, so that what the schemas say holds.
#[must_use]
pub fn time_limit(seconds: f64, max: Duration) -> Option<Duration> {
    // Compared as given: a duration is rounded to nanoseconds.
    let allowed = seconds > 0.0 && seconds <= max.as_secs_f64();
    let limit = Duration::try_from_secs_f64(seconds).ok()?;
    allowed.then(|| limit.max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_within_its_bounds_as_it_was_given() {
        let limit = |seconds| time_limit(seconds, Duration::from_mins(2));
        let refused = [0.0, -1.0, 120.000_000_000_000_01, 1e300, f64::NAN];
        assert_eq!(refused.map(limit), [None; 5]);
        assert_eq!(
            [1e-12, 0.25, 120.0].map(limit),
            [1, 250, 120_000].map(|ms| Some(Duration::from_millis(ms)))
        );
    }
}
