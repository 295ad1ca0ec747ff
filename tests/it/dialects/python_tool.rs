//! The Python tool of gpt-oss, as vLLM connects to it.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{app, ask, nothing_is_kept, token_file};
use crate::sse::EventStream;
use crate::support::{TOKEN, TestApp, get};

/// An open stream, and where its client posts.
pub(crate) struct Client<'a> {
    app: &'a TestApp,
    stream: EventStream,
    messages: String,
}

impl<'a> Client<'a> {
    /// Opens a stream with no headers, as vLLM does.
    pub(crate) async fn open(app: &'a TestApp, path: &str) -> Self {
        let request = get(path).body(Body::empty()).unwrap();
        let mut stream = EventStream::open(app, request).await;
        assert_eq!(stream.status, StatusCode::OK);
        let first = stream.next().await.unwrap();
        assert_eq!(first.name, "endpoint");
        let messages = first.data;
        Self {
            app,
            stream,
            messages,
        }
    }

    async fn post(&self, message: &Value) -> StatusCode {
        let json = [("content-type", "application/json")];
        ask(self.app, Method::POST, &self.messages, &json, message)
            .await
            .status
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
        self.stream.message().await["result"].clone()
    }

    pub(crate) async fn greet(&mut self) -> Value {
        let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "mcp", "version": "0.1.0" } });
        let answer = self.request("initialize", hello).await;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&ready).await, StatusCode::ACCEPTED);
        answer
    }

    pub(crate) async fn python(&mut self, code: &str) -> Value {
        let params = json!({ "name": "python", "arguments": { "code": code } });
        self.request("tools/call", params).await
    }
}

fn path() -> String {
    format!("/t/{TOKEN}/python/sse")
}

#[tokio::test]
async fn vllm_meets_a_server_named_python_with_one_tool() {
    let app = app(&[]).await;
    let mut client = Client::open(&app, &path()).await;
    let prefix = format!("/t/{TOKEN}/python/messages?sessionId=");
    assert!(client.messages.starts_with(&prefix), "{}", client.messages);
    let hello = client.greet().await;
    assert_eq!(hello["serverInfo"]["name"], "python");
    insta::assert_snapshot!(hello["instructions"].as_str().unwrap(), @r#"Use this tool to run Python in your chain of thought: to compute, to check and to look at data. The user sees neither the code nor what it prints. Write the program itself, not JSON. Each call is a new process in a container of its own, without internet: variables and files are not kept for the next call. What the program prints to stdout is returned, so print whatever you want to see; errors are returned too."#);
    let tools = client.request("tools/list", json!({})).await;
    insta::assert_json_snapshot!(tools["tools"], { "[].description" => "…" }, @r#"
    [
      {
        "name": "python",
        "description": "…",
        "inputSchema": {
          "type": "object",
          "properties": {
            "code": {
              "type": "string",
              "description": "The whole program."
            }
          },
          "required": [
            "code"
          ]
        },
        "annotations": {
          "readOnlyHint": false,
          "destructiveHint": false,
          "idempotentHint": false,
          "openWorldHint": false,
          "include_in_prompt": false
        }
      }
    ]
    "#);
}

#[tokio::test]
async fn the_answer_is_the_text_that_was_printed() {
    let app = app(&[]).await;
    let mut client = Client::open(&app, &path()).await;
    client.greet().await;
    let seen = [
        client
            .python("echo 1\necho a warning >&2\necho x > a.txt")
            .await,
        client.python("cat a.txt").await,
        client.python("").await,
        client.python("echo 1\nexit 3").await,
        // What a model writes that was shown the schema.
        client.python(r#"{"code": "echo 2"}"#).await,
    ];
    let texts = seen.map(|answer| answer["content"][0]["text"].clone());
    insta::assert_json_snapshot!(texts, @r#"
    [
      "1\n",
      "cat: a.txt: No such file or directory\n",
      "The program ended well and printed nothing: print what you want to see.",
      "1\nThe program ended with exit code 3 and printed nothing to stderr.",
      "2\n"
    ]
    "#);
    nothing_is_kept(&app).await;
    drop(client);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_token_in_a_header_will_do_and_a_stream_is_its_callers() {
    let (_dir, file, token) = token_file("research", &["files"]);
    let app = app(&[("ACCESS_FILE", &file)]).await;
    let bearer = format!("Bearer {TOKEN}");
    let open = get("/python/sse").header("authorization", &*bearer);
    let mut stream = EventStream::open(&app, open.body(Body::empty()).unwrap()).await;
    let messages = stream.next().await.unwrap().data;
    assert!(
        messages.starts_with("/python/messages?sessionId="),
        "{messages}"
    );
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let post = async |authorization: &str| {
        let headers = [
            ("authorization", authorization),
            ("content-type", "application/json"),
        ];
        ask(&app, Method::POST, &messages, &headers, &ping)
            .await
            .status
            .as_u16()
    };
    let other = format!("Bearer {token}");
    assert_eq!(
        [post(&bearer).await, post(&other).await, post("").await],
        [202, 404, 401]
    );
    // Whose token is not for programs may look, and no more.
    let mut client = Client::open(&app, &format!("/t/{token}/python/sse")).await;
    client.greet().await;
    let refused = client.python("echo hi").await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("forbidden_scope"), "{refused}");
}

#[tokio::test]
async fn a_wrong_token_opens_nothing() {
    let app = app(&[]).await;
    for path in ["/t/0123456789abcdef/python/sse", "/python/sse"] {
        let answer = app.get(path).await;
        assert_eq!(answer.status.as_u16(), 401, "{path}");
    }
    let both = format!("{}?token=other", path());
    let answer = app.get(&both).await;
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"invalid_request","message":"there is one token in the query and another one in the path: send one of them"}}"#);
}
