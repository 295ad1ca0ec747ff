//! A client's connection to a kernel: its requests are answered, one cell after the other, until it closes.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{self, WebSocket};
use axum::http::HeaderValue;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::cell::{Cell, aborted, refused};
use super::frames::Framing;
use super::kernels::{Connection, Kernels};
use super::message::{Message, PROTOCOL, Request};
use crate::audit::Origin;
use crate::http::HttpState;
use crate::http::rest::ApiError;

/// Longest silence while a cell runs: clients give one up that says nothing for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Cells that may wait. Further ones are not run.
const MAX_WAITING: usize = 256;

/// Why a session goes on or ends.
type Flow = ControlFlow<()>;

struct Session {
    socket: WebSocket,
    framing: Framing,
    /// What its messages say that they are from.
    name: String,
    state: HttpState,
    kernels: Arc<Kernels>,
    connection: Connection,
    origin: Origin,
    waiting: VecDeque<Request>,
    /// Bytes of their code.
    waiting_bytes: usize,
    cell: Option<Cell>,
    /// How many cells had come when that one failed.
    doomed: Option<usize>,
    /// When something was last sent.
    last: Instant,
}

/// Answers a client until it goes away, its kernel is deleted or the server stops.
pub(super) async fn serve(
    socket: WebSocket,
    state: HttpState,
    kernels: Arc<Kernels>,
    connection: Connection,
    origin: Origin,
) {
    let protocol = socket.protocol().map(HeaderValue::as_bytes);
    let mut session = Session {
        framing: Framing::of(protocol),
        socket,
        name: hex::encode(rand::random::<[u8; 16]>()),
        state,
        kernels,
        connection,
        origin,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        cell: None,
        doomed: None,
        last: Instant::now(),
    };
    while session.step().await.is_continue() {}
    // A client that is there is told, and one that is not will not notice.
    let _ = session.socket.send(ws::Message::Close(None)).await;
}

