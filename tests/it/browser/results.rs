//! What is shown of a run: whose it is, how wide it is, what the server advises, and what of it outlives a reload.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::accessibility::assert_accessible;
use super::page::{Page, on_one_page};

#[tokio::test]
async fn results_on_one_page() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_result_is_of_its_conversation,
        wide_tables_are_scrolled_or_wrapped,
        the_end_stays_in_sight,
        hints_are_shown_with_what_can_be_done,
        what_was_chosen_is_there_after_a_reload,
        the_title_says_how_the_run_stands
    );
    page.close().await;
}

/// What is said of whose result it is, if anything is.
async fn whose(page: &Page) -> Value {
    let script = "const whose = document.getElementById('whose');
        return whose.checkVisibility() ? whose.textContent : null";
    page.js(script, Vec::new()).await
}

async fn a_result_is_of_its_conversation(page: &Page) {
    let first = page.conversation().await;
    page.click("#new-conversation").await;
    assert_eq!(whose(page).await, Value::Null);
    page.run("shell", "echo here").await;
    let second = page.conversation().await;
    assert_eq!(whose(page).await, Value::Null);
    page.click("#new-conversation").await;
    let told = json!(format!("Below is the result of a run in {second}."));
    assert_eq!(whose(page).await, told);
    assert_eq!(page.text("#output").await, "here\n");
    for scheme in ["dark", "light"] {
        page.scheme(scheme).await;
        assert_accessible(page, &format!("another conversation, {scheme}")).await;
        page.screenshot(&format!("other-{scheme}")).await;
    }
    for (conversation, expected) in [(&first, told), (&second, Value::Null)] {
        let keys = Key::Control + "a" + Key::Null + conversation.as_str() + Key::Enter;
        let field = page.find("#conversation").await;
        field.send_keys(keys).await.unwrap();
        assert_eq!(whose(page).await, expected);
    }
    // A run that goes on is told of too.
    page.start("shell", "sleep 30").await;
    page.until("document.getElementById('output').textContent === ''")
        .await;
    page.click("#new-conversation").await;
    let told = json!(format!("Below is the result of a run in {second}."));
    assert_eq!(whose(page).await, told);
    page.click("#stop").await;
    page.ended().await;
    assert_eq!(whose(page).await, told);
    page.run("shell", "echo").await;
    assert_eq!(whose(page).await, Value::Null);
}

async fn wide_tables_are_scrolled_or_wrapped(page: &Page) {
    let code = "for row in range(3000):\n    print(*[f'column {n:03}' for n in range(60)])";
    page.run("python", code).await;
    let room = "const screen = document.querySelector('.screen');
        return [screen.scrollWidth > 2 * screen.clientWidth, document.documentElement.scrollWidth <= innerWidth]";
    assert_eq!(page.js(room, Vec::new()).await, json!([true, true]));
    page.screenshot("wide").await;
    let wrap = "document.getElementById('wrap').click()";
    page.js(wrap, Vec::new()).await;
    let narrow = "document.querySelector('.screen').scrollWidth === document.querySelector('.screen').clientWidth";
    page.until(narrow).await;
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    page.run("python", code).await;
    page.until(narrow).await;
    page.js(wrap, Vec::new()).await;
    assert_eq!(page.js(room, Vec::new()).await, json!([true, true]));
}

async fn the_end_stays_in_sight(page: &Page) {
    page.run("shell", "seq 300").await;
    // What is said of a run often comes between two frames, before the browser tells of the scrolling.
    let hint = "const tall = () => {
          const part = document.createElement('div');
          part.style.height = '120px';
          return part;
        };
        requestAnimationFrame(() => {
          document.getElementById('output').append(tall());
          setTimeout(() => document.getElementById('notices').append(tall()));
        });
        setTimeout(() => { window.hinted = true; }, 300)";
    let from_end = "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)(document.querySelector('.screen'))";
    page.js(hint, Vec::new()).await;
    page.until(&format!("window.hinted && {from_end} < 2"))
        .await;
    // Whoever has scrolled up stays there.
    page.js(
        "document.querySelector('.screen').scrollTop -= 300; window.hinted = false",
        Vec::new(),
    )
    .await;
    page.js(hint, Vec::new()).await;
    page.until("window.hinted").await;
    let left = page.js(&format!("return {from_end}"), Vec::new()).await;
    assert!(left.as_f64().unwrap() > 300.0, "{left}");
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
}

async fn hints_are_shown_with_what_can_be_done(page: &Page) {
    let curl = "curl -sS https://example.com";
    let button = "return document.querySelector('#notices button')?.textContent ?? null";
    // Whether programs may use the network here is the host's business.
    let allow = "document.getElementById('network').disabled = arguments[0]";
    page.js(allow, vec![json!(true)]).await;
    page.run("shell", curl).await;
    let told = page.text("#notices p").await;
    assert!(told.starts_with("Programs have no network"), "{told}");
    let said = page.text("#announcement").await;
    assert!(said.ends_with(&told), "{said}");
    assert_accessible(page, "a hint").await;
    // There is no button for what is not allowed.
    assert_eq!(page.js(button, Vec::new()).await, Value::Null);
    page.screenshot("hint").await;
    page.js(allow, vec![json!(false)]).await;
    page.run("shell", curl).await;
    assert_eq!(page.js(button, Vec::new()).await, "Run with the network");
    page.intercept("() => undefined").await;
    page.click("#notices button").await;
    page.until("calls.some(([tool, { network }]) => tool === 'run_code' && network)")
        .await;
    page.ended().await;
    page.js("document.getElementById('network').click()", Vec::new())
        .await;
    // What the output and the figures say is not said again, and a program that ended as it wanted needs no advice.
    for code in ["exit 3", "echo oh >&2; exit 1", "true"] {
        page.run("shell", code).await;
        assert_eq!(page.text("#notices").await, "", "{code}");
    }
    page.run("python", "display(6 * 7)").await;
    assert_eq!(page.js(button, Vec::new()).await, "Run with Stateful");
    page.click("#notices button").await;
    page.until("document.getElementById('output').textContent === '42\\n'")
        .await;
    page.ended().await;
    page.run("python", "print(input())").await;
    assert_eq!(page.js(button, Vec::new()).await, "Give it input");
    page.click("#notices button").await;
    assert_eq!(page.focused().await, "stdin");
}

