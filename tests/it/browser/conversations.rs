//! Conversations by their names, those of the browser, and what was run in them.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::accessibility::assert_good_everywhere;
use super::page::{Page, on_one_page};

#[tokio::test]
async fn what_was_done_is_found_again() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        conversations_have_names_and_are_listed,
        conversations_are_forgotten,
        the_history_is_searched
    );
    page.close().await;
}

/// Runs something in a conversation that may have a name.
async fn go_and_run(page: &Page, id: &str, name: &str, code: &str) {
    let keys = Key::Control + "a" + Key::Null + id + Key::Enter;
    let field = page.find("#conversation").await;
    field.send_keys(keys).await.unwrap();
    page.run("shell", code).await;
    if name.is_empty() {
        return;
    }
    page.click("#open-conversations").await;
    let field = page.find("#conversation-name").await;
    field.send_keys(name).await.unwrap();
    page.click("#conversations-dialog [data-close]").await;
}

/// Names and ids in the list of conversations.
async fn listed(page: &Page) -> Value {
    let script =
        "return [...document.querySelectorAll('#conversation-list .history-entry')].map((entry) =>
        [...entry.querySelectorAll('bdi')].map((part) => part.textContent).join(': '))";
    page.js(script, Vec::new()).await
}

async fn conversations_have_names_and_are_listed(page: &Page) {
    page.click("#open-conversations").await;
    assert_eq!(listed(page).await, json!([]));
    page.click("#conversations-dialog [data-close]").await;
    go_and_run(page, "first", "Sales <b>2024</b>", "echo 1 > one.txt").await;
    assert_eq!(page.text("#conversation-called").await, "Sales <b>2024</b>");
    let title = async || page.driver.title().await.unwrap();
    assert_eq!(title().await, "OK · Sales <b>2024</b> – Code sandbox");
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(title().await, "Sales <b>2024</b> – Code sandbox");
    page.run("shell", "echo 1 > one.txt").await;
    page.click("#new-conversation").await;
    assert_eq!(title().await, "OK · Code sandbox");
    assert_eq!(
        page.text("#whose").await,
        "Below is the result of a run in Sales <b>2024</b>."
    );
    go_and_run(page, "second", "", "echo 2 > two.txt").await;
    assert_eq!(page.text("#conversation-called").await, "All");
    // After a reload, and in another tab.
    page.driver.refresh().await.unwrap();
    page.until("!document.getElementById('run').disabled").await;
    page.click("#open-conversations").await;
    let both = json!(["No name: second", "Sales <b>2024</b>: first"]);
    assert_eq!(listed(page).await, both);
    assert_good_everywhere(page, "conversations").await;
    let entry = "#conversation-list li:nth-child(2) .history-entry";
    page.click(entry).await;
    assert_eq!(page.conversation().await, "first");
    page.until("document.querySelector('#file-list .file-name')?.textContent === 'one.txt'")
        .await;
    assert_eq!(page.text("#conversation-called").await, "Sales <b>2024</b>");
}

async fn conversations_are_forgotten(page: &Page) {
    for id in ["one", "two", "three"] {
        go_and_run(page, id, &format!("Name of {id}"), "echo").await;
    }
    page.click("#open-conversations").await;
    page.click("[aria-label='Forget Name of two']").await;
    let left = json!(["Name of three: three", "Name of one: one"]);
    assert_eq!(listed(page).await, left);
    assert_eq!(
        page.text("#conversations-status").await,
        "Name of two is forgotten."
    );
    assert_eq!(page.focused().await, "conversation-name");
    page.click("#forget-conversations").await;
    page.press(Key::Escape).await;
    assert_eq!(listed(page).await, left);
    page.click("#forget-conversations").await;
    page.click("#confirm-delete").await;
    assert_eq!(listed(page).await, json!([]));
    assert_eq!(page.text("#conversation-called").await, "All");
    let kept = page.js(
        "return localStorage.getItem('mcp-code-sandbox-conversations')",
        Vec::new(),
    );
    assert_eq!(kept.await, "[]");
}

async fn the_history_is_searched(page: &Page) {
    go_and_run(page, "one", "Sales report", "echo alpha").await;
    go_and_run(page, "two", "", "echo beta").await;
    page.click("#open-history").await;
    let search = page.find("#history-search").await;
    let found = "return [...document.querySelectorAll('.history-entry code')].map((code) => code.textContent)";
    for (words, expected) in [
        ("", json!(["echo beta", "echo alpha"])),
        ("ALPHA echo", json!(["echo alpha"])),
        ("sales", json!(["echo alpha"])),
        ("two", json!(["echo beta"])),
        ("gamma", json!([])),
    ] {
        search.clear().await.unwrap();
        search.send_keys(words).await.unwrap();
        assert_eq!(page.js(found, Vec::new()).await, expected, "{words}");
    }
    assert_eq!(page.text("#history-found").await, "0 runs");
    page.until("!document.getElementById('no-history-found').hidden")
        .await;
    page.click("#history-dialog [data-close]").await;
    // Next time all are there.
    page.click("#open-history").await;
    assert_eq!(
        page.js(found, Vec::new()).await,
        json!(["echo beta", "echo alpha"])
    );
    page.click("#history-dialog [data-close]").await;
}
