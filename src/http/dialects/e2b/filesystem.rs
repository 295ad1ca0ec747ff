//! The methods of `filesystem.Filesystem`: what there is by name, and folders.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::{Extension, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::nothing;
use super::paths::{self, from_files};
use super::sandboxes::Sandbox;
use crate::api::code::Code;
use crate::conversation::Conversation;
use crate::http::HttpState;
use crate::http::dialects::fields::Fields;
use crate::http::rest::{ApiError, FromCaller};
use crate::workspace::path::RelativePath;
use crate::workspace::{Entry, EntryKind};

/// One name, and how many levels are wanted below it.
#[derive(Debug, Deserialize)]
pub(super) struct At {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: usize,
}

/// A name and the one that it is to become.
#[derive(Debug, Deserialize)]
pub(super) struct FromTo {
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

pub(super) async fn list(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(at): Fields<At>,
) -> Result<Json<Value>, ApiError> {
    let folder = paths::named(&at.path)?;
    let files = &state.0.services.files;
    let listed = files.list_folder(&sandbox.conversation, folder.as_ref(), at.depth.max(1));
    let entries = listed.await.map_err(from_files)?;
    let entries: Vec<_> = entries.iter().map(row).collect();
    Ok(Json(json!({ "entries": entries })))
}

pub(super) async fn stat(
    State(state): State<HttpState>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(at): Fields<At>,
) -> Result<Json<Value>, ApiError> {
    match paths::named(&at.path)? {
        None => Ok(Json(json!({ "entry": home(&sandbox) }))),
        Some(path) => described(&state, &sandbox.conversation, &path).await,
    }
}

pub(super) async fn make(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(at): Fields<At>,
) -> Result<Json<Value>, ApiError> {
    let there = || ApiError::new(Code::FileExists, "there is a folder of that name already");
    let path = paths::named(&at.path)?.ok_or_else(there)?;
    let conversations = &state.0.services.conversations;
    let made = conversations.make_folder(&origin, &sandbox.conversation, &path);
    if !made.await.map_err(from_files)? {
        return Err(there());
    }
    described(&state, &sandbox.conversation, &path).await
}

pub(super) async fn rename(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(names): Fields<FromTo>,
) -> Result<Json<Value>, ApiError> {
    let path = paths::inside(&names.source)?;
    let new = paths::inside(&names.destination)?;
    let (conversations, id) = (&state.0.services.conversations, &sandbox.conversation);
    let renamed = conversations.rename(&origin, id, &path, &new).await;
    renamed.map_err(from_files)?;
    described(&state, id, &new).await
}

pub(super) async fn remove(
    State(state): State<HttpState>,
    FromCaller(origin): FromCaller,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Fields(at): Fields<At>,
) -> Result<Json<Value>, ApiError> {
    let path = paths::inside(&at.path)?;
    let conversations = &state.0.services.conversations;
    let removed = conversations.remove(&origin, &sandbox.conversation, &path);
    removed.await.map_err(from_files)?;
    Ok(nothing())
}

async fn described(
    state: &HttpState,
    conversation: &Conversation,
    path: &RelativePath,
) -> Result<Json<Value>, ApiError> {
    let entry = state.0.services.files.look(conversation, path).await;
    let entry = entry.map_err(from_files)?;
    Ok(Json(json!({ "entry": row(&entry) })))
}

/// An entry, with 64-bit numbers as strings.
fn row(entry: &Entry) -> Value {
    let (kind, letter) = match entry.kind {
        EntryKind::File => ("FILE_TYPE_FILE", '-'),
        EntryKind::Folder => ("FILE_TYPE_DIRECTORY", 'd'),
        EntryKind::Link => ("FILE_TYPE_SYMLINK", 'l'),
    };
    json!({
        "name": entry.path.file_name(),
        "type": kind,
        "path": paths::shown(entry.path.as_str()),
        "size": entry.size.to_string(),
        "mode": entry.mode,
        "permissions": permissions(letter, entry.mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": written(entry.modified.unwrap_or(SystemTime::UNIX_EPOCH)),
    })
}

/// The home is always there, though no program may have needed it yet.
fn home(sandbox: &Sandbox) -> Value {
    json!({
        "name": "user",
        "type": "FILE_TYPE_DIRECTORY",
        "path": paths::HOME,
        "size": "0",
        "mode": 0o700,
        "permissions": permissions('d', 0o700),
        "owner": "user",
        "group": "user",
        "modifiedTime": written(sandbox.started),
    })
}

/// As `ls` shows them.
fn permissions(letter: char, mode: u32) -> String {
    let bit = |at: u32| mode & (1 << (8 - at)) != 0;
    let bits = "rwxrwxrwx".chars().zip(0..);
    let bits = bits.map(|(letter, at)| if bit(at) { letter } else { '-' });
    std::iter::once(letter).chain(bits).collect()
}

fn written(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_written_as_people_read_them() {
        assert_eq!(permissions('-', 0o644), "-rw-r--r--");
        assert_eq!(permissions('d', 0o750), "drwxr-x---");
    }
}
