//! Clients that are slow, endless or wrong, on a real listener: the server gives up on each, and keeps serving others.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::config::Patience;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::gate::proof::ProofState;
use mcp_code_sandbox::http;
use mcp_code_sandbox::metrics::HttpLabels;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::{TOKEN, TestApp, config, eventually, post};

/// In place of half a minute and five minutes.
const HEAD: Duration = Duration::from_millis(500);
const BODY: Duration = Duration::from_secs(1);
/// And in place of one minute.
const UNREAD: Duration = Duration::from_millis(500);
/// By when a failing client must be gone, on a machine that does other things too.
const SOON: Duration = Duration::from_secs(20);

/// A server on an address.
struct Listening {
    addr: SocketAddr,
    /// The connections, and what accepts them.
    tasks: TaskTracker,
    stop: CancellationToken,
    app: App,
    _root: TempDir,
}

impl Listening {
    async fn new() -> Self {
        Self::with(&[("MAX_UPLOAD_BYTES", "64k"), ("MAX_CODE_BYTES", "64k")]).await
    }

    async fn with(settings: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = config(root.path(), settings);
        let patience = Patience {
            head: HEAD,
            body: BODY,
            unread: UNREAD,
        };
        config.http.patience = patience;
        let fake = FakeExecutor::with_languages(&["shell"]);
        let app = App::on(Arc::new(fake), config).unwrap();
        let router = app.start();
        app.parts.gate.proof.set(ProofState::Held);
        app.parts.gate.catalog.first_poll().await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let stopped = stop.clone().cancelled_owned();
        let serve = http::serve(listener, router, patience, tasks.clone(), stopped);
        tasks.spawn(serve);
        Self {
            addr,
            tasks,
            stop,
            app,
            _root: root,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends bytes and nothing more. Returns all that comes back until the server closes.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may have had enough before the end.
        let _ = stream.write_all(bytes).await;
        rest(stream).await
    }

    /// Fails if others are not served.
    async fn serves_others(&self) {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_code", "arguments": { "language": "shell", "code": "echo served" },
        } });
        let body = message.to_string();
        let head = head(&[
            ("Content-Length", &body.len().to_string()),
            ("Connection", "close"),
        ]);
        let answer = self.send(format!("{head}{body}").as_bytes()).await;
        assert!(answer.contains(r#"\"output\":\"served\\n\""#), "{answer}");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.cancel();
        self.app.parts.pool.close();
    }
}

