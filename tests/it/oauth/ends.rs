//! What becomes of what callers began when their access tokens have expired.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::{World, pong};
use crate::sse::EventStream;
use crate::support::eventually;
use crate::support::issuer::{now, signed};

/// A token that expires in this many seconds, which may be less than none: clocks may differ by a minute.
fn expiring_in(world: &World, subject: &str, seconds: i64) -> String {
    let mut claims = world.issuer.claims(subject);
    claims["exp"] = now().saturating_add_signed(seconds).into();
    signed(&claims)
}

async fn listen(world: &World, token: &str) -> EventStream {
    let request = Request::get("/sse")
        .header("host", "localhost:8080")
        .header("accept", "text/event-stream")
        .header("authorization", format!("Bearer {token}"));
    let mut stream = EventStream::open(&world.app, request.body(Body::empty()).unwrap()).await;
    assert_eq!(stream.next().await.unwrap().name, "endpoint");
    stream
}

#[tokio::test]
async fn what_a_caller_began_ends_when_the_last_of_their_tokens_has_expired() {
    let settings = [("CALL_BUDGET", "100ms"), ("MAX_CONCURRENT_RUNS", "8")];
    let world = World::new(&settings).await;
    let mut streams = Vec::new();
    for subject in ["anna", "ben"] {
        let token = expiring_in(&world, subject, -55);
        streams.push(listen(&world, &token).await);
        let program = json!({ "language": "shell", "code": "sleep 120" });
        let running = world.call(&token, "run_code", program).await;
        assert_eq!(running["status"], "running", "{running}");
    }
    // One of them gets another token in time.
    let next = expiring_in(&world, "ben", 300);
    assert_eq!(world.ping(&next).await, pong());
    let gate = &world.app.app.parts.gate;
    assert_eq!(gate.count(), 2);
    assert!(streams[0].next().await.is_none());
    eventually("the run of the other one has ended", || gate.count() == 1).await;
    assert!(futures::poll!(Box::pin(streams[1].next())).is_pending());
    assert_eq!(world.ping(&next).await, pong());
}
