//! Tokens that are good, and all that are not: each is told what is wrong with it.

use serde_json::{Value, json};

use super::{World, pong};
use crate::support::issuer::{EC, ED, OTHER_RSA, RSA, TestKey, encoded, jwt, now, signed};

/// A token of the key `one` with another header.
fn with_head(head: &Value, claims: &Value) -> String {
    let algorithm = head["alg"].as_str().unwrap_or_default();
    jwt(head, claims, |message| RSA.sign(algorithm, message))
}

/// A good token with one claim changed, or left out.
fn with_claim(world: &World, name: &str, value: Value) -> String {
    let mut claims = world.issuer.claims("anna");
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    signed(&claims)
}

#[tokio::test]
async fn good_tokens_let_their_holders_in() {
    let world = World::new(&[("OAUTH_AUDIENCE", "client-1")]).await;
    world
        .issuer
        .answers
        .lock()
        .keys
        .extend([EC.jwk("ec"), ED.jwk("ed"), {
            // A key that says nothing of what it is for.
            let mut any = RSA.jwk("any");
            any.as_object_mut()
                .unwrap()
                .retain(|name, _| name != "alg" && name != "use");
            any
        }]);
    let claims = world.issuer.claims("anna");
    let of = |key: &'static TestKey, algorithm: &str, id: &str| {
        let head = json!({ "alg": algorithm, "kid": id });
        jwt(&head, &claims, |message| key.sign(algorithm, message))
    };
    let types = ["JWT", "at+jwt", "application/at+jwt", "AT+JWT"].map(|typ| {
        with_head(
            &json!({ "alg": "RS256", "kid": "one", "typ": typ }),
            &claims,
        )
    });
    let audiences = [
        json!("http://localhost:8080"),
        json!("http://LOCALHOST:8080/mcp/"),
        json!("http://localhost:8080/sse"),
        json!(["account", "http://localhost:8080/mcp"]),
        json!("client-1"),
    ];
    let audiences = audiences.map(|audience| with_claim(&world, "aud", audience));
    let large = with_claim(&world, "groups", json!(vec!["group"; 550]));
    assert!((6 << 10..8 << 10).contains(&large.len()), "{}", large.len());
    let others = [
        of(&RSA, "RS256", "one"),
        of(&RSA, "PS256", "any"),
        of(&EC, "ES256", "ec"),
        of(&ED, "EdDSA", "ed"),
        // Clocks may differ by a minute.
        with_claim(&world, "exp", json!(now() - 30)),
        with_claim(&world, "nbf", json!(now() + 30)),
        large,
    ];
    for token in types.into_iter().chain(audiences).chain(others) {
        assert_eq!(world.ping(&token).await, pong(), "{token}");
    }
}

/// What a test calls a token, the token, and what is told of it.
type Row = (&'static str, String, &'static str);

async fn assert_refused(world: &World, rows: Vec<Row>) {
    // Otherwise nothing would be let in, whatever the reason.
    assert_eq!(world.ping(&world.issuer.token("anna")).await, pong());
    for (what, token, told) in rows {
        let told = format!("unauthorized: the access token {told}");
        assert_eq!(world.ping(&token).await, (401, told), "{what}");
    }
}

/// A server whose issuer also publishes a key of EC, one for encryption, and a secret.
async fn with_many_keys() -> World {
    let world = World::new(&[]).await;
    let mut for_encryption = OTHER_RSA.jwk("enc");
    for_encryption["use"] = "enc".into();
    let oct = json!({ "kty": "oct", "kid": "oct", "alg": "HS256", "k": encoded("secret") });
    let keys = [EC.jwk("ec"), for_encryption, oct];
    world.issuer.answers.lock().keys.extend(keys);
    world
}

fn head_of(algorithm: &str, id: &str) -> Value {
    json!({ "alg": algorithm, "kid": id })
}

