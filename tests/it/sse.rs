//! Reading event streams as they come.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::support::{TestApp, post};

/// An open event stream. Dropping it is what a client does when it goes away.
pub(crate) struct EventStream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: BoxStream<'static, Vec<u8>>,
    buffer: String,
}

/// One event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl EventStream {
    /// Sends a request and reads the head of its answer.
    pub(crate) async fn open(app: &TestApp, request: Request<Body>) -> Self {
        let response = app.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.into_data_stream();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: body.map(|bytes| bytes.unwrap().to_vec()).boxed(),
            buffer: String::new(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The next event; `None` at the end of the stream. Comments, which keep it alive, are left out.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let silence = sleep(Duration::from_mins(1));
        tokio::pin!(silence);
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let event = parse(block);
                self.buffer = rest.into();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let bytes = tokio::select! {
                bytes = self.body.next() => bytes,
                () = &mut silence => panic!("the stream is silent"),
            };
            let Some(bytes) = bytes else {
                // Not a stream after all: one JSON answer.
                let data = std::mem::take(&mut self.buffer);
                return (!data.is_empty()).then(|| Event {
                    data,
                    ..Event::default()
                });
            };
            self.buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        self.next().await.expect("the stream ended").json()
    }

    /// All messages up to the answer, which is the last.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().await;
            let answer = message.get("result").or(message.get("error")).is_some();
            messages.push(message);
            if answer {
                return messages;
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.name),
            "id" => value.clone_into(&mut event.id),
            "data" => event.data.push_str(value),
            _ => {}
        }
    }
    (!event.data.is_empty()).then_some(event)
}

/// A POST by a client that reads event streams.
pub(crate) fn post_sse(message: &Value) -> Request<Body> {
    let request = post().header("accept", "application/json, text/event-stream");
    request.body(Body::from(message.to_string())).unwrap()
}

/// A request of the newest revision by a client that follows tasks.
pub(crate) fn newest(method: &str, name: Option<&str>, mut params: Value) -> Request<Body> {
    params["_meta"] = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        "io.modelcontextprotocol/clientInfo": { "name": "new", "version": "1" },
    });
    let message =
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = post_sse(&message);
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    headers.insert("mcp-method", method.parse().unwrap());
    if let Some(name) = name {
        headers.insert("mcp-name", name.parse().unwrap());
    }
    request
}

/// A session of the given revision.
pub(crate) struct Session<'a> {
    app: &'a TestApp,
    pub(crate) id: String,
}

impl<'a> Session<'a> {
    pub(crate) async fn open(app: &'a TestApp, revision: &str) -> Self {
        Self::open_as(app, revision, "test", "1").await
    }

    /// The same for a client of this name and version.
    pub(crate) async fn open_as(
        app: &'a TestApp,
        revision: &str,
        name: &str,
        version: &str,
    ) -> Self {
        let initialize = serde_json::json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": name, "version": version } } });
        let mut stream = EventStream::open(app, post_sse(&initialize)).await;
        assert_eq!(
            stream.message().await["result"]["protocolVersion"],
            revision
        );
        let id = stream.header("mcp-session-id").to_owned();
        let session = Self { app, id };
        let ready = serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(&ready).await.status, 202);
        session
    }

    /// Posts a message; its answer comes on the stream.
    pub(crate) async fn send(&self, message: &Value) -> EventStream {
        let mut request = post_sse(message);
        request
            .headers_mut()
            .insert("mcp-session-id", self.id.parse().unwrap());
        EventStream::open(self.app, request).await
    }

    /// The session's own stream, or one that was interrupted after the event `last`.
    pub(crate) async fn listen(&self, last: Option<&str>) -> EventStream {
        let mut request = post()
            .method("GET")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &self.id);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        EventStream::open(self.app, request.body(Body::empty()).unwrap()).await
    }
}

/// A `tools/call`, with a progress token that is the id.
pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": { "progressToken": id } } })
}

/// `run_code` in conversation `demo`.
pub(crate) fn run(id: u64, code: &str) -> Value {
    call(
        id,
        "run_code",
        &serde_json::json!({ "conversationId": "demo", "language": "shell", "code": code }),
    )
}
