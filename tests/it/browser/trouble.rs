//! What the page says when something is wrong: the token, the server, too many runs or requests.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use thirtyfour::Key;

use super::page::{Page, on_one_page};
use crate::support::TOKEN;
use crate::support::server::Server;

#[tokio::test]
async fn a_wrong_token_is_told() {
    let page = Page::without_token(&[]).await;
    for (token, complaint) in [
        (
            "№ 1",
            "A token can have unaccented letters, digits and punctuation marks only.",
        ),
        (
            "certainly-not-the-token",
            "The server does not accept this token.",
        ),
    ] {
        page.give_token(token).await;
        page.until(&format!(
            "document.getElementById('token-error').textContent === '{complaint}'"
        ))
        .await;
    }
    assert_eq!(kept_token(&page).await, "null");
    // There is no way around it, however often one tries.
    for _ in 0..2 {
        page.press(Key::Escape).await;
        page.until("document.querySelector('#token-dialog[open] #close-token[hidden]')")
            .await;
    }
    a_browser_that_keeps_nothing_is_good_enough(&page).await;
    page.click("#open-token").await;
    page.click("#close-token").await;
    page.click("#open-token").await;
    page.give_token(TOKEN).await;
    page.until("!document.querySelector('dialog[open]')").await;
    another_token_is_not_forgotten_for_the_first(&page).await;
    page.close().await;
}

async fn kept_token(page: &Page) -> Value {
    let script = "return sessionStorage.getItem('mcp-code-sandbox-token')";
    page.js(script, Vec::new()).await
}

async fn a_browser_that_keeps_nothing_is_good_enough(page: &Page) {
    page.js(
        "window.real = Storage.prototype.setItem;
        Storage.prototype.setItem = () => { throw new Error('no room'); };",
        Vec::new(),
    )
    .await;
    page.give_token(TOKEN).await;
    page.until(
        "!document.getElementById('run').disabled && !document.querySelector('dialog[open]')",
    )
    .await;
    let (word, _) = page.run("shell", "echo in").await;
    assert_eq!(word, "OK");
    assert_eq!(kept_token(page).await, "null");
    page.js("Storage.prototype.setItem = real", Vec::new())
        .await;
}

/// A call with a token that is not taken ends after a better one was given.
async fn another_token_is_not_forgotten_for_the_first(page: &Page) {
    page.intercept(
        "async (tool) => {
          const isFirst = sessionStorage.getItem('mcp-code-sandbox-token')?.includes('the-first');
          if (tool !== 'list_files' || !isFirst || window.release) return;
          await new Promise((resolve) => { window.release = resolve; });
          return new Response('', { status: 401 });
        }",
    )
    .await;
    let keep = "sessionStorage.setItem('mcp-code-sandbox-token', JSON.stringify(arguments[0]))";
    page.js(keep, vec![json!("the-first")]).await;
    page.until("dispatchEvent(new Event('focus')) && window.release")
        .await;
    page.js(keep, vec![json!(TOKEN)]).await;
    page.js("calls.length = 0; release()", Vec::new()).await;
    page.until("calls.length").await;
    assert_eq!(kept_token(page).await, json!(TOKEN).to_string());
    let asks = "return document.getElementById('token-dialog').open";
    assert_eq!(page.js(asks, Vec::new()).await, false);
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
    assert_eq!(page.ended().await, "OK");
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
    assert_eq!(page.ended().await, "OK");
    page.close().await;
}

/// What a proxy says to too many requests, what the server says, and a proxy that does not find the server.
const TOO_MANY: &str = "[
    () => new Response('<h1>Too many</h1>', { status: 429, headers: { 'Content-Type': 'text/html' } }),
    () => Response.json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'too many requests' } },
      { status: 429, headers: { 'Retry-After': '1' } }),
    () => new Response('error code: 522', { status: 522 }),
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
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#output").await, "begun\nended\n");
    let asked = "return calls.filter(([tool]) => tool === 'get_run').length > 3";
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
    assert_eq!(page.ended().await, "OK");
    page.close().await;
}

