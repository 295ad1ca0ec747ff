//! What the page says when something is wrong: the token, the server, too many runs.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::page::Page;
use crate::support::TOKEN;
use crate::support::server::Server;

#[tokio::test]
async fn a_wrong_token_is_told() {
    let page = Page::without_token(&[]).await;
    page.give_token("certainly-not-the-token").await;
    page.until("document.getElementById('token-error').textContent === 'The server does not accept this token.'").await;
    assert_eq!(
        page.js("return JSON.stringify(sessionStorage)", Vec::new())
            .await,
        json!("{}")
    );
    page.give_token(TOKEN).await;
    page.until(
        "!document.getElementById('run').disabled && !document.querySelector('dialog[open]')",
    )
    .await;
    let (word, _) = page.run("shell", "echo in").await;
    assert_eq!(word, "Finished");
    page.close().await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_and_asked_again() {
    let mut page = Page::open(&[]).await;
    page.start("shell", "echo begun; sleep 20").await;
    page.until("document.getElementById('output').textContent === 'begun\\n'")
        .await;
    let mut server = page.server.take().unwrap();
    server.signal(Signal::KILL);
    server.ended(Duration::from_secs(10)).await;
    assert_eq!(page.ended().await, "Connection lost");
    assert!(
        page.text("#notices .problem")
            .await
            .contains("The server does not answer.")
    );
    page.click("#run").await;
    page.until("document.querySelector('#notices button')?.textContent === 'Try again'")
        .await;
    // A new one at the same place: the button is enough.
    let settings = [("POOL_SIZE", "0")];
    let server = Server::start_at(server.addr(), page.root(), &settings).await;
    server.until_ready(Duration::from_mins(1)).await;
    page.server = Some(server);
    page.choose("#language", "shell").await;
    page.paste_program("echo again").await;
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'again\\n'")
        .await;
    assert_eq!(page.ended().await, "Finished");
    assert_eq!(page.text("#notices").await, "");
    page.close().await;
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let page = Page::open(&[("MAX_CONCURRENT_RUNS", "1"), ("MAX_QUEUED_RUNS", "0")]).await;
    let server = page.server.as_ref().unwrap();
    let other = server.run("sleep 6");
    let on_the_page = async {
        tokio::task::yield_now().await;
        loop {
            let (word, _) = page.run("shell", "echo mine").await;
            if word == "Not run" {
                break;
            }
        }
        page.until("document.querySelector('#notices button')?.textContent === 'Try again'")
            .await;
    };
    let (_, ()) = tokio::join!(other, on_the_page);
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'mine\\n'")
        .await;
    assert_eq!(page.ended().await, "Finished");
    page.close().await;
}
