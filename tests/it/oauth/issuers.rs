//! Issuers that change their keys, go away, or are the only ones who can read their tokens.

use serde_json::json;

use super::{World, pong};
use crate::support::issuer::{OTHER_RSA, RSA, TestIssuer, jwt, now, signed};
use crate::support::wait::within;

#[tokio::test]
async fn a_new_key_is_taken_once_and_forged_names_of_keys_are_no_flood() {
    let world = World::new(&[]).await;
    assert_eq!(world.ping(&world.issuer.token("anna")).await, pong());
    world.issuer.answers.lock().keys = vec![OTHER_RSA.jwk("two")];
    let claims = world.issuer.claims("bert");
    let of = |id: &str| {
        let head = json!({ "alg": "RS256", "kid": id });
        jwt(&head, &claims, |message| OTHER_RSA.sign("RS256", message))
    };
    assert_eq!(world.ping(&of("two")).await, pong());
    assert_eq!(world.issuer.answers.lock().fetches, 2);
    for number in 0..20 {
        let (status, _) = world.ping(&of(&format!("forged-{number}"))).await;
        assert_eq!(status, 401);
    }
    assert_eq!(world.issuer.answers.lock().fetches, 2);
    // What is signed with the old key is not taken any more.
    let (status, told) = world.ping(&world.issuer.token("carl")).await;
    assert_eq!(
        (status, &*told),
        (
            401,
            "unauthorized: the access token is signed with the key one, which its issuer does not publish"
        )
    );
}

#[tokio::test]
async fn the_keys_are_fetched_once_for_many_requests() {
    let world = World::new(&[]).await;
    let tokens: Vec<_> = (0..8)
        .map(|number| world.issuer.token(&format!("caller-{number}")))
        .collect();
    let answers = futures::future::join_all(tokens.iter().map(|token| world.ping(token))).await;
    assert!(
        answers.iter().all(|answer| *answer == pong()),
        "{answers:?}"
    );
    assert_eq!(world.issuer.answers.lock().fetches, 1);
}

#[tokio::test]
async fn while_the_issuer_is_down_nobody_new_is_let_in_and_then_they_are() {
    let issuer = TestIssuer::new().await;
    issuer.answers.lock().is_down = true;
    let world = World::of(issuer, &[]).await;
    let token = world.issuer.token("anna");
    let answer = world
        .ask(&token, axum::http::Method::POST, "/mcp", None)
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("retry-after")),
        (503, "5")
    );
    assert_eq!(answer.header("www-authenticate"), "");
    insta::assert_snapshot!(answer.text().replace(&world.issuer.url, "ISSUER"), @r#"{"error":{"code":"auth_unavailable","message":"ISSUER cannot be asked about access tokens at the moment: try again in a few seconds","retryAfterSeconds":5}}"#);
    // The server's own token needs no issuer.
    assert_eq!(world.ping(crate::support::TOKEN).await, pong());
    world.issuer.answers.lock().is_down = false;
    let limit = std::time::Duration::from_secs(20);
    within(limit, "the issuer is asked again", async || {
        (world.ping(&token).await == pong()).then_some(())
    })
    .await;
    // What is known of it counts on.
    world.issuer.answers.lock().is_down = true;
    assert_eq!(world.ping(&world.issuer.token("bert")).await, pong());
}

