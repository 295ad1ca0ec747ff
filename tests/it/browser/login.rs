//! Logging in on the page with the built-in login, where a token is pasted once.

use serde_json::json;
use thirtyfour::Key;

use super::accessibility::assert_good_everywhere;
use super::page::Page;
use crate::support::TOKEN;

const KEPT: &str = "JSON.parse(sessionStorage.getItem('mcp-code-sandbox-login'))";

/// What is kept of the login.
async fn kept(page: &Page, field: &str) -> String {
    let value = page.js(&format!("return {KEPT}.{field}"), Vec::new()).await;
    value.as_str().unwrap().to_owned()
}

/// Changes what is kept of the login.
async fn change(page: &Page, field: &str, value: serde_json::Value) {
    let script = format!(
        "const login = {KEPT};
        login[arguments[0]] = arguments[1];
        sessionStorage.setItem('mcp-code-sandbox-login', JSON.stringify(login))"
    );
    page.js(&script, vec![json!(field), value]).await;
}

/// Whether the server takes a token.
async fn is_taken(page: &Page, token: &str) -> bool {
    let script = "const done = arguments[1];
        fetch('api/v1/me', { headers: { Authorization: `Bearer ${arguments[0]}` } }).then(({ ok }) => done(ok))";
    let arguments = vec![json!(token)];
    let answer = page.driver.execute_async(script, arguments).await.unwrap();
    answer.json() == true
}

async fn log_in(page: &Page) {
    page.press(Key::Enter).await;
    page.arrives("form[method=post] #token").await;
    page.type_text(TOKEN).await;
    page.press(Key::Enter).await;
    page.arrives("#run:enabled").await;
    page.until("document.getElementById('who').textContent === 'You are default'")
        .await;
}

#[tokio::test]
async fn people_log_in_stay_so_and_log_out_by_keyboard() {
    let page = Page::at_public_address(&[("OAUTH_BUILTIN", "1")]).await;
    page.scheme("light").await;
    assert_eq!(page.focused().await, "log-in");
    assert_good_everywhere(&page, "log-in").await;
    log_in(&page).await;
    assert_good_everywhere(&page, "logged-in").await;
    let script = "return [location.search, JSON.stringify(localStorage).includes('mcs_'), document.getElementById('open-token').hidden]";
    assert_eq!(page.js(script, Vec::new()).await, json!(["", false, true]));
    let (word, output) = page.run("shell", "echo in").await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "in\n"));

    // It is renewed when its time is over, and when the server does not take it.
    let first = kept(&page, "accessToken").await;
    change(&page, "expires", json!(1)).await;
    assert_eq!(page.run("shell", "echo later").await.1, "later\n");
    let second = kept(&page, "accessToken").await;
    assert_ne!(first, second);
    change(&page, "accessToken", json!("mcs_at_forged")).await;
    assert_eq!(page.run("shell", "echo again").await.1, "again\n");
    page.reload().await;
    page.arrives("#run:enabled").await;

    let last = kept(&page, "accessToken").await;
    assert!(is_taken(&page, &last).await);
    page.js("document.activeElement.blur()", Vec::new()).await;
    page.tab_to("log-out").await;
    page.press(Key::Enter).await;
    page.until("document.getElementById('token-dialog').open")
        .await;
    assert!(!is_taken(&page, &last).await, "the login has ended");
    assert_eq!(page.text("#login-error").await, "");
    page.press(Key::Escape).await;
    page.until("document.getElementById('token-dialog').open")
        .await;
    log_in(&page).await;
    page.close().await;
}

