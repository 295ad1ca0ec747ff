//! What a cell shows, in the forms of a notebook, and small enough for its clients: they refuse messages of more than
//! 1 MiB, of which the code is told nothing.

use serde_json::{Map, Value};

use crate::api::pictures;
use crate::conversation::Conversation;
use crate::files::ConversationFiles;
use crate::sandbox::{Form, Forms};

/// Bytes of all forms together, in JSON.
const MAX_BYTES: usize = 850 << 10;
/// Bytes of a picture in base64.
const MAX_PICTURE: usize = 640 << 10;
/// What every client can show.
const TEXT: &str = "text/plain";

/// The forms of what is shown. Pictures come from the files that their kernel has saved them to, and are scaled down to
/// what fits. What is too large otherwise is left out, or cut if it is the text.
pub(super) async fn bundle(
    files: &ConversationFiles,
    conversation: &Conversation,
    forms: Forms,
) -> Value {
    let mut all = Map::new();
    for (name, form) in forms {
        match form {
            Form::Data(value) => drop(all.insert(name, value)),
            Form::File(file) if name == "image/svg+xml" => {
                all.extend(
                    drawing(files, conversation, &file)
                        .await
                        .map(|svg| (name, svg)),
                );
            }
            Form::File(file) => {
                let shown = pictures::as_png(files, conversation, &file, MAX_PICTURE).await;
                all.extend(shown.map(|shown| (shown.mime_type.to_owned(), shown.data.into())));
            }
        }
    }
    fit(&mut all);
    Value::Object(all)
}

async fn drawing(
    files: &ConversationFiles,
    conversation: &Conversation,
    file: &str,
) -> Option<Value> {
    let read = files.read_whole(conversation, file, MAX_BYTES as u64).await;
    let (_, bytes) = read.ok()?;
    Some(String::from_utf8(bytes?).ok()?.into())
}

/// Leaves out the largest forms until the rest fits.
fn fit(all: &mut Map<String, Value>) {
    let size = |value: &Value| value.to_string().len();
    while all.values().map(size).sum::<usize>() > MAX_BYTES {
        let others = all.iter().filter(|(name, _)| *name != TEXT);
        let largest = others.max_by_key(|(_, value)| size(value));
        let Some(name) = largest.map(|(name, _)| name.clone()) else {
            let text = all[TEXT].as_str().unwrap_or_default();
            all.insert(TEXT.to_owned(), cut(text, MAX_BYTES / 8).into());
            return;
        };
        all.remove(&name);
    }
}

/// The beginning of a text, of at most so many bytes.
pub(super) fn cut(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max_bytes)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_forms_are_left_out_and_the_text_is_kept() {
        let mut all = Map::from_iter([
            (TEXT.to_owned(), Value::from("t")),
            ("text/html".to_owned(), Value::from("h".repeat(MAX_BYTES))),
            ("image/png".to_owned(), Value::from("p")),
        ]);
        fit(&mut all);
        assert_eq!(all.keys().collect::<Vec<_>>(), [TEXT, "image/png"]);
        let mut text = Map::from_iter([(TEXT.to_owned(), Value::from("\0".repeat(MAX_BYTES)))]);
        fit(&mut text);
        assert!(text[TEXT].to_string().len() <= MAX_BYTES);
    }
}
