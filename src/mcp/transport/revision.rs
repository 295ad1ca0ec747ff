//! Revisions of the protocol, as requests name them.

use axum::http::HeaderMap;
use rmcp::model::ProtocolVersion;

use super::envelope::EnvelopeError;
use super::message::Message;

/// The header that names the revision of a request.
pub(super) const REVISION: &str = "mcp-protocol-version";
/// Revisions in which several messages may come at once: the first ones are plain JSON-RPC, which has batches, and
/// later ones took them away.
const WITH_BATCHES: &[ProtocolVersion] =
    &[ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26];

/// The revision that a request names.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(REVISION)?.to_str().ok()
}

/// Whether a client of this revision may send several messages at once. Those that have batches had no way to name a
/// revision, so a request that names none may have one too.
pub(super) fn has_batches(revision: Option<&str>) -> bool {
    revision.is_none_or(|name| WITH_BATCHES.iter().any(|known| known.as_str() == name))
}

/// The revision that a session will speak whose client asked for this one.
pub(super) fn negotiated(asked: &ProtocolVersion) -> ProtocolVersion {
    if asked.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(asked) {
        asked.clone()
    } else {
        ProtocolVersion::LATEST_WITH_INITIALIZE
    }
}

/// Refuses a request of a revision that we do not know. One that names its revision in the message too is answered by
/// its handler, as that revision asks for.
pub(super) fn check(headers: &HeaderMap, message: Option<&Message>) -> Result<(), EnvelopeError> {
    let Some(value) = headers.get(REVISION) else {
        return Ok(());
    };
    let name = String::from_utf8_lossy(value.as_bytes());
    let known = || {
        ProtocolVersion::KNOWN_VERSIONS
            .iter()
            .map(ProtocolVersion::as_str)
    };
    if known().any(|known| known == name) || message.is_some_and(Message::names_revision) {
        return Ok(());
    }
    Err(EnvelopeError::UnknownRevision {
        id: message.and_then(Message::id_as_json),
        name: name.chars().take(64).collect(),
        known: known().collect::<Vec<_>>().join(", "),
    })
}
