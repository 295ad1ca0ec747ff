//! Programs that want more than to be shown: nothing they print, and no file they make, gets at the page or the token.

use serde_json::{Value, json};

use super::page::{Page, on_one_page};

/// What would run if anything of it were taken for markup.
const MARKUP: &str =
    "<img src=x onerror=\"localStorage.stolen=1\"><script>localStorage.stolen=1</script>";

async fn assert_nothing_ran(page: &Page) {
    let stolen = page.js("return [localStorage.stolen ?? null, document.querySelectorAll('main script, main img[src=x]').length]", Vec::new()).await;
    assert_eq!(stolen, json!([null, 0]));
}

#[tokio::test]
async fn nothing_of_a_program_gets_at_the_page() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        output_and_names_stay_text,
        a_hostile_file_cannot_read_the_token
    );
    page.close().await;
}

async fn output_and_names_stay_text(page: &Page) {
    let code = format!(
        "import sys\nmarkup = {MARKUP:?}\nprint(markup)\nprint('\\033]0;title\\007\\033[2J\\033[32mgreen\\033[0m \\u202eabc\\u202c')\n\
         print('\\033]8;;javascript:alert(1)\\033\\\\link\\033]8;;\\033\\\\', markup, '\\033]0;not ended', file=sys.stderr)\n\
         open('<img src=x onerror=alert(1)>.txt', 'w').write(markup)\n\
         open('photo\\u202egnp\\u00ad.exe', 'w').write(markup)\n\
         open('\\033[31mred\\n.txt', 'w').write(markup)\n\
         open('broken.png', 'w').write(markup)"
    );
    let (word, output) = page.run("python", &code).await;
    assert_eq!(word, "OK", "{output}");
    assert!(
        output.contains(MARKUP) && output.contains("green ‹U+202E›abc‹U+202C›"),
        "{output}"
    );
    assert!(
        output.contains(&format!("link {MARKUP} ")) && !output.contains('\u{1b}'),
        "{output}"
    );
    // What never ends is no title.
    assert!(output.ends_with("]0;not ended\n"), "{output}");
    page.until("document.querySelectorAll('#file-list li').length === 4")
        .await;
    let names = page.js("return [...document.querySelectorAll('#file-list .file-name')].map((name) => name.textContent).sort()", Vec::new()).await;
    assert_eq!(
        names,
        json!([
            "<img src=x onerror=alert(1)>.txt",
            "broken.png",
            "photo‹U+202E›gnp‹U+00AD›.exe",
            "‹U+001B›[31mred‹U+000A›.txt"
        ])
    );
    page.click("#open-history").await;
    assert!(page.text("#history-list").await.contains("import sys"));
    assert_nothing_ran(page).await;
}

async fn a_hostile_file_cannot_read_the_token(page: &Page) {
    let steal = "<script>localStorage.stolen=sessionStorage.getItem('mcp-code-sandbox-token');document.title='taken'</script>";
    let code = format!(
        "for name in ['evil.html', 'evil.svg', 'evil.xhtml', 'evil.txt', 'evil.json', 'evil']:\n    \
             open(name, 'w').write({steal:?})"
    );
    page.run("python", &code).await;
    page.until("document.querySelectorAll('#file-list li').length === 6")
        .await;
    let home = page.driver.current_url().await.unwrap();
    let links = page
        .js(
            "return [...document.querySelectorAll('#file-list a')].map((link) => link.href)",
            Vec::new(),
        )
        .await;
    for link in links.as_array().unwrap() {
        let link = link.as_str().unwrap();
        let is_shown = ["txt", "json"].contains(&link.rsplit('.').next().unwrap());
        // One that is only saved is not gone to, which the driver may call an error.
        let _ = page.driver.goto(link).await;
        let here = page.driver.current_url().await.unwrap();
        if here == home {
            assert!(!is_shown, "{link} is shown");
        } else {
            assert!(is_shown, "{link} is saved");
            // In an origin of its own, whatever is done there.
            let script = "try { return sessionStorage.getItem('mcp-code-sandbox-token') } catch (error) { return error.name }";
            assert_eq!(
                page.js(script, Vec::new()).await,
                json!("SecurityError"),
                "{link}"
            );
            assert_eq!(
                page.js("return [origin, document.title]", Vec::new()).await[0],
                json!("null"),
                "{link}"
            );
            page.driver.goto(home.as_str()).await.unwrap();
        }
        let stolen = page
            .js(
                "return [localStorage.stolen ?? null, document.title.endsWith('Code sandbox')]",
                Vec::new(),
            )
            .await;
        assert_eq!(stolen, json!([null, true]), "{link}");
    }
    // Nor are there frames of anything but this server.
    let script = "const frame = document.createElement('iframe'); frame.src = 'https://elsewhere.example/'; document.body.append(frame);
        return new Promise((resolve) => addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective), { once: true }))";
    let refused: Value = page.js(script, Vec::new()).await;
    assert_eq!(refused, json!("frame-src"));
    // And no text can be made markup by a mistake of the page's.
    let script = "try { document.body.innerHTML = '<b>x</b>' } catch (error) { return error.name }";
    assert_eq!(page.js(script, Vec::new()).await, json!("TypeError"));
    assert_nothing_ran(page).await;
    // The browser has told of the refused frame.
    page.driver.browser_log().await.unwrap();
}
