//! What the page says when something is wrong: the token, the server, too many runs or requests.

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

/// What a proxy says to too many requests, and what the server says.
const TOO_MANY: &str = "[
    () => new Response('<h1>Too many</h1>', { status: 429, headers: { 'Content-Type': 'text/html' } }),
    () => Response.json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'too many requests' } },
      { status: 429, headers: { 'Retry-After': '1' } }),
]";

#[tokio::test]
async fn too_many_requests_are_waited_out() {
    let page = Page::open(&[("CALL_BUDGET", "1s")]).await;
    let again = "document.querySelector('#notices button')";
    page.intercept(&format!(
        "(list => (tool) => tool === 'run_code' ? list.shift()?.() : undefined)({TOO_MANY}.slice(0, 1))"
    ))
    .await;
    let code = "echo begun; sleep 3; echo ended";
    assert_eq!(page.run("shell", code).await.0, "Not run");
    page.until(&format!("{again}?.textContent === 'Try again'"))
        .await;
    // In the middle of a run they are no reason to leave it.
    page.intercept(&format!(
        "(list => (tool) => tool === 'get_run' ? list.shift()?.() : undefined)({TOO_MANY})"
    ))
    .await;
    page.click("#notices button").await;
    page.until("calls.length").await;
    assert_eq!(page.ended().await, "Finished");
    assert_eq!(page.text("#output").await, "begun\nended\n");
    let asked = "return calls.filter(([tool]) => tool === 'get_run').length > 2";
    assert_eq!(page.js(asked, Vec::new()).await, true);
    // Whatever else is answered: the run goes on, and can be asked for.
    page.intercept("(list => (tool) => tool === 'get_run' ? list.shift() : undefined)([new Response('oh', { status: 500 })])")
        .await;
    assert_eq!(page.run("shell", code).await.0, "Connection lost");
    page.until(&format!("{again}?.textContent === 'Ask again'"))
        .await;
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'begun\\nended\\n'")
        .await;
    assert_eq!(page.ended().await, "Finished");
    page.close().await;
}
