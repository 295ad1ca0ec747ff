//! What axe-core finds, in light and dark and on a phone, and pictures for people to look at.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use thirtyfour::Key;

use super::page::{Page, on_one_page};

const AXE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/browser/node_modules/axe-core/axe.min.js"
);

/// Fails for what is serious or critical.
pub(super) async fn assert_accessible(page: &Page, what: &str) {
    let axe =
        fs::read_to_string(Path::new(AXE)).expect("axe-core is missing: run ./test.sh browser");
    page.js(&axe, Vec::new()).await;
    let script = "const done = arguments[0];
        axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations
          .filter(({ impact }) => ['serious', 'critical'].includes(impact))
          .map(({ id, nodes }) => [id, nodes.map(({ target, failureSummary }) => [target, failureSummary])])))";
    let found = page.driver.execute_async(script, Vec::new()).await.unwrap();
    assert_eq!(found.json(), &Value::Array(Vec::new()), "{what}");
}

/// Looks at a state of the page in light and dark and on screens of three sizes, and leaves pictures of it.
pub(super) async fn assert_good_everywhere(page: &Page, what: &str) {
    for (width, height, phone) in [(1440, 900, false), (1024, 600, false), (390, 844, true)] {
        page.size(width, height, phone).await;
        for scheme in ["light", "dark"] {
            page.scheme(scheme).await;
            page.screenshot(&format!("{what}-{width}-{scheme}")).await;
            if width != 1024 {
                assert_accessible(page, &format!("{what}, {width}, {scheme}")).await;
            }
        }
        // A bar for scrolling down takes some of it.
        let fits = format!("return document.documentElement.scrollWidth <= {width}");
        assert_eq!(page.js(&fits, Vec::new()).await, true, "{what}");
    }
    page.size(1360, 860, false).await;
    page.scheme("light").await;
}

const CHART: usize = 1;
const ERRORS: usize = 3;

/// Runs one of the examples of Python.
async fn run_example(page: &Page, index: usize) {
    page.choose("#example", &index.to_string()).await;
    page.click("#run").await;
    page.ended().await;
}

#[tokio::test]
async fn everybody_can_use_it() {
    let page = Page::without_token(&[]).await;
    page.scheme("light").await;
    page.size(1360, 860, false).await;
    page.until("document.querySelector('#editor').shadowRoot")
        .await;
    assert_accessible(&page, "before the token").await;
    assert_headings_are_nested_as_their_parts(&page).await;
    page.give_token(crate::support::TOKEN).await;
    page.until("!document.getElementById('run').disabled").await;
    run_example(&page, ERRORS).await;
    page.click("#toggle-environment").await;
    for scheme in ["light", "dark"] {
        page.scheme(scheme).await;
        assert_accessible(&page, &format!("errors, {scheme}")).await;
    }
    page.screenshot("errors").await;
    assert_seen_without_colours(&page).await;
    page.click("#toggle-environment").await;
    look_at_packages(&page).await;
    run_example(&page, CHART).await;
    page.until("document.querySelector('#file-list img')?.naturalWidth > 100")
        .await;
    for scheme in ["light", "dark"] {
        page.scheme(scheme).await;
        assert_accessible(&page, &format!("a chart, {scheme}")).await;
        page.screenshot(scheme).await;
        for dialog in ["history", "curl"] {
            page.click(&format!("#open-{dialog}")).await;
            assert_accessible(&page, &format!("{dialog}, {scheme}")).await;
            page.screenshot(&format!("{dialog}-{scheme}")).await;
            page.click(&format!("#{dialog}-dialog [data-close]")).await;
        }
    }
    page.close().await;
}

/// The files are a part of the result, which is one beside the program.
async fn assert_headings_are_nested_as_their_parts(page: &Page) {
    let script = "
        const headings = document.querySelectorAll('body > :not(dialog) :is(h1, h2, h3, h4, h5, h6)');
        return [...headings].map((heading) => `${heading.localName} ${heading.textContent.trim()}`)";
    let headings = page.js(script, Vec::new()).await;
    let expected = json!(["h1 ›_Code sandbox", "h2 Program", "h2 Result", "h3 Files"]);
    assert_eq!(headings, expected);
}

