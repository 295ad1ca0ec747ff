//! Files on the page: uploads by button and by dropping, pictures, downloads, deletion.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::Key;

use super::accessibility::assert_good_everywhere;
use super::page::{Page, on_one_page};
use crate::support::wait::within;

const TABLE: &str = "region,amount\nnorth,12\nsouth,7\nnorth,5\n";
const CHART: &str = "import pandas as pd\nsums = pd.read_csv('sales.csv').groupby('region')['amount'].sum()\nprint(sums.to_string())\nsums.plot.bar().figure.savefig('sales.png')";

#[tokio::test]
async fn files_on_one_page() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        a_table_is_uploaded_and_analysed,
        one_file_is_renamed_and_deleted,
        all_files_come_in_one_archive,
        files_are_filtered_and_ordered,
        a_file_goes_to_the_conversation_that_was_typed,
        an_answer_that_comes_late_is_not_shown
    );
    page.close().await;
}

async fn a_table_is_uploaded_and_analysed(page: &Page) {
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
    assert_eq!(word, "OK", "{output}");
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
    assert_eq!(page.text("#file-title").await, "sales.png");
    let alternative = page.js("return document.getElementById('picture').alt", Vec::new());
    assert_eq!(alternative.await, "Picture: sales.png");
    page.click("#file-dialog [data-close]").await;
    page.click("#delete-files").await;
    page.click("#confirm-delete").await;
    page.until("!document.getElementById('no-files').hidden")
        .await;
    // The button for that is gone.
    assert_eq!(page.focused().await, "upload");
}

/// What has the focus, as screen readers name it.
async fn focused_name(page: &Page) -> Value {
    let script = "const { ariaLabel, textContent } = document.activeElement; return ariaLabel ?? textContent";
    page.js(script, Vec::new()).await
}

async fn one_file_is_renamed_and_deleted(page: &Page) {
    page.run(
        "shell",
        "mkdir d; echo a > a.txt; echo b > 'd/b <i>.txt'; echo c > c.txt",
    )
    .await;
    page.until("document.querySelectorAll('#file-list li').length === 3")
        .await;
    page.click("[aria-label='Rename d/b <i>.txt']").await;
    let name = page.find("#new-name").await;
    // What is selected is the name without folder and ending.
    name.send_keys("new").await.unwrap();
    assert_eq!(name.prop("value").await.unwrap().unwrap(), "d/new.txt");
    let instead = |text: &str| Key::Control + "a" + Key::Null + text + Key::Enter;
    for (wrong, reason) in [
        (
            "a.txt",
            "there is something of that name already: choose another name, or delete that first",
        ),
        (
            "../up",
            "filename contains the part \"..\": name the folders on the way down instead",
        ),
    ] {
        name.send_keys(instead(wrong)).await.unwrap();
        page.until("document.getElementById('rename-error').textContent")
            .await;
        assert_eq!(page.text("#rename-error").await, reason);
        page.js(
            "document.getElementById('rename-error').textContent = ''",
            Vec::new(),
        )
        .await;
    }
    assert_good_everywhere(page, "rename").await;
    name.send_keys(instead("folder/2.txt")).await.unwrap();
    page.until("document.querySelector('#file-list .badge')")
        .await;
    page.until("!document.getElementById('rename-dialog').open")
        .await;
    assert_eq!(listed(page).await, "folder/2.txt (new),a.txt,c.txt");
    assert_eq!(focused_name(page).await, "folder/2.txt");
    let said = "d/b <i>.txt is now folder/2.txt.";
    assert_eq!(page.text("#announcement").await, said);
    // Nothing is deleted by mistake, and the keyboard goes on with the next one.
    page.click("[aria-label='Delete a.txt']").await;
    let question = "This deletes a.txt. It cannot be undone.";
    assert_eq!(page.text("#delete-text").await, question);
    page.press(Key::Escape).await;
    assert_eq!(focused_name(page).await, "Delete a.txt");
    page.click("[aria-label='Delete a.txt']").await;
    page.click("#confirm-delete").await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    assert_eq!(focused_name(page).await, "c.txt");
    // One that is gone meanwhile is told, and taken off the list.
    let id = page.conversation().await;
    let gone = json!({ "conversationId": id, "language": "shell", "code": "rm c.txt" });
    page.server.as_ref().unwrap().call("run_code", gone).await;
    page.click("[aria-label='Delete c.txt']").await;
    page.click("#confirm-delete").await;
    page.until("document.querySelectorAll('#file-list li').length === 1")
        .await;
    assert!(
        page.text("#notices")
            .await
            .contains("c.txt was not deleted.")
    );
    // The same is there where the file is looked at.
    page.click("#file-list .file-open").await;
    page.click("#delete-file").await;
    page.click("#confirm-delete").await;
    page.until("!document.getElementById('no-files').hidden")
        .await;
    assert_eq!(page.focused().await, "upload");
}

