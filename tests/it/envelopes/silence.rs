//! Answers and sessions that are silent for a while.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::{BOTH, PING, run, session, to};
use crate::support::TestApp;

#[tokio::test(start_paused = true)]
async fn a_silent_answer_begins_at_once_and_shows_that_it_lives() {
    let app = TestApp::on_fake().await;
    let id = session(&app, "2025-06-18").await;
    let in_session = |method| to(method, "/mcp").header("mcp-session-id", &id);
    let slow = run(1, "sleep 20");
    for request in [
        to("POST", "/mcp")
            .header("accept", "text/event-stream")
            .body(slow.clone().into()),
        to("POST", "/mcp")
            .header("accept", BOTH)
            .body(slow.clone().into()),
        in_session("POST")
            .header("accept", BOTH)
            .body(slow.clone().into()),
        in_session("GET")
            .header("accept", "text/event-stream")
            .body(Body::empty()),
        in_session("GET")
            .header("accept", "*/*")
            .body(Body::empty()),
        in_session("GET").body(Body::empty()),
    ] {
        let began = tokio::time::Instant::now();
        let mut answer = app.router.clone().oneshot(request.unwrap()).await.unwrap();
        for least in [0, 14] {
            let first = answer.body_mut().frame().await.unwrap().unwrap();
            assert!(first.into_data().unwrap().starts_with(b":"));
            let passed = began.elapsed().as_secs();
            assert!((least..=least + 2).contains(&passed), "{passed}");
        }
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_streams_alone_is_answered_when_its_program_begins() {
    let app = TestApp::on_fake().await;
    let id = session(&app, "2025-06-18").await;
    for session in ["", &id] {
        let request = to("POST", "/mcp")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session);
        let began = tokio::time::Instant::now();
        let request = request.body(Body::from(run(1, "sleep 20"))).unwrap();
        let mut answer = app.router.clone().oneshot(request).await.unwrap();
        let first = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), ":\n\n");
        // The clock stands still unless something waits for it.
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_while_it_is_used() {
    let app = TestApp::on_fake_with(&[("SESSION_IDLE_TTL", "10m")]).await;
    let [silent, listening, running] = [
        session(&app, "2025-06-18").await,
        session(&app, "2025-06-18").await,
        session(&app, "2025-06-18").await,
    ];
    let ping = async |id: &str| {
        let request = to("POST", "/mcp")
            .header("accept", BOTH)
            .header("mcp-session-id", id);
        app.send(request.body(PING.into()).unwrap())
            .await
            .status
            .as_u16()
    };
    let open = async |method: &str, id: &str, body: String| {
        let request = to(method, "/mcp")
            .header("accept", BOTH)
            .header("mcp-session-id", id);
        crate::sse::EventStream::open(&app, request.body(body.into()).unwrap()).await
    };
    let stream = open("GET", &listening, String::new()).await;
    let answer = open("POST", &running, run(1, "sleep 200")).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(ping(&silent).await, 200);
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert_eq!(ping(&silent).await, 404);
    assert_eq!(ping(&listening).await, 200);
    drop((stream, answer));
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert_eq!((ping(&listening).await, ping(&running).await), (404, 404));
}
