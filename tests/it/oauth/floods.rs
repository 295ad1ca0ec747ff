//! Tokens that somebody makes up, about which the issuer has to be asked.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;

use super::World;
use crate::support::issuer::{MADE_UP, now};
use crate::support::wait::within;

const INTROSPECTION: [(&str, &str); 2] = [
    ("OAUTH_INTROSPECTION_CLIENT", "sandbox"),
    ("OAUTH_INTROSPECTION_SECRET", "a secret of the server"),
];

/// The status of a ping with a token from an address.
async fn ping_from(world: &World, address: &str, token: &str) -> u16 {
    let address: SocketAddr = address.parse().unwrap();
    let request = Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"))
        .extension(ConnectInfo(address));
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let request = request.body(Body::from(ping.to_string())).unwrap();
    world.app.send(request).await.status.as_u16()
}

#[tokio::test]
async fn made_up_tokens_keep_out_neither_other_addresses_nor_known_tokens() {
    let world = World::new(&INTROSPECTION).await;
    let (flooded, other) = ("192.0.2.7:4711", "192.0.2.8:4711");
    let expiring_in = |seconds: u64| {
        json!({
            "active": true, "sub": "anna", "aud": "http://localhost:8080/mcp", "exp": now() + seconds,
        })
    };
    let set = |known: Vec<(&str, serde_json::Value)>| {
        let known = known
            .into_iter()
            .map(|(token, answer)| (token.to_owned(), answer));
        world.issuer.answers.lock().known = known.collect();
    };
    // It is asked about again as soon as it would have expired.
    set(vec![("known", expiring_in(2))]);
    assert_eq!(ping_from(&world, flooded, "known").await, 200);
    set(vec![("known", expiring_in(300)), ("new", expiring_in(300))]);
    let asked = world.issuer.answers.lock().asked_known;
    let mut flood: FuturesUnordered<_> = (0..40)
        .map(|number| {
            let token = format!("{MADE_UP}{number}");
            let world = &world;
            async move { ping_from(world, flooded, &token).await }.boxed_local()
        })
        .collect();
    let good = async {
        let answers = &world.issuer.answers;
        let full = async || (answers.lock().made_up == 4).then_some(());
        within(
            Duration::from_secs(20),
            "the places of the address are taken",
            full,
        )
        .await;
        assert_eq!(ping_from(&world, other, "new").await, 200);
        let again = async || {
            assert_eq!(ping_from(&world, flooded, "known").await, 200);
            (answers.lock().asked_known >= asked + 2).then_some(())
        };
        within(Duration::from_secs(20), "the issuer is asked again", again).await;
        // Those that wait give up, and what was asked about never holds more than its part.
        assert!(answers.lock().made_up <= 8);
    };
    tokio::select! {
        () = good => {}
        () = async { while flood.next().await.is_some() {} } => panic!("the flood is over"),
    }
}