async fn what_was_chosen_is_there_after_a_reload(page: &Page) {
    page.find("#timeout").await.send_keys("7.5").await.unwrap();
    page.click("#toggle-input").await;
    page.find("#stdin").await.send_keys("typed").await.unwrap();
    page.js("document.getElementById('stateful').click()", Vec::new())
        .await;
    page.click("#toggle-environment").await;
    for (cell, text) in [(1, "GREETING"), (2, "hello")] {
        let field = format!("#variables td:nth-child({cell}) input");
        page.find(&field).await.send_keys(text).await.unwrap();
    }
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    let chosen = "return [document.getElementById('timeout').value, document.getElementById('stateful').checked,
        document.getElementById('restart').checkVisibility(), document.getElementById('toggle-environment').textContent,
        document.getElementById('stdin').value, document.getElementById('toggle-input').textContent]";
    assert_eq!(
        page.js(chosen, Vec::new()).await,
        json!([
            "7.5",
            true,
            true,
            "Environment (1)",
            "typed",
            "Input (given)"
        ])
    );
    let code = "import os\nos.environ['GREETING']";
    assert_eq!(page.run("python", code).await.1, "'hello'\n");
    // What is taken back does not return.
    page.click("#toggle-environment").await;
    page.click("#variables [aria-label=\"Remove the variable\"]")
        .await;
    page.js("document.getElementById('stateful').click()", Vec::new())
        .await;
    page.click("#toggle-input").await;
    let keys = Key::Control + "a" + Key::Null + Key::Delete;
    page.find("#stdin").await.send_keys(keys).await.unwrap();
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(
        page.js(chosen, Vec::new()).await,
        json!(["7.5", false, false, "Environment", "", "Input"])
    );
}

async fn the_title_says_how_the_run_stands(page: &Page) {
    let title = async || page.driver.title().await.unwrap();
    assert_eq!(title().await, "Code sandbox");
    page.start("shell", "echo begun; sleep 2").await;
    page.until("document.getElementById('output').textContent === 'begun\\n'")
        .await;
    assert_eq!(title().await, "Running · Code sandbox");
    let word = page.ended().await;
    assert_eq!(title().await, format!("{word} · Code sandbox"));
    let word = page.run("shell", "exit 1").await.0;
    assert_eq!(title().await, format!("{word} · Code sandbox"));
    page.start("shell", "sleep 30").await;
    page.click("#stop").await;
    let word = page.ended().await;
    assert_eq!(title().await, format!("{word} · Code sandbox"));
}

#[tokio::test]
async fn a_token_is_kept_where_it_is_wanted() {
    let page = Page::without_token(&[]).await;
    page.until("document.querySelector('#editor').shadowRoot")
        .await;
    page.screenshot("token").await;
    page.click("#keep-token").await;
    page.give_token(crate::support::TOKEN).await;
    page.until("!document.getElementById('run').disabled").await;
    // Who was let in can write at once.
    assert_eq!(page.focused().await, "editor");
    let another_tab = "sessionStorage.clear()";
    let asks = "return document.getElementById('token-dialog').open";
    page.js(another_tab, Vec::new()).await;
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    assert_eq!(page.js(asks, Vec::new()).await, false);
    // Whoever does not want that any more says so in the same place.
    page.click("#open-token").await;
    page.click("#keep-token").await;
    page.give_token(crate::support::TOKEN).await;
    page.until("!document.querySelector('dialog[open]')").await;
    assert_eq!(page.focused().await, "open-token");
    let kept = "return JSON.stringify(localStorage)";
    let kept = page.js(kept, Vec::new()).await;
    assert!(!kept.as_str().unwrap().contains(crate::support::TOKEN));
    page.js(another_tab, Vec::new()).await;
    page.reload().await;
    page.until("document.getElementById('token-dialog').open")
        .await;
    page.close().await;
}

#[tokio::test]
async fn low_screens_are_high_enough() {
    let page = Page::open(&[]).await;
    // The second is the first, enlarged to 125 %.
    for (width, height) in [(1024, 600), (819, 480), (1440, 900)] {
        page.size(width, height, false).await;
        page.click("#toggle-packages").await;
        for part in ["#package-names", "#install", "#package-help", "#open-curl"] {
            let seen = "
                const part = document.querySelector(arguments[0]);
                part.scrollIntoView({ block: 'center', behavior: 'instant' });
                const { left, top, width, height } = part.getBoundingClientRect();
                const found = document.elementFromPoint(left + width / 2, top + height / 2);
                return part.contains(found)";
            let seen = page.js(seen, vec![json!(part)]).await;
            assert_eq!(seen, true, "{part} at {width} × {height}");
        }
        let place = "scrollTo(0, 0); document.querySelector('.program').scrollTop = 0";
        page.js(place, Vec::new()).await;
        // What can be scrolled to can be scrolled back from.
        page.screenshot(&format!("packages-{width}")).await;
        page.click("#toggle-packages").await;
    }
    page.close().await;
}