async fn all_files_come_in_one_archive(page: &Page) {
    page.run("shell", "mkdir d; echo a > a.txt; echo b > d/b.txt")
        .await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    page.click("#open-conversations").await;
    let name = page.find("#conversation-name").await;
    name.send_keys("my sales").await.unwrap();
    page.click("#conversations-dialog [data-close]").await;
    page.click("#download-files").await;
    let path = page.downloads().join("my sales.zip");
    let there = async || path.exists().then_some(());
    within(Duration::from_secs(30), "the archive is there", there).await;
    let mut archive = zip::ZipArchive::new(fs::File::open(&path).unwrap()).unwrap();
    let mut content = String::new();
    archive
        .by_name("d/b.txt")
        .unwrap()
        .read_to_string(&mut content)
        .unwrap();
    assert_eq!((archive.len(), content.as_str()), (2, "b\n"));
    // An id that can be no part of an address is told to be the reason.
    type_conversation(page, "a/b").await;
    page.run("shell", "echo a > a.txt").await;
    page.until("document.querySelectorAll('#file-list li').length === 1")
        .await;
    page.click("#download-files").await;
    page.until("document.getElementById('notices').textContent.includes('has no slash')")
        .await;
}

async fn files_are_filtered_and_ordered(page: &Page) {
    let code = "head -c 3000 /dev/zero > small10.bin; head -c 9000 /dev/zero > small9.bin; echo x > readme.txt";
    page.run("shell", code).await;
    page.until("document.querySelectorAll('#file-list li').length === 3")
        .await;
    assert_good_everywhere(page, "files").await;
    assert_eq!(page.text("#files-size").await, "12 kB");
    let names = async || listed(page).await.replace(" (new)", "");
    for (order, expected) in [
        ("name", "readme.txt,small9.bin,small10.bin"),
        ("size", "small9.bin,small10.bin,readme.txt"),
        ("type", "small9.bin,small10.bin,readme.txt"),
    ] {
        page.choose("#files-order", order).await;
        assert_eq!(names().await, expected, "{order}");
    }
    let filter = page.find("#files-filter").await;
    filter.send_keys("BIN 10").await.unwrap();
    assert_eq!(names().await, "small10.bin");
    assert_eq!(page.text("#files-count").await, "1 of 3");
    filter.send_keys("0").await.unwrap();
    assert_eq!(page.text("#files-count").await, "0 of 3");
    page.until("!document.getElementById('none-matches').hidden")
        .await;
    filter.clear().await.unwrap();
    // A new one is not out of sight, and the order stays for the next time.
    page.run("shell", "echo y > y.txt").await;
    page.until("document.querySelectorAll('#file-list li').length === 4")
        .await;
    assert_eq!(names().await, "small9.bin,small10.bin,readme.txt,y.txt");
    page.choose("#files-order", "new").await;
    assert_eq!(
        listed(page).await,
        "y.txt (new),readme.txt,small10.bin,small9.bin"
    );
}

/// Drops files of these names and sizes on the editor.
async fn drop_files(page: &Page, files: Value) {
    let script = "
        const dataTransfer = new DataTransfer();
        for (const [name, size] of arguments[0]) dataTransfer.items.add(new File(['x'.repeat(size)], name));
        const content = document.querySelector('#editor').shadowRoot.querySelector('.cm-content');
        for (const type of ['dragover', 'drop']) {
          content.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true, composed: true }));
        }";
    page.js(script, vec![files]).await;
}

/// Types the id of a conversation, and stays in the field.
async fn type_conversation(page: &Page, id: &str) {
    let keys = Key::Control + "a" + Key::Null + Key::Delete + id;
    let field = page.find("#conversation").await;
    field.send_keys(keys).await.unwrap();
}

async fn a_file_goes_to_the_conversation_that_was_typed(page: &Page) {
    let server = page.server.as_ref().unwrap();
    let until_there = async |name: &str| {
        page.until(&format!(
            "document.querySelector('#file-list .file-name')?.textContent === '{name}'"
        ))
        .await;
    };
    type_conversation(page, "dropped").await;
    drop_files(page, json!([["one.txt", 10]])).await;
    until_there("one.txt").await;
    type_conversation(page, "chosen").await;
    let file = page.root().join("two.txt");
    fs::write(&file, "text").unwrap();
    let input = page.find("#upload-input").await;
    input.send_keys(file.to_str().unwrap()).await.unwrap();
    until_there("two.txt").await;
    // No id is none to put files into, however they come.
    type_conversation(page, "").await;
    drop_files(page, json!([["lost.txt", 10]])).await;
    page.click("#upload").await;
    assert_eq!(page.focused().await, "conversation");
    // One after the other: what comes after it is there.
    type_conversation(page, "last").await;
    drop_files(page, json!([["three.txt", 10]])).await;
    until_there("three.txt").await;
    for (id, names) in [
        ("dropped", json!(["one.txt"])),
        ("chosen", json!(["two.txt"])),
        ("last", json!(["three.txt"])),
    ] {
        let there = server.call("list_files", json!({ "conversationId": id }));
        let there = there.await;
        let files = there["files"].as_array().unwrap().iter();
        let found: Value = files.map(|file| file["name"].clone()).collect();
        assert_eq!(found, names, "{id}");
    }
}