#[tokio::test]
async fn what_failed_is_tried_again() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_restart_is_still_asked_for_after_a_run_that_did_not_begin,
        an_upload_is_tried_again_where_it_was_to_go,
        an_answer_without_content_is_told_in_a_sentence,
        what_was_lost_is_told_apart_from_what_was_not_done
    );
    page.close().await;
}

async fn a_restart_is_still_asked_for_after_a_run_that_did_not_begin(page: &Page) {
    page.choose("#language", "python").await;
    page.js("document.getElementById('stateful').click()", Vec::new())
        .await;
    assert_eq!(page.run("python", "x = 41").await.0, "OK");
    page.click("#restart").await;
    // One of the conversation's own runs is in the way, of which the id of this one was told already.
    let answer = "const message = (message) => `data: ${JSON.stringify(message)}\\n\\n`;
        const told = { runId: 'run_1', offset: 0, nextOffset: 0, total: 0, pieces: [] };
        const progress = { method: 'notifications/progress', params: { _meta: { 'mcp-code-sandbox/output': told } } };
        const structuredContent = { success: false, code: 'session_busy', message: 'another run has the kernel' };
        return new Response(message(progress) + message({ id, result: { isError: true, structuredContent } }),
          { headers: { 'Content-Type': 'text/event-stream' } });";
    page.intercept(&format!("(left => (tool, args, id) => {{ if (tool === 'run_code' && left-- > 0) {{ {answer} }} }})(1)"))
        .await;
    assert_eq!(page.run("python", "'x' in globals()").await.0, "Not run");
    assert_eq!(page.text("#restart").await, "Will restart");
    let button = page.text("#notices button").await;
    assert_eq!(button, "Try again");
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === 'False\\n'")
        .await;
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#restart").await, "Restart");
}

async fn an_answer_without_content_is_told_in_a_sentence(page: &Page) {
    for answer in [
        json!({ "content": [] }),
        json!({ "isError": true }),
        Value::Null,
    ] {
        page.intercept(&format!(
            "(tool, args, id) => tool === 'run_code' ? Response.json({{ id, result: {answer} }}) : undefined"
        ))
        .await;
        let (word, _) = page.run("shell", "echo").await;
        let told = page.text("#notices").await;
        let expected = "The server gave an answer that this page does not understand.";
        assert_eq!(
            (word.as_str(), told.as_str()),
            ("Not run", expected),
            "{answer}"
        );
    }
}

/// Begins an upload that does not reach the server yet.
async fn upload_later(page: &Page, name: &str) {
    let file = page.root().join(name);
    fs::write(&file, "text").unwrap();
    page.hold_upload().await;
    let input = page.find("#upload-input").await;
    input.send_keys(file.to_str().unwrap()).await.unwrap();
    page.until("window.upload").await;
}

async fn an_upload_is_tried_again_where_it_was_to_go(page: &Page) {
    let field = page.find("#conversation").await;
    let meant = "one two ü 100%";
    let keys = Key::Control + "a" + Key::Null + meant + Key::Enter;
    field.send_keys(keys).await.unwrap();
    upload_later(page, "note #1?.txt").await;
    // As it is, however large.
    let is_file = page.js("return sent instanceof File", Vec::new());
    assert_eq!(is_file.await, true);
    page.click("#new-conversation").await;
    page.js("upload.onerror()", Vec::new()).await;
    page.until("document.querySelector('#notices button')")
        .await;
    let told = page.text("#notices p").await;
    let where_to = format!(
        "note #1?.txt may not have been uploaded (in {meant}). The server does not answer."
    );
    assert_eq!(told, where_to);
    page.click("#notices button").await;
    let uploaded = "document.getElementById('announcement').textContent.startsWith('note #1?.txt was uploaded')";
    page.until(uploaded).await;
    let server = page.server.as_ref().unwrap();
    let arguments = json!({ "conversationId": meant });
    let there = server.call("list_files", arguments).await;
    assert_eq!(there["files"][0]["name"], "note #1?.txt", "{there}");
    // Too many requests pass as well.
    upload_later(page, "more.txt").await;
    page.js(
        "Object.defineProperties(upload, { status: { value: 429 }, responseText: { value: 'Too many' } });
        upload.onload();",
        Vec::new(),
    )
    .await;
    page.until("document.querySelector('#notices button')?.textContent === 'Try again'")
        .await;
    page.click("#notices button").await;
    page.until("document.querySelector('#file-list .file-name')?.textContent === 'more.txt'")
        .await;
    what_a_gateway_refuses_is_not_uploaded(page).await;
    an_upload_needs_no_id_that_can_be_in_a_path(page).await;
}

