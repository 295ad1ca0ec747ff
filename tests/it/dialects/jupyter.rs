//! The kernel API of a Jupyter server.

mod ends;

use std::time::Duration;

use axum::http::Method;
use futures::{SinkExt as _, StreamExt as _};
use mcp_code_sandbox::config::Patience;
use mcp_code_sandbox::http::serve;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{ask, token_file, told};
use crate::support::{Answer, TOKEN, TestApp};

/// More than any request here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server that listens, for those that connect.
pub(crate) struct Notebook {
    pub(crate) app: TestApp,
    address: String,
    _stop: DropGuard,
}

/// A connection to a kernel.
pub(crate) struct Channels {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    sent: u32,
}

impl Notebook {
    pub(crate) async fn of(app: TestApp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let patience = Patience {
            head: PATIENCE,
            body: PATIENCE,
            unread: PATIENCE,
        };
        let stopped = stop.clone().cancelled_owned();
        let router = app.router.clone();
        tasks.spawn(serve(listener, router, patience, tasks.clone(), stopped));
        Self {
            app,
            address,
            _stop: stop.drop_guard(),
        }
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.ask_as(TOKEN, method, path, body).await
    }

    async fn ask_as(&self, token: &str, method: Method, path: &str, body: &Value) -> Answer {
        let authorization = format!("token {token}");
        let headers = [("authorization", &*authorization)];
        ask(
            &self.app,
            method,
            &format!("/jupyter{path}"),
            &headers,
            body,
        )
        .await
    }

    /// A new kernel, by its id.
    pub(crate) async fn kernel(&self, base: &str) -> String {
        let path = format!("{base}/api/kernels");
        let made = self
            .ask(Method::POST, &path, &json!({ "name": "python3" }))
            .await;
        assert_eq!(made.status.as_u16(), 201, "{}", made.text());
        made.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn connect(&self, kernel: &str) -> Channels {
        self.connect_as(kernel, TOKEN, &[]).await.unwrap()
    }

    async fn connect_as(
        &self,
        kernel: &str,
        token: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Result<Channels, tungstenite::Error> {
        let address = &self.address;
        let url = format!("ws://{address}/jupyter/api/kernels/{kernel}/channels?token={token}");
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, _) = connect_async(request).await?;
        Ok(Channels { socket, sent: 0 })
    }

    async fn delete(&self, kernel: &str) -> u16 {
        let path = format!("/api/kernels/{kernel}");
        let answer = self.ask(Method::DELETE, &path, &json!(null)).await;
        answer.status.as_u16()
    }
}

impl Channels {
    /// Sends a request, and returns its id.
    pub(crate) async fn send(&mut self, channel: &str, kind: &str, content: &Value) -> String {
        self.sent += 1;
        let id = format!("m{}", self.sent);
        let message = json!({
            "header": { "msg_id": id, "msg_type": kind, "session": "s", "username": "", "version": "5.3" },
            "parent_header": {}, "metadata": {}, "content": content, "channel": channel, "buffers": {},
        });
        self.socket
            .send(Message::text(message.to_string()))
            .await
            .unwrap();
        id
    }

    /// The next message, or none when the connection is closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let frame = timeout(PATIENCE, self.socket.next());
            match frame.await.expect("a message in time")?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// All messages up to the one that says that a request is done, each as a line.
    pub(crate) async fn until_idle(&mut self, id: &str) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            let is_idle = message["content"]["execution_state"] == "idle";
            let is_theirs = message["parent_header"]["msg_id"] == id;
            all.extend(is_theirs.then(|| message.clone()));
            if is_idle && is_theirs {
                break;
            }
        }
        all
    }

    /// Runs a cell. Returns what it was answered, each message as a line.
    pub(crate) async fn run(&mut self, code: &str) -> String {
        let id = self
            .send("shell", "execute_request", &json!({ "code": code }))
            .await;
        lines(&self.until_idle(&id).await)
    }
}

/// Asks until something holds, for as long as it may take.
async fn until(holds: impl AsyncFn() -> bool) {
    let asked = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, asked).await.expect("it holds in time");
}

/// Each message as its channel, type and content.
pub(crate) fn lines(messages: &[Value]) -> String {
    let lines = messages.iter().map(|message| {
        let [channel, kind] = ["channel", "msg_type"].map(|name| message[name].as_str().unwrap());
        format!("{channel} {kind} {}\n", message["content"])
    });
    lines.collect()
}

