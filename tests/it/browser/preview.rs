//! Files that are looked at on the page: tables, text, pictures, and pages that programs made.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::accessibility::assert_good_everywhere;
use super::page::{Page, on_one_page};

#[tokio::test]
async fn files_are_shown_for_what_they_are() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_table_is_shown_as_one,
        text_is_shown_as_text,
        a_picture_is_shown_large,
        a_page_of_a_program_runs_in_a_frame_of_its_own,
        a_chart_of_plotly_is_drawn
    );
    page.close().await;
}

/// Opens a file, and waits until something is said of it.
async fn open(page: &Page, name: &str) -> String {
    page.until(&format!(
        "[...document.querySelectorAll('.file-name')].some((name) => name.textContent === '{name}')"
    ))
    .await;
    let script = "[...document.querySelectorAll('.file-open')]
        .find((button) => button.querySelector('.file-name').textContent === arguments[0]).focus()";
    page.js(script, vec![json!(name)]).await;
    page.press(Key::Enter).await;
    page.until("document.getElementById('preview-note').textContent")
        .await;
    page.text("#preview-note").await
}

async fn close(page: &Page) {
    page.click("#file-dialog [data-close]").await;
    // A dialog tells that it was closed a moment later.
    page.until("document.getElementById('preview').childElementCount === 0")
        .await;
}

/// The rows of the table that is shown, with the class of their last cell.
async fn table(page: &Page) -> Value {
    let script = "return [...document.querySelectorAll('#preview tr')].map((row) =>
        [...row.cells].map((cell) => cell.textContent).concat(row.lastElementChild.className))";
    page.js(script, Vec::new()).await
}

async fn a_table_is_shown_as_one(page: &Page) {
    let code = r#"
import csv
open('sales.csv', 'w').write('region,amount\n"north, <b>far</b>",12\n"said ""hi""\non two lines",-7.5\nshort\n')
open('tabs.tsv', 'w').write('a\tb\n1, 2\t\n')
open('german.csv', 'wb').write('Straße;Wert\nGrüße;1,5\n'.encode('cp1252'))
with open('long.csv', 'w') as file:
    csv.writer(file).writerows([['n'] + list(range(99))] + [[row] * 100 for row in range(2000)])
open('empty.csv', 'w')
"#;
    let (word, output) = page.run("python", code).await;
    assert_eq!(word, "OK", "{output}");
    assert_eq!(open(page, "sales.csv").await, "3 rows, 2 columns");
    let expected = json!([
        ["region", "amount", "number"],
        ["north, <b>far</b>", "12", "number"],
        ["said \"hi\"\non two lines", "-7.5", "number"],
        ["short", "", "number"]
    ]);
    assert_eq!(table(page).await, expected);
    assert_good_everywhere(page, "table").await;
    page.click("#preview-ways label:nth-of-type(2)").await;
    page.until(
        "document.querySelector('#preview pre')?.textContent.startsWith('region,amount\\n\"north')",
    )
    .await;
    close(page).await;
    assert_eq!(open(page, "tabs.tsv").await, "1 row, 2 columns");
    assert_eq!(table(page).await, json!([["a", "b", ""], ["1, 2", "", ""]]));
    close(page).await;
    open(page, "german.csv").await;
    let expected = json!([["Straße", "Wert", "number"], ["Grüße", "1,5", "number"]]);
    assert_eq!(table(page).await, expected);
    close(page).await;
    let note = open(page, "long.csv").await;
    assert_eq!(note, "The first 200 rows, the first 40 of 100 columns");
    close(page).await;
    assert_eq!(open(page, "empty.csv").await, "The file is empty.");
    close(page).await;
}

async fn text_is_shown_as_text(page: &Page) {
    let code = "
markup = '<img src=x onerror=localStorage.stolen=1>'
open('notes.md', 'w').write(markup + ' \\u202eabc\\x1b[31m')
open('long.log', 'w').write('line é\\n' * 200_000)
open('data.bin', 'wb').write(bytes(range(256)))";
    page.run("python", code).await;
    open(page, "notes.md").await;
    let shown = page.text("#preview pre").await;
    assert_eq!(
        shown,
        "<img src=x onerror=localStorage.stolen=1> ‹U+202E›abc␛[31m"
    );
    // With one way there is nothing to choose, and the keyboard scrolls what is shown.
    let state = "const { hidden } = document.getElementById('preview-ways');
        return [hidden, document.activeElement.matches('[data-close]'), document.getElementById('preview').tabIndex]";
    assert_eq!(page.js(state, Vec::new()).await, json!([true, true, 0]));
    assert_good_everywhere(page, "text").await;
    page.press(Key::Escape).await;
    let back = page.js("return document.activeElement.textContent", Vec::new());
    assert_eq!(back.await, "notes.md");
    let note = open(page, "long.log").await;
    assert_eq!(note, "The first 524 kB of 1.6 MB");
    let length = page.js(
        "return document.querySelector('#preview pre').textContent.length",
        Vec::new(),
    );
    assert!(length.await.as_u64().unwrap() < 524_288);
    close(page).await;
    let note = open(page, "data.bin").await;
    assert_eq!(
        note,
        "This is neither text nor a picture that browsers show. Download it to open it."
    );
    close(page).await;
    // One that is gone says so.
    let id = page.conversation().await;
    let gone = json!({ "conversationId": id, "language": "shell", "code": "rm notes.md" });
    page.server.as_ref().unwrap().call("run_code", gone).await;
    let note = open(page, "notes.md").await;
    assert_eq!(
        note,
        "The file cannot be shown. There is no such file any more."
    );
    close(page).await;
}

