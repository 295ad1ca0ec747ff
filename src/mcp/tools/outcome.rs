//! The answer about a run: its outcome, then its new pictures, which of them were not ready, and links to its new
//! files.

use rmcp::model::{CallToolResult, ContentBlock, ProtocolVersion, Resource};

use super::{Call, structured};
use crate::mcp::pictures::{self, Pictures};
use crate::run::outcome::{FileLink, RunOutcome};

/// Links in one answer; `files` has them all.
const MAX_LINKS: usize = 20;

/// The whole answer.
pub(super) async fn answer(call: &Call<'_>, outcome: &RunOutcome) -> CallToolResult {
    let mut result = structured(outcome);
    let new: Vec<_> = outcome.files.iter().filter(|file| file.new).collect();
    let Pictures { shown, late } = match outcome.conversation_id.parse() {
        Ok(id) => pictures::of_run(call.runs, &id, outcome.status, &new).await,
        Err(_) => Pictures::default(),
    };
    let note = |file: &FileLink| {
        let (_, shown) = shown.iter().find(|(name, _)| *name == file.name)?;
        shown.note()
    };
    let links: Vec<_> = if understands_links(call) {
        new.iter()
            .take(MAX_LINKS)
            .map(|file| link(file, note(file)))
            .collect()
    } else {
        // In words where there are no links.
        let notes = new
            .iter()
            .filter_map(|file| Some(format!("{}: {}", file.name, note(file)?)));
        notes.map(ContentBlock::text).collect()
    };
    result.content.extend(
        shown
            .into_iter()
            .map(|(_, shown)| ContentBlock::image(shown.data, shown.mime_type)),
    );
    let late = (!late.is_empty()).then(|| {
        // Programs choose names: with a line break, one could say more than a name.
        ContentBlock::text(format!(
            "Not ready in time to be shown: {late:?}. read_file shows them."
        ))
    });
    result.content.extend(late);
    result.content.extend(links);
    result
}

/// Links came with revision 2025-06-18; clients of older ones refuse a result that has any. A request that names no
/// revision does not come from such a client.
fn understands_links(call: &Call<'_>) -> bool {
    let version = call.context.protocol_version();
    !call.caller.names_revision
        || version.is_none_or(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
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
