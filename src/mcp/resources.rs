//! A conversation's files as resources: `sandbox://{conversationId}/{path}`.
//!
//! A client that knows the id of a conversation may read its files, and ids are never disclosed. So the list holds the
//! files of the conversations that this client has worked with, or of the one that the request names in
//! `_meta.conversationId`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use rmcp::service::{RequestContext, RoleServer};

use super::client::Client;
use super::error::{internal_error, no_resource};
use crate::conversation::ConversationId;
use crate::files::{ConversationFiles, FilesError, PICTURES};
use crate::links::ENCODED;
use crate::principal::Principal;

/// What all our addresses begin with.
const SCHEME: &str = "sandbox://";
/// Files in one list; `list_files` gives more.
const MAX_LISTED: usize = 1000;
/// Largest file that is read as a resource; larger ones have links.
const MAX_BYTES: u64 = 4 << 20;

/// The form of our addresses.
pub(super) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(format!("{SCHEME}{{conversationId}}/{{+path}}"), "file")
        .with_title("File of a conversation")
        .with_description(
            "A file that programs of the conversation see in /data. The conversationId is percent-encoded.",
        );
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// The files that the client may know about.
pub(super) async fn list(
    files: &ConversationFiles,
    caller: &Principal,
    client: &Client,
    context: &RequestContext<RoleServer>,
) -> Result<ListResourcesResult, ErrorData> {
    let named = context
        .meta
        .get("conversationId")
        .and_then(|id| id.as_str()?.parse().ok());
    let conversations = match named {
        Some(id) => vec![files.conversation(caller, id)],
        None => client.conversations(),
    };
    let mut resources = Vec::new();
    for id in conversations {
        let Ok(list) = files.list(&id).await else {
            continue;
        };
        let room = MAX_LISTED - resources.len();
        resources.extend(list.files.into_iter().take(room).map(|file| {
            Resource::new(address(id.id(), &file.name), &file.name)
                .with_mime_type(&file.mime_type)
                .with_size(file.size)
                .with_description(format!("Download: {}", file.url))
        }));
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

/// A file as text, or as base64 if it is not text.
pub(super) async fn read(
    files: &ConversationFiles,
    caller: &Principal,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let (id, name) = parse(uri)
        .ok_or_else(|| no_resource("it is not of the form sandbox://{conversationId}/{path}"))?;
    let conversation = files.conversation(caller, id);
    let (file, bytes) = match files.read_whole(&conversation, &name, MAX_BYTES).await {
        Ok(read) => read,
        Err(FilesError::NotFound(_) | FilesError::Path(_)) => {
            return Err(no_resource("the conversation has no such file"));
        }
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a resource could not be read"
            );
            return Err(internal_error());
        }
    };
    let Some(bytes) = bytes else {
        return Err(no_resource(&format!(
            "it is larger than {MAX_BYTES} bytes: download {}",
            file.url
        )));
    };
    let mime_type = mime_type(file.mime_type, &bytes);
    let contents = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => ResourceContents::text(text, uri),
        Ok(text) => ResourceContents::blob(STANDARD.encode(text), uri),
        Err(binary) => ResourceContents::blob(STANDARD.encode(binary.as_bytes()), uri),
    };
    Ok(ReadResourceResult::new(vec![
        contents.with_mime_type(mime_type),
    ]))
}

/// The type by the file's name, except that a picture's is by its content: clients show it to models, whose interfaces
/// refuse a picture of the wrong type.
fn mime_type(named: String, bytes: &[u8]) -> String {
    if !PICTURES.contains(&named.as_str()) {
        return named;
    }
    let found = infer::get(bytes).map_or("application/octet-stream", |kind| kind.mime_type());
    found.to_owned()
}

fn address(id: &str, name: &str) -> String {
    let id = utf8_percent_encode(id, ENCODED);
    let path: Vec<_> = name
        .split('/')
        .map(|part| utf8_percent_encode(part, ENCODED).to_string())
        .collect();
    format!("{SCHEME}{id}/{}", path.join("/"))
}

fn parse(uri: &str) -> Option<(ConversationId, String)> {
    let (id, path) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let decode = |text| percent_decode_str(text).decode_utf8().ok();
    Some((decode(id)?.parse().ok()?, decode(path)?.into_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_leads_back(id in "\\PC{1,40}", name in "(\\PC|[/ %?#]){1,40}") {
            let id: ConversationId = id.parse().unwrap();
            prop_assert_eq!(parse(&address(id.as_str(), &name)), Some((id, name)));
        }
    }

    #[test]
    fn other_addresses_lead_nowhere() {
        for uri in [
            "",
            "file:///etc/passwd",
            "sandbox://",
            "sandbox://demo",
            "sandbox:///a",
            "sandbox://%ff/a",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
    }
}
