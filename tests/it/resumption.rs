//! Event streams that are resumed, after a long silence and until their session is closed.

use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};

use crate::sse::{Event, Session, run};
use crate::support::{TestApp, post};

/// A session that has asked for logs, and the log of its first run: an event of the session's own stream.
async fn logged(app: &TestApp) -> (Session<'_>, Event) {
    let session = Session::open(app, "2025-06-18").await;
    let set_level = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "info" } });
    session.send(&set_level).await.rest().await;
    let mut stream = session.listen(None).await;
    session.send(&run(2, "exit 1")).await.rest().await;
    let event = stream.next().await.unwrap();
    assert_eq!(exit_code(&event), 1);
    (session, event)
}

fn exit_code(event: &Event) -> Value {
    event.json()["params"]["data"]["exitCode"].clone()
}

#[tokio::test(start_paused = true)]
async fn events_after_a_long_silence_are_new() {
    let app = TestApp::on_fake().await;
    let (session, seen) = logged(&app).await;
    tokio::time::advance(Duration::from_mins(11)).await;
    // Old events are forgotten with the next event of any stream.
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
    session.send(&ping).await.rest().await;
    for (id, code) in [(4, "exit 4"), (5, "exit 5")] {
        session.send(&run(id, code)).await.rest().await;
    }
    let mut stream = session.listen(Some(&seen.id)).await;
    for code in [4, 5] {
        let event = stream.next().await.unwrap();
        assert_eq!(exit_code(&event), code);
        assert_ne!(event.id, seen.id);
    }
}

#[tokio::test]
async fn a_session_resumes_its_own_streams_only() {
    let app = TestApp::on_fake().await;
    let ((other, of_its_own), own) = (logged(&app).await, Session::open(&app, "2025-06-18").await);
    let of_a_run = other.send(&run(3, "exit 3")).await.next().await.unwrap();
    for event in [of_its_own, of_a_run] {
        let (stream, _) = event.id.rsplit_once('_').unwrap();
        let before_the_first = format!("{stream}_0");
        let mut foreign = own.listen(Some(&before_the_first)).await;
        assert!(foreign.next().await.is_none());
        let mut resumed = other.listen(Some(&before_the_first)).await;
        assert_eq!(resumed.next().await.unwrap().id, event.id);
    }
}

#[tokio::test]
async fn resumed_streams_end_with_their_session() {
    let app = TestApp::on_fake().await;
    let (session, seen) = logged(&app).await;
    let mut stream = session.listen(Some(&seen.id)).await;
    let close = post()
        .method("DELETE")
        .header("mcp-session-id", &session.id);
    let closed = app.send(close.body(Body::empty()).unwrap()).await;
    assert_eq!(closed.status, 204);
    assert!(stream.next().await.is_none());
}
