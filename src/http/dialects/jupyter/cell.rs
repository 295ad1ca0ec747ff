//! One cell, from its request to the messages that answer it: `busy`, what it shows, the reply, and `idle`, which always
//! comes.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::bundle::{bundle, cut};
use super::kernels::Kernel;
use super::message::{Message, Request};
use crate::audit::Origin;
use crate::executor::Stream;
use crate::files::ConversationFiles;
use crate::ledger::{CellEvent, CellEvents, CellFailure};
use crate::run::{KernelWish, RunRequest};
use crate::sandbox::RecordMark;
use crate::services::Services;

/// Bytes of printed text in one message, which JSON can make six times as long.
const MAX_TEXT: usize = 128 << 10;
/// Bytes of a traceback, and of what its error says.
const MAX_ERROR: usize = 60 << 10;

/// A cell that runs.
#[derive(Debug)]
pub(super) struct Cell {
    request: Request,
    kernel: Arc<Kernel>,
    events: CellEvents,
    /// Told next. Kept until its message is made, in case nobody waits for that.
    event: Option<CellEvent>,
    count: u64,
    failure: Option<CellFailure>,
    /// Whoever goes away ends it.
    _guard: DropGuard,
}

impl Cell {
    /// Starts a cell, and says so. One without code is over already: then there is none, but its messages.
    pub(super) fn start(
        services: &Services,
        kernel: &Arc<Kernel>,
        origin: &Origin,
        request: Request,
    ) -> (Option<Self>, Vec<Message>) {
        let code = request.content["code"].as_str().unwrap_or_default();
        if code.trim().is_empty() {
            let reply = request.reply(ok(kernel.cells()));
            let messages = vec![request.status("busy"), reply, request.status("idle")];
            return (None, messages);
        }
        let (count, restart) = kernel.begin_cell();
        let mark = RecordMark::random();
        let mut run = RunRequest::plain(
            kernel.conversation.clone(),
            kernel.language.runner(),
            code.to_owned(),
        );
        // No client can say how long a cell may take, and each of them ends one that takes too long for it.
        run.timeout = Some(services.limits.timeout_max);
        run.stateful = true;
        run.kernel = KernelWish {
            wait: true,
            restart,
            number: kernel.number,
            records: Some(mark),
        };
        let input = json!({ "code": cut(code, MAX_TEXT), "execution_count": count });
        let mut messages = vec![request.status("busy")];
        if !request.is_set("silent") {
            messages.push(request.publish("execute_input", input));
        }
        let run = services.ledger.start(origin.clone(), run);
        kernel.set_running(Some(Arc::clone(&run)));
        let cell = Self {
            request,
            kernel: Arc::clone(kernel),
            _guard: run.cancel_on_drop(),
            events: CellEvents::of(run, mark),
            event: None,
            count,
            failure: None,
        };
        (Some(cell), messages)
    }

    /// The messages of what happens next; none when it is over. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, files: &ConversationFiles) -> Option<Vec<Message>> {
        if self.event.is_none() {
            self.event = self.events.next().await;
        }
        let messages = match self.event.clone()? {
            CellEvent::Printed(stream, text) => self.printed(stream, &text),
            CellEvent::Displayed(forms) => {
                let data = bundle(files, &self.kernel.conversation, forms).await;
                let content = json!({ "data": data, "metadata": {}, "transient": {} });
                vec![self.request.publish("display_data", content)]
            }
            CellEvent::Returned(_) if self.request.is_set("silent") => Vec::new(),
            CellEvent::Returned(forms) => {
                let data = bundle(files, &self.kernel.conversation, forms).await;
                let content =
                    json!({ "execution_count": self.count, "data": data, "metadata": {} });
                vec![self.request.publish("execute_result", content)]
            }
            CellEvent::Failed(failure) => {
                let message = self.request.publish("error", described(&failure));
                self.failure = Some(failure);
                vec![message]
            }
        };
        self.event = None;
        Some(messages)
    }

    fn printed(&self, stream: Stream, text: &str) -> Vec<Message> {
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        let mut messages = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_TEXT));
            let content = json!({ "name": name, "text": piece });
            messages.push(self.request.publish("stream", content));
            rest = after;
        }
        messages
    }

    /// Whether cells that wait now are not to run: it has failed, and its client wants that.
    pub(super) fn aborts_others(&self) -> bool {
        let stops = self.request.content["stop_on_error"].as_bool();
        self.failure.is_some() && stops.unwrap_or(true)
    }

    /// The messages of its end.
    pub(super) fn end(self) -> Vec<Message> {
        let reply = match &self.failure {
            None => ok(self.count),
            Some(failure) => {
                let mut reply = described(failure);
                reply["status"] = json!("error");
                reply["execution_count"] = json!(self.count);
                reply
            }
        };
        vec![self.request.reply(reply), self.request.status("idle")]
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kernel.set_running(None);
    }
}

/// What a cell that does not run is answered.
pub(super) fn aborted(request: &Request) -> Vec<Message> {
    let reply = request.reply(json!({ "status": "aborted" }));
    vec![request.status("busy"), reply, request.status("idle")]
}

fn ok(count: u64) -> Value {
    json!({ "status": "ok", "execution_count": count, "user_expressions": {}, "payload": [] })
}

/// An error. One that its kernel did not tell of has no traceback: its only line is what it says.
fn described(failure: &CellFailure) -> Value {
    let CellFailure {
        name,
        value,
        traceback,
    } = failure;
    let traceback = cut(traceback.trim_end(), MAX_ERROR);
    let lines: Vec<_> = if traceback.is_empty() {
        vec![format!("{name}: {}", cut(value, MAX_ERROR))]
    } else {
        traceback.lines().map(str::to_owned).collect()
    };
    json!({ "ename": name, "evalue": cut(value, MAX_ERROR), "traceback": lines })
}