#[tokio::test]
async fn a_token_that_chooses_how_it_is_checked_is_refused() {
    let world = with_many_keys().await;
    let claims = world.issuer.claims("anna");
    let unsigned = |algorithm: &str| jwt(&head_of(algorithm, "one"), &claims, |_| Vec::new());
    let hmac = |secret: &[u8], id: &str| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
        jwt(&head_of("HS256", id), &claims, |message| {
            aws_lc_rs::hmac::sign(&key, message).as_ref().to_vec()
        })
    };
    let modulus = RSA.jwk("one")["n"].as_str().unwrap().to_owned();
    let by_one = |algorithm: &str, id: &str| with_head(&head_of(algorithm, id), &claims);
    let rows = [
        ("none", unsigned("none")),
        ("None", unsigned("None")),
        ("HS256", hmac(modulus.as_bytes(), "one")),
        ("HS256", hmac(b"secret", "oct")),
        // Another family than the key's, and another algorithm than it is for.
        ("ES256", by_one("ES256", "one")),
        ("RS256", by_one("RS256", "ec")),
        ("PS256", by_one("PS256", "one")),
    ];
    assert_eq!(world.ping(&world.issuer.token("anna")).await, pong());
    for (algorithm, token) in rows {
        let told = format!(
            "unauthorized: the access token is signed with {algorithm}, which this server does not take from its issuer"
        );
        assert_eq!(world.ping(&token).await, (401, told));
    }
}

#[tokio::test]
async fn a_token_that_is_not_signed_by_a_key_of_the_issuer_is_refused() {
    let world = with_many_keys().await;
    let claims = world.issuer.claims("anna");
    let good = world.issuer.token("anna");
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = message.split_once('.').unwrap();
    let other = encoded(world.issuer.claims("bert").to_string());
    let by_other = |id: &str| {
        jwt(&head_of("RS256", id), &claims, |message| {
            OTHER_RSA.sign("RS256", message)
        })
    };
    let by_one = |id: &str| with_head(&head_of("RS256", id), &claims);
    let not_signed = "has a signature that is not of its issuer";
    let rows: Vec<Row> = vec![
        (
            "a secret",
            by_one("oct"),
            "is signed with the key oct, which its issuer does not publish",
        ),
        (
            "not there",
            by_one("two"),
            "is signed with the key two, which its issuer does not publish",
        ),
        (
            "for encryption",
            by_other("enc"),
            "is signed with the key enc, which its issuer does not publish",
        ),
        (
            "no key",
            with_head(&json!({ "alg": "RS256" }), &claims),
            "does not say with which of its issuer's keys it is signed (`kid`)",
        ),
        ("another's key of the name", by_other("one"), not_signed),
        ("no signature", format!("{message}."), not_signed),
        (
            "another payload",
            format!("{head}.{other}.{signature}"),
            not_signed,
        ),
        (
            "half a signature",
            format!("{message}.{}", &signature[..168]),
            not_signed,
        ),
    ];
    assert_refused(&world, rows).await;
}

#[tokio::test]
async fn a_token_that_cannot_be_read_is_refused() {
    let world = World::new(&[]).await;
    let good = world.issuer.token("anna");
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, payload) = message.split_once('.').unwrap();
    let with_header = |header: &str| format!("{}.{payload}.{signature}", encoded(header));
    let opaque = "is none of this server's, and no JWT either";
    let header = "is no JWT that can be read: its header is not of that form";
    let body = "is no JWT that can be read: its payload is not of that form";
    let signed_by = "is no JWT that can be read: its signature is not of that form";
    let long = "has 9000 bytes, and 8192 at most are read: have its issuer put less into it";
    let rows: Vec<Row> = vec![
        ("a word", "opaque".to_owned(), opaque),
        ("four parts", format!("{good}.a"), opaque),
        ("five parts, as if encrypted", format!("{good}.a.b"), opaque),
        ("two dots", "..".to_owned(), header),
        ("a header that is not base64", format!("!{good}"), header),
        ("a header that is a list", with_header("[]"), header),
        (
            "two algorithms",
            with_header(r#"{"alg":"RS256","alg":"none"}"#),
            header,
        ),
        (
            "a payload with padding",
            format!("{head}.{payload}=.{signature}"),
            body,
        ),
        (
            "a payload that is a text",
            format!("{head}.{}.{signature}", encoded("\"a\"")),
            body,
        ),
        (
            "a signature that is not base64",
            format!("{good}!"),
            signed_by,
        ),
        (
            "too long",
            format!("{message}.{}", "a".repeat(9000 - message.len() - 1)),
            long,
        ),
    ];
    assert_refused(&world, rows).await;
}

