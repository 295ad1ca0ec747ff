//! Files on the page: uploads by button and by dropping, pictures, downloads, deletion.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::page::Page;
use crate::support::wait::within;

const TABLE: &str = "region,amount\nnorth,12\nsouth,7\nnorth,5\n";
const CHART: &str = "import pandas as pd\nsums = pd.read_csv('sales.csv').groupby('region')['amount'].sum()\nprint(sums.to_string())\nsums.plot.bar().figure.savefig('sales.png')";

#[tokio::test]
async fn a_table_is_uploaded_and_analysed() {
    let page = Page::open(&[]).await;
    let table = page.root().join("sales.csv");
    fs::write(&table, TABLE).unwrap();
    page.find("#upload-input")
        .await
        .send_keys(table.to_str().unwrap())
        .await
        .unwrap();
    page.until("document.querySelector('#file-list .file-name')?.textContent === 'sales.csv'")
        .await;
    let (word, output) = page.run("python", CHART).await;
    assert_eq!(word, "Finished", "{output}");
    assert!(
        output.contains("north    17") && output.contains("south     7"),
        "{output}"
    );
    // The picture is there large and small, and both were loaded.
    for css in ["#pictures img", "#file-list img"] {
        page.until(&format!(
            "document.querySelector('{css}')?.naturalWidth > 100"
        ))
        .await;
    }
    assert_eq!(page.text("#files-count").await, "2");
    page.click("#file-list [aria-label='Download sales.png']")
        .await;
    let path = page.downloads().join("sales.png");
    let there = async || path.exists().then_some(());
    within(Duration::from_secs(30), "the download is there", there).await;
    assert!(fs::read(&path).unwrap().starts_with(b"\x89PNG"));
    page.click("#pictures button").await;
    page.until("document.getElementById('picture').naturalWidth > 100")
        .await;
    assert_eq!(page.text("#picture-title").await, "sales.png");
    page.click("#picture-dialog [data-close]").await;
    page.click("#delete-files").await;
    page.click("#confirm-delete").await;
    page.until("!document.getElementById('no-files').hidden")
        .await;
    page.close().await;
}

#[tokio::test]
async fn files_are_dropped_on_the_page() {
    let page = Page::open(&[("MAX_UPLOAD_BYTES", "2m")]).await;
    let script = "
        const dataTransfer = new DataTransfer();
        for (const [name, size] of arguments[0]) dataTransfer.items.add(new File(['x'.repeat(size)], name));
        const content = document.querySelector('#editor').shadowRoot.querySelector('.cm-content');
        for (const type of ['dragover', 'drop']) {
          content.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true, composed: true }));
        }";
    page.js(
        script,
        vec![json!([
            ["one.txt", 10],
            ["two.bin", 1_500_000],
            ["three.bin", 3_000_000]
        ])],
    )
    .await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    page.until("document.getElementById('notices').textContent.includes('three.bin was not uploaded. It has 3.0 MB')").await;
    page.until("document.querySelectorAll('#uploads li').length === 0")
        .await;
    let (_, output) = page.run("shell", "wc -c *").await;
    assert!(
        output.contains("10 one.txt") && output.contains("1500000 two.bin"),
        "{output}"
    );
    // Another conversation has other files; going back finds the first ones again.
    let first = page
        .js(
            "return document.getElementById('conversation').value",
            Vec::new(),
        )
        .await;
    page.click("#new-conversation").await;
    page.until("!document.getElementById('no-files').hidden")
        .await;
    page.js("const field = document.getElementById('conversation'); field.value = arguments[0]; field.dispatchEvent(new Event('change'))", vec![first]).await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    page.close().await;
}
