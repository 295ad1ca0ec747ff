//! The operator's page, with programs that run on the real engine.

use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::Key;

use super::accessibility::assert_good_everywhere;
use super::page::Page;

const ADMIN_TOKEN: &str = "4c1d5e7ab0934f6f8e21d0a7";
const SETTINGS: (&str, &str) = ("ADMIN_TOKEN", ADMIN_TOKEN);

/// The page of a new server, before the token was given.
async fn opened(settings: &[(&str, &str)]) -> Page {
    let page = Page::without_token(&[&[SETTINGS], settings].concat()).await;
    let home = page.js("return location.href", Vec::new()).await;
    let address = format!("{}admin", home.as_str().unwrap());
    page.go(&address, "#token-dialog[open]").await;
    page.scheme("light").await;
    page
}

async fn give_token(page: &Page) {
    page.type_text(ADMIN_TOKEN).await;
    page.press(Key::Enter).await;
    page.until("!document.getElementById('token-dialog').open")
        .await;
}

/// Goes on with the Tab key until what has the focus is such an element.
async fn tab_to(page: &Page, css: &str) {
    let script = format!("return document.activeElement.matches({})", json!(css));
    for _ in 0..40 {
        page.press(Key::Tab).await;
        if page.js(&script, Vec::new()).await == true {
            return;
        }
    }
    panic!("{css} is out of reach of the keyboard");
}

/// Goes to a view by the keyboard.
async fn go_to(page: &Page, view: &str) {
    page.js("document.activeElement.blur()", Vec::new()).await;
    tab_to(page, &format!("nav a[href='#{view}']")).await;
    page.press(Key::Enter).await;
    page.until(&format!("!document.getElementById('view-{view}').hidden"))
        .await;
}

fn rows(table: &str, count: usize) -> String {
    format!("document.querySelectorAll('#{table} tbody tr').length === {count}")
}

/// The texts of the cells of a table's first row, as many as asked for.
async fn cells(page: &Page, table: &str, count: usize) -> Value {
    let script = "return [...document.querySelector(`#${arguments[0]} tbody tr`).cells].slice(0, arguments[1]).map((cell) => cell.textContent)";
    page.js(script, vec![json!(table), json!(count)]).await
}

#[tokio::test]
async fn the_operator_watches_runs_and_ends_one_by_keyboard() {
    let page = opened(&[]).await;
    page.type_text("none of the operator's").await;
    page.press(Key::Enter).await;
    page.until("document.getElementById('token-error').textContent === 'The server does not accept this token.'")
        .await;
    assert_good_everywhere(&page, "admin-token").await;
    give_token(&page).await;
    page.until("!document.getElementById('no-runs').hidden")
        .await;
    let run = page.server.as_ref().unwrap().run_for(280, "sleep 280");
    let watch = async {
        page.until("document.querySelector('#runs .pill')?.textContent === 'Running'")
            .await;
        assert_eq!(
            cells(&page, "runs", 4).await,
            json!([
                "Running",
                "default",
                cells(&page, "runs", 3).await[2],
                "shell"
            ])
        );
        // It looks again by itself.
        page.until(
            "parseFloat(document.querySelector('#runs tbody tr').cells[6].textContent) >= 4",
        )
        .await;
        assert_good_everywhere(&page, "admin-runs").await;
        tab_to(&page, "button[data-run]").await;
        page.press(Key::Enter).await;
        page.until("document.getElementById('confirm-dialog').open")
            .await;
        assert_eq!(page.focused().await, "confirm-no");
        assert_good_everywhere(&page, "admin-confirm").await;
        page.press(Key::Enter).await;
        page.until("!document.getElementById('confirm-dialog').open")
            .await;
        // What looked again meanwhile did not take the place.
        page.until("document.activeElement.matches('button[data-run]')")
            .await;
        assert_eq!(cells(&page, "runs", 1).await, json!(["Running"]));
        page.press(Key::Enter).await;
        page.press(Key::Tab).await;
        assert_eq!(page.focused().await, "confirm-yes");
        page.press(Key::Enter).await;
        page.until("!document.getElementById('no-runs').hidden")
            .await;
        page.js("document.getElementById('view').focus()", Vec::new())
            .await;
        tab_to(&page, "#runs-active").await;
        page.press(Key::Space).await;
        page.until("document.querySelector('#runs .pill')?.textContent === 'Cancelled'")
            .await;
    };
    let (outcome, ()) = tokio::join!(run, watch);
    assert_eq!(outcome.unwrap()["status"], "cancelled");
    page.close().await;
}