#[tokio::test]
async fn a_token_of_another_kind_is_refused() {
    let world = World::new(&[]).await;
    let claims = world.issuer.claims("anna");
    let of_type = |typ: &str| {
        with_head(
            &json!({ "alg": "RS256", "kid": "one", "typ": typ }),
            &claims,
        )
    };
    let with = |name: &str, value: &str| with_claim(&world, name, json!(value));
    let critical = json!({ "alg": "RS256", "kid": "one", "crit": ["b64"], "b64": false });
    let id_token = "is an ID token, which tells a client who logged in: send the access token";
    let rows: Vec<Row> = vec![
        (
            "of logout",
            of_type("logout+jwt"),
            "is a token of the type logout+jwt, and no access token",
        ),
        (
            "an event",
            of_type("secevent+jwt"),
            "is a token of the type secevent+jwt, and no access token",
        ),
        (
            "critical",
            with_head(&critical, &claims),
            "has the header `crit`, whose extensions this server does not know",
        ),
        ("an ID token by its type", with("typ", "ID"), id_token),
        ("an ID token by its nonce", with("nonce", "n"), id_token),
        ("an ID token by its hash", with("at_hash", "h"), id_token),
        (
            "of refresh",
            with("typ", "Refresh"),
            "is a token of the type Refresh, and no access token",
        ),
        (
            "of logout, by its claim",
            with("events", "e"),
            "is a token of the type logout, and no access token",
        ),
    ];
    assert_refused(&world, rows).await;
}

#[tokio::test]
async fn a_token_for_another_time_or_service_is_refused() {
    let world = World::new(&[("OAUTH_AUDIENCE", "client-1")]).await;
    let with = |name: &str, value: Value| with_claim(&world, name, value);
    let no_end = "has no claim `exp` of the right form";
    let early = "is not valid yet (`nbf`): the clocks of its issuer and this server differ";
    let no_audience = "has no audience (`aud`): have its issuer put http://localhost:8080/mcp or client-1 into it";
    let other = "is for the audience account, and this server takes http://localhost:8080/mcp or client-1: have its issuer \
        put one of these into `aud`, or set OAUTH_AUDIENCE";
    let others = "is for the audience account, client-2, and this server takes http://localhost:8080/mcp or client-1: have \
        its issuer put one of these into `aud`, or set OAUTH_AUDIENCE";
    let rows: Vec<Row> = vec![
        (
            "expired",
            with("exp", json!(now() - 120)),
            "has expired: get another one",
        ),
        ("no end", with("exp", Value::Null), no_end),
        (
            "an end that is a text",
            with("exp", json!((now() + 300).to_string())),
            no_end,
        ),
        ("an end before 1970", with("exp", json!(-1)), no_end),
        ("not yet", with("nbf", json!(now() + 120)), early),
        (
            "a begin that is a text",
            with("nbf", json!("0")),
            "has no claim `nbf` of the right form",
        ),
        ("no audience", with("aud", Value::Null), no_audience),
        ("an empty list", with("aud", json!([])), no_audience),
        (
            "an audience that is a number",
            with("aud", json!(7)),
            no_audience,
        ),
        ("another's", with("aud", json!("account")), other),
        (
            "others'",
            with("aud", json!(["account", "client-2"])),
            others,
        ),
    ];
    assert_refused(&world, rows).await;
}

#[tokio::test]
async fn a_token_of_another_issuer_or_of_nobody_is_refused() {
    let world = World::new(&[]).await;
    let with = |name: &str, value: Value| with_claim(&world, name, value);
    let slash = format!("{}/", world.issuer.url);
    let two = json!([world.issuer.url]);
    let evil =
        "is issued by https://evil.example, and this server takes those of ISSUER (OAUTH_ISSUER)";
    let (no_issuer, nobody) = (
        "has no claim `iss` of the right form",
        "has no claim `sub` of the right form",
    );
    let rows: Vec<Row> = vec![
        (
            "an issuer with a slash",
            with("iss", json!(slash)),
            "is issued by ISSUER/, and this server takes those of ISSUER (OAUTH_ISSUER)",
        ),
        (
            "another issuer",
            with("iss", json!("https://evil.example")),
            evil,
        ),
        ("no issuer", with("iss", Value::Null), no_issuer),
        ("a list of issuers", with("iss", two), no_issuer),
        ("nobody", with("sub", Value::Null), nobody),
        ("an empty name", with("sub", json!(" ")), nobody),
        ("a number", with("sub", json!(7)), nobody),
    ];
    assert_refused(&world, rows).await;
}

#[tokio::test]
async fn what_is_told_of_a_token_never_has_it_in_it() {
    let world = World::new(&[]).await;
    for token in ["opaque-7f3a9c51", "7f3a9c51.7f3a9c51.7f3a9c51"] {
        let (status, told) = world.ping(token).await;
        assert_eq!(status, 401);
        assert!(!told.contains("7f3a9c51"), "{told}");
    }
}
