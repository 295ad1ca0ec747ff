//! Where things are: nothing jumps while a program runs, nothing covers anything, and code looks like code.

use serde_json::{Value, json};

use super::page::{Page, on_one_page};

#[tokio::test]
async fn everything_has_its_place() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        nothing_jumps,
        names_and_figures_move_nothing,
        run_covers_nothing_on_a_phone,
        code_has_no_ligatures,
        forced_colours_leave_differences
    );
    page.close().await;
}

/// Where the parts are that nobody moves.
async fn places(page: &Page) -> Value {
    let script = "
        const place = (part) => {
          const { x, y, width, height } = document.querySelector(part).getBoundingClientRect();
          // The button of a phone is where it is on the screen, everything else where it is on the page.
          const isFixed = getComputedStyle(document.querySelector('.run-slot')).position === 'fixed' && ['#run', '#stop'].includes(part);
          // What is not shown has no place, whatever the page is scrolled to.
          const top = isFixed || !width ? y : y + scrollY;
          return [part, ...[x, top, width, height].map(Math.round)];
        };
        const button = document.getElementById('run').hidden ? '#stop' : '#run';
        return ['.bar', '#new-conversation', '#open-history', '#language', '#example', '.result > .toolbar', '#streams', '#copy-output', '#open-curl', '.screen', '#upload', '#files-filter', button]
          .map((part) => place(part).slice(part.startsWith('#run') || part.startsWith('#stop') ? 1 : 0))";
    page.js(script, Vec::new()).await
}

const SIZES: [(u32, u32, bool); 3] = [(1440, 900, false), (1024, 600, false), (390, 844, true)];

async fn nothing_jumps(page: &Page) {
    for (width, height, phone) in SIZES {
        page.size(width, height, phone).await;
        let top = "document.getElementById('example').selectedIndex = 0; scrollTo({ top: 0, behavior: 'instant' })";
        page.choose("#language", "python").await;
        page.js(top, Vec::new()).await;
        let before = places(page).await;
        page.choose("#language", "shell").await;
        assert_eq!(places(page).await, before, "another language, {width}");
        page.start("shell", "sleep 1.2; exit 3").await;
        page.until("document.getElementById('status').textContent === 'Running' && document.getElementById('facts').textContent.length > 5")
            .await;
        page.js(top, Vec::new()).await;
        assert_eq!(places(page).await, before, "running, {width}");
        page.ended().await;
        page.js(top, Vec::new()).await;
        assert_eq!(places(page).await, before, "ended, {width}");
        page.js("navigator.clipboard.writeText = async () => {}", Vec::new())
            .await;
        page.js("document.getElementById('copy-output').click()", Vec::new())
            .await;
        page.until("document.getElementById('copy-output').textContent === 'Copied'")
            .await;
        page.js(top, Vec::new()).await;
        assert_eq!(places(page).await, before, "copied, {width}");
        page.until("document.getElementById('copy-output').textContent === 'Copy'")
            .await;
        page.choose("#language", "python").await;
        page.js("document.getElementById('stateful').click()", Vec::new())
            .await;
        page.js(top, Vec::new()).await;
        assert_eq!(places(page).await, before, "stateful, {width}");
        page.js("document.getElementById('stateful').click()", Vec::new())
            .await;
    }
}

/// It is above what the page is scrolled to, and the page scrolls smoothly.
const NEW: &str = "document.getElementById('new-conversation').click()";

async fn names_and_figures_move_nothing(page: &Page) {
    for (width, height, phone) in SIZES {
        page.size(width, height, phone).await;
        page.js(NEW, Vec::new()).await;
        let files = "for n in $(seq 12); do head -c 123456 /dev/zero > file$n; done";
        page.run("shell", files).await;
        page.until("document.getElementById('files-count').textContent === '12'")
            .await;
        let before = places(page).await;
        let typed = "for (const [id, text] of [['files-filter', 'file1'], ['conversation-name', 'A name as long as names are']]) {
              const field = document.getElementById(id);
              field.value = text;
              field.dispatchEvent(new Event('input'));
            }";
        page.js(typed, Vec::new()).await;
        assert_eq!(page.text("#files-count").await, "4 of 12");
        assert_eq!(places(page).await, before, "{width}");
        page.screenshot(&format!("names-{width}")).await;
    }
    page.js(NEW, Vec::new()).await;
}

async fn run_covers_nothing_on_a_phone(page: &Page) {
    page.size(390, 844, true).await;
    page.run("shell", "seq 100").await;
    let covered = "
        const parts = document.querySelectorAll('body > :not(dialog) :is(button, select, input, textarea, .output, #no-files)');
        return [...parts].filter((part) => part.checkVisibility() && !part.closest('.run-slot') && getComputedStyle(part).opacity !== '0').filter((part) => {
          part.scrollIntoView({ block: 'end', behavior: 'instant' });
          const bar = document.querySelector('.run-slot').getBoundingClientRect();
          const { top, bottom } = part.getBoundingClientRect();
          return Math.min(bottom, top + 400) > bar.top + 1;
        }).map((part) => part.id || part.className)";
    let covered = page.js(covered, Vec::new()).await;
    assert_eq!(covered, json!([]));
    page.js("scrollTo({ top: 1e6, behavior: 'instant' })", Vec::new())
        .await;
    page.screenshot("phone-end").await;
}

async fn code_has_no_ligatures(page: &Page) {
    page.run("shell", "echo '!= => ->'").await;
    page.click("#toggle-packages").await;
    page.click("#toggle-input").await;
    let variants = "
        const line = document.querySelector('#editor').shadowRoot.querySelector('.cm-line');
        const parts = [line, ...document.querySelectorAll('#output span, #stdin, #package-names, #conversation, #curl-command')];
        return [parts.length > 5, [...new Set(parts.map((part) => getComputedStyle(part).fontVariantLigatures))]]";
    let variants = page.js(variants, Vec::new()).await;
    assert_eq!(variants, json!([true, ["none"]]));
    page.click("#toggle-packages").await;
    page.click("#toggle-input").await;
}

async fn forced_colours_leave_differences(page: &Page) {
    page.run("shell", "echo out; echo err >&2; exit 1").await;
    page.scheme("forced").await;
    page.js(
        "document.getElementById('editor').shadowRoot.querySelector('.cm-content').focus()",
        Vec::new(),
    )
    .await;
    let seen = "
        const selection = getComputedStyle(document.getElementById('editor')).getPropertyValue('--selection');
        const border = (part) => getComputedStyle(document.querySelector(part)).borderLeftWidth;
        // What is selected is seen through the line that the cursor is in.
        const line = document.getElementById('editor').shadowRoot.querySelector('.cm-activeLine');
        const clear = getComputedStyle(line).backgroundColor;
        return [clear, border('.pill'), border('.output .stdout'), border('.output .stderr'), selection.includes('Highlight')]";
    let seen = page.js(seen, Vec::new()).await;
    assert_eq!(seen, json!(["rgba(0, 0, 0, 0)", "1px", "0px", "3px", true]));
    page.screenshot("forced-result").await;
}