async fn notebook() -> Notebook {
    notebook_with(&[]).await
}

async fn notebook_with(settings: &[(&str, &str)]) -> Notebook {
    let settings: Vec<_> = settings
        .iter()
        .copied()
        .chain([("DIALECTS", "jupyter")])
        .collect();
    Notebook::of(TestApp::on_fake_with_kernels("python", &settings).await).await
}

/// An answer without what differs each time.
fn stable(answer: &Answer) -> String {
    let told = told(answer);
    let id = regex::Regex::new("[0-9a-f]{32}").unwrap();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z").unwrap();
    time.replace_all(&id.replace_all(&told, "ID"), "TIME")
        .into_owned()
}

#[tokio::test]
async fn kernels_are_made_listed_restarted_and_deleted() {
    let notebook = notebook().await;
    let mut seen = Vec::new();
    for (method, path, body) in [
        (Method::GET, "/api", json!(null)),
        (Method::GET, "/api/kernelspecs", json!(null)),
        (
            Method::POST,
            "/api/kernels",
            json!({ "name": null, "path": null }),
        ),
        (Method::POST, "/api/kernels", json!({ "name": "julia" })),
        (Method::GET, "/api/kernels", json!(null)),
        (Method::GET, "/api/status", json!(null)),
        (Method::GET, "/api/kernels/none", json!(null)),
        (Method::DELETE, "/api/kernels/none", json!(null)),
    ] {
        let answer = notebook.ask(method.clone(), path, &body).await;
        seen.push(format!("{method} {path} {}", stable(&answer)));
    }
    let kernel = notebook.kernel("").await;
    for (method, what) in [
        (Method::GET, ""),
        (Method::POST, "/restart"),
        (Method::POST, "/interrupt"),
        (Method::DELETE, ""),
        (Method::GET, ""),
    ] {
        let path = format!("/api/kernels/{kernel}{what}");
        let answer = notebook.ask(method.clone(), &path, &json!(null)).await;
        seen.push(format!("{method} {what} {}", stable(&answer)));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    GET /api 200 {"version":"2.14.0"}
    GET /api/kernelspecs 200 {"default":"python3","kernelspecs":{"python3":{"name":"python3","spec":{"argv":[],"env":{},"display_name":"Python 3","language":"python","interrupt_mode":"message","metadata":{}},"resources":{}}}}
    POST /api/kernels 201 {"id":"ID","name":"python3","last_activity":"TIME","execution_state":"starting","connections":0}
    POST /api/kernels 400 {"message":"name is \"julia\": it must be one of python3, typescript","reason":null}
    GET /api/kernels 200 [{"id":"ID","name":"python3","last_activity":"TIME","execution_state":"starting","connections":0}]
    GET /api/status 200 {"started":"TIME","last_activity":"TIME","connections":0,"kernels":1}
    GET /api/kernels/none 404 {"message":"Kernel does not exist: none","reason":null}
    DELETE /api/kernels/none 404 {"message":"Kernel does not exist: none","reason":null}
    GET  200 {"id":"ID","name":"python3","last_activity":"TIME","execution_state":"starting","connections":0}
    POST /restart 200 {"id":"ID","name":"python3","last_activity":"TIME","execution_state":"starting","connections":0}
    POST /interrupt 204 
    DELETE  204 
    GET  404 {"message":"Kernel does not exist: ID","reason":null}
    "#);
}

#[tokio::test]
async fn a_cell_is_answered_in_order_and_variables_stay() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let first = channels.run("X=1\necho out\necho err >&2").await;
    let second = channels.run("echo $X").await;
    let failed = channels.run("nonsense").await;
    insta::assert_snapshot!([first, second, failed].join("\n"), @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"X=1\necho out\necho err >&2","execution_count":1}
    iopub stream {"name":"stdout","text":"out\n"}
    iopub stream {"name":"stderr","text":"err\n"}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"echo $X","execution_count":2}
    iopub stream {"name":"stdout","text":"1\n"}
    shell execute_reply {"status":"ok","execution_count":2,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}

    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"nonsense","execution_count":3}
    iopub stream {"name":"stderr","text":"sh: nonsense: not found\n"}
    iopub error {"ename":"Error","evalue":"The program ended with exit code 1: see stderr. The kernel and its variables live on.","traceback":["Error: The program ended with exit code 1: see stderr. The kernel and its variables live on."]}
    shell execute_reply {"ename":"Error","evalue":"The program ended with exit code 1: see stderr. The kernel and its variables live on.","traceback":["Error: The program ended with exit code 1: see stderr. The kernel and its variables live on."],"status":"error","execution_count":3}
    iopub status {"execution_state":"idle"}
    "#);
}

