//! The page at `/docs`: it shows the interface and tries it, and loads nothing from elsewhere.

use super::page::Page;
use crate::support::TOKEN;

/// What the page loaded from another origin.
const FOREIGN: &str = "return performance.getEntriesByType('resource').map(({ name }) => name)
    .filter((name) => !name.startsWith(location.origin) && !name.startsWith('data:'))";

#[tokio::test]
async fn the_interface_is_shown_and_tried() {
    let page = Page::without_token(&[]).await;
    page.js("location.href = '/docs'", Vec::new()).await;
    page.until("document.querySelectorAll('.opblock').length > 10")
        .await;
    // With the token, as a person gives it.
    page.click(".btn.authorize").await;
    page.until("document.querySelector('.auth-container input')")
        .await;
    let field = page.find(".auth-container input").await;
    field.send_keys(TOKEN).await.unwrap();
    page.click(".auth-btn-wrapper .authorize").await;
    page.click(".auth-btn-wrapper .btn-done").await;
    page.click("#operations-runs-list_sessions .opblock-summary-control")
        .await;
    page.until("document.querySelector('#operations-runs-list_sessions .try-out__btn')")
        .await;
    page.click("#operations-runs-list_sessions .try-out__btn")
        .await;
    page.click("#operations-runs-list_sessions .execute").await;
    page.until("document.querySelector('#operations-runs-list_sessions .live-responses-table tbody .response-col_status')?.textContent.includes('200')")
        .await;
    let body = page
        .text("#operations-runs-list_sessions .live-responses-table .microlight")
        .await;
    assert!(body.contains("\"total\": 0"), "{body}");
    let foreign = page.js(FOREIGN, Vec::new()).await;
    assert_eq!(foreign, serde_json::json!([]));
    page.screenshot("docs").await;
    page.close().await;
}