/// Switches and the chosen streams are told apart in the system's own colours, and nothing moves for ever.
async fn assert_seen_without_colours(page: &Page) {
    page.scheme("forced").await;
    let script = "
        const status = document.getElementById('status');
        const { state } = status.dataset;
        status.dataset.state = 'running';
        const times = getComputedStyle(status, '::before').animationIterationCount;
        status.dataset.state = state;
        const parts = ['#network + .track', '#streams :checked + span'];
        return [times, ...parts.map((part) => getComputedStyle(document.querySelector(part)).borderTopWidth)]";
    let seen = page.js(script, Vec::new()).await;
    assert_eq!(seen, json!(["1", "1px", "1px"]));
    page.screenshot("forced").await;
    page.scheme("dark").await;
}

/// The box with what came of an install, and with the reason why there is none.
async fn look_at_packages(page: &Page) {
    page.click("#toggle-packages").await;
    for language in ["shell", "python"] {
        page.choose("#language", language).await;
        if language == "python" {
            let names = page.find("#package-names").await;
            names.send_keys("six @ x").await.unwrap();
            page.click("#install").await;
            page.until("document.querySelector('#install-outcome .problem')")
                .await;
        }
        for scheme in ["light", "dark"] {
            page.scheme(scheme).await;
            assert_accessible(page, &format!("packages of {language}, {scheme}")).await;
            page.screenshot(&format!("packages-{language}-{scheme}"))
                .await;
        }
    }
    page.click("#toggle-packages").await;
}

#[tokio::test]
async fn small_screens_and_keys_are_enough() {
    let page = Page::open(&[]).await;
    on_one_page!(page, a_phone_is_wide_enough, the_keyboard_is_enough);
    page.close().await;
}

async fn a_phone_is_wide_enough(page: &Page) {
    page.scheme("light").await;
    page.size(375, 720, true).await;
    run_example(page, CHART).await;
    page.until("document.querySelector('#file-list img')?.naturalWidth > 100")
        .await;
    for scheme in ["light", "dark"] {
        page.scheme(scheme).await;
        assert_accessible(page, &format!("a phone, {scheme}")).await;
        page.js("scrollTo(0, 0)", Vec::new()).await;
        page.screenshot(&format!("phone-{scheme}")).await;
    }
    page.click("#toggle-packages").await;
    page.screenshot("phone-packages").await;
    page.js(
        "document.getElementById('result').scrollIntoView()",
        Vec::new(),
    )
    .await;
    page.screenshot("phone-result").await;
    let width = page
        .js("return document.documentElement.scrollWidth", Vec::new())
        .await;
    assert_eq!(width, 375, "nothing is to be scrolled sideways");
    // Fingers are not as small as the point of a mouse.
    let small = page.js("return [...document.querySelectorAll('button, select, textarea, input:not([type=radio], [type=checkbox])')].filter((part) => part.checkVisibility() && part.getBoundingClientRect().height < 36 && part.closest('dialog') === null).map((part) => part.id || part.className)", Vec::new()).await;
    assert_eq!(small, Value::Array(Vec::new()));
    // Phones zoom into fields of smaller letters.
    let small = page.js("return [...document.querySelectorAll('select, textarea, input:not([type=radio], [type=checkbox])')].filter((part) => parseFloat(getComputedStyle(part).fontSize) < 16).map((part) => part.id || part.className)", Vec::new()).await;
    assert_eq!(small, Value::Array(Vec::new()));
}

async fn the_keyboard_is_enough(page: &Page) {
    page.js("document.activeElement.blur()", Vec::new()).await;
    let mut visited = Vec::new();
    for _ in 0..30 {
        page.press(Key::Tab).await;
        let id = page.focused().await.as_str().unwrap().to_owned();
        if id == "editor" {
            // Tab indents there; Escape lets it go on.
            page.press(Key::Escape).await;
        }
        visited.push(id);
    }
    for id in [
        "conversation",
        "new-conversation",
        "open-history",
        "language",
        "example",
        "run",
        "editor",
        "timeout",
        "toggle-packages",
        "open-curl",
        "output",
        "upload",
    ] {
        assert!(
            visited.iter().any(|visited| visited == id),
            "{id} is out of reach: {visited:?}"
        );
    }
}
