//! The server's own page as a client that nobody has to register.

use axum::http::Method;
use serde_json::json;

use super::{VERIFIER, World, both, with};
use crate::support::TOKEN;

const PAGE: &str = "http://localhost:8080/";

#[tokio::test]
async fn the_page_is_known_and_logs_people_in() {
    let world = World::new(&[]).await;
    let own = [("redirect_uri", PAGE)];
    let visit = world.visit(World::address("page", &own)).await;
    let shown = world.app.get(&visit.path).await;
    for text in [
        "“The page of this server” wants",
        "which is where you came from",
    ] {
        assert!(shown.text().contains(text), "{}", shown.text());
    }
    assert!(
        shown
            .header("content-security-policy")
            .contains("form-action 'self' http://localhost:8080;")
    );
    for (token, tenant) in [
        (TOKEN.to_owned(), "default"),
        (world.token.clone(), "research"),
    ] {
        let sent = world.sent("page", &token, &own).await;
        let answer = world.exchange("page", &sent[0].1, &own).await;
        let (access, refresh) = both(&answer);
        let headers = [("authorization", format!("Bearer {access}"))];
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let me = world
            .send(Method::GET, "/api/v1/me", &headers, String::new())
            .await
            .json();
        assert_eq!(
            (&me["tenant"], &me["by"]),
            (&json!(tenant), &json!("login"))
        );
        assert!(me["expiresAt"].is_string(), "{me}");
        assert_eq!(world.refresh("page", &refresh).await.status, 200);
    }
}

#[tokio::test]
async fn nobody_else_gets_the_codes_of_the_page() {
    let world = World::new(&[]).await;
    for uri in [
        "http://localhost:9999/",
        "http://127.0.0.1:8080/",
        "http://localhost:8080",
        "http://localhost:8080/docs/",
        "http://localhost:8080/?a=b",
        "https://box.example/",
    ] {
        let answer = world
            .app
            .get(&World::address("page", &[("redirect_uri", uri)]))
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (400, ""),
            "{uri}"
        );
    }
    let settings = [
        ("PUBLIC_BASE_URL", "https://box.example/p"),
        ("ALLOWED_HOSTS", "localhost"),
    ];
    let below = World::new(&settings).await;
    for (uri, status) in [
        ("https://box.example/p/", 200),
        ("https://box.example/", 400),
        ("https://evil.example/p/", 400),
    ] {
        let others = [
            ("redirect_uri", uri),
            ("resource", "https://box.example/p/mcp"),
        ];
        let answer = below.app.get(&World::address("page", &others)).await;
        assert_eq!(answer.status, status, "{uri}");
    }
    // Whoever registers that address is still another client.
    let metadata = json!({ "redirect_uris": ["https://box.example/p/"], "client_name": "page" });
    assert_eq!(below.register(&metadata).await.status, 400);
}

#[tokio::test]
async fn a_code_of_the_page_is_for_its_verifier_alone() {
    let world = World::new(&[]).await;
    let own = [("redirect_uri", PAGE)];
    let sent = world.sent("page", TOKEN, &own).await;
    let fields = with(&own, &[("code_verifier", "guessed")]);
    assert_ne!(VERIFIER, "guessed");
    let answer = world.exchange("page", &sent[0].1, &fields).await;
    assert_eq!(answer.status, 400);
}
