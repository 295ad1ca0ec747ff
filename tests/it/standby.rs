//! A server that stands by, in front of one that leads: both on real listeners.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::HeaderMap;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use futures::{StreamExt as _, stream};
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::config::Patience;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::gate::proof::ProofState;
use mcp_code_sandbox::http;
use mcp_code_sandbox::replicas::{Leader, Standing};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::{TOKEN, config};

/// On a machine that does other things too.
const SOON: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_mins(1);
/// The largest upload, and a little more.
const LARGE: usize = 50 << 20;

/// Something that listens. Dropping it ends that.
struct Listening {
    addr: SocketAddr,
    _stop: DropGuard,
}

impl Listening {
    async fn new(router: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let patience = Patience {
            head: PATIENCE,
            body: PATIENCE,
            unread: PATIENCE,
        };
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(http::serve(
            listener,
            router,
            patience,
            tasks.clone(),
            stopped,
        ));
        Self {
            addr,
            _stop: stop.drop_guard(),
        }
    }
}

/// A standby that knows a leader.
struct Standby {
    listening: Listening,
    standing: watch::Sender<Standing>,
    calls: TaskTracker,
}

impl Standby {
    async fn of(leader: SocketAddr) -> Self {
        let led = Standing::Led(Leader {
            name: "first".to_owned(),
            addr: leader,
        });
        let (standing, known) = watch::channel(led);
        let calls = TaskTracker::new();
        Self {
            listening: Listening::new(http::standby(known, calls.clone())).await,
            standing,
            calls,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listening.addr)
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        client().get(self.url(path))
    }

