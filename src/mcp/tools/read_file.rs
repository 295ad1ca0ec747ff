//! `read_file`: a piece of a conversation's file, as text, picture or base64.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{define, parse, structured};
use crate::api::arguments::whole;
use crate::api::error::CallError;
use crate::api::pictures::{self, Shown};
use crate::files::ConversationFiles;
use crate::files::{Piece, is_picture_name};
use crate::links::FileLink;
use crate::principal::Principal;

pub(super) const NAME: &str = "read_file";

/// What is read when the caller gives no length. In base64 this is 20,000 tokens at most, where clients refuse an
/// answer of more than 25,000.
const DEFAULT_LENGTH: u64 = 24 << 10;
/// How many characters of an answer Claude Code passes on to its model, if the tool says so: this is the most that it
/// grants (code.claude.com/docs/en/mcp, "Raise the limit for a specific tool"). A caller that asks for more than the
/// default wants all of it.
const MAX_RESULT_CHARS: (&str, u32) = ("anthropic/maxResultSizeChars", 500_000);
/// When it is worth trying again after a picture was not ready in time.
const AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// Names the conversation.
    conversation_id: String,
    /// Name of the file as `list_files` gives it.
    filename: String,
    /// First byte to read; 0 when left out.
    #[serde(default, deserialize_with = "whole")]
    offset: u64,
    /// How many bytes to read, at most 262144; 24576 when left out.
    #[serde(default = "default_length", deserialize_with = "whole")]
    length: u64,
}

fn default_length() -> u64 {
    DEFAULT_LENGTH
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names that clients see")]
struct Content {
    success: bool,
    file: FileLink,
    /// Where the piece begins in the file.
    offset: u64,
    /// How many bytes of the file it is.
    length: u64,
    /// How `content` is written: `utf-8`, `base64`, or `image` when the picture follows as image content.
    encoding: Encoding,
    /// The piece itself; empty for a picture.
    content: String,
    /// Whether the file goes on after the piece.
    more: bool,
    /// The offset to read on at; missing at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// What there is to know about the picture, such as that it was scaled down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
enum Encoding {
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
    #[serde(rename = "image")]
    Image,
}

pub(super) fn tool() -> Tool {
    let description = "Reads a file of a conversation: text as text, pictures (PNG, JPEG, GIF, WebP, scaled down when \
        large) as pictures, anything else as base64. 24 KiB a call, or up to 256 KiB with length; read on at \
        nextOffset, or analyse large files with a program. Example: {\"conversationId\": \"conv_1f…\", \"filename\": \"result.csv\"}";
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    let (name, max_chars) = MAX_RESULT_CHARS;
    let meta = MetaObject(JsonObject::from_iter([(name.to_owned(), max_chars.into())]));
    define::<Arguments, Content>(NAME, "Read a file", description.to_owned(), annotations)
        .with_meta(meta)
}

pub(super) async fn call(
    files: &ConversationFiles,
    caller: &Principal,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let conversation = files.conversation(caller, arguments.conversation_id.parse()?);
    let name = &arguments.filename;
    if arguments.offset == 0 && is_picture_name(name) {
        let picture = pictures::of_file(files, &conversation, name).await;
        // As base64 it would tell a model nothing.
        let late = |_| CallError::busy("the picture was not ready in time", AGAIN);
        if let Some((file, shown)) = picture.map_err(late)? {
            return Ok(render_picture(file, shown));
        }
    }
    let piece = files
        .read(&conversation, name, arguments.offset, arguments.length)
        .await?;
    Ok(render(piece))
}

/// A picture is always the whole of its file.
fn render_picture(file: FileLink, shown: Shown) -> CallToolResult {
    let notes: Vec<_> = shown.note().into_iter().collect();
    let mut result = structured(&Content {
        success: true,
        offset: 0,
        length: file.size,
        encoding: Encoding::Image,
        content: String::new(),
        more: false,
        next_offset: None,
        notes: notes.clone(),
        file,
    });
    let picture = ContentBlock::image(shown.data, shown.mime_type);
    result.content.push(picture);
    result
        .content
        .extend(notes.into_iter().map(ContentBlock::text));
    result
}

fn render(mut piece: Piece) -> CallToolResult {
    let more_follows = piece.offset + (piece.bytes.len() as u64) < piece.file.size;
    if more_follows {
        drop_split_character(&mut piece.bytes);
    }
    let length = piece.bytes.len() as u64;
    let (encoding, content) = match String::from_utf8(piece.bytes) {
        Ok(text) if !text.contains('\0') => (Encoding::Utf8, text),
        Ok(text) => (Encoding::Base64, STANDARD.encode(text)),
        Err(binary) => (Encoding::Base64, STANDARD.encode(binary.as_bytes())),
    };
    let more = piece.offset + length < piece.file.size;
    structured(&Content {
        success: true,
        offset: piece.offset,
        length,
        encoding,
        content,
        more,
        next_offset: more.then_some(piece.offset + length),
        notes: Vec::new(),
        file: piece.file,
    })
}

/// Cuts off the beginning of a character whose rest comes with the next piece.
fn drop_split_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
}
