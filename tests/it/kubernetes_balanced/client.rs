//! A client with a conversation, over the network: what it is told, without what differs from one time to the next.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::TOKEN;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Client {
    http: reqwest::Client,
    server: SocketAddr,
    pub(super) conversation: String,
    calls: AtomicUsize,
}

/// A session with the server.
pub(super) struct Session<'a> {
    client: &'a Client,
    id: String,
}

/// An event stream. Dropping it breaks it off.
pub(super) struct Events {
    body: BoxStream<'static, reqwest::Result<axum::body::Bytes>>,
    buffer: String,
}

pub(super) struct Event {
    pub(super) id: String,
    pub(super) data: Value,
}

pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// What a run has come to, without its id and its times.
fn outcome(result: &Value) -> Value {
    let outcome = &result["structuredContent"];
    let files = outcome["files"].as_array().into_iter().flatten();
    let files: Vec<_> = files
        .map(|file| json!([file["name"], file["size"]]))
        .collect();
    let told =
        ["status", "stdout", "stderr", "output", "exitCode", "code"].map(|name| &outcome[name]);
    json!([told, files])
}

impl Client {
    pub(super) fn new(server: SocketAddr, conversation: &str) -> Self {
        Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            server,
            conversation: conversation.to_owned(),
            calls: AtomicUsize::new(0),
        }
    }

    /// How often it has asked for anything.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let url = format!("http://{}{path}", self.server);
        self.http.request(method, url).bearer_auth(TOKEN)
    }

    fn file(&self, method: Method, name: &str) -> RequestBuilder {
        let id = &self.conversation;
        self.request(method, &format!("/api/v1/conversations/{id}/files/{name}"))
    }

    /// All messages with which a message is answered.
    async fn messages(&self, message: &Value, headers: &[(&'static str, String)]) -> Vec<Value> {
        let mut request = self
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .json(message);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = request.send().await.unwrap();
        let (status, kind) = (
            answer.status(),
            answer.headers().get("content-type").cloned(),
        );
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            let mut events = Events::of(answer);
            let mut messages = Vec::new();
            loop {
                let message = events.next().await.data;
                let is_last = message.get("result").or(message.get("error")).is_some();
                messages.push(message);
                if is_last {
                    return messages;
                }
            }
        }
        let text = answer.text().await.unwrap();
        let json = serde_json::from_str(&text);
        vec![json.unwrap_or_else(|_| panic!("{message} was answered {status} {text}"))]
    }

    fn code(&self, code: &str) -> Value {
        json!({ "conversationId": self.conversation, "language": "shell", "code": code, "timeoutSeconds": 3 })
    }

    async fn call(&self, tool: &str, arguments: &Value, meta: Value) -> Vec<Value> {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.messages(&message, &[]).await
    }

    pub(super) async fn run(&self, code: &str) -> Value {
        let messages = self.call("run_code", &self.code(code), json!({})).await;
        outcome(&messages.last().unwrap()["result"])
    }

    /// A run whose output is read as it comes; all of it has to come, and in order.
    pub(super) async fn run_live(&self, code: &str) -> Value {
        let meta = json!({ "progressToken": "live", "mcp-code-sandbox/output": { "offset": 0 } });
        let messages = self.call("run_code", &self.code(code), meta).await;
        let (mut printed, mut at) = (String::new(), 0);
        for message in &messages {
            let told = &message["params"]["_meta"]["mcp-code-sandbox/output"];
            if let Some(pieces) = told["pieces"].as_array() {
                assert_eq!(told["offset"], at, "{messages:?}");
                at = told["nextOffset"].as_u64().unwrap();
                printed.extend(pieces.iter().map(|piece| piece["text"].as_str().unwrap()));
            }
        }
        json!([printed, outcome(&messages.last().unwrap()["result"])])
    }

    /// A run as a task, of which is asked until it has ended.
    pub(super) async fn run_as_task(&self, code: &str) -> Value {
        let mut arguments = self.code(code);
        arguments["timeoutSeconds"] = json!(20);
        let params = json!({ "name": "run_code", "arguments": arguments });
        let begun = self.newest("tools/call", "run_code", params).await;
        let id = begun["taskId"]
            .as_str()
            .unwrap_or_else(|| panic!("no task: {begun}"));
        loop {
            let state = self.newest("tasks/get", id, json!({ "taskId": id })).await;
            match state["status"].as_str() {
                Some("working") => tokio::time::sleep(Duration::from_millis(200)).await,
                _ => return json!([begun["status"], state["status"], outcome(&state["result"])]),
            }
        }
    }

    /// A call by a client of the newest revision that follows tasks.
    async fn newest(&self, method: &str, name: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
            "io.modelcontextprotocol/clientInfo": { "name": "new", "version": "1" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned()));
        self.messages(&message, &headers).await.pop().unwrap()["result"].clone()
    }

    /// A run whose call breaks off: whether it was told to have begun, and what is told about it then.
    pub(super) async fn run_named(&self, code: &str) -> (Value, Value) {
        let id = format!("run_{}", hex::encode(rand::random::<[u8; 16]>()));
        let output = json!({ "offset": 0 });
        let meta = json!({ "progressToken": "named", "mcp-code-sandbox/run": id, "mcp-code-sandbox/output": output });
        let params = json!({ "name": "run_code", "arguments": self.code(code), "_meta": meta });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = self
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        let mut events = Events::of(request.send().await.unwrap());
        // The first one comes at once, and its run goes on without its call.
        let begun = events.next().await.data;
        let begun = &begun["params"]["_meta"]["mcp-code-sandbox/output"]["runId"];
        let begun = Value::from(*begun == id);
        drop(events);
        let asked = json!({ "runId": id, "waitSeconds": 3 });
        loop {
            let messages = self.call("get_run", &asked, json!({})).await;
            let ended = outcome(&messages.last().unwrap()["result"]);
            if ended[0][0] != "running" {
                return (begun, ended);
            }
        }
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.request(Method::POST, path).json(&body).send();
        answer.await.unwrap().json().await.unwrap()
    }

    pub(super) async fn put(&self, name: &str, bytes: Vec<u8>) -> Value {
        let answer = self.file(Method::PUT, name).body(bytes).send().await;
        let answer = answer.unwrap();
        let status = answer.status().as_u16();
        let stored: Value = answer.json().await.unwrap();
        json!([
            status,
            stored["file"]["name"],
            stored["file"]["size"],
            stored["error"]["code"]
        ])
    }

    /// An upload that is refused before any of it is read.
    pub(super) async fn put_refused(&self, name: &str, bytes: Vec<u8>) -> Value {
        let request = self.file(Method::PUT, name).header("if-none-match", "*");
        let answer = request.body(bytes).send().await.unwrap();
        let status = answer.status().as_u16();
        json!([status, answer.json::<Value>().await.unwrap()])
    }

    /// Status, content, and what part of the file it is.
    pub(super) async fn get(&self, name: &str, range: Option<(usize, usize)>) -> Value {
        let mut request = self.file(Method::GET, name);
        if let Some((first, last)) = range {
            request = request.header("range", format!("bytes={first}-{last}"));
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let part = answer.headers().get("content-range");
        let part = part.map(|part| part.to_str().unwrap().to_owned());
        let bytes = answer.bytes().await.unwrap();
        json!([status, digest(&bytes), part])
    }

    pub(super) async fn delete(&self, name: &str) -> Value {
        let answer = self.file(Method::DELETE, name).send().await.unwrap();
        json!([answer.status().as_u16(), answer.text().await.unwrap()])
    }

    pub(super) async fn list(&self) -> Value {
        let path = format!("/api/v1/conversations/{}/files", self.conversation);
        let answer = self.request(Method::GET, &path).send().await.unwrap();
        let list: Value = answer.json().await.unwrap();
        let files = list["files"]
            .as_array()
            .unwrap_or_else(|| panic!("no list: {list}"))
            .iter();
        files
            .map(|file| json!([file["name"], file["size"]]))
            .collect()
    }

    /// A session that asks for the logs of its runs.
    pub(super) async fn open(&self) -> Session<'_> {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let request = self
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        let answer = request.send().await.unwrap();
        let id = answer.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        answer.bytes().await.unwrap();
        let session = Session { client: self, id };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let request = session.request(Method::POST).json(&ready);
        assert_eq!(request.send().await.unwrap().status(), 202);
        let params = json!({ "level": "info" });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": params });
        session.send(&message).await;
        session
    }
}