#[tokio::test]
async fn what_is_no_cell_is_answered_at_once() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let cell = channels
        .send("shell", "execute_request", &json!({ "code": "sleep 600" }))
        .await;
    let mut seen = String::new();
    for kind in [
        "kernel_info_request",
        "is_complete_request",
        "complete_request",
        "inspect_request",
        "history_request",
        "comm_info_request",
    ] {
        let id = channels
            .send("shell", kind, &json!({ "code": "a", "cursor_pos": 1 }))
            .await;
        seen += &lines(&channels.until_idle(&id).await);
    }
    channels.send("shell", "comm_open", &json!({})).await;
    let id = channels
        .send("control", "interrupt_request", &json!({}))
        .await;
    seen += &lines(&channels.until_idle(&id).await);
    seen += &lines(&channels.until_idle(&cell).await);
    let seen = seen.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(seen, @r#"
    iopub status {"execution_state":"busy"}
    shell kernel_info_reply {"status":"ok","protocol_version":"5.3","implementation":"mcp-code-sandbox","implementation_version":"VERSION","language_info":{"name":"python","version":"3.13","mimetype":"text/x-python","file_extension":".py","pygments_lexer":"ipython3","codemirror_mode":{"name":"ipython","version":3}},"banner":"","help_links":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    shell is_complete_reply {"status":"unknown"}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    shell complete_reply {"status":"ok","matches":[],"cursor_start":1,"cursor_end":1,"metadata":{}}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    shell inspect_reply {"status":"ok","found":false,"data":{},"metadata":{}}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    shell history_reply {"status":"ok","history":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    shell comm_info_reply {"status":"ok","comms":{}}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    control interrupt_reply {"status":"ok"}
    iopub status {"execution_state":"idle"}
    iopub error {"ename":"KeyboardInterrupt","evalue":"The run was cancelled before its end. The kernel and its variables live on.","traceback":["KeyboardInterrupt: The run was cancelled before its end. The kernel and its variables live on."]}
    shell execute_reply {"ename":"KeyboardInterrupt","evalue":"The run was cancelled before its end. The kernel and its variables live on.","traceback":["KeyboardInterrupt: The run was cancelled before its end. The kernel and its variables live on."],"status":"error","execution_count":1}
    iopub status {"execution_state":"idle"}
    "#);
}

#[tokio::test]
async fn cells_that_wait_are_aborted_when_one_fails() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let content = |code| json!({ "code": code, "stop_on_error": code != "careless" });
    let mut ids = Vec::new();
    for code in ["sleep 0.2\nnonsense", "echo never", "echo never"] {
        ids.push(
            channels
                .send("shell", "execute_request", &content(code))
                .await,
        );
    }
    let mut replies = String::new();
    for id in ids {
        let messages = channels.until_idle(&id).await;
        replies += &lines(&messages[messages.len() - 2..]);
    }
    insta::assert_snapshot!(replies, @r#"
    shell execute_reply {"ename":"Error","evalue":"The program ended with exit code 1: see stderr. The kernel and its variables live on.","traceback":["Error: The program ended with exit code 1: see stderr. The kernel and its variables live on."],"status":"error","execution_count":1}
    iopub status {"execution_state":"idle"}
    shell execute_reply {"status":"aborted"}
    iopub status {"execution_state":"idle"}
    shell execute_reply {"status":"aborted"}
    iopub status {"execution_state":"idle"}
    "#);
}

#[tokio::test]
async fn deleting_a_kernel_ends_its_cell_and_its_connection() {
    let notebook = notebook().await;
    let kernel = notebook.kernel("").await;
    let mut channels = notebook.connect(&kernel).await;
    let id = channels
        .send(
            "shell",
            "execute_request",
            &json!({ "code": "echo begun\nsleep 600" }),
        )
        .await;
    while channels.next().await.unwrap()["msg_type"] != "stream" {}
    assert_eq!(notebook.delete(&kernel).await, 204);
    let rest = channels.until_idle(&id).await;
    insta::assert_snapshot!(lines(&rest), @r#"
    iopub error {"ename":"KeyboardInterrupt","evalue":"The run was cancelled before its end. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.","traceback":["KeyboardInterrupt: The run was cancelled before its end. The kernel has ended: its variables are lost, and the next stateful run begins with a new one."]}
    shell execute_reply {"ename":"KeyboardInterrupt","evalue":"The run was cancelled before its end. The kernel has ended: its variables are lost, and the next stateful run begins with a new one.","traceback":["KeyboardInterrupt: The run was cancelled before its end. The kernel has ended: its variables are lost, and the next stateful run begins with a new one."],"status":"error","execution_count":1}
    iopub status {"execution_state":"idle"}
    "#);
    assert_eq!(channels.next().await, None);
    super::nothing_is_kept(&notebook.app).await;
    assert_eq!(notebook.delete(&kernel).await, 404);
}

#[tokio::test]
async fn kernels_of_a_workspace_share_files_and_no_variables() {
    let notebook = notebook().await;
    let mut seen = String::new();
    for base in ["/w/team", "/w/team", "/w/other"] {
        let kernel = notebook.kernel(base).await;
        let mut channels = notebook.connect(&kernel).await;
        seen += &channels
            .run("echo [ $X ]\nX=set\necho kept > kept.txt\nmkdir none")
            .await;
        seen += &channels.run("cat kept.txt").await;
        assert_eq!(notebook.delete(&kernel).await, 204);
    }
    insta::assert_snapshot!(seen, @r#"
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"echo [ $X ]\nX=set\necho kept > kept.txt\nmkdir none","execution_count":1}
    iopub stream {"name":"stdout","text":"[  ]\n"}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"cat kept.txt","execution_count":2}
    iopub stream {"name":"stdout","text":"kept\n"}
    shell execute_reply {"status":"ok","execution_count":2,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"echo [ $X ]\nX=set\necho kept > kept.txt\nmkdir none","execution_count":1}
    iopub stream {"name":"stdout","text":"[  ]\n"}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"cat kept.txt","execution_count":2}
    iopub stream {"name":"stdout","text":"kept\n"}
    shell execute_reply {"status":"ok","execution_count":2,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"echo [ $X ]\nX=set\necho kept > kept.txt\nmkdir none","execution_count":1}
    iopub stream {"name":"stdout","text":"[  ]\n"}
    shell execute_reply {"status":"ok","execution_count":1,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    iopub status {"execution_state":"busy"}
    iopub execute_input {"code":"cat kept.txt","execution_count":2}
    iopub stream {"name":"stdout","text":"kept\n"}
    shell execute_reply {"status":"ok","execution_count":2,"user_expressions":{},"payload":[]}
    iopub status {"execution_state":"idle"}
    "#);
}

#[tokio::test]
async fn a_kernel_is_its_callers_alone() {
    let (_dir, file, theirs) = token_file("team", &["run"]);
    let notebook = notebook_with(&[("ACCESS_FILE", &file)]).await;
    let kernel = notebook.kernel("").await;
    let path = format!("/api/kernels/{kernel}");
    let seen = [
        notebook
            .ask_as(&theirs, Method::GET, &path, &json!(null))
            .await,
        notebook
            .ask_as(&theirs, Method::DELETE, &path, &json!(null))
            .await,
        notebook
            .ask_as(&theirs, Method::GET, "/api/kernels", &json!(null))
            .await,
        notebook
            .ask_as("wrong", Method::GET, &path, &json!(null))
            .await,
    ];
    insta::assert_snapshot!(seen.map(|answer| stable(&answer)).join("\n"), @r#"
    404 {"message":"Kernel does not exist: ID","reason":null}
    404 {"message":"Kernel does not exist: ID","reason":null}
    200 []
    401 {"message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <token>`","reason":null}
    "#);
    let refused =
        async |token, headers: &[_]| match notebook.connect_as(&kernel, token, headers).await.err()
        {
            Some(tungstenite::Error::Http(response)) => response.status().as_u16(),
            other => panic!("{other:?}"),
        };
    assert_eq!(refused(&*theirs, &[]).await, 404);
    assert_eq!(refused("wrong", &[]).await, 401);
    let strange = [("origin", "http://evil.example")];
    assert_eq!(refused(TOKEN, &strange).await, 403);
}
