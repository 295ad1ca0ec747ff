//! What a cell does, as the lines of JSON that clients read.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::conversation::Conversation;
use crate::executor::Stream;
use crate::files::ConversationFiles;
use crate::ledger::{CellEvent, CellEvents, CellFailure};
use crate::sandbox::{Form, Forms};

/// How often a silent cell shows that it is alive.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Bytes of a picture.
const MAX_PICTURE: u64 = 12 << 20;
/// What clients call the forms that they know.
const NAMES: [(&str, &str); 10] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("text/latex", "latex"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
];

/// The lines of one cell.
pub(super) struct Lines {
    events: CellEvents,
    conversation: Conversation,
    stage: Stage,
}

/// What comes next.
enum Stage {
    /// The number of the cell.
    Count(u64),
    Events,
    Over,
}

impl Lines {
    pub(super) fn new(events: CellEvents, conversation: Conversation, count: u64) -> Self {
        Self {
            events,
            conversation,
            stage: Stage::Count(count),
        }
    }

    /// The next line, with its line break.
    pub(super) async fn next(&mut self, files: &ConversationFiles) -> Option<Bytes> {
        let line = match self.stage {
            Stage::Count(count) => {
                self.stage = Stage::Events;
                json!({ "type": "number_of_executions", "execution_count": count })
            }
            Stage::Events => match timeout(KEEPALIVE, self.events.next()).await {
                Err(_) => json!({ "type": "keepalive" }),
                Ok(Some(event)) => self.told(files, event).await,
                Ok(None) => {
                    self.stage = Stage::Over;
                    json!({ "type": "end_of_execution" })
                }
            },
            Stage::Over => return None,
        };
        Some(format!("{line}\n").into())
    }

    async fn told(&self, files: &ConversationFiles, event: CellEvent) -> Value {
        match event {
            CellEvent::Printed(stream, text) => printed(stream, &text),
            // Nobody here answers it.
            CellEvent::Called(_) => json!({ "type": "keepalive" }),
            CellEvent::Displayed(forms) => self.shown(files, forms, false).await,
            CellEvent::Returned(forms) => self.shown(files, forms, true).await,
            CellEvent::Failed(CellFailure {
                name,
                value,
                traceback,
            }) => json!({ "type": "error", "name": name, "value": value, "traceback": traceback }),
        }
    }

    /// Something that is shown, in all its forms.
    async fn shown(&self, files: &ConversationFiles, forms: Forms, is_main: bool) -> Value {
        let (mut line, mut extra) = (Map::new(), Map::new());
        for (kind, form) in forms {
            let data = match form {
                Form::Data(data) => Some(data),
                Form::File(name) => self.picture(files, &kind, &name).await,
            };
            let Some(data) = data else {
                continue;
            };
            match NAMES.iter().find(|(known, _)| *known == kind) {
                Some((_, name)) => drop(line.insert((*name).to_owned(), data)),
                None => drop(extra.insert(kind, data)),
            }
        }
        if !extra.is_empty() {
            line.insert("extra".to_owned(), extra.into());
        }
        line.insert("type".to_owned(), json!("result"));
        line.insert("is_main_result".to_owned(), json!(is_main));
        line.into()
    }

    /// The content of a picture that the kernel has saved: that of a drawing is text.
    async fn picture(&self, files: &ConversationFiles, kind: &str, name: &str) -> Option<Value> {
        let read = files.read_whole(&self.conversation, name, MAX_PICTURE);
        let bytes = read.await.ok()?.1?;
        if kind == "image/svg+xml" {
            return String::from_utf8(bytes).ok().map(Value::from);
        }
        Some(BASE64_STANDARD.encode(bytes).into())
    }
}

fn printed(stream: Stream, text: &str) -> Value {
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    json!({ "type": stream.as_str(), "text": text, "timestamp": now })
}
