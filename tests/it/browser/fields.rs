//! What somebody has typed or chosen when a run begins: it counts, or there is no run.

use thirtyfour::Key;

use super::page::{Page, on_one_page};

const RUN: fn() -> thirtyfour::TypingData = || Key::Control + Key::Enter;

#[tokio::test]
async fn what_was_typed_counts() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_time_limit_that_cannot_be_is_no_other_one,
        a_run_takes_place_in_the_conversation_that_was_typed,
        a_draft_is_kept_for_its_tab_with_the_language_that_was_chosen_last
    );
    page.close().await;
}

async fn a_time_limit_that_cannot_be_is_no_other_one(page: &Page) {
    page.choose("#language", "shell").await;
    page.paste_program("sleep 20").await;
    page.intercept("() => undefined").await;
    let limit = page.find("#timeout").await;
    for wrong in ["99999", "0", "-1", "1e"] {
        limit.clear().await.unwrap();
        limit.send_keys(wrong).await.unwrap();
        // Neither by keys nor by the buttons.
        limit.send_keys(RUN()).await.unwrap();
        for button in ["#run", "#open-curl"] {
            page.click(button).await;
            let focused = page.js("return document.activeElement.id", Vec::new());
            assert_eq!(focused.await, "timeout", "{wrong}, {button}");
        }
        assert_eq!(page.text("#status").await, "Ready", "{wrong}");
        let open = "return document.querySelectorAll('dialog[open]').length + calls.length";
        assert_eq!(page.js(open, Vec::new()).await, 0, "{wrong}");
    }
    limit.clear().await.unwrap();
    limit.send_keys("0.5").await.unwrap();
    limit.send_keys(RUN()).await.unwrap();
    page.until("calls[0]?.[1].timeoutSeconds === 0.5").await;
    assert_eq!(page.ended().await, "Timed out");
}

async fn a_run_takes_place_in_the_conversation_that_was_typed(page: &Page) {
    page.choose("#language", "shell").await;
    page.paste_program("touch here").await;
    let field = page.find("#conversation").await;
    field
        .send_keys(Key::Control + "a" + Key::Null + "typed")
        .await
        .unwrap();
    field.send_keys(RUN()).await.unwrap();
    page.until("document.querySelector('#file-list .file-name')?.textContent === 'here'")
        .await;
    assert_eq!(page.ended().await, "Finished");
    let arguments = serde_json::json!({ "conversationId": "typed" });
    let server = page.server.as_ref().unwrap();
    let there = server.call("list_files", arguments).await;
    assert_eq!(there["files"][0]["name"], "here", "{there}");
    // No id is none to run in, wherever the keys are pressed.
    page.intercept("() => undefined").await;
    field
        .send_keys(Key::Control + "a" + Key::Null + Key::Delete + RUN())
        .await
        .unwrap();
    page.click("#run").await;
    let found = "return [calls.length, document.activeElement.id]";
    let found = page.js(found, Vec::new()).await;
    assert_eq!(found, serde_json::json!([0, "conversation"]));
}

async fn a_draft_is_kept_for_its_tab_with_the_language_that_was_chosen_last(page: &Page) {
    page.choose("#language", "shell").await;
    page.paste_program("const greeting: string = 'hi'; console.log(greeting)")
        .await;
    page.choose("#language", "typescript").await;
    // Another tab has a program and a conversation of its own, with which only new ones begin.
    let other = "
        localStorage.setItem('mcp-code-sandbox-draft', JSON.stringify({ language: 'shell', code: 'echo theirs' }));
        localStorage.setItem('mcp-code-sandbox-conversation', JSON.stringify('theirs'));";
    page.js(other, Vec::new()).await;
    let mine = page.conversation().await;
    page.driver.refresh().await.unwrap();
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.conversation().await, mine);
    page.click("#run").await;
    assert_eq!(page.ended().await, "Finished");
    assert_eq!(page.text("#output").await, "hi\n");
    page.js(
        "const token = sessionStorage.getItem('mcp-code-sandbox-token');
        sessionStorage.clear();
        sessionStorage.setItem('mcp-code-sandbox-token', token);",
        Vec::new(),
    )
    .await;
    page.js(other, Vec::new()).await;
    page.driver.refresh().await.unwrap();
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.conversation().await, "theirs");
    page.click("#run").await;
    page.until("document.getElementById('output').textContent === 'theirs\\n'")
        .await;
    page.ended().await;
}
