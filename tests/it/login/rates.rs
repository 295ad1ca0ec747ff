//! How much may come from one address to where callers log in.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};

use super::{World, both};
use crate::support::{Answer, TOKEN};

/// A request from an address.
async fn from(world: &World, address: &str, method: Method, path: &str) -> Answer {
    let address: SocketAddr = address.parse().unwrap();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:8080")
        .extension(ConnectInfo(address));
    world.app.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn an_address_that_sends_too_much_is_turned_away_and_others_are_not() {
    let world = World::new(&[]).await;
    let flood = "[2001:db8::1]:4711";
    let mut answers = 0;
    let refused = loop {
        let answer = from(&world, flood, Method::POST, "/oauth/token").await;
        if answer.status != 400 {
            break answer;
        }
        answers += 1;
        assert!(answers < 10_000, "it goes on and on");
    };
    assert!(answers >= 100, "{answers}");
    assert_eq!(
        (
            refused.status.as_u16(),
            refused.header("retry-after"),
            refused.header("cache-control")
        ),
        (429, "1", "no-store")
    );
    insta::assert_snapshot!(refused.text(), @r#"{"error":"temporarily_unavailable","error_description":"too many requests (from your address): try again in 1 s"}"#);
    for (method, path) in [
        (Method::POST, "/oauth/register"),
        (Method::POST, "/oauth/revoke"),
        (Method::GET, "/oauth/authorize"),
    ] {
        // A place may have become free meanwhile.
        let refused = loop {
            let answer = from(&world, "[2001:db8::2]:4712", method.clone(), path).await;
            if answer.status != 400 && answer.status != 401 {
                break answer;
            }
        };
        assert_eq!(
            (refused.status.as_u16(), refused.header("retry-after")),
            (429, "1"),
            "{path}"
        );
        if path == "/oauth/authorize" {
            assert_eq!(refused.header("content-type"), "text/html; charset=utf-8");
            assert!(
                refused.text().contains("too many requests"),
                "{}",
                refused.text()
            );
        }
    }
    let other = from(&world, "192.0.2.7:4711", Method::POST, "/oauth/token").await;
    assert_eq!(other.status, 400);
    // Whoever has a token is let in as before, and what says where to log in is there for all.
    assert_eq!(world.ping(TOKEN).await.0, 200);
    let metadata = "/.well-known/oauth-authorization-server";
    assert_eq!(from(&world, flood, Method::GET, metadata).await.status, 200);
}

#[tokio::test]
async fn others_at_the_same_address_keep_nobody_from_the_next_access_token() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (_, mut refresh) = world.tokens(&client, TOKEN).await;
    for _ in 0..3 {
        // What comes without an address comes from one, as behind a proxy.
        while world.post_form("/oauth/token", &[]).await.status != 429 {}
        let answer = world.refresh(&client, &refresh).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        (_, refresh) = both(&answer);
    }
    let answer = world
        .post_form("/oauth/revoke", &[("token", &refresh)])
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
