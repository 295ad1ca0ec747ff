//! Codes, access tokens and refresh tokens: what they count for, and how long.

use std::sync::Arc;
use std::time::Duration;

use mcp_code_sandbox::access::TokenCommand;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use serde_json::json;

use super::{World, both, pong};
use crate::support::{TOKEN, TestApp};

/// Status and body of what a client gets that gets nothing.
fn refused(description: &str) -> (u16, serde_json::Value) {
    (
        400,
        json!({ "error": "invalid_grant", "error_description": description }),
    )
}

#[tokio::test]
async fn a_code_counts_for_whoever_asked_for_it() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let other = json!({ "redirect_uris": [super::CALLBACK], "client_name": "Other" });
    let other = world.register(&other).await.json()["client_id"].clone();
    let short = (
        "code_verifier",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXX",
    );
    for (wrong, word, description) in [
        (
            ("client_id", other.as_str().unwrap()),
            "invalid_grant",
            "the code is another client's",
        ),
        (
            ("redirect_uri", "http://localhost:4712/callback"),
            "invalid_grant",
            "`redirect_uri` is not the one that the code was sent to",
        ),
        (
            short,
            "invalid_grant",
            "`code_verifier` is not that of `code_challenge`",
        ),
        (
            ("code_verifier", super::CHALLENGE),
            "invalid_grant",
            "`code_verifier` is not that of `code_challenge`",
        ),
        (
            ("resource", "https://elsewhere.example/mcp"),
            "invalid_target",
            "`resource` is https://elsewhere.example/mcp: tokens are given for http://localhost:8080/mcp only",
        ),
        (
            ("code", "made-up"),
            "invalid_grant",
            "the code is not known or older than 60 seconds: log in again",
        ),
        (
            ("code_verifier", ""),
            "invalid_request",
            "`code_verifier` is missing: send it in a body of the type application/x-www-form-urlencoded",
        ),
        (
            ("grant_type", "password"),
            "unsupported_grant_type",
            "`grant_type` has to be `authorization_code` or `refresh_token`",
        ),
    ] {
        let code = world.code(&client, TOKEN).await;
        let answer = world.exchange(&client, &code, &[wrong]).await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.header("cache-control"),
                answer.json()
            ),
            (
                400,
                "no-store",
                json!({ "error": word, "error_description": description })
            )
        );
    }
}

#[tokio::test]
async fn a_client_that_names_no_address_gets_a_token_for_this_one() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    for resource in ["", "http://localhost:8080/mcp/", "http://localhost:8080"] {
        let sent = world.sent(&client, TOKEN, &[("resource", resource)]).await;
        let answer = world
            .exchange(&client, &sent[0].1, &[("resource", resource)])
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(world.ping(&both(&answer).0).await, pong());
    }
}

#[tokio::test]
async fn a_code_that_comes_twice_ends_what_it_gave() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let code = world.code(&client, TOKEN).await;
    let (access, refresh) = both(&world.exchange(&client, &code, &[]).await);
    assert_eq!(world.ping(&access).await, pong());
    let answer = world.exchange(&client, &code, &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        refused("the code was used before: log in again, what it gave counts no longer")
    );
    assert_eq!(world.ping(&access).await.0, 401);
    assert_eq!(world.refresh(&client, &refresh).await.status, 400);
}

#[tokio::test]
async fn a_code_counts_for_a_minute() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (early, late) = (
        world.code(&client, TOKEN).await,
        world.code(&client, TOKEN).await,
    );
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(55)).await;
    tokio::time::resume();
    assert_eq!(world.exchange(&client, &early, &[]).await.status, 200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    let answer = world.exchange(&client, &late, &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        refused("the code is not known or older than 60 seconds: log in again")
    );
}

#[tokio::test]
async fn a_refresh_token_counts_once_and_an_old_one_ends_the_grant() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (access, first) = world.tokens(&client, &world.token).await;
    let (second_access, second) = both(&world.refresh(&client, &first).await);
    assert_ne!(first, second);
    assert_ne!(access, second_access);
    for access in [&access, &second_access] {
        assert_eq!(world.ping(access).await, pong());
    }
    let answer = world.refresh(&client, &first).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        refused("the refresh token was used before: log in again, what it gave counts no longer")
    );
    for access in [&access, &second_access] {
        let (status, text) = world.ping(access).await;
        assert_eq!(status, 401);
        insta::allow_duplicates! {
            insta::assert_snapshot!(text, @r#"{"error":{"code":"unauthorized","message":"the access token was revoked: log in again"}}"#);
        }
    }
    let answer = world.refresh(&client, &second).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        refused("the refresh token is not valid: log in again")
    );
}