#[tokio::test]
async fn the_operator_finds_conversations_and_deletes_one_by_keyboard() {
    let logs = TempDir::new().unwrap();
    let log = logs.path().join("audit.jsonl");
    let page = opened(&[("AUDIT_LOG", log.to_str().unwrap())]).await;
    let server = page.server.as_ref().unwrap();
    server.run("echo hello > 'a b.txt'").await.unwrap();
    let other = json!({ "conversationId": "other", "language": "python", "code": "open('x', 'w').write('x')\n1 / 0" });
    let other = server.call("run_code", other).await;
    assert_eq!(other["status"], "error");
    give_token(&page).await;

    go_to(&page, "conversations").await;
    page.until(&rows("conversations", 2)).await;
    assert_good_everywhere(&page, "admin-conversations").await;
    let files = server
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    let key = files["files"][0]["url"].as_str().unwrap();
    let key = key.split("/files/").nth(1).unwrap()[..64].to_owned();
    page.js("document.getElementById('view').focus()", Vec::new())
        .await;
    tab_to(&page, "#conversations-search").await;
    page.type_text(&key[..16]).await;
    page.until(&rows("conversations", 1)).await;
    assert_eq!(
        cells(&page, "conversations", 2).await,
        json!([key[..12], "default"])
    );
    tab_to(&page, "#conversations a").await;
    page.press(Key::Enter).await;
    page.until(&rows("files", 1)).await;
    assert_eq!(
        cells(&page, "files", 2).await,
        json!(["a b.txt", "6 bytes"])
    );
    assert_eq!(page.text("#conversation-key").await, key);
    assert_good_everywhere(&page, "admin-conversation").await;

    tab_to(&page, "#delete-conversation").await;
    page.press(Key::Enter).await;
    page.until("document.getElementById('confirm-dialog').open")
        .await;
    page.press(Key::Escape).await;
    page.until("!document.getElementById('confirm-dialog').open")
        .await;
    page.press(Key::Enter).await;
    page.press(Key::Tab).await;
    page.press(Key::Enter).await;
    page.until("!document.getElementById('view-conversations').hidden")
        .await;
    page.until("document.getElementById('conversations-note').textContent === '0 of 1'")
        .await;
    let files = server
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(files["files"], json!([]));
    look_at_the_rest(&page).await;
    page.js("document.getElementById('view').focus()", Vec::new())
        .await;
    page.click("#forget-token").await;
    page.arrives("#token-dialog[open]").await;
    let script = "return JSON.stringify([localStorage, sessionStorage])";
    let kept = page.js(script, Vec::new()).await;
    assert!(!kept.as_str().unwrap().contains(ADMIN_TOKEN), "{kept}");
    page.close().await;
}

/// Tenants, usage and the audit log, of a server that ran two programs.
async fn look_at_the_rest(page: &Page) {
    go_to(page, "tenants").await;
    page.until(&rows("tenants", 1)).await;
    assert_eq!(cells(page, "tenants", 1).await, json!(["default"]));
    assert_eq!(
        page.text("#tenants tbody td:nth-child(7)").await,
        "2",
        "runs"
    );
    assert_good_everywhere(page, "admin-tenants").await;

    go_to(page, "usage").await;
    page.until("document.querySelectorAll('#chart-runs rect').length === 2")
        .await;
    page.until(&rows("usage", 2)).await;
    assert_good_everywhere(page, "admin-usage").await;
    let script = "return [...document.querySelectorAll('#usage tbody tr')].map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent))";
    assert_eq!(
        page.js(script, Vec::new()).await,
        json!([
            ["default", "python", "1", "1"],
            ["default", "shell", "1", "0"]
        ])
    );

    go_to(page, "audit").await;
    page.until("[...document.querySelectorAll('#audit tbody tr')].some((row) => row.cells[2].textContent === 'run_ended')")
        .await;
    assert_good_everywhere(page, "admin-audit").await;
    tab_to(page, "#audit-search").await;
    page.type_text("run_ended").await;
    page.until(&rows("audit", 2)).await;

    // What is no key is asked for nowhere.
    page.js("location.hash = 'conversation/..%2Fusage'", Vec::new())
        .await;
    page.until("!document.getElementById('view-conversations').hidden")
        .await;
}