impl Session {
    async fn step(&mut self) -> Flow {
        if self.connection.kernel.gone.is_cancelled() {
            let messages = self.abort(self.waiting.len());
            if self.send(&messages).await.is_break() {
                return Flow::Break(());
            }
        }
        if self.cell.is_none()
            && let Some(request) = self.waiting.pop_front()
        {
            self.waiting_bytes -= request.content.code.len();
            return self.begin(request).await;
        }
        let (gone, stop) = (
            self.connection.kernel.gone.clone(),
            self.state.0.stop.clone(),
        );
        let files = &self.state.0.services.files;
        // A cell that runs is told to its end, which comes soon when its kernel is deleted or the server stops.
        let is_idle = self.cell.is_none();
        let running = async {
            match &mut self.cell {
                Some(cell) => cell.next(files).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            frame = self.socket.recv() => self.receive(frame).await,
            messages = running => match messages {
                Some(messages) => self.show(&messages).await,
                None => self.end().await,
            },
            () = gone.cancelled(), if is_idle => Flow::Break(()),
            () = stop.cancelled(), if is_idle => Flow::Break(()),
            () = sleep_until(self.last + HEARTBEAT) => self.show_life().await,
        }
    }

    /// Starts a cell, if its client may send one more.
    async fn begin(&mut self, request: Request) -> Flow {
        let caller = &self.origin.caller;
        if self.state.has_left(caller) {
            return Flow::Break(());
        }
        if let Err(excess) = self.state.0.rate.check(caller) {
            let ApiError(error) = ApiError::too_many(excess);
            return self.send(&refused(&request, &error)).await;
        }
        let (services, kernel) = (&self.state.0.services, &self.connection.kernel);
        let (cell, messages) = Cell::start(services, kernel, &self.origin, request);
        self.cell = cell;
        self.send(&messages).await
    }

    /// The answers to the first cells that wait, which are not to run.
    fn abort(&mut self, count: usize) -> Vec<Message> {
        // Fewer wait if their kernel was deleted meanwhile.
        let count = count.min(self.waiting.len());
        let others: Vec<_> = self.waiting.drain(..count).collect();
        let bytes: usize = others
            .iter()
            .map(|request| request.content.code.len())
            .sum();
        self.waiting_bytes -= bytes;
        others.iter().flat_map(aborted).collect()
    }

    async fn show(&mut self, messages: &[Message]) -> Flow {
        // A client that has seen the error may send another cell before the end, which is to run.
        if self.doomed.is_none() && self.cell.as_ref().is_some_and(Cell::aborts_others) {
            self.doomed = Some(self.waiting.len());
        }
        self.send(messages).await
    }

    async fn end(&mut self) -> Flow {
        let doomed = self.doomed.take().unwrap_or(0);
        let cell = self.cell.take();
        let mut messages = cell.map_or_else(Vec::new, |cell| cell.end());
        messages.extend(self.abort(doomed));
        self.send(&messages).await
    }

    async fn receive(&mut self, frame: Option<Result<ws::Message, axum::Error>>) -> Flow {
        let request = match frame {
            Some(Ok(ws::Message::Text(text))) => self.framing.read(text.as_bytes()),
            Some(Ok(ws::Message::Binary(bytes))) => self.framing.read(&bytes),
            Some(Ok(ws::Message::Ping(_) | ws::Message::Pong(_))) => None,
            Some(Ok(ws::Message::Close(_)) | Err(_)) | None => return Flow::Break(()),
        };
        match request {
            Some(request) if request.kind == "execute_request" => {
                let bytes = self.waiting_bytes + request.content.code.len();
                let max_bytes = 2 * self.state.0.services.limits.code;
                let is_alone = self.waiting.is_empty();
                if self.waiting.len() >= MAX_WAITING || (bytes > max_bytes && !is_alone) {
                    return self.send(&aborted(&request)).await;
                }
                self.waiting_bytes = bytes;
                self.waiting.push_back(request);
                Flow::Continue(())
            }
            Some(request) => match self.answer(&request) {
                Some(content) => {
                    let reply = request.reply(content);
                    let around = [request.status("busy"), reply, request.status("idle")];
                    self.send(&around).await
                }
                None => Flow::Continue(()),
            },
            // What is no request is nobody's business, as in Jupyter.
            None => Flow::Continue(()),
        }
    }

    /// The content of the reply to what is not a cell, if there is one to it.
    fn answer(&self, request: &Request) -> Option<Value> {
        let kernel = &self.connection.kernel;
        Some(match &*request.kind {
            "kernel_info_request" => json!({
                "status": "ok",
                "protocol_version": PROTOCOL,
                "implementation": env!("CARGO_PKG_NAME"),
                "implementation_version": env!("CARGO_PKG_VERSION"),
                "language_info": kernel.language.info(),
                "banner": "",
                "help_links": [],
            }),
            "interrupt_request" => {
                kernel.interrupt();
                json!({ "status": "ok" })
            }
            "shutdown_request" => {
                self.kernels
                    .restart(&self.state.0.services.conversations, kernel);
                json!({ "status": "ok", "restart": request.content.restart })
            }
            "is_complete_request" => json!({ "status": "unknown" }),
            "complete_request" => {
                let cursor = request.content.cursor_pos;
                json!({
                    "status": "ok", "matches": [], "cursor_start": cursor, "cursor_end": cursor, "metadata": {}
                })
            }
            "inspect_request" => {
                json!({ "status": "ok", "found": false, "data": {}, "metadata": {} })
            }
            "history_request" => json!({ "status": "ok", "history": [] }),
            "comm_info_request" => json!({ "status": "ok", "comms": {} }),
            _ => return None,
        })
    }

    async fn show_life(&mut self) -> Flow {
        if self.state.has_left(&self.origin.caller) {
            return Flow::Break(());
        }
        if self.cell.is_some() {
            return self.send(&[Message::sign_of_life()]).await;
        }
        self.send_frame(ws::Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, messages: &[Message]) -> Flow {
        for message in messages {
            let frame = self.framing.write(message, &self.name);
            if self.send_frame(frame).await.is_break() {
                return Flow::Break(());
            }
        }
        Flow::Continue(())
    }

    async fn send_frame(&mut self, frame: ws::Message) -> Flow {
        self.last = Instant::now();
        match self.socket.send(frame).await {
            Ok(()) => Flow::Continue(()),
            Err(_) => Flow::Break(()),
        }
    }
}
