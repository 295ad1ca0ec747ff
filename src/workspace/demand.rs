//! What is demanded of a file before it is sent, replaced or deleted.

use std::time::{Duration, SystemTime};

use super::open::OpenFile;

/// A demand on the file that currently has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// There is one.
    File,
    /// If there is one, it was not written to after the second that begins then.
    UnchangedSince(SystemTime),
    /// No file can meet it.
    Impossible,
}

impl Demand {
    /// Whether the file, or the absence of one, meets the demand.
    pub fn is_met_by(self, file: Option<&OpenFile>) -> bool {
        match self {
            Self::File => file.is_some(),
            // An unknown date cannot be compared.
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
