//! To whom the callers of an issuer belong, and who of them may enter.

use axum::http::Method;
use serde_json::{Value, json};

use super::{World, pong};
use crate::support::TOKEN;
use crate::support::issuer::{OTHER_RSA, jwt, signed};

#[tokio::test]
async fn a_session_and_its_runs_survive_new_tokens_and_new_keys() {
    let world = World::new(&[("CALL_BUDGET", "300ms")]).await;
    let first = world.issuer.token("anna");
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let both = [("accept", "application/json, text/event-stream")];
    let hello = world
        .ask_with(&first, Method::POST, "/mcp", Some(&hello), &both)
        .await;
    let session = hello.header("mcp-session-id").to_owned();
    assert!(!session.is_empty());
    let code = json!({ "conversationId": "demo", "language": "shell", "code": "sleep 20" });
    let run = world.call(&first, "run_code", code).await;
    // The issuer changes its keys, and the client gets another token.
    world.issuer.answers.lock().keys = vec![OTHER_RSA.jwk("two")];
    let head = json!({ "alg": "RS256", "kid": "two" });
    let second = jwt(&head, &world.issuer.claims("anna"), |message| {
        OTHER_RSA.sign("RS256", message)
    });
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let of_session = [("mcp-session-id", &*session)];
    let answer = world
        .ask_with(&second, Method::POST, "/mcp", Some(&ping), &of_session)
        .await;
    assert_eq!(
        (
            answer.status.as_u16(),
            answer.text().contains("\"result\":{}")
        ),
        (200, true)
    );
    let ended = world
        .call(&second, "cancel_run", json!({ "runId": run["runId"] }))
        .await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    // Another one, with a token that is as good, knows neither.
    let mut claims = world.issuer.claims("bert");
    claims["iat"] = json!(0);
    let other = jwt(&head, &claims, |message| OTHER_RSA.sign("RS256", message));
    let answer = world
        .ask_with(&other, Method::POST, "/mcp", Some(&ping), &of_session)
        .await;
    assert_eq!(answer.status, 404);
    let foreign = world
        .call(&other, "get_run", json!({ "runId": run["runId"] }))
        .await;
    assert_eq!(foreign["code"], "run_not_found");
}

/// What there is in a conversation of this name, which then has something.
async fn told_own(world: &World, token: &str) -> Value {
    let run = async |code: &str| {
        let run = json!({ "conversationId": "demo", "language": "shell", "code": code });
        world.call(token, "run_code", run).await["stdout"].clone()
    };
    let told = run("cat own.txt").await;
    assert_eq!(run("echo own > own.txt").await, "");
    told
}

#[tokio::test]
async fn each_subject_of_each_issuer_is_a_tenant() {
    let second = crate::support::issuer::TestIssuer::new().await;
    let of_second = second.token("anna");
    let first = crate::support::issuer::TestIssuer::new().await;
    let both = format!("{},{}", first.url, second.url);
    let world = World::of(first, &[("OAUTH_ISSUER", &both)]).await;
    let tokens = [
        world.issuer.token("anna"),
        world.issuer.token("bert"),
        of_second,
        TOKEN.to_owned(),
    ];
    for round in ["", "own\n"] {
        for token in &tokens {
            assert_eq!(told_own(&world, token).await, round);
        }
    }
}

fn with(world: &World, subject: &str, name: &str, value: Value) -> String {
    let mut claims = world.issuer.claims(subject);
    claims[name] = value;
    signed(&claims)
}