    fn another_leads(&self) {
        let another = Leader {
            name: "second".to_owned(),
            addr: ([127, 0, 0, 1], 1).into(),
        };
        self.standing.send_replace(Standing::Led(another));
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A leader that has not been answered yet tells when it is given up.
async fn silent(told: mpsc::UnboundedSender<&'static str>) -> Json<Value> {
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let told = Dropped(told);
    told.0.send("asked").unwrap();
    std::future::pending().await
}

fn silent_leader() -> (Router, mpsc::UnboundedReceiver<&'static str>) {
    let (sender, told) = mpsc::unbounded_channel();
    let route = any(move || silent(sender.clone()));
    (Router::new().fallback(route), told)
}

async fn code(answer: reqwest::Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (
        status,
        body["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    )
}

#[tokio::test]
async fn events_are_passed_on_as_they_come() {
    let (sender, events) = mpsc::unbounded_channel::<Result<Bytes, Infallible>>();
    let events = Arc::new(parking_lot::Mutex::new(Some(events)));
    let stream = move || async move {
        let events = events.lock().take().unwrap();
        let body = Body::from_stream(UnboundedReceiverStream::new(events));
        ([("content-type", "text/event-stream")], body)
    };
    let leader = Listening::new(Router::new().route("/sse", get(stream))).await;
    let standby = Standby::of(leader.addr).await;
    let answer = standby.get("/sse").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    // It has no end of its own, so nobody waits for that.
    assert_eq!(standby.calls.len(), 0);
    let mut chunks = answer.bytes_stream();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(Ok(event.into())).unwrap();
        let chunk = tokio::time::timeout(SOON, chunks.next()).await.unwrap();
        assert_eq!(chunk.unwrap().unwrap(), event);
    }
    // Another leader: this stream has no end any more, and its client has to know.
    standby.another_leads();
    let cut = tokio::time::timeout(SOON, chunks.next()).await.unwrap();
    assert!(cut.unwrap().is_err());
}

#[tokio::test]
async fn an_upload_is_passed_on_as_it_comes() {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let receive = move |request: Request| async move {
        let length = request.headers().get("content-length").cloned();
        let (mut bytes, mut body) = (0, request.into_body().into_data_stream());
        while let Some(chunk) = body.next().await {
            bytes += chunk.unwrap().len();
            let _ = sender.send(bytes);
        }
        Json(json!({ "bytes": bytes, "length": length.map(|it| it.to_str().unwrap().to_owned()) }))
    };
    let router = Router::new().route("/upload", post(receive));
    let leader = Listening::new(router.layer(DefaultBodyLimit::disable())).await;
    let standby = Standby::of(leader.addr).await;
    let (chunks, stream) = mpsc::unbounded_channel::<Result<Bytes, Infallible>>();
    let body = reqwest::Body::wrap_stream(UnboundedReceiverStream::new(stream));
    let request = client().post(standby.url("/upload")).body(body).send();
    let answer = TaskTracker::new().spawn(request);
    // The first part arrives before the last is sent.
    let part = Bytes::from(vec![7; 1 << 20]);
    chunks.send(Ok(part.clone())).unwrap();
    let first = tokio::time::timeout(SOON, seen.recv()).await.unwrap();
    assert!(first.unwrap() > 0);
    for _ in 1..LARGE >> 20 {
        chunks.send(Ok(part.clone())).unwrap();
    }
    drop(chunks);
    let answer: Value = answer.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer, json!({ "bytes": LARGE, "length": null }));
    // With a length, too.
    let whole = client().post(standby.url("/upload")).body(vec![7; LARGE]);
    let answer: Value = whole.send().await.unwrap().json().await.unwrap();
    let expected = json!({ "bytes": LARGE, "length": LARGE.to_string() });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn who_asks_stays_the_same() {
    let show = |headers: HeaderMap| async move {
        let names = [
            "host",
            "origin",
            "authorization",
            "mcp-session-id",
            "last-event-id",
            "x-forwarded-for",
            "x-sandbox-hop",
            "keep-alive",
        ];
        let line = |name: &str| {
            let all = headers.get_all(name).iter();
            let all: Vec<_> = all.map(|value| value.to_str().unwrap()).collect();
            (name.to_owned(), Value::from(all.join(", ")))
        };
        Json(
            names
                .into_iter()
                .map(line)
                .collect::<serde_json::Map<_, _>>(),
        )
    };
    let leader = Listening::new(Router::new().fallback(any(show))).await;
    let standby = Standby::of(leader.addr).await;
    let request = standby.get("//any?a=%2F").headers(
        [
            ("host", "box.example"),
            ("origin", "https://box.example"),
            ("authorization", "Bearer token"),
            ("mcp-session-id", "1"),
            ("last-event-id", "2"),
            ("x-forwarded-for", "10.0.0.9"),
            ("keep-alive", "timeout=5"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect(),
    );
    let seen: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(
        seen,
        json!({
            "host": "box.example",
            "origin": "https://box.example",
            "authorization": "Bearer token",
            "mcp-session-id": "1",
            "last-event-id": "2",
            "x-forwarded-for": "10.0.0.9, 127.0.0.1",
            "x-sandbox-hop": "1",
            "keep-alive": "",
        })
    );
}

#[tokio::test]
async fn a_client_that_goes_away_goes_away_from_the_leader() {
    let (router, mut told) = silent_leader();
    let leader = Listening::new(router).await;
    let standby = Standby::of(leader.addr).await;
    let asked = TaskTracker::new().spawn(standby.get("/").send());
    assert_eq!(told.recv().await, Some("asked"));
    assert_eq!(standby.calls.len(), 1);
    asked.abort();
    let dropped = tokio::time::timeout(SOON, told.recv()).await;
    assert_eq!(dropped.expect("it is told"), Some("dropped"));
    tokio::time::timeout(SOON, async {
        standby.calls.close();
        standby.calls.wait().await;
    })
    .await
    .expect("no call is left");
}

#[tokio::test]
async fn where_there_is_no_leader_nothing_is_passed_on() {
    let (router, mut told) = silent_leader();
    let leader = Listening::new(router).await;
    let standby = Standby::of(leader.addr).await;
    let status = async |path: &str| standby.get(path).send().await.unwrap().status().as_u16();
    assert_eq!(
        (status("/healthz").await, status("/readyz").await),
        (200, 200)
    );
    // One of another standby.
    let hopped = standby.get("/").header("x-sandbox-hop", "1").send().await;
    let hopped = hopped.unwrap();
    assert_eq!(hopped.headers()["retry-after"], "2");
    assert_eq!(code(hopped).await, (503, "no_leader".to_owned()));
    standby.standing.send_replace(Standing::Unknown);
    let answer = standby.get("/mcp").send().await.unwrap();
    assert_eq!(code(answer).await, (503, "no_leader".to_owned()));
    assert_eq!(
        (status("/healthz").await, status("/readyz").await),
        (200, 503)
    );
    // Nothing listens there.
    standby.another_leads();
    let answer = standby.get("/mcp").send().await.unwrap();
    assert_eq!(code(answer).await, (503, "no_leader".to_owned()));
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn one_that_was_asked_and_leads_no_more_may_have_done_it() {
    let (router, mut told) = silent_leader();
    let leader = Listening::new(router).await;
    let standby = Standby::of(leader.addr).await;
    let asked = TaskTracker::new().spawn(client().post(standby.url("/mcp")).body("1").send());
    assert_eq!(told.recv().await, Some("asked"));
    // Whether it is not known for a moment who leads does not matter.
    standby.standing.send_replace(Standing::Unknown);
    standby.another_leads();
    let answer = asked.await.unwrap().unwrap();
    assert_eq!(code(answer).await, (502, "leader_lost".to_owned()));
    assert_eq!(told.recv().await, Some("dropped"));
    assert!(told.try_recv().is_err(), "it is not asked again");
}

/// A leader on a fake executor, with all of its routes.
async fn leading(root: &Path) -> (App, Listening) {
    let fake = FakeExecutor::with_languages(&["shell"]);
    let app = App::on(Arc::new(fake), config(root, &[])).unwrap();
    let router = app.start();
    app.parts.gate.proof.set(ProofState::Held);
    app.parts.gate.catalog.first_poll().await;
    (app, Listening::new(router).await)
}

/// Whether a client asks before it sends or not, and whether it says how long the body is.
#[tokio::test]
async fn a_refusal_before_the_body_was_read_arrives_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let (app, leader) = leading(root.path()).await;
    let standby = Standby::of(leader.addr).await;
    let file = "/api/v1/conversations/demo/files/a.bin";
    for (path, token, bytes, expected) in [
        (file, "wrong", LARGE, (401, "unauthorized")),
        ("/mcp", "wrong", LARGE, (401, "unauthorized")),
        (file, TOKEN, LARGE + 1, (413, "file_too_large")),
        ("/nowhere", TOKEN, LARGE, (404, "no_such_route")),
    ] {
        for (asks, declared) in [(true, true), (false, true), (false, false)] {
            let body = if declared {
                reqwest::Body::from(vec![7; bytes])
            } else {
                let piece = Ok::<_, Infallible>(Bytes::from(vec![7; 1 << 20]));
                reqwest::Body::wrap_stream(stream::iter(vec![piece; (bytes >> 20) + 1]))
            };
            let mut request = client()
                .put(standby.url(path))
                .bearer_auth(token)
                .body(body);
            if asks {
                request = request.header("expect", "100-continue");
            }
            let answer = code(request.send().await.unwrap()).await;
            let expected = (expected.0, expected.1.to_owned());
            assert_eq!(answer, expected, "{path} {asks} {declared}");
        }
    }
    // Where there is none who would refuse it, too.
    standby.standing.send_replace(Standing::Unknown);
    let put = client().put(standby.url(file)).body(vec![7; LARGE]).send();
    assert_eq!(
        code(put.await.unwrap()).await,
        (503, "no_leader".to_owned())
    );
    app.shut_down().await;
}

#[tokio::test]
async fn files_go_both_ways_through_a_standby() {
    let root = tempfile::tempdir().unwrap();
    let (app, leader) = leading(root.path()).await;
    let standby = Standby::of(leader.addr).await;
    let content: Vec<u8> = (0..=250).cycle().take(LARGE).collect();
    let path = "/api/v1/conversations/demo/files/a.bin";
    let put = client().put(standby.url(path)).bearer_auth(TOKEN);
    let put = put.body(content.clone()).send().await.unwrap();
    assert!(put.status().is_success(), "{}", put.text().await.unwrap());
    let whole = standby.get(path).bearer_auth(TOKEN).send().await.unwrap();
    assert!(whole.bytes().await.unwrap() == content);
    let part = standby.get(path).bearer_auth(TOKEN);
    let part = part
        .header("range", "bytes=1000-1999")
        .send()
        .await
        .unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(
        part.headers()["content-range"],
        format!("bytes 1000-1999/{LARGE}")
    );
    assert_eq!(part.bytes().await.unwrap(), content[1000..2000]);
    // Refused for what is there.
    let refused = client().put(standby.url(path)).bearer_auth(TOKEN);
    let refused = refused
        .header("if-none-match", "*")
        .body(content)
        .send()
        .await;
    let refused = code(refused.unwrap()).await;
    assert_eq!(refused, (412, "precondition_failed".to_owned()));
    app.shut_down().await;
}
