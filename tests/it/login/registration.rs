//! How clients register, and which are not taken.

use axum::http::Method;
use serde_json::{Value, json};

use super::{CALLBACK, World};

#[tokio::test]
async fn of_several_addresses_those_that_may_be_used_are_kept() {
    let world = World::new(&[]).await;
    let metadata = json!({
        "client_name": "Cursor",
        "redirect_uris": [
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "https://elsewhere.example/callback",
            "http://localhost:8787/callback",
        ],
        "token_endpoint_auth_method": "client_secret_post",
        "application_type": "native",
    });
    let answer = world.register(&metadata).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (201, "no-store")
    );
    let id = answer.json()["client_id"].clone();
    assert_eq!(
        answer.json(),
        json!({
            "client_id": id,
            "client_name": "Cursor",
            "redirect_uris": [
                "cursor://anysphere.cursor-mcp/oauth/callback",
                "https://www.cursor.com/agents/mcp/oauth/callback",
                "http://localhost:8787/callback",
            ],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "sandbox",
        })
    );
}

#[tokio::test]
async fn who_could_be_sent_nowhere_is_not_registered() {
    let world = World::new(&[]).await;
    for uri in [
        "https://elsewhere.example/callback",
        "http://elsewhere.example/callback",
        "http://localhost@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "https://claude.ai.evil.example/api/mcp/auth_callback",
        "https://claude.ai/elsewhere",
        "javascript:alert(1)",
    ] {
        let answer = world.register(&json!({ "redirect_uris": [uri] })).await;
        assert_eq!(answer.status, 400, "{uri}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":"invalid_redirect_uri","error_description":"none of `redirect_uris` may be used here: one has to be http on localhost, 127.0.0.1 or [::1], or that of an application which docs/oauth.md names"}"#);
        }
    }
}

#[tokio::test]
async fn what_is_no_registration_is_told() {
    let world = World::new(&[]).await;
    let many: Vec<_> = (0..11)
        .map(|number| format!("{CALLBACK}/{number}"))
        .collect();
    for (body, word) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({ "redirect_uris": many }), "invalid_redirect_uri"),
        (
            json!({ "redirect_uris": CALLBACK }),
            "invalid_client_metadata",
        ),
        (json!([1]), "invalid_client_metadata"),
        (Value::String("x".repeat(70_000)), "invalid_request"),
    ] {
        let answer = world.register(&body).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]),
            (400, &json!(word))
        );
    }
}

#[tokio::test]
async fn an_id_that_was_not_given_out_here_is_none() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let flipped = if client.ends_with('A') { "E" } else { "A" };
    let forged = format!("{}{flipped}", &client[..client.len() - 1]);
    for id in [forged.as_str(), "made-up", "https://localhost/client.json"] {
        let answer = world.app.get(&World::address(id, &[])).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (400, "")
        );
        if id.starts_with("https://") {
            continue;
        }
        let answer = world.exchange(id, "any", &[]).await;
        assert_eq!(answer.status, 401);
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":"invalid_client","error_description":"the client is not known here: register it again"}"#);
        }
    }
}

#[tokio::test]
async fn a_document_is_fetched_from_the_internet_only() {
    let world = World::new(&[]).await;
    for id in [
        "https://localhost/client.json",
        "https://127.0.0.1/client.json",
        "https://169.254.169.254/a",
    ] {
        let answer = world
            .send(Method::GET, &World::address(id, &[]), &[], String::new())
            .await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("is not usable"), "{}", answer.text());
    }
}