async fn a_picture_is_shown_large(page: &Page) {
    let code = "from PIL import Image\nImage.new('RGB', (300, 200)).save('p.png')\nopen('broken.png', 'w').write('no')";
    page.run("python", code).await;
    assert!(open(page, "p.png").await.starts_with("300 × 200, "));
    page.until("document.getElementById('picture').naturalWidth === 300")
        .await;
    close(page).await;
    let note = open(page, "broken.png").await;
    assert_eq!(
        note,
        "The browser cannot show this picture. It may be broken, or gone."
    );
    close(page).await;
}

/// Tries everything that it must not get at, and writes down what came of it.
const HOSTILE: &str = r#"<!doctype html><meta charset="utf-8"><title>é</title><pre id="found"></pre><script>
const attempts = {
  token: () => parent.sessionStorage.getItem('mcp-code-sandbox-token'),
  page: () => parent.document.title,
  storage: () => localStorage.length,
  cookie: () => { document.cookie = 'a=b'; return document.cookie; },
  window: () => { if (!open('about:blank')) throw new Error('no window'); },
  network: () => fetch('/healthz'),
  elsewhere: () => fetch('https://sandbox.example/'),
  picture: () => new Promise((resolve, reject) => {
    const picture = Object.assign(new Image(), { src: '/favicon.svg' });
    Object.assign(picture, { onload: resolve, onerror: () => reject(new Error('no picture')) });
  }),
  top: () => { top.location = 'https://sandbox.example/'; },
  script: () => new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement('script'), { src: '/app/dom.js' });
    Object.assign(script, { onload: resolve, onerror: () => reject(new Error('no script')) });
    document.head.append(script);
  }),
};
(async () => {
  const found = [];
  for (const [name, attempt] of Object.entries(attempts)) {
    try { await attempt(); found.push(name); } catch (error) { /* As it should be. */ }
  }
  document.getElementById('found').textContent = JSON.stringify([origin, typeof eval('1'), found]);
})();
</script>"#;

async fn a_page_of_a_program_runs_in_a_frame_of_its_own(page: &Page) {
    let away = "<script>location = 'https://sandbox.example/away'</script>";
    let code = format!(
        "open('hostile.html', 'w').write({HOSTILE:?})\nopen('away.html', 'w').write({away:?})\n\
         open('frame.htm', 'w').write('<iframe src=\"/\"></iframe><iframe src=\"/docs/\"></iframe>')"
    );
    let (word, output) = page.run("python", &code).await;
    assert_eq!(word, "OK", "{output}");
    open(page, "hostile.html").await;
    let frame = page.find("#preview iframe").await;
    frame.enter_frame().await.unwrap();
    page.until("document.getElementById('found')?.textContent")
        .await;
    let found: Value = serde_json::from_str(&page.text("#found").await).unwrap();
    assert_eq!(found, json!(["null", "number", []]));
    page.driver.enter_default_frame().await.unwrap();
    // Its source is text, and takes the frame away.
    page.click("#preview-ways label:nth-of-type(2)").await;
    page.until("document.querySelector('#preview pre')?.textContent.startsWith('<!doctype html>')")
        .await;
    let frames = "return document.querySelectorAll('iframe').length";
    assert_eq!(page.js(frames, Vec::new()).await, 0);
    close(page).await;
    // It stays where it is: the page keeps it from going elsewhere.
    page.js(
        "addEventListener('securitypolicyviolation', ({ effectiveDirective }) => { window.refused = effectiveDirective; })",
        Vec::new(),
    )
    .await;
    open(page, "away.html").await;
    page.until("window.refused === 'frame-src'").await;
    close(page).await;
    // What would be asked for a token there does not come up in a frame.
    open(page, "frame.htm").await;
    close(page).await;
    // As a document of its own it is no page at all.
    let link = page
        .js(
            "return document.querySelector('#file-list a').href",
            Vec::new(),
        )
        .await;
    let link = link.as_str().unwrap().replacen("/files/", "/framed/", 1);
    let home = page.driver.current_url().await.unwrap();
    page.driver.goto(&link).await.unwrap();
    assert!(
        page.text("body")
            .await
            .starts_with("This is shown only in a frame")
    );
    page.driver.goto(home.as_str()).await.unwrap();
    page.until("!document.getElementById('run').disabled").await;
    // The browser has told of everything that it refused.
    page.driver.browser_log().await.unwrap();
}

async fn a_chart_of_plotly_is_drawn(page: &Page) {
    let code = "import plotly.express as px\npx.bar(x=['a', 'b'], y=[3, 5]).show()";
    let (word, output) = page.run("python", code).await;
    assert_eq!(word, "OK", "{output}");
    let name = page.text("#file-list .file-name").await;
    let note = open(page, &name).await;
    assert!(note.starts_with("Made by a program"), "{note}");
    page.find("#preview iframe")
        .await
        .enter_frame()
        .await
        .unwrap();
    page.until("document.querySelectorAll('.barlayer .point path').length === 2")
        .await;
    page.driver.enter_default_frame().await.unwrap();
    assert_good_everywhere(page, "chart").await;
    close(page).await;
}