/// Reads until the server closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset is an end too.
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the server does not give up");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The head of a request to `/mcp`.
fn head(more: &[(&str, &str)]) -> String {
    let more: Vec<_> = more
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let more = more.concat();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\n{more}\r\n"
    )
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_request_whose_head_does_not_end_is_given_up() {
    let server = Listening::new().await;
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: local", "GET"] {
        let (answer, ()) = tokio::join!(server.send(begun.as_bytes()), server.serves_others());
        assert!(matches!(status(&answer), "" | "408"), "{answer}");
    }
    // A byte at a time does not help.
    let mut stream = server.connect().await;
    let drip = async {
        while stream.write_all(b"G").await.is_ok() {
            tokio::time::sleep(HEAD / 10).await;
        }
    };
    assert!(tokio::time::timeout(SOON, drip).await.is_ok());
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let server = Listening::new().await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: y\r\n".repeat(200)
    );
    for request in [long, many] {
        let (answer, ()) = tokio::join!(server.send(request.as_bytes()), server.serves_others());
        // The client may still be sending, and then sees a reset.
        assert!(matches!(status(&answer), "" | "431"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = Listening::new().await;
    let request = format!(
        "{}{{\"jsonrpc\"",
        head(&[("Content-Length", "100"), ("Connection", "close")])
    );
    let (answer, ()) = tokio::join!(server.send(request.as_bytes()), server.serves_others());
    assert_eq!(status(&answer), "408", "{answer}");
    assert!(
        answer.contains(r#""code":-32600"#) && answer.contains("all of it within 1 s"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_too_slowly_is_given_up_after_a_minute() {
    let app = TestApp::on_fake().await;
    for (method, path, bytes, status) in [
        ("POST", "/mcp", 1, 408),
        ("POST", "/execute", 1, 408),
        ("PUT", "/api/v1/conversations/demo/files/a", 1, 408),
        ("PUT", "/api/v1/conversations/demo/files/a", 16 << 10, 201),
    ] {
        let begun = tokio::time::Instant::now();
        let pieces = futures::stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            (sent < 100).then(|| (Ok::<_, std::io::Error>(vec![b' '; bytes]), sent + 1))
        });
        let request = post().method(method).uri(path);
        let answer = app
            .send(request.body(Body::from_stream(pieces)).unwrap())
            .await;
        assert_eq!(answer.status, status, "{path} {}", answer.text());
        let in_time = if status == 408 { 60..=66 } else { 100..=101 };
        assert!(in_time.contains(&begun.elapsed().as_secs()), "{path}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused() {
    let server = Listening::new().await;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let mut stream = server.connect().await;
    let request = head(&[("Transfer-Encoding", "chunked")]);
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let flood = async { while writer.write_all(chunk.as_bytes()).await.is_ok() {} };
    let mut answer = vec![0; 64];
    let read = async {
        let count = reader.read(&mut answer).await.unwrap_or(0);
        server.serves_others().await;
        count
    };
    // The flood ends because the server closes.
    let (count, ()) = tokio::time::timeout(SOON, async { tokio::join!(read, flood) })
        .await
        .unwrap();
    assert!(matches!(
        status(&String::from_utf8_lossy(&answer[..count])),
        "" | "413"
    ));
}

#[tokio::test]
async fn five_hundred_idle_streams_keep_nobody_out() {
    let server = Listening::new().await;
    let open =
        format!("GET /sse HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let mut streams = Vec::new();
    for _ in 0..500 {
        let mut stream = server.connect().await;
        stream.write_all(open.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        streams.push(stream);
    }
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(server.connect().await);
    }
    server.serves_others().await;
    let refused = server.send(open.as_bytes()).await;
    assert_eq!(status(&refused), "503");
    for stream in idle {
        assert_eq!(rest(stream).await, "", "nothing was asked");
    }
    server.serves_others().await;
    // Those to whom nothing is sent are still connected.
    let refused = server.send(open.as_bytes()).await;
    assert_eq!(status(&refused), "503");
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up() {
    let server = Listening::new().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.addr).await.unwrap();
    // More than fits into the system's buffers.
    let request = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream
        .write_all(request.repeat(20).as_bytes())
        .await
        .unwrap();
    eventually("its place is taken", || server.tasks.len() == 2).await;
    eventually("its place is free", || server.tasks.len() == 1).await;
    assert!(rest(stream).await.starts_with("HTTP/1.1 200"));
    server.serves_others().await;
}

#[tokio::test]
async fn json_of_any_depth_is_an_answer() {
    let server = Listening::new().await;
    let depth = 50_000;
    let closed = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let params = format!(r#"{{"name":"run_code","arguments":{{"code":{closed}}}}}"#);
    let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    for body in ["[".repeat(depth), r#"{"a":"#.repeat(depth), whole] {
        let length = body.len().to_string();
        let head = head(&[("Content-Length", &length), ("Connection", "close")]);
        let answer = server.send(format!("{head}{body}").as_bytes()).await;
        assert!(matches!(status(&answer), "400" | "415"), "{answer}");
        assert!(answer.contains(r#""error":{"code":"#), "{answer}");
    }
    server.serves_others().await;
}

#[tokio::test]
async fn a_body_has_one_length_for_everybody() {
    let server = Listening::new().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let two = head(&[("Content-Length", "0"), ("Content-Length", "46")]);
    let answer = server.send(format!("{two}{smuggled}").as_bytes()).await;
    assert_eq!(
        (status(&answer), answer.matches("HTTP/1.1").count()),
        ("400", 1),
        "{answer}"
    );
    let odd = head(&[("Transfer-Encoding", "chunked, identity")]);
    let answer = server.send(format!("{odd}{smuggled}").as_bytes()).await;
    assert_eq!(
        (status(&answer), answer.matches("HTTP/1.1").count()),
        ("400", 1),
        "{answer}"
    );
    for fields in [
        [("Content-Length", "6"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", "6")],
    ] {
        // In chunks the body is empty, and what follows would be a request of its own: it must not be taken for one.
        let request = format!("{}0\r\n\r\n{smuggled}", head(&fields));
        let answer = server.send(request.as_bytes()).await;
        assert_eq!(
            (status(&answer), answer.matches("HTTP/1.1").count()),
            ("400", 1),
            "{answer}"
        );
    }
    server.serves_others().await;
}

#[tokio::test]
async fn a_refused_upload_is_answered_while_it_is_still_sent() {
    let server = Listening::with(&[("MAX_UPLOAD_BYTES", "16m")]).await;
    let body = vec![b'x'; 8 << 20];
    let head = |more| {
        format!(
            "PUT /api/v1/conversations/demo/files/..%2Fup HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        )
    };
    let mut stream = server.connect().await;
    stream.write_all(head("").as_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    let answer = rest(stream).await;
    assert_eq!(status(&answer), "400", "{answer}");
    // A client that asks before it sends gets the refusal at once, and is not told to go on.
    let asking = head("Expect: 100-continue\r\n");
    let answer = server.send(asking.as_bytes()).await;
    assert_eq!(status(&answer), "400", "{answer}");
    server.serves_others().await;
}

#[tokio::test]
async fn a_refused_form_is_answered_while_it_is_still_sent() {
    let server = Listening::with(&[("MAX_UPLOAD_BYTES", "16m")]).await;
    let part = |name: &str, content: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    let long = "x".repeat(4 << 20);
    let parts = [part("../up", "x"), part("a", &long), part("b", &long)];
    let body = format!("{}--XX--\r\n", parts.concat());
    let head = format!(
        "POST /api/v1/conversations/demo/files HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Connection: close\r\nContent-Type: multipart/form-data; boundary=XX\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = server.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = rest(stream).await;
    assert_eq!(status(&answer), "400", "{answer}");
    server.serves_others().await;
}

#[tokio::test]
async fn a_client_that_closes_without_an_answer_is_counted() {
    let server = Listening::new().await;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_code", "arguments": { "language": "shell", "code": "sleep 60" },
    } });
    let body = message.to_string();
    let head = head(&[("Content-Length", &body.len().to_string())]);
    let mut stream = server.connect().await;
    let request = format!("{head}{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let parts = &server.app.parts;
    eventually("it runs", || parts.gate.count() == 1).await;
    drop(stream);
    let labels = HttpLabels {
        method: "POST",
        route: "/mcp".to_owned(),
        status: 499,
    };
    eventually("it is counted", || {
        let given_up = parts.metrics.http_requests.get_or_create_owned(&labels);
        given_up.get() == 1
    })
    .await;
    server.serves_others().await;
}

#[tokio::test]
async fn a_request_has_one_host_for_everybody() {
    let server = Listening::new().await;
    for (first, second) in [("localhost", "evil.example"), ("evil.example", "localhost")] {
        // Whatever address the request names itself.
        for target in ["/healthz", "http://localhost/healthz"] {
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\nConnection: close\r\n\r\n"
            );
            let answer = server.send(request.as_bytes()).await;
            assert_eq!(status(&answer), "400", "{answer}");
        }
    }
    for wrong in [
        "",
        "Host: b\u{fc}cher\r\n",
        "Host: [::1].evil.example\r\n",
        "Host: localhost:80@evil.example\r\n",
    ] {
        let request = format!("GET /healthz HTTP/1.1\r\n{wrong}Connection: close\r\n\r\n");
        let answer = server.send(request.as_bytes()).await;
        assert_eq!(status(&answer), "400", "{answer}");
    }
    // The first version of HTTP has no such header.
    let old = b"GET /healthz HTTP/1.0\r\n\r\n";
    assert_eq!(status(&server.send(old).await), "403");
    server.serves_others().await;
    let server = Listening::with(&[("ALLOWED_HOSTS", "*")]).await;
    assert_eq!(status(&server.send(old).await), "200");
}