#[tokio::test]
async fn a_claim_can_name_the_tenant_but_not_the_operators_or_a_callers() {
    let world = World::new(&[("OAUTH_TENANT", "claim:team")]).await;
    let [anna, bert] =
        ["anna", "bert"].map(|subject| with(&world, subject, "team", json!("research")));
    let carl = with(&world, "carl", "team", json!("sales"));
    assert_eq!(told_own(&world, &anna).await, "");
    assert_eq!(told_own(&world, &bert).await, "own\n");
    assert_eq!(told_own(&world, &carl).await, "");
    for (team, why) in [
        (json!("default"), "is default, which no issuer can give"),
        (json!("u-0123"), "is u-0123, which no issuer can give"),
        (json!(7), "is not there, or is no text"),
        (json!(null), "is not there, or is no text"),
        (
            json!("Research"),
            "is Research, and a name is 1 to 32 lower-case letters, digits and `-`, with a letter or a digit first",
        ),
    ] {
        let told = format!(
            "not_allowed: the access token does not say to which tenant its holder belongs: its claim team (OAUTH_TENANT) {why}"
        );
        assert_eq!(
            world.ping(&with(&world, "dora", "team", team)).await,
            (403, told)
        );
    }
}

#[tokio::test]
async fn all_can_be_of_one_tenant_and_none_of_them_is_the_operator() {
    let world = World::new(&[("OAUTH_TENANT", "default")]).await;
    let anna = world.issuer.token("anna");
    assert_eq!(told_own(&world, &anna).await, "");
    assert_eq!(told_own(&world, TOKEN).await, "own\n");
    let counts = async |token: &str| {
        let answer = world.ask(token, Method::GET, "/api/v1/health", None).await;
        answer.json()["active_sessions"].clone()
    };
    assert_eq!(counts(TOKEN).await, 0);
    assert_eq!(counts(&anna).await, Value::Null);
}

#[tokio::test]
async fn only_those_who_are_allowed_may_enter() {
    let allow = ("OAUTH_ALLOW", "anna, email:bert@example.org, group:team a");
    let world = World::new(&[allow]).await;
    let email = |address: &str, verified: Value| {
        let mut claims = world.issuer.claims("bert");
        (claims["email"], claims["email_verified"]) = (address.into(), verified);
        signed(&claims)
    };
    for good in [
        world.issuer.token("anna"),
        email("Bert@example.org", json!(true)),
        with(&world, "carl", "groups", json!(["b", "team a"])),
    ] {
        assert_eq!(world.ping(&good).await, pong());
    }
    for bad in [
        world.issuer.token("bert"),
        email("bert@example.org", json!(false)),
        email("bert@example.org", json!("true")),
        email("bert@example.org.evil", json!(true)),
        with(&world, "bert", "groups", json!(["team", "a"])),
    ] {
        let told = "not_allowed: bert may not use this server: its operator can add that `sub` to OAUTH_ALLOW";
        assert_eq!(world.ping(&bad).await, (403, told.to_owned()));
        let answer = world.ask(&bad, Method::POST, "/mcp", None).await;
        assert_eq!(
            answer.header("www-authenticate"),
            "",
            "to log in again would change nothing"
        );
    }
}

#[tokio::test]
async fn a_scope_can_be_required_however_the_issuer_writes_it() {
    let world = World::new(&[("OAUTH_REQUIRED_SCOPE", "sandbox")]).await;
    for (name, value) in [
        ("scope", json!("openid sandbox")),
        ("scope", json!(["sandbox"])),
        ("scp", json!("sandbox openid")),
        ("permissions", json!(["a", "sandbox"])),
    ] {
        assert_eq!(world.ping(&with(&world, "anna", name, value)).await, pong());
    }
    let answer = world
        .ask(
            &with(&world, "anna", "scope", json!("sandboxes")),
            Method::POST,
            "/mcp",
            None,
        )
        .await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.header("www-authenticate"),
        "Bearer resource_metadata=\"http://localhost:8080/.well-known/oauth-protected-resource/mcp\", scope=\"openid \
         sandbox\", error=\"insufficient_scope\", error_description=\"the access token does not have the scope sandbox: log \
         in again and agree to it\""
    );
    insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"insufficient_scope","message":"the access token does not have the scope sandbox: log in again and agree to it"}}"#);
}
