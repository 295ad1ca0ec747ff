//! What somebody has typed or chosen when a run begins: it counts, or there is no run.

use serde_json::{Value, json};
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
        a_draft_is_kept_for_its_tab_with_the_language_that_was_chosen_last,
        a_program_that_was_replaced_is_brought_back,
        what_replaced_a_program_is_not_lost_either
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
    assert_eq!(page.ended().await, "Timeout");
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
    assert_eq!(page.ended().await, "OK");
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
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.conversation().await, mine);
    page.click("#run").await;
    assert_eq!(page.ended().await, "OK");
    assert_eq!(page.text("#output").await, "hi\n");
    page.js(
        "const token = sessionStorage.getItem('mcp-code-sandbox-token');
        sessionStorage.clear();
        sessionStorage.setItem('mcp-code-sandbox-token', token);",
        Vec::new(),
    )
    .await;
    page.js(other, Vec::new()).await;
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.conversation().await, "theirs");
    page.click("#run").await;
    page.until("document.getElementById('output').textContent === 'theirs\\n'")
        .await;
    page.ended().await;
}

const OFFER: &str = "Your program was replaced.Undo";

/// What somebody works on: language, program and conversation. The last is what is offered for a program that was
/// replaced.
async fn desk(page: &Page) -> Value {
    let script = "
        const lines = document.querySelector('#editor').shadowRoot.querySelectorAll('.cm-line');
        return [document.getElementById('language').value,
          [...lines].map((line) => line.textContent).join('\\n'),
          document.getElementById('conversation').value,
          document.getElementById('replaced')?.textContent]";
    page.js(script, Vec::new()).await
}

/// Goes to another conversation.
async fn go_to(page: &Page, conversation: &str) {
    let keys = Key::Control + "a" + Key::Null + conversation + Key::Enter;
    let field = page.find("#conversation").await;
    field.send_keys(keys).await.unwrap();
}

/// Picks the program that was run last.
async fn pick_the_last(page: &Page) {
    page.click("#open-history").await;
    page.click(".history-entry").await;
}

/// Has run a program in one conversation, and writes another one elsewhere. Gives the latter as `desk` does.
async fn write_mine(page: &Page) -> Value {
    go_to(page, "earlier").await;
    page.run("shell", "echo past").await;
    go_to(page, "now").await;
    page.choose("#language", "typescript").await;
    page.paste_program("let mine = 1").await;
    let mine = desk(page).await;
    assert_eq!(mine, json!(["typescript", "let mine = 1", "now", ""]));
    mine
}

async fn a_program_that_was_replaced_is_brought_back(page: &Page) {
    // Of an example that nobody changed nothing is lost.
    page.choose("#example", "1").await;
    assert_eq!(desk(page).await[3], "");
    let mine = write_mine(page).await;
    // However many are looked at, and in whatever languages.
    for choices in [&["0"] as &[&str], &["0", "1", "python", "0"]] {
        for choice in choices {
            let list = if *choice == "python" {
                "#language"
            } else {
                "#example"
            };
            page.choose(list, choice).await;
            let after = desk(page).await;
            assert_eq!((&after[2], &after[3]), (&json!("now"), &json!(OFFER)));
            assert_ne!(after[1], mine[1]);
        }
        let said = "Your program was replaced. The Undo button brings it back.";
        assert_eq!(page.text("#announcement").await, said);
        page.click("#replaced button").await;
        assert_eq!(desk(page).await, mine);
        assert_eq!(page.text("#announcement").await, "Your program is back.");
        assert_eq!(page.focused().await, "editor");
    }
    pick_the_last(page).await;
    let picked = json!(["shell", "echo past", "earlier", OFFER]);
    assert_eq!(desk(page).await, picked);
    // Nor does looking at the outcome take the offer away.
    page.click("#run").await;
    page.until("document.getElementById('output').textContent === 'past\\n'")
        .await;
    assert_eq!(page.ended().await, "OK");
    page.choose("#example", "0").await;
    page.click("#replaced button").await;
    assert_eq!(desk(page).await, mine);
    // What is brought back is kept like anything that was typed.
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(desk(page).await, mine);
}

async fn what_replaced_a_program_is_not_lost_either(page: &Page) {
    let mine = write_mine(page).await;
    pick_the_last(page).await;
    page.paste_program("echo changed").await;
    let changed = json!(["shell", "echo changed", "earlier", OFFER]);
    assert_eq!(desk(page).await, changed);
    page.click("#replaced button").await;
    assert_eq!(desk(page).await, json!([mine[0], mine[1], mine[2], OFFER]));
    page.click("#replaced button").await;
    let back = json!(["shell", "echo changed", "earlier", ""]);
    assert_eq!(desk(page).await, back);
    // Who has gone on to another conversation stays there.
    page.choose("#example", "0").await;
    go_to(page, "elsewhere").await;
    page.click("#replaced button").await;
    let there = json!(["shell", "echo changed", "elsewhere", ""]);
    assert_eq!(desk(page).await, there);
    // Who has gone on to another program does not want the first one back.
    page.choose("#example", "0").await;
    page.run("shell", "echo next").await;
    assert_eq!(
        desk(page).await,
        json!(["shell", "echo next", "elsewhere", ""])
    );
}
