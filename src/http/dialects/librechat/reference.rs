//! What sessions and files are called. Both names have 21 characters, which LibreChat checks before it passes one on.

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

/// A new session: a conversation that nobody can guess, and that is one of this caller's.
pub(super) fn new_session(
    services: &Services,
    caller: &Principal,
) -> Result<Conversation, ApiError> {
    session(services, caller, &shortened(&rand::random::<[u8; 16]>()))
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

/// The file of a session that is called so.
///
/// # Errors
/// There is none, or trouble with the storage.
pub(super) async fn open(
    services: &Services,
    session: &Conversation,
    id: &str,
) -> Result<(FileLink, OpenFile), FilesError> {
    let listed = services.files.list(session).await?.files;
    let found = listed
        .into_iter()
        .find(|file| file_id(session, &file.name) == id);
    let found = found.ok_or_else(|| FilesError::NotFound(id.chars().take(LENGTH).collect()))?;
    services.files.open(session, &found.name).await
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
