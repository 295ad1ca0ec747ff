//! Logging in on the page at an authorization server of the operator's, and behind Cloudflare Access, where nobody has
//! to log in on the page.

use std::net::Ipv4Addr;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::page::Page;
use super::proxied::pass_on;
use crate::support::TOKEN;
use crate::support::issuer::{TestIssuer, signed};
use crate::support::server::free_address;

const ANNA: &str = "document.getElementById('who').textContent === 'You are anna@example.org'";

/// What came to the issuer by a path, without what differs each time.
fn came(issuer: &TestIssuer, page: &str, path: &str) -> Vec<Value> {
    let answers = issuer.answers.lock();
    let of_path = answers.logins.came.iter().filter(|(at, _)| *at == path);
    let stable = |(_, asked): &(&str, Value)| {
        let text = asked.to_string().replace(page, "PAGE/");
        let mut asked: Value = serde_json::from_str(&text).unwrap();
        for varying in ["state", "code", "code_challenge", "code_verifier"] {
            if asked.get(varying).is_some() {
                asked[varying] = "…".into();
            }
        }
        asked
    };
    of_path.map(stable).collect()
}

async fn is_told(page: &Page, complaint: &str) {
    page.arrives("#login-error:not(:empty)").await;
    page.until(&format!(
        "document.getElementById('login-error').textContent === {}",
        json!(complaint)
    ))
    .await;
}

#[tokio::test]
async fn people_log_in_at_the_issuer_and_come_back() {
    let issuer = TestIssuer::new().await;
    let host = issuer.url.strip_prefix("http://").unwrap().to_owned();
    let page = Page::at_public_address(&[("OAUTH_ISSUER", &issuer.url)]).await;
    let home = page.js("return location.href", Vec::new()).await;
    let home = home.as_str().unwrap().to_owned();

    // What cannot be is said, and a token would do.
    page.click("#log-in").await;
    is_told(
        &page,
        &format!(
            "{host} cannot be asked from this page, or does not answer: give a token instead."
        ),
    )
    .await;
    // The browser says so too.
    page.driver.browser_log().await.unwrap();
    issuer.answers.lock().logins.allows_pages = true;
    page.click("#log-in").await;
    is_told(&page, &format!("This page is not known to {host}: give a token instead, or have the operator set OAUTH_PAGE_CLIENT.")).await;
    issuer.answers.lock().logins.registers = true;
    issuer.answers.lock().logins.answers_as = Some("https://evil.example".to_owned());
    page.click("#log-in").await;
    is_told(
        &page,
        "The answer is not of the authorization server that was asked: log in again.",
    )
    .await;
    issuer.answers.lock().logins.answers_as = None;

    page.click("#log-in").await;
    page.arrives("#run:enabled").await;
    page.until(ANNA).await;
    assert_eq!(page.js("return location.href", Vec::new()).await, home);
    let (word, output) = page.run("shell", "echo in").await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "in\n"));
    let script = "
        const name = 'mcp-code-sandbox-login';
        sessionStorage.setItem(name, JSON.stringify({ ...JSON.parse(sessionStorage.getItem(name)), expires: 1 }))";
    page.js(script, Vec::new()).await;
    assert_eq!(page.run("shell", "echo later").await.1, "later\n");
    page.click("#log-out").await;
    page.until("document.getElementById('token-dialog').open")
        .await;

    let registered = came(&issuer, &home, "register");
    assert_eq!(
        registered.last(),
        Some(&json!({
            "client_name": "Code sandbox", "redirect_uris": ["PAGE/"], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"], "application_type": "web",
        }))
    );
    assert_eq!(
        came(&issuer, &home, "authorize").last(),
        Some(&json!({
            "response_type": "code", "client_id": "page-1", "redirect_uri": "PAGE/", "scope": "openid", "state": "…",
            "code_challenge": "…", "code_challenge_method": "S256", "resource": "PAGE/mcp",
        }))
    );
    assert_eq!(
        came(&issuer, &home, "token"),
        [
            json!({
                "grant_type": "authorization_code", "client_id": "page-1", "code": "…", "code_verifier": "…",
                "redirect_uri": "PAGE/", "resource": "PAGE/mcp",
            }),
            json!({
                "grant_type": "refresh_token", "client_id": "page-1", "refresh_token": "refresh-5", "resource": "PAGE/mcp",
            }),
        ]
    );
    assert_eq!(
        came(&issuer, &home, "revoke"),
        [json!({ "client_id": "page-1", "token": "refresh-6" })]
    );
    page.give_token(TOKEN).await;
    page.until("document.getElementById('who').textContent === 'You are default'")
        .await;
    page.close().await;
}

#[tokio::test]
async fn who_comes_through_cloudflare_is_let_in_without_a_word() {
    let team = TestIssuer::new().await;
    let server = free_address().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let home = format!("http://{}/", listener.local_addr().unwrap());
    let mut claims = team.claims("anna");
    claims["aud"] = json!(["tag"]);
    claims["email"] = "anna@example.org".into();
    let assertion = HeaderValue::from_str(&signed(&claims)).unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let routes = Router::new().fallback(move |request: Request| {
        let (mut parts, body) = request.into_parts();
        parts
            .headers
            .insert("cf-access-jwt-assertion", assertion.clone());
        let url = format!("http://{server}{}", parts.uri);
        let client = client.clone();
        async move { pass_on(client, &url, parts, body).await }
    });
    let tunnel = axum::serve(listener, routes);
    let on_the_page = async {
        let settings = [
            ("PUBLIC_BASE_URL", home.trim_end_matches('/')),
            ("CF_ACCESS_TEAM", &*team.url),
            ("CF_ACCESS_AUD", "tag"),
        ];
        let page = Page::behind(&home, server, &settings).await;
        page.arrives("#run:enabled").await;
        page.until(ANNA).await;
        let script = "return [document.getElementById('token-dialog').open, document.getElementById('open-token').hidden]";
        assert_eq!(page.js(script, Vec::new()).await, json!([false, true]));
        assert_eq!(
            page.run("shell", "echo in > own.txt; echo in").await.1,
            "in\n"
        );
        page.until("document.querySelector('#file-list [title=\"own.txt\"]')")
            .await;
        page.close().await;
    };
    tokio::select! {
        ended = async { tunnel.await } => panic!("the tunnel ended: {ended:?}"),
        () = on_the_page => {}
    }
}
