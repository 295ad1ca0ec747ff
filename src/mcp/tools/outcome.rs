//! The answer about a run: its outcome, then its new pictures, what there is to know about them, and links to its new
//! files.

use rmcp::model::{CallToolResult, ContentBlock, ProtocolVersion, Resource};

use super::{Call, structured};
use crate::api::outcome::RunOutcome;
use crate::api::pictures::{self, Pictures};
use crate::ledger::RunHandle;
use crate::links::FileLink;

/// Links in one answer; `files` has them all.
const MAX_LINKS: usize = 20;

/// The whole answer.
pub(super) async fn answer(
    call: &Call<'_>,
    run: &RunHandle,
    outcome: &RunOutcome,
) -> CallToolResult {
    let new: Vec<_> = outcome.files.iter().filter(|file| file.new).collect();
    let pictures = pictures::of_run(
        &call.services.files,
        &run.conversation,
        outcome.status,
        &new,
    )
    .await;
    let (scaled, missing) = (pictures.scaled(), pictures.missing());
    let links: Vec<_> = if gets_links(call) {
        new.iter()
            .take(MAX_LINKS)
            .map(|file| link(file, note(&pictures, file)))
            .collect()
    } else {
        // In words where there are no links.
        scaled.iter().map(ContentBlock::text).collect()
    };
    let mut notes = outcome.notes.clone();
    notes.extend(scaled);
    notes.extend(missing.clone());
    // In the object too: some clients show their models nothing else.
    let mut result = structured(&RunOutcome {
        notes,
        ..outcome.clone()
    });
    let shown = pictures.shown.into_iter();
    result
        .content
        .extend(shown.map(|(_, shown)| ContentBlock::image(shown.data, shown.mime_type)));
    let sentences = outcome.notes.iter().cloned().chain(missing);
    result.content.extend(sentences.map(ContentBlock::text));
    result.content.extend(links);
    result
}

/// Links came with revision 2025-06-18; clients of older ones refuse a result that has any. A request that names no
/// revision does not come from such a client.
fn gets_links(call: &Call<'_>) -> bool {
    let version = call.context.protocol_version();
    let knows_links = !call.caller.names_revision
        || version.is_none_or(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str());
    knows_links && call.answers.resource_links
}

fn note(pictures: &Pictures, file: &FileLink) -> Option<String> {
    let (_, shown) = pictures.shown.iter().find(|(name, _)| *name == file.name)?;
    shown.note()
}

fn link(file: &FileLink, note: Option<String>) -> ContentBlock {
    let resource = Resource::new(&file.url, &file.name)
        .with_mime_type(&file.mime_type)
        .with_size(file.size);
    ContentBlock::resource_link(match note {
        Some(note) => resource.with_description(note),
        None => resource,
    })
}