impl Session<'_> {
    fn request(&self, method: Method) -> RequestBuilder {
        self.client
            .request(method, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", &self.id)
    }

    async fn send(&self, message: &Value) -> Value {
        let session = [("mcp-session-id", self.id.clone())];
        self.client.messages(message, &session).await.pop().unwrap()
    }

    pub(super) async fn run(&self, id: u64, code: &str) -> Value {
        let params = json!({ "name": "run_code", "arguments": self.client.code(code) });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let answer = self.send(&message).await;
        json!([answer["id"], outcome(&answer["result"])])
    }

    /// Its own stream, or what came on it after an event.
    pub(super) async fn listen(&self, last: Option<&str>) -> Events {
        let mut request = self.request(Method::GET);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        Events::of(answer)
    }

    pub(super) async fn close(&self) -> Value {
        let answer = self.request(Method::DELETE).send().await.unwrap();
        answer.status().as_u16().into()
    }
}

impl Events {
    fn of(answer: Response) -> Self {
        Self {
            body: answer.bytes_stream().boxed(),
            buffer: String::new(),
        }
    }

    /// The next message. Comments, which keep the stream alive, are left out.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let line = |name: &str| {
                    let found = block.lines().find_map(|line| line.strip_prefix(name));
                    found.unwrap_or_default().trim_start().to_owned()
                };
                let (id, data) = (line("id:"), line("data:"));
                self.buffer = rest.into();
                if let Ok(data) = serde_json::from_str(&data) {
                    return Event { id, data };
                }
            }
            let bytes = tokio::time::timeout(PATIENCE, self.body.next()).await;
            let bytes = bytes
                .expect("the stream is silent")
                .expect("the stream ended");
            self.buffer
                .push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
        }
    }
}
