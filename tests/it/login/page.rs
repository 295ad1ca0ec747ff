//! The page on which a token is pasted.

use axum::http::Method;
use serde_json::json;

use super::{CALLBACK, World, form};
use crate::support::TOKEN;

#[tokio::test]
async fn the_page_shows_who_asks_and_where_the_browser_goes() {
    let world = World::new(&[]).await;
    let metadata = json!({
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"],
        "client_name": "<b>Claude</b> {{nonce}}\u{202e}",
    });
    let client = world.register(&metadata).await.json()["client_id"].clone();
    let uri = [("redirect_uri", "https://claude.ai/api/mcp/auth_callback")];
    let answer = world
        .app
        .get(&World::address(client.as_str().unwrap(), &uri))
        .await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    for shown in [
        "&#60;b&#62;Claude&#60;/b&#62; &#123;&#123;nonce&#125;&#125;”",
        "<p class=\"host\">claude.ai</p>",
        "an application on the internet",
        "lets you: run programs; read, change and delete files; install packages; give programs the network. Your",
    ] {
        assert!(text.contains(shown), "{text}");
    }
    assert!(!text.contains("<script") && !text.contains("{{"), "{text}");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        (
            "content-security-policy",
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' https://claude.ai; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let style = text
        .split("href=\"..")
        .find(|part| part.contains("login.css"))
        .unwrap();
    let style = world.app.get(style.split('"').next().unwrap()).await;
    assert_eq!(style.status, 200);
}

#[tokio::test]
async fn the_cookie_is_for_the_page_alone() {
    let settings = [
        ("PUBLIC_BASE_URL", "https://box.example/p"),
        ("ALLOWED_HOSTS", "localhost"),
    ];
    let world = World::new(&settings).await;
    let client = world.client().await;
    let resource = [("resource", "https://box.example/p/mcp")];
    let answer = world.app.get(&World::address(&client, &resource)).await;
    let (_, attributes) = answer.header("set-cookie").split_once("; ").unwrap();
    assert_eq!(
        attributes,
        "Path=/p/oauth/authorize; Max-Age=1800; HttpOnly; SameSite=Strict; Secure"
    );
    for path in [
        "/.well-known/oauth-authorization-server/p",
        "/p/.well-known/oauth-authorization-server",
    ] {
        let metadata = world.app.get(path).await.json();
        assert_eq!(metadata["issuer"], "https://box.example/p");
        assert_eq!(
            metadata["token_endpoint"],
            "https://box.example/p/oauth/token"
        );
    }
}

#[tokio::test]
async fn nobody_is_sent_where_the_client_did_not_register() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    for uri in [
        "",
        "https://claude.ai/api/mcp/auth_callback",
        "http://localhost:4711/other",
        "http://localhost@evil.example/callback",
        "http://localhost:4711@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "//localhost:4711/callback",
        "/callback",
    ] {
        let address = World::address(&client, &[("redirect_uri", uri)]);
        for method in [Method::GET, Method::POST] {
            let answer = world.send(method, &address, &[], String::new()).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("location")),
                (400, ""),
                "{uri}"
            );
            assert!(
                answer.text().contains("`redirect_uri` is none"),
                "{}",
                answer.text()
            );
        }
    }
    let twice = format!(
        "{}&redirect_uri=http://evil.example",
        World::address(&client, &[])
    );
    assert_eq!(world.app.get(&twice).await.status, 400);
    // A program may have any port.
    let address = World::address(
        &client,
        &[("redirect_uri", "http://localhost:5000/callback")],
    );
    assert_eq!(world.app.get(&address).await.status, 200);
}

#[tokio::test]
async fn other_mistakes_are_told_to_the_client() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let mut seen = Vec::new();
    for wrong in [
        ("response_type", "token"),
        ("code_challenge_method", "plain"),
        ("code_challenge_method", ""),
        ("code_challenge", ""),
        ("code_challenge", "short"),
        ("resource", "https://elsewhere.example/\"mcp"),
    ] {
        let answer = world.app.get(&World::address(&client, &[wrong])).await;
        assert_eq!(answer.status, 303, "{wrong:?}");
        seen.push(answer.header("location").to_owned());
    }
    seen.dedup();
    insta::assert_snapshot!(seen.join("\n"), @"
    http://localhost:4711/callback?error=unsupported_response_type&error_description=%60response_type%60+has+to+be+%60code%60&state=a+state&iss=http%3A%2F%2Flocalhost%3A8080
    http://localhost:4711/callback?error=invalid_request&error_description=%60code_challenge%60+has+to+be+a+SHA-256+in+base64url%2C+and+%60code_challenge_method%60+S256&state=a+state&iss=http%3A%2F%2Flocalhost%3A8080
    http://localhost:4711/callback?error=invalid_target&error_description=%60resource%60+is+https%3A%2F%2Felsewhere.example%2F%27mcp%3A+tokens+are+given+for+http%3A%2F%2Flocalhost%3A8080%2Fmcp+or+http%3A%2F%2Flocalhost%3A8080+or+http%3A%2F%2Flocalhost%3A8080%2Fsse+or+http%3A%2F%2Flocalhost%3A8080%2Fmcp%2Fsse+or+http%3A%2F%2Flocalhost%3A8080%2Fmcp%2Fevents+only&state=a+state&iss=http%3A%2F%2Flocalhost%3A8080
    ");
}

#[tokio::test]
async fn a_form_that_another_site_posts_lets_nobody_in() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let visit = world.visit(World::address(&client, &[])).await;
    let body = form(&[("nonce", &visit.nonce), ("token", TOKEN)]);
    let without = form(&[("token", TOKEN)]);
    let another = world.visit(World::address(&client, &[])).await;
    for (cookie, body) in [
        ("", &body),
        (another.cookie.as_str(), &body),
        (visit.cookie.as_str(), &without),
        ("mcs_login=", &without),
    ] {
        let headers = [("cookie", cookie)];
        let answer = world
            .send(Method::POST, &visit.path, &headers, body.clone())
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (403, "")
        );
        assert!(answer.text().contains("was not sent by this page"));
    }
    let headers = [
        ("cookie", visit.cookie.as_str()),
        ("origin", "https://evil.example"),
    ];
    let answer = world.send(Method::POST, &visit.path, &headers, body).await;
    assert_eq!(answer.json()["error"]["code"], "origin_not_allowed");
}

#[tokio::test]
async fn a_token_that_is_not_right_lets_nobody_in() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let visit = world.visit(World::address(&client, &[])).await;
    for wrong in [" ", "z", "mcs_wrong", "mcs_at_z"] {
        let answer = world.paste(&visit, wrong).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (403, "")
        );
        assert!(answer.text().contains("This token is not known here"));
    }
    assert_eq!(world.paste(&visit, TOKEN).await.status, 303);
}

#[tokio::test]
async fn an_access_token_cannot_be_pasted_to_make_more_of_them() {
    let world = World::new(&[]).await;
    let client = world.client().await;
    let (access, refresh) = world.tokens(&client, TOKEN).await;
    let visit = world.visit(World::address(&client, &[])).await;
    for token in [access, refresh] {
        assert_eq!(world.paste(&visit, &token).await.status, 403);
    }
    assert_eq!(
        visit
            .path
            .matches(&form(&[("redirect_uri", CALLBACK)]))
            .count(),
        1
    );
}