#[tokio::test]
async fn a_refresh_token_is_its_clients() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let other = json!({ "redirect_uris": [super::CALLBACK], "client_name": "Other" });
    let other = world.register(&other).await.json()["client_id"].clone();
    let (access, refresh) = world.tokens(&client, TOKEN).await;
    let answer = world.refresh(other.as_str().unwrap(), &refresh).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        refused("the refresh token is another client's")
    );
    // An access token is none.
    assert_eq!(world.refresh(&client, &access).await.status, 400);
    assert_eq!(world.refresh(&client, &refresh).await.status, 200);
}

#[tokio::test]
async fn a_forged_or_altered_access_token_lets_nobody_in() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (access, refresh) = world.tokens(&client, TOKEN).await;
    assert_eq!(world.ping(&access).await, pong());
    let flipped = if access.ends_with('A') { "E" } else { "A" };
    let altered = format!("{}{flipped}", &access[..access.len() - 1]);
    let of_another_kind = refresh.replace("mcs_rt_", "mcs_at_");
    for token in [&altered, &of_another_kind, "mcs_at_", "mcs_at_e30"] {
        let (status, text) = world.ping(token).await;
        assert_eq!(status, 401);
        insta::allow_duplicates! {
            insta::assert_snapshot!(text, @r#"{"error":{"code":"unauthorized","message":"the access token is none of this server's: log in again"}}"#);
        }
    }
    assert_eq!(world.ping(&refresh).await.0, 401);
}

#[tokio::test]
async fn what_was_made_of_a_token_ends_with_it() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (access, refresh) = world.tokens(&client, &world.token).await;
    let (of_operator, _) = world.tokens(&client, TOKEN).await;
    let pending = world.code(&client, &world.token).await;
    let command = TokenCommand::Revoke {
        tenant: "research".parse().unwrap(),
        name: "anna".parse().unwrap(),
        id: None,
    };
    command.run(Some(&world.file)).unwrap();
    // The file is looked at every two seconds.
    for _ in 0..500 {
        if world.ping(&world.token).await.0 == 401 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (status, text) = world.ping(&access).await;
    assert_eq!(status, 401);
    insta::assert_snapshot!(text, @r#"{"error":{"code":"unauthorized","message":"the token that was pasted for this access token is not taken any more: log in again"}}"#);
    for answer in [
        world.refresh(&client, &refresh).await,
        world.exchange(&client, &pending, &[]).await,
    ] {
        assert_eq!(
            (answer.status.as_u16(), answer.json()),
            refused(
                "the token that was pasted is not taken any more: log in again with another one"
            )
        );
    }
    assert_eq!(world.ping(&of_operator).await, pong());
}

#[tokio::test]
async fn a_client_can_end_its_grant() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    for which in [0, 1] {
        let (access, refresh) = world.tokens(&client, TOKEN).await;
        let token = [&access, &refresh][which];
        for _ in 0..2 {
            let answer = world.post_form("/oauth/revoke", &[("token", token)]).await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (200, String::new())
            );
        }
        assert_eq!(world.ping(&access).await.0, 401);
        assert_eq!(world.refresh(&client, &refresh).await.status, 400);
    }
    let answer = world
        .post_form("/oauth/revoke", &[("token", "made-up")])
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(world.ping(TOKEN).await, pong());
}

#[tokio::test]
async fn grants_outlive_the_server() {
    let root = Arc::new(tempfile::tempdir().unwrap());
    let settings = [("OAUTH_BUILTIN", "1")];
    let start = async || {
        let fake = Arc::new(FakeExecutor::with_languages(&["shell"]));
        TestApp::at(Arc::clone(&root), &settings, fake).await
    };
    let mut world = World::new(&[]).await;
    world.app = start().await;
    let client = world.client().await;
    let (access, first) = world.tokens(&client, TOKEN).await;
    let (_, second) = both(&world.refresh(&client, &first).await);
    world.app.app.shut_down().await;
    world.app = start().await;
    assert_eq!(world.ping(&access).await, pong());
    assert_eq!(world.refresh(&client, &second).await.status, 200);
    assert_eq!(world.refresh(&client, &first).await.status, 400);
    world.app.app.shut_down().await;
    world.app = start().await;
    assert_eq!(world.ping(&access).await.0, 401);
    assert_eq!(
        std::fs::read_dir(root.path().join(".logins"))
            .unwrap()
            .count(),
        0
    );
}
