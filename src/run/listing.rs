//! The files that an answer lists after a run.

use tracing::warn;

use super::outcome::Outcome;
use crate::conversation::ConversationKey;
use crate::files::fitting;
use crate::links::FileLinks;
use crate::workspace::{Listing, WorkspaceError};

/// The most files that an answer lists, of those that the run made or changed and of others; `list_files` gives the
/// rest.
const MAX_NEW: usize = 100;
const MAX_OTHER: usize = 12;

impl Outcome {
    /// Adds the files that exist after a run. If they could not be listed, the program has run all the same.
    pub(super) fn list(
        &mut self,
        links: &FileLinks,
        key: &ConversationKey,
        listing: Result<Listing, WorkspaceError>,
    ) {
        let mut listing = match listing {
            Ok(listing) => listing,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    conversation.key = key.short(),
                    error, "did not see the files after a run"
                );
                (self.hint.is_unlisted, self.files_truncated) = (true, true);
                return;
            }
        };
        // New files first; otherwise by name, as they were.
        listing.files.sort_by_key(|file| !file.new);
        let new = listing.files.iter().filter(|file| file.new).count();
        // Others only if no new one is left out.
        let max_files = if new > MAX_NEW {
            MAX_NEW
        } else {
            new + MAX_OTHER
        };
        let files = listing.files.iter().take(max_files);
        let mut files: Vec<_> = files
            .map(|file| crate::files::link(links, key, file))
            .collect();
        files.truncate(fitting(&files));
        self.files_left_out = listing.files.len() - files.len();
        self.files_truncated = listing.truncated.is_some() || self.files_left_out > 0;
        self.files = files;
    }
}
