//! Why an engine does not do what it is asked to, in words, and whether waiting helps.

use std::fmt;

use super::{ErrorKind, ExecutorError};

/// Why an engine does not do what it is asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// In words, with what an operator can do about it if that is known.
    pub reason: String,
    /// Whether it stays like this until an operator does something.
    pub lasts: bool,
}

impl Outage {
    /// One that may be over soon.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            lasts: false,
        }
    }

    /// What an error of an executor means. Where nothing listens, an engine that answered before is `restarting`.
    pub fn of(error: &ExecutorError, restarting: bool) -> Self {
        Self {
            reason: chain(error),
            lasts: match error.kind {
                ErrorKind::Unusable => true,
                ErrorKind::Absent => !restarting,
                ErrorKind::Unavailable
                | ErrorKind::NotFound
                | ErrorKind::Conflict
                | ErrorKind::Refused
                | ErrorKind::Again
                | ErrorKind::Full
                | ErrorKind::NoNode => false,
            },
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

/// An error with its causes, in one line. A cause that the error before it has told already is left out.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut messages: Vec<String> = Vec::new();
    for cause in causes.map(ToString::to_string) {
        if messages.last().is_none_or(|last| !last.ends_with(&cause)) {
            messages.push(cause);
        }
    }
    messages.join(": ")
}
