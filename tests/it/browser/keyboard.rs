//! The page for whoever has a keyboard and nothing else, from the token to the files.

use thirtyfour::Key;

use super::page::Page;

/// Types, wherever the focus is.
async fn type_text(page: &Page, text: &str) {
    let keys = page.driver.action_chain().send_keys(text);
    keys.perform().await.unwrap();
}

async fn press_with(page: &Page, held: Key, key: impl Into<char>) {
    let (held, key) = (char::from(held), key.into());
    let chain = page.driver.action_chain().key_down(held);
    let chain = chain.key_down(key).key_up(key).key_up(held);
    chain.perform().await.unwrap();
}

/// Goes on by Tab until something has the focus. Whatever has it on the way has to show that.
async fn tab_to(page: &Page, id: &str) {
    let mut visited = Vec::new();
    for _ in 0..40 {
        page.press(Key::Tab).await;
        let focused = page.focused().await.as_str().unwrap().to_owned();
        let shows = "
            const active = document.activeElement;
            const marked = [active, active.nextElementSibling].filter(Boolean);
            return active === document.body || marked.some((part) => getComputedStyle(part).outlineStyle !== 'none')";
        assert_eq!(
            page.js(shows, Vec::new()).await,
            true,
            "{focused} has the focus and does not show it"
        );
        if focused == id {
            return;
        }
        visited.push(focused);
    }
    panic!("{id} is out of reach: {visited:?}");
}

#[tokio::test]
async fn a_keyboard_is_all_that_is_needed() {
    let page = Page::without_token(&[]).await;
    page.until("document.querySelector('#editor').shadowRoot")
        .await;
    // Where the token goes is where the focus is.
    type_text(&page, crate::support::TOKEN).await;
    page.press(Key::Enter).await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.focused().await, "editor");
    the_editor_says_how_it_is_left(&page).await;
    a_program_is_written_and_run(&page).await;
    the_panels_open_and_close(&page).await;
    the_history_is_used(&page).await;
    page.close().await;
}

async fn the_editor_says_how_it_is_left(page: &Page) {
    let help = "
        const { visibility } = getComputedStyle(document.querySelector('.editor-help'));
        const { outlineStyle } = getComputedStyle(document.getElementById('editor'));
        return [visibility, outlineStyle].join()";
    assert_eq!(page.js(help, Vec::new()).await, "visible,solid");
    page.screenshot("editor-focus").await;
    page.press(Key::Escape).await;
    tab_to(page, "network").await;
    assert_eq!(page.js(help, Vec::new()).await, "hidden,none");
    press_with(page, Key::Shift, Key::Tab).await;
    assert_eq!(page.focused().await, "editor");
}

async fn a_program_is_written_and_run(page: &Page) {
    press_with(page, Key::Control, 'a').await;
    type_text(page, "while True: pass").await;
    press_with(page, Key::Control, Key::Enter).await;
    page.until("document.getElementById('status').textContent === 'Running'")
        .await;
    press_with(page, Key::Shift, Key::Tab).await;
    page.press(Key::Escape).await;
    press_with(page, Key::Shift, Key::Tab).await;
    assert_eq!(page.focused().await, "stop");
    page.press(Key::Enter).await;
    page.ended().await;
    assert_eq!(page.focused().await, "run");
}

async fn the_panels_open_and_close(page: &Page) {
    tab_to(page, "editor").await;
    page.press(Key::Escape).await;
    for (toggle, field) in [
        ("toggle-input", "stdin"),
        ("toggle-packages", "package-names"),
    ] {
        tab_to(page, toggle).await;
        page.press(Key::Enter).await;
        assert_eq!(page.focused().await, field);
        page.js(
            "document.getElementById(arguments[0]).focus()",
            vec![toggle.into()],
        )
        .await;
        page.press(Key::Enter).await;
    }
    tab_to(page, "wrap").await;
    page.press(Key::Space).await;
    page.until("document.querySelector('.output.wrapped')")
        .await;
    page.press(Key::Space).await;
    tab_to(page, "upload").await;
}

async fn the_history_is_used(page: &Page) {
    page.js("document.activeElement.blur()", Vec::new()).await;
    tab_to(page, "open-history").await;
    page.press(Key::Enter).await;
    page.until("document.getElementById('history-dialog').open")
        .await;
    page.press(Key::Escape).await;
    assert_eq!(page.focused().await, "open-history");
}
