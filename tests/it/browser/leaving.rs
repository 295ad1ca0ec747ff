//! What a run outlives: its page, its connection and its server are not what ends it.

use std::time::Duration;

use rustix::process::Signal;

use super::page::{Page, on_one_page};
use crate::support::server::Server;

#[tokio::test]
async fn a_run_belongs_to_the_page_until_stop() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_run_goes_on_while_the_page_is_loaded_again,
        a_run_goes_on_without_a_connection,
        a_run_that_was_lost_is_found_when_the_network_is_back,
        a_run_that_has_not_begun_can_be_stopped,
        a_run_that_had_begun_after_all_does_not_run_twice
    );
    page.close().await;
}

const BEGUN: &str = "document.getElementById('output').textContent === 'begun\\n'";

async fn begin(page: &Page, code: &str) {
    page.start("shell", code).await;
    page.until(BEGUN).await;
}

async fn a_run_goes_on_while_the_page_is_loaded_again(page: &Page) {
    begin(page, "echo begun; sleep 15; echo ended").await;
    for _ in 0..2 {
        page.reload().await;
        page.until(&format!(
            "{BEGUN} && document.getElementById('status').textContent === 'Running'"
        ))
        .await;
    }
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#output").await, "begun\nended\n");
    assert_eq!(page.text("#notices").await, "");
    begin(page, "echo begun; sleep 30").await;
    page.reload().await;
    page.until(BEGUN).await;
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
    // Then there is nothing to come back to.
    page.reload().await;
    page.until("document.getElementById('status').textContent === 'Ready'")
        .await;
}

/// Lets `cut()` break off the answer to a run, as a network does that goes away.
const CUTTABLE: &str = "
    const { fetch } = window;
    window.fetch = async (...request) => {
      const response = await fetch(...request);
      if (JSON.parse(request[1].body).params.name !== 'run_code') return response;
      const network = new AbortController();
      window.cut = () => network.abort(new TypeError('gone'));
      const { readable, writable } = new TransformStream();
      response.body.pipeTo(writable, { signal: network.signal }).catch(() => {});
      return new Response(readable, response);
    };";

async fn a_run_goes_on_without_a_connection(page: &Page) {
    page.js(CUTTABLE, Vec::new()).await;
    begin(page, "echo begun; sleep 3; echo ended").await;
    page.js("cut()", Vec::new()).await;
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#output").await, "begun\nended\n");
    assert_eq!(page.text("#notices").await, "");
}

async fn a_run_that_was_lost_is_found_when_the_network_is_back(page: &Page) {
    page.js(CUTTABLE, Vec::new()).await;
    begin(page, "echo begun; sleep 2; echo ended").await;
    page.intercept("() => { throw new TypeError('no network'); }")
        .await;
    page.js("cut()", Vec::new()).await;
    assert_eq!(page.ended().await, "Connection lost");
    assert_eq!(page.text("#notices button").await, "Ask again");
    page.js("window.fetch = realFetch", Vec::new()).await;
    page.js("dispatchEvent(new Event('online'))", Vec::new())
        .await;
    page.until("document.getElementById('status').textContent === 'OK'")
        .await;
    assert_eq!(page.text("#output").await, "begun\nended\n");
    assert_eq!(page.text("#notices").await, "");
}

async fn a_run_that_has_not_begun_can_be_stopped(page: &Page) {
    // Its request gets stuck on its way.
    page.js(
        "const { fetch } = window;
        window.fetch = async (address, options) => {
          if (JSON.parse(options.body).params.name === 'run_code') {
            await new Promise((resolve, reject) => { options.signal.onabort = () => reject(options.signal.reason); });
          }
          return fetch(address, options);
        };",
        Vec::new(),
    )
    .await;
    page.start("shell", "touch ran").await;
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
    page.reload().await;
    page.until("document.getElementById('status').textContent === 'Ready'")
        .await;
    assert_eq!(page.text("#files-count").await, "");
}

async fn a_run_that_had_begun_after_all_does_not_run_twice(page: &Page) {
    // The request arrives, and nothing of what follows.
    page.intercept(
        "async (tool) => {
          if (window.back) return;
          if (tool === 'run_code') window.sent = realFetch(...window.request);
          throw new TypeError('gone');
        }",
    )
    .await;
    page.js(
        "const { fetch } = window;
        window.fetch = (...request) => { window.request = request; return fetch(...request); };",
        Vec::new(),
    )
    .await;
    page.start("shell", "echo ran >> log; sleep 2; cat log")
        .await;
    assert_eq!(page.ended().await, "Not run");
    page.js("window.back = true", Vec::new()).await;
    assert_eq!(page.text("#notices button").await, "Try again");
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'ran\\n'")
        .await;
    assert_eq!(page.ended().await, "OK");
    let runs = "return calls.filter(([tool]) => tool === 'run_code').length";
    assert_eq!(page.js(runs, Vec::new()).await, 1);
}

#[tokio::test]
async fn a_server_that_is_down_takes_no_result_away() {
    let mut page = Page::open(&[]).await;
    let (word, output) = page.run("shell", "echo first").await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "first\n"));
    let mut server = page.server.take().unwrap();
    server.signal(Signal::KILL);
    server.ended(Duration::from_secs(10)).await;
    let (word, output) = page.run("shell", "echo second").await;
    assert_eq!((word.as_str(), output.as_str()), ("Not run", "first\n"));
    assert_eq!(
        page.text("#whose").await,
        "Below is the result of the run before."
    );
    let told = page.text("#notices .problem p").await;
    assert_eq!(told, "The server does not answer.");
    page.screenshot("not-run").await;
    let settings = [("POOL_SIZE", "0")];
    let server = Server::start_at(server.addr(), page.root(), &settings).await;
    server.until_ready(Duration::from_mins(1)).await;
    page.server = Some(server);
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'second\\n'")
        .await;
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#notices").await, "");
    let hidden = "return document.getElementById('whose').hidden";
    assert_eq!(page.js(hidden, Vec::new()).await, true);
    page.close().await;
}
