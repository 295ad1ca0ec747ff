//! One cell, from its request to the messages that answer it: `busy`, what it shows, the reply, and `idle`, which always
//! comes.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::bundle::{bundle, cut};
use super::kernels::Kernel;
use super::message::{Message, Request};
use crate::api::error::CallError;
use crate::audit::Origin;
use crate::executor::Stream;
use crate::files::ConversationFiles;
use crate::ledger::{CellEvent, CellEvents, CellFailure, RunHandle};
use crate::run::{KernelWish, RunRequest};
use crate::sandbox::{Forms, RecordMark};
use crate::services::Services;

/// Bytes of printed text in one message, which JSON can make six times as long.
const MAX_TEXT: usize = 128 << 10;
/// Bytes of a traceback, and of what its error says.
const MAX_ERROR: usize = 60 << 10;

/// As what something is shown.
#[derive(Clone, Copy)]
enum Showing {
    Display,
    Result,
}

/// A cell that runs.
pub(super) struct Cell {
    request: Request,
    kernel: Arc<Kernel>,
    run: Arc<RunHandle>,
    events: CellEvents,
    /// The forms of what is shown next. They are made while nobody waits for them, too.
    making: Option<(Showing, BoxFuture<'static, Value>)>,
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
        let code = &request.content.code;
        if code.trim().is_empty() {
            let reply = request.reply(ok(kernel.cells()));
            let messages = vec![request.status("busy"), reply, request.status("idle")];
            return (None, messages);
        }
        let (count, number) = kernel.begin_cell();
        let mark = RecordMark::random();
        let mut run = RunRequest::plain(
            kernel.conversation.clone(),
            kernel.language.runner(),
            code.clone(),
        );
        // No client can say how long a cell may take, and each of them ends one that takes too long for it.
        run.timeout = Some(services.limits.timeout_max);
        run.stateful = true;
        run.kernel = KernelWish {
            wait: true,
            restart: false,
            number,
            records: Some(mark),
        };
        let input = json!({ "code": cut(code, MAX_TEXT), "execution_count": count });
        let mut messages = vec![request.status("busy")];
        if !request.content.silent {
            messages.push(request.publish("execute_input", input));
        }
        let run = services.ledger.start(origin.clone(), run);
        kernel.note_begun(Arc::clone(&run));
        let cell = Self {
            request,
            kernel: Arc::clone(kernel),
            _guard: run.cancel_on_drop(),
            events: CellEvents::of(Arc::clone(&run), mark),
            run,
            making: None,
            count,
            failure: None,
        };
        (Some(cell), messages)
    }

    /// The messages of what happens next; none when it is over. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, files: &ConversationFiles) -> Option<Vec<Message>> {
        if self.making.is_none() {
            match self.events.next().await? {
                CellEvent::Printed(stream, text) => return Some(self.printed(stream, &text)),
                CellEvent::Failed(failure) => return Some(vec![self.failed(failure)]),
                CellEvent::Displayed(forms) => self.make(Showing::Display, files, forms),
                CellEvent::Returned(_) if self.request.content.silent => return Some(Vec::new()),
                // Nobody here answers it.
                CellEvent::Called(_) => return Some(Vec::new()),
                CellEvent::Returned(forms) => self.make(Showing::Result, files, forms),
            }
        }
        let (showing, data) = self.making.as_mut()?;
        let (showing, data) = (*showing, data.await);
        self.making = None;
        let (kind, content) = match showing {
            Showing::Display => (
                "display_data",
                json!({ "data": data, "metadata": {}, "transient": {} }),
            ),
            Showing::Result => (
                "execute_result",
                json!({ "execution_count": self.count, "data": data, "metadata": {} }),
            ),
        };
        Some(vec![self.request.publish(kind, content)])
    }

    fn make(&mut self, showing: Showing, files: &ConversationFiles, forms: Forms) {
        let (files, conversation) = (files.clone(), self.kernel.conversation.clone());
        let making = async move { bundle(&files, &conversation, forms).await };
        self.making = Some((showing, making.boxed()));
    }

    fn failed(&mut self, failure: CellFailure) -> Message {
        let message = self.request.publish("error", described(&failure));
        self.failure = Some(failure);
        message
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
        self.failure.is_some() && self.request.content.stop_on_error.unwrap_or(true)
    }

    /// The messages of its end.
    pub(super) fn end(&self) -> Vec<Message> {
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
        self.kernel.note_ended(&self.run);
    }
}

/// What a cell is answered that cannot run.
pub(super) fn refused(request: &Request, why: &CallError) -> Vec<Message> {
    let failure = CellFailure {
        name: "SandboxError".to_owned(),
        value: why.message.clone(),
        traceback: String::new(),
    };
    let error = described(&failure);
    let mut reply = error.clone();
    reply["status"] = json!("error");
    vec![
        request.status("busy"),
        request.publish("error", error),
        request.reply(reply),
        request.status("idle"),
    ]
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