#[tokio::test]
async fn an_issuer_that_is_not_the_one_is_not_believed() {
    let issuer = TestIssuer::new().await;
    let with_path = format!("{}/", issuer.url);
    let world = World::of(issuer, &[("OAUTH_ISSUER", &with_path)]).await;
    let mut claims = world.issuer.claims("anna");
    claims["iss"] = with_path.into();
    let (status, _) = world.ping(&signed(&claims)).await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn two_issuers_may_give_one_name_to_their_keys() {
    let (first, second) = (TestIssuer::new().await, TestIssuer::new().await);
    second.answers.lock().keys = vec![OTHER_RSA.jwk("one")];
    let both = format!("{},{}", first.url, second.url);
    let of_second = second.claims("anna");
    let world = World::of(first, &[("OAUTH_ISSUER", &both)]).await;
    let head = json!({ "alg": "RS256", "kid": "one" });
    let good = jwt(&head, &of_second, |message| {
        OTHER_RSA.sign("RS256", message)
    });
    assert_eq!(world.ping(&good).await, pong());
    assert_eq!(world.ping(&world.issuer.token("anna")).await, pong());
    // Signed by the first for the second.
    let crossed = jwt(&head, &of_second, |message| RSA.sign("RS256", message));
    let (status, told) = world.ping(&crossed).await;
    assert_eq!(
        (status, &*told),
        (
            401,
            "unauthorized: the access token has a signature that is not of its issuer"
        )
    );
}

#[tokio::test]
async fn keys_from_a_file_need_no_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys.json");
    std::fs::write(&file, json!({ "keys": [RSA.jwk("one")] }).to_string()).unwrap();
    let issuer = TestIssuer::new().await;
    issuer.answers.lock().is_down = true;
    let settings = [
        ("OAUTH_JWKS_FILE", file.to_str().unwrap()),
        ("OAUTH_INTROSPECTION_CLIENT", "box"),
        ("OAUTH_INTROSPECTION_SECRET", "7f3a9c51"),
    ];
    let world = World::of(issuer, &settings).await;
    assert_eq!(world.ping("opaque").await.0, 503);
    assert_eq!(world.ping(&world.issuer.token("anna")).await, pong());
}

#[tokio::test]
async fn the_issuer_is_asked_about_tokens_that_only_it_can_read() {
    let settings = [
        ("OAUTH_INTROSPECTION_CLIENT", "box & co"),
        ("OAUTH_INTROSPECTION_SECRET", "p:ss"),
    ];
    let world = World::new(&settings).await;
    let active = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut claims = world.issuer.claims("anna");
        claims["active"] = true.into();
        change(&mut claims);
        claims
    };
    let no_audience =
        "has no audience (`aud`): have its issuer put http://localhost:8080/mcp into it";
    let rows = [
        (
            "inactive",
            json!({ "active": false, "sub": "anna" }),
            "is not active, as its issuer says: get another one",
        ),
        (
            "active-as-text",
            active(&|it| it["active"] = "true".into()),
            "is not active, as its issuer says: get another one",
        ),
        (
            "no-audience",
            active(&|it| it["aud"] = json!(null)),
            no_audience,
        ),
        (
            "expired",
            active(&|it| it["exp"] = json!(now() - 1)),
            "has expired: get another one",
        ),
        (
            "early",
            active(&|it| it["nbf"] = json!(now() + 60)),
            "is not valid yet (`nbf`): the clocks of its issuer and this server differ",
        ),
        (
            "nobody",
            active(&|it| it["sub"] = json!(null)),
            "has no claim `sub` of the right form",
        ),
        (
            "of-another",
            active(&|it| it["iss"] = "https://evil.example".into()),
            "is issued by https://evil.example, and this server takes those of ISSUER (OAUTH_ISSUER)",
        ),
    ];
    {
        let mut answers = world.issuer.answers.lock();
        answers.known = rows
            .iter()
            .map(|(token, answer, _)| ((*token).to_owned(), answer.clone()))
            .collect();
        answers.known.push(("good".to_owned(), active(&|_| ())));
    }
    assert_eq!(world.ping("good").await, pong());
    let asked = world.issuer.answers.lock().asked.take();
    assert_eq!(
        asked,
        // box+%26+co:p%3Ass
        Some((
            "Basic Ym94KyUyNitjbzpwJTNBc3M=".to_owned(),
            json!({ "token": "good", "token_type_hint": "access_token" })
        ))
    );
    // It is asked once a minute, and not each time.
    assert_eq!(world.ping("good").await, pong());
    assert_eq!(world.issuer.answers.lock().asked, None);
    for (token, _, told) in rows {
        let told = format!("unauthorized: the access token {told}");
        assert_eq!(world.ping(token).await, (401, told), "{token}");
    }
    world.issuer.answers.lock().is_down = true;
    let (status, told) = world.ping("new").await;
    assert_eq!(
        (status, &*told),
        (
            503,
            "auth_unavailable: ISSUER cannot be asked about access tokens at the moment: try again in a few seconds"
        )
    );
}