async fn an_upload_needs_no_id_that_can_be_in_a_path(page: &Page) {
    let server = page.server.as_ref().unwrap();
    let file = page.root().join("any.bin");
    // More than is encoded at a time, and nothing.
    for (id, size) in [("one/two", 100_000), (".", 3), ("..", 0)] {
        fs::write(&file, vec![0xfe; size]).unwrap();
        let field = page.find("#conversation").await;
        let keys = Key::Control + "a" + Key::Null + id + Key::Enter;
        field.send_keys(keys).await.unwrap();
        page.js(
            "document.getElementById('announcement').textContent = ''",
            Vec::new(),
        )
        .await;
        let input = page.find("#upload-input").await;
        input.send_keys(file.to_str().unwrap()).await.unwrap();
        page.until(
            "document.getElementById('announcement').textContent === 'any.bin was uploaded.'",
        )
        .await;
        let arguments = json!({ "conversationId": id, "filename": "any.bin" });
        let there = server.call("read_file", arguments).await;
        assert_eq!(there["file"]["size"], size, "{id}: {there}");
    }
}

/// Gateways have JSON of their own shapes.
async fn what_a_gateway_refuses_is_not_uploaded(page: &Page) {
    for (status, answer) in [
        (405, json!({ "message": "no PUT here" })),
        (403, json!({ "status": 403, "error": "Forbidden" })),
        (413, json!(["too large"])),
    ] {
        upload_later(page, "refused.txt").await;
        page.js(
            "document.getElementById('notices').replaceChildren();
            const [status, answer] = arguments;
            Object.defineProperties(upload, { status: { value: status }, responseText: { value: answer } });
            upload.onload();",
            vec![json!(status), json!(answer.to_string())],
        )
        .await;
        page.until("document.querySelector('#uploads').childElementCount === 0")
            .await;
        let told = format!(
            "refused.txt was not uploaded. The server gave an unexpected answer ({status})."
        );
        assert_eq!(page.text("#notices").await, told);
    }
}

async fn what_was_lost_is_told_apart_from_what_was_not_done(page: &Page) {
    let file = page.root().join("note.txt");
    fs::write(&file, "text").unwrap();
    let fail_once = "(left => (tool) => { if (tool === 'list_files' && left-- > 0) throw new TypeError('gone'); })(1)";
    page.intercept(fail_once).await;
    let input = page.find("#upload-input").await;
    input.send_keys(file.to_str().unwrap()).await.unwrap();
    let told = "document.querySelector('#notices p')?.textContent";
    page.until(told).await;
    let expected = "The files cannot be shown. The server does not answer.";
    assert_eq!(page.text("#notices p").await, expected);
    page.click("#notices button").await;
    page.until("document.querySelector('#file-list .badge')")
        .await;
    // The button is gone, and the keyboard's place is not.
    assert_eq!(page.focused().await, "notices");
    page.intercept(
        "(tool) => { if (tool === 'delete_conversation') throw new TypeError('gone'); }",
    )
    .await;
    page.click("#delete-files").await;
    page.click("#confirm-delete").await;
    page.until(told).await;
    let unknown = "The files may not have been deleted. The server does not answer.";
    assert_eq!(page.text("#notices p").await, unknown);
    page.until("calls.at(-1)[0] === 'list_files'").await;
    page.js(
        "document.getElementById('notices').replaceChildren()",
        Vec::new(),
    )
    .await;
    page.intercept(fail_once).await;
    page.click("#delete-files").await;
    page.click("#confirm-delete").await;
    page.until(told).await;
    assert_eq!(page.text("#notices p").await, expected);
    page.click("#notices button").await;
    page.until("!document.getElementById('no-files').hidden")
        .await;
}