#[tokio::test]
async fn a_login_that_was_not_begun_here_or_cannot_go_on_is_none() {
    let page = Page::at_public_address(&[("OAUTH_BUILTIN", "1")]).await;
    let home = page.js("return location.href", Vec::new()).await;
    let home = home.as_str().unwrap();
    page.go(
        &format!("{home}?code=stolen&state=guessed"),
        "#token-dialog[open]",
    )
    .await;
    page.until("document.getElementById('login-error').textContent === 'The login was not begun in this tab, or is over: log in again.'")
        .await;
    assert_eq!(page.js("return location.href", Vec::new()).await, home);
    assert_good_everywhere(&page, "login-refused").await;
    // Only the answer to what was asked last counts.
    page.click("#log-in").await;
    page.arrives("form[method=post] #token").await;
    page.go(
        &format!("{home}?error=access_denied&state=guessed"),
        "#token-dialog[open]",
    )
    .await;
    page.until(
        "document.getElementById('login-error').textContent.startsWith('The login was not begun')",
    )
    .await;
    let script = "return sessionStorage.getItem('mcp-code-sandbox-login-begun') !== 'null'";
    assert_eq!(page.js(script, Vec::new()).await, true, "it can be ended");

    page.click("#log-in").await;
    page.arrives("form[method=post] #token").await;
    page.type_text(TOKEN).await;
    page.press(Key::Enter).await;
    page.arrives("#run:enabled").await;
    for (field, value) in [
        ("expires", json!(1)),
        ("refreshToken", json!("mcs_rt_forged")),
    ] {
        change(&page, field, value).await;
    }
    page.reload().await;
    page.until("document.getElementById('login-error').textContent === 'Your login is over: log in again.'")
        .await;
    // A token is taken as ever.
    page.give_token(TOKEN).await;
    page.until("!document.getElementById('run').disabled").await;
    page.until("!document.getElementById('open-token').hidden && document.getElementById('log-out').hidden")
        .await;
    page.close().await;
}

#[tokio::test]
async fn a_login_is_of_one_tab_and_its_copy_in_another_is_none() {
    let page = Page::at_public_address(&[("OAUTH_BUILTIN", "1")]).await;
    log_in(&page).await;
    let first = page.driver.window().await.unwrap();
    // The new tab has a copy of what is kept for this one.
    page.js("window.open(location.href)", Vec::new()).await;
    let windows = page.driver.windows().await.unwrap();
    let copy = windows.into_iter().find(|window| *window != first).unwrap();
    page.driver.switch_to_window(copy).await.unwrap();
    page.arrives("#token-dialog[open]").await;
    page.until("document.getElementById('login-error').textContent === 'This login is another tab\\'s: log in again.'")
        .await;
    page.until(&format!("{KEPT} === null")).await;
    page.driver.close_window().await.unwrap();

    page.driver.switch_to_window(first).await.unwrap();
    change(&page, "expires", json!(1)).await;
    assert_eq!(page.run("shell", "echo mine").await.1, "mine\n");
    page.reload().await;
    page.arrives("#run:enabled").await;
    page.until("document.getElementById('who').textContent === 'You are default'")
        .await;
    page.close().await;
}

#[tokio::test]
async fn where_there_is_no_login_a_token_is_asked_for_as_ever() {
    let page = Page::without_token(&[]).await;
    assert_eq!(page.focused().await, "token");
    assert_eq!(page.text("#token-title").await, "Access token");
    page.until("!document.getElementById('log-in').checkVisibility()")
        .await;
    page.give_token(TOKEN).await;
    page.until("document.getElementById('who').textContent === 'You are default'")
        .await;
    page.until("document.getElementById('log-out').hidden && !document.getElementById('open-token').hidden")
        .await;
    page.close().await;
}

#[tokio::test]
async fn elsewhere_than_at_the_public_address_the_page_says_where_to_log_in() {
    let settings = [
        ("OAUTH_BUILTIN", "1"),
        ("PUBLIC_BASE_URL", "https://box.example"),
    ];
    let page = Page::without_token(&settings).await;
    page.click("#log-in").await;
    page.until("document.getElementById('login-error').textContent === 'Logging in works at https://box.example/ only: open the page there, or give a token.'")
        .await;
    page.give_token(TOKEN).await;
    page.until("!document.getElementById('run').disabled").await;
    page.close().await;
}