#[tokio::test]
async fn files_are_dropped_on_the_page() {
    let page = Page::open(&[("MAX_UPLOAD_BYTES", "2m")]).await;
    let files = json!([
        ["one.txt", 10],
        ["two.bin", 1_500_000],
        ["none", 0],
        ["three.bin", 3_000_000]
    ]);
    drop_files(&page, files).await;
    page.until("document.querySelectorAll('#file-list li').length === 3")
        .await;
    page.until("document.getElementById('notices').textContent.includes('three.bin was not uploaded. It is 3.0 MB, and the server takes at most 2.1 MB.')").await;
    page.until("document.querySelectorAll('#uploads li').length === 0")
        .await;
    let (_, output) = page.run("shell", "wc -c *").await;
    for file in ["10 one.txt", "1500000 two.bin", "0 none"] {
        assert!(output.contains(file), "{output}");
    }
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
    page.until("document.querySelectorAll('#file-list li').length === 3")
        .await;
    page.close().await;
}

/// The names that the page lists, with those that it marks as new.
async fn listed(page: &Page) -> String {
    let script = "return [...document.querySelectorAll('#file-list li')].map((file) =>
        file.querySelector('.file-name').textContent + (file.querySelector('.badge') ? ' (new)' : '')).join()";
    let names = page.js(script, Vec::new()).await;
    names.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn who_comes_back_finds_the_files_that_there_are_now() {
    let page = Page::open(&[("FILE_URL_TTL", "1h")]).await;
    page.run("shell", "echo mine > mine.txt").await;
    page.until("document.querySelector('#file-list .badge')")
        .await;
    // Links are signed anew, and what is the same stays where it is, under somebody's mouse.
    page.js(
        "window.row = document.querySelector('#file-list li');
        window.before = row.querySelector('a').href;",
        Vec::new(),
    )
    .await;
    let renewed = "row.querySelector('a').href !== before";
    // Nor does anybody have to come back for that.
    page.js(
        "const real = window.setTimeout;
        window.setTimeout = (act, delay) => {
          if (act.name !== 'refresh') return real(act, delay);
          Object.assign(window, { renew: act, delay });
        };",
        Vec::new(),
    )
    .await;
    page.until(&format!("dispatchEvent(new Event('focus')) && {renewed}"))
        .await;
    let minutes = page.js("return Math.round(delay / 60_000)", Vec::new());
    assert_eq!(minutes.await, 30);
    page.js("before = row.querySelector('a').href", Vec::new())
        .await;
    page.until(&format!("renew() && {renewed}")).await;
    let same = "return document.querySelector('#file-list li') === row";
    assert_eq!(page.js(same, Vec::new()).await, true);
    // Whoever is asked for a token at that moment is not left without links afterwards.
    let again = "const due = renew;
        window.renew = null;
        document.getElementById('open-token').click();
        due();
        document.getElementById('close-token').click();
        return window.renew !== null";
    assert_eq!(page.js(again, Vec::new()).await, true);
    // Another client of the conversation has been here.
    let id = page.conversation().await;
    let arguments = json!({ "conversationId": id, "filename": "its.txt", "content": "aXRz" });
    let server = page.server.as_ref().unwrap();
    server.call("upload_file", arguments).await;
    page.js(
        "document.dispatchEvent(new Event('visibilitychange'))",
        Vec::new(),
    )
    .await;
    page.until("document.querySelectorAll('#file-list li').length === 2")
        .await;
    assert_eq!(listed(&page).await, "mine.txt (new),its.txt");
    page.close().await;
}

async fn an_answer_that_comes_late_is_not_shown(page: &Page) {
    page.run("shell", "touch one").await;
    page.until("document.getElementById('files-count').textContent === '1'")
        .await;
    // The answer after the next run is held up until that after the second one is there.
    page.intercept(
        "async (tool) => {
          if (tool !== 'list_files' || window.release) return;
          const { promise, resolve } = Promise.withResolvers();
          window.release = resolve;
          await promise;
          const response = Response.json({});
          response.text = async () => {
            // By then the page has done with it what it does.
            setTimeout(() => { window.taken = true; });
            return JSON.stringify({ result: { structuredContent: { files: [], truncated: null } } });
          };
          return response;
        }",
    )
    .await;
    page.run("shell", "touch two").await;
    page.until("window.release").await;
    page.run("shell", "touch three").await;
    page.until("document.getElementById('files-count').textContent === '3'")
        .await;
    page.js("release()", Vec::new()).await;
    page.until("window.taken").await;
    assert_eq!(page.text("#files-count").await, "3");
}
