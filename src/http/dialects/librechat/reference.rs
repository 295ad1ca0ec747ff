//! What sessions and files are called. Both names have 21 characters, which LibreChat checks before it passes one on.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::not_found;
use crate::conversation::{Conversation, ConversationId};
use crate::files::FilesError;
use crate::http::rest::ApiError;
use crate::links::FileLink;
use crate::principal::Principal;
use crate::services::Services;
use crate::workspace::OpenFile;

/// Characters of a name.
const LENGTH: usize = 21;
/// What names of sessions begin with whose files are read only, and no others.
const READ_ONLY: &str = "-";

/// A file of an earlier program or upload that the next program is to have.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FileRef {
    pub(super) id: String,
    /// The session that it is in. Older clients call it otherwise.
    #[serde(alias = "session_id")]
    pub(super) storage_session_id: String,
    /// Where the program sees it, below its directory.
    pub(super) name: String,
}

impl FileRef {
    /// Whether it stays as it was uploaded, whatever a program does to its copy.
    pub(super) fn is_read_only(&self) -> bool {
        is_read_only(&self.storage_session_id)
    }
}

/// What may be done to the files of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Use {
    #[default]
    Any,
    /// They are copied for programs, which leave no others in their place.
    ReadOnly,
}

/// A new session: a conversation that nobody can guess, and that is one of this caller's.
pub(super) fn new_session(
    services: &Services,
    caller: &Principal,
    allowed: Use,
) -> Result<Conversation, ApiError> {
    session(services, caller, &new_name(allowed))
}

/// 120 random bits, after what says how they may be used.
fn new_name(allowed: Use) -> String {
    let mut name = shortened(&rand::random::<[u8; 16]>());
    let first = match allowed {
        Use::ReadOnly => READ_ONLY,
        Use::Any if name.starts_with(READ_ONLY) => "A",
        Use::Any => return name,
    };
    name.replace_range(..1, first);
    name
}

/// Whether the files of the session of this name are read only.
pub(super) fn is_read_only(session: &str) -> bool {
    session.starts_with(READ_ONLY)
}

/// What a program that waits is called.
pub(super) fn new_token() -> String {
    shortened(&rand::random::<[u8; 16]>())
}

/// The session of this name. One of somebody else's is another one under the same name, which has no files.
pub(super) fn session(
    services: &Services,
    caller: &Principal,
    name: &str,
) -> Result<Conversation, ApiError> {
    if !is_name(name) {
        return Err(ApiError(not_found("there is no such session")));
    }
    let id: ConversationId = name
        .parse()
        .map_err(|_| ApiError(not_found("there is no such session")))?;
    Ok(services.files.conversation(caller, id))
}

/// What a file of a session is called: the same as long as it is there.
pub(super) fn file_id(session: &Conversation, path: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(session.id().as_bytes());
    hasher.update([0]);
    hasher.update(path.as_bytes());
    shortened(&hasher.finalize())
}

/// The files of sessions, each listed once.
#[derive(Debug, Default)]
pub(super) struct Listings(HashMap<String, Vec<FileLink>>);

impl Listings {
    /// The file of a session that is called so.
    ///
    /// # Errors
    /// There is none, or trouble with the storage.
    pub(super) async fn open(
        &mut self,
        services: &Services,
        session: &Conversation,
        id: &str,
    ) -> Result<(FileLink, OpenFile), FilesError> {
        if !self.0.contains_key(session.id()) {
            let listed = services.files.list(session).await?.files;
            self.0.insert(session.id().to_owned(), listed);
        }
        let mut listed = self.0[session.id()].iter();
        let found = listed.find(|file| file_id(session, &file.name) == id);
        let found = found.ok_or_else(|| FilesError::NotFound(id.chars().take(LENGTH).collect()))?;
        services.files.open(session, &found.name).await
    }
}

fn shortened(bytes: &[u8]) -> String {
    let mut name = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    name.truncate(LENGTH);
    name
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    text.len() == LENGTH && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_names_are_as_the_client_checks(bytes in proptest::collection::vec(any::<u8>(), 16..64)) {
            prop_assert!(is_name(&shortened(&bytes)));
        }
    }

    #[test]
    fn the_name_of_a_session_says_how_it_may_be_used() {
        for _ in 0..1000 {
            let names = [Use::Any, Use::ReadOnly].map(new_name);
            assert!(names.iter().all(|name| is_name(name)), "{names:?}");
            assert_eq!(
                names.each_ref().map(|name| is_read_only(name)),
                [false, true]
            );
        }
    }

    #[test]
    fn nothing_else_is_a_name() {
        for text in [
            "",
            "short",
            "../../../../etc/passw",
            "aaaaaaaaaaaaaaaaaaaaé",
            "aaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert!(!is_name(text), "{text}");
        }
    }
}
