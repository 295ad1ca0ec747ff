//! What becomes of what a login began when it is over, and what the audit log has of logins.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::{World, both, pong};
use crate::sse::EventStream;
use crate::support::{TOKEN, eventually};

impl World {
    async fn listen(&self, token: &str) -> EventStream {
        let request = Request::get("/sse")
            .header("host", "localhost:8080")
            .header("accept", "text/event-stream")
            .header("authorization", format!("Bearer {token}"));
        let mut stream = EventStream::open(&self.app, request.body(Body::empty()).unwrap()).await;
        assert_eq!(stream.next().await.unwrap().name, "endpoint");
        stream
    }
}

#[tokio::test]
async fn what_a_login_began_ends_with_it_and_nothing_else_does() {
    let world = World::new(&[("CALL_BUDGET", "100ms")]).await;
    let client = world.client().await;
    let (access, refresh) = world.tokens(&client, TOKEN).await;
    let (other, _) = world.tokens(&client, TOKEN).await;
    let (mut own, mut others, mut by_token) = (
        world.listen(&access).await,
        world.listen(&other).await,
        world.listen(TOKEN).await,
    );
    for token in [&access, &other] {
        let running = world.run(token, "sleep 120").await;
        assert_eq!(running["status"], "running", "{running}");
    }
    let gate = &world.app.app.parts.gate;
    assert_eq!(gate.count(), 2);
    let answer = world
        .post_form("/oauth/revoke", &[("token", &refresh)])
        .await;
    assert_eq!(answer.status, 200);
    assert!(own.next().await.is_none());
    eventually("its run has ended", || gate.count() == 1).await;
    for token in [&other, TOKEN] {
        assert_eq!(world.ping(token).await, pong());
    }
    for stream in [&mut others, &mut by_token] {
        assert!(futures::poll!(Box::pin(stream.next())).is_pending());
    }
    // The other one ends by a refresh token that comes twice.
    let (_, refresh) = {
        let answer = world
            .exchange(&client, &world.code(&client, TOKEN).await, &[])
            .await;
        both(&answer)
    };
    assert_eq!(world.refresh(&client, &refresh).await.status, 200);
    assert_eq!(world.refresh(&client, &refresh).await.status, 400);
    let answer = world.post_form("/oauth/revoke", &[("token", &other)]).await;
    assert_eq!(answer.status, 200);
    assert!(others.next().await.is_none());
    eventually("no run is left", || gate.count() == 0).await;
    assert!(futures::poll!(Box::pin(by_token.next())).is_pending());
}

#[tokio::test]
async fn the_audit_log_has_logins_and_their_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let log = path.display().to_string();
    let world = World::new(&[("AUDIT_LOG", &log)]).await;
    let client = world.client().await;
    let visit = world.visit(World::address(&client, &[])).await;
    assert_eq!(world.paste(&visit, "wrong").await.status, 403);
    let code = world.code(&client, &world.token).await;
    let (_, first) = both(&world.exchange(&client, &code, &[]).await);
    assert_eq!(world.refresh(&client, &first).await.status, 200);
    assert_eq!(world.refresh(&client, &first).await.status, 400);
    // Of what is over, nothing more is recorded.
    assert_eq!(world.exchange(&client, &code, &[]).await.status, 400);
    let (access, _) = world.tokens(&client, TOKEN).await;
    for _ in 0..2 {
        world
            .post_form("/oauth/revoke", &[("token", &access)])
            .await;
    }
    world.app.app.shut_down().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        for name in ["seq", "at", "prev", "version"] {
            line.as_object_mut().unwrap().shift_remove(name);
        }
        line
    });
    let lines: Vec<_> = lines
        .filter(|line| line["event"] != json!("server_started"))
        .collect();
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"event":"auth_denied","route":"POST /oauth/authorize","reason":"unknown_token"}
    {"event":"login_granted","tenant":"research","subject":"ee9fe0e97dfd","token":"anna","client":"Test","redirect_host":"localhost"}
    {"event":"login_ended","tenant":"research","subject":"ee9fe0e97dfd","token":"anna","reason":"refresh_token_replayed"}
    {"event":"login_granted","tenant":"default","subject":"48904f832917","client":"Test","redirect_host":"localhost"}
    {"event":"login_ended","tenant":"default","subject":"48904f832917","reason":"revoked"}
    {"event":"server_stopped"}
    "#);
}
