//! What is demanded of a file before it is sent, replaced or deleted.

use std::time::{Duration, SystemTime};

use super::OpenFile;

/// A demand on the file that has a name now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// There is one.
    File,
    /// If there is one, it was not written to after the second that begins then.
    UnchangedSince(SystemTime),
    /// What no file is.
    Impossible,
}

impl Demand {
    /// Whether the file is so, or that there is none.
    pub fn is_met_by(self, file: Option<&OpenFile>) -> bool {
        match self {
            Self::File => file.is_some(),
            // A date that is not known is none to compare with.
            Self::UnchangedSince(since) => file
                .and_then(|file| file.modified)
                .is_none_or(|modified| is_within(modified, since)),
            Self::Impossible => false,
        }
    }
}

/// Whether a time is not after a date of whole seconds.
fn is_within(time: SystemTime, date: SystemTime) -> bool {
    let later = time.duration_since(date).unwrap_or_default();
    later < Duration::from_secs(1)
}
