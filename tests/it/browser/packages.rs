//! Packages on the page, from a directory of the operator's: what can be installed, how it goes, and what comes of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tempfile::TempDir;
use thirtyfour::Key;

use super::page::Page;

/// The page of a server whose operator has a directory of packages, and nobody else to ask for any.
async fn open() -> (Page, TempDir) {
    let wheelhouse = tempfile::tempdir().unwrap();
    fs::set_permissions(wheelhouse.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let page = Page::open(&[
        ("PACKAGE_WHEELHOUSE", wheelhouse.path().to_str().unwrap()),
        ("PIP_INDEX_URL", "http://127.0.0.1:9/simple"),
        ("BLOCKED_PACKAGES", "evil"),
    ])
    .await;
    let code = include_str!("../../fixtures/packages.py");
    let arguments = json!({ "conversationId": "maker", "language": "python", "code": code });
    let made = page
        .server
        .as_ref()
        .unwrap()
        .call("run_code", arguments)
        .await;
    assert_eq!(made["status"], "ok", "{made}");
    let made = fs::read_dir(page.root().join("data")).unwrap();
    let made = made
        .map(|entry| entry.unwrap().path())
        .find(|path| path.join("tinyone-1.0-py3-none-any.whl").exists());
    for file in fs::read_dir(made.unwrap()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), wheelhouse.path().join(file.file_name())).unwrap();
    }
    (page, wheelhouse)
}

async fn ask_for(page: &Page, names: &str) {
    page.js(
        "document.getElementById('package-names').value = ''",
        Vec::new(),
    )
    .await;
    page.find("#package-names")
        .await
        .send_keys(names)
        .await
        .unwrap();
}

/// Waits for what came of an install.
async fn outcome(page: &Page) -> String {
    page.until("document.querySelector('#install-outcome .notice') && !document.getElementById('install').hidden")
        .await;
    page.text("#install-outcome").await
}

/// What a program lacks is one click away, and the program one more.
#[tokio::test]
async fn a_package_that_a_program_lacks_is_installed() {
    let (page, _wheelhouse) = open().await;
    page.run("python", "import tinyone; print('there')").await;
    let told = page.text("#notices .note").await;
    assert!(told.starts_with("tinyone is not installed"), "{told}");
    assert_eq!(page.text("#notices button").await, "Install tinyone");
    page.click("#notices button").await;
    let told = outcome(&page).await;
    assert!(told.starts_with("Installed tinyone"), "{told}");
    page.screenshot("installed").await;
    assert_eq!(page.text("#install-outcome button").await, "Run again");
    page.click("#install-outcome button").await;
    page.until("document.getElementById('output').textContent === 'there\\n'")
        .await;
    assert_eq!(page.ended().await, "OK");
    page.close().await;
}

#[tokio::test]
async fn packages_are_installed_for_the_conversation() {
    let (page, _wheelhouse) = open().await;
    page.click("#toggle-packages").await;
    assert_eq!(page.focused().await, "package-names");
    page.choose("#language", "shell").await;
    let reason = "No packages can be installed for shell: the server has no package client for it.";
    assert_eq!(page.text("#package-help").await, reason);
    page.until("document.getElementById('install').disabled && document.getElementById('package-names').disabled")
        .await;
    page.choose("#language", "python").await;
    ask_for(&page, "tinyone ==1.0, tinyfast").await;
    page.click("#install").await;
    page.until("!document.getElementById('install-progress').hidden && document.getElementById('announcement').textContent === 'Installing tinyone==1.0, tinyfast'")
        .await;
    assert_eq!(page.focused().await, "cancel-install");
    let told = outcome(&page).await;
    let installed = "Installed tinyone 1.0, tinyfast 1.0, tiny-dep 1.5";
    assert!(
        told.starts_with(&format!("{installed}. It took ")),
        "{told}"
    );
    assert_eq!(page.text("#announcement").await, installed);
    assert_eq!(page.focused().await, "install");
    page.until("document.getElementById('package-names').value === ''")
        .await;
    let code = "import tinyone, tinyfast; print(tinyone.VALUE, tinyfast.VALUE)";
    let (word, output) = page.run("python", code).await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "one 1.0 fast\n"));
    // Another conversation has none, and nothing is said of one there.
    page.click("#new-conversation").await;
    assert_eq!(page.text("#install-outcome").await, "");
    assert_eq!(page.run("python", code).await.0, "Error");
    page.close().await;
}

#[tokio::test]
async fn an_install_that_fails_or_is_cancelled_is_told() {
    let (page, _wheelhouse) = open().await;
    page.click("#toggle-packages").await;
    for (names, reason) in [
        ("evil", "evil was not installed: the operator blocks it"),
        ("nosuch", "off-line: "),
        ("six @ https://example.org/six.whl", "packages: "),
    ] {
        ask_for(&page, names).await;
        page.find("#package-names")
            .await
            .send_keys(Key::Control + Key::Enter)
            .await
            .unwrap();
        let told = outcome(&page).await;
        let expected = format!("Nothing was installed. {reason}");
        assert!(told.starts_with(&expected), "{names}: {told}");
        page.find("#install-outcome .problem[role='alert']").await;
        page.until("document.getElementById('package-names').value !== ''")
            .await;
    }
    ask_for(&page, "tinylarge").await;
    page.click("#install").await;
    page.click("#cancel-install").await;
    let cancelled = "Cancelled, unless the installation had just finished.";
    assert_eq!(outcome(&page).await, cancelled);
    // The server has ended it too: it takes the next one, at once or after a moment.
    page.click("#install").await;
    while outcome(&page).await.contains("still going on") {
        page.click("#install-outcome button").await;
    }
    let told = page.text("#install-outcome").await;
    assert!(told.starts_with("Installed tinylarge 1.0."), "{told}");
    // The answer may end in the middle too, by the person or without.
    for (end, expected) in [
        ("new DOMException('', 'AbortError')", cancelled),
        (
            "new TypeError('gone')",
            "It is not known whether anything was installed. The connection to the server was lost.",
        ),
    ] {
        page.intercept(&format!(
            "(tool) => tool === 'install_packages' ? Object.assign(Response.json({{}}), {{ text: async () => {{ throw {end}; }} }}) : undefined"
        ))
        .await;
        ask_for(&page, "tinyone").await;
        page.click("#install").await;
        let told = outcome(&page).await;
        assert!(told.starts_with(expected), "{end}: {told}");
    }
    page.close().await;
}

#[tokio::test]
async fn names_are_read_as_people_write_them() {
    let page = Page::open(&[]).await;
    // The module itself: what the page has is a bundle of all.
    let module = include_str!("../../../static/app/requirements.js").replace("export ", "");
    let script = format!(
        "const [texts, language] = arguments;\n{module}\nreturn texts.map((text) => requirements(text, language));"
    );
    let read = async |language: &str, texts: &[&str]| {
        let arguments = vec![json!(texts), json!(language)];
        let read = page.driver.execute(&script, arguments).await.unwrap();
        read.json().to_string()
    };
    let python = [
        "six",
        " six,tinyone  tinytwo\n\ntinythree ",
        "six==1.17.0 requests >= 2, < 3 numpy~=2.0",
        "requests[socks, security]>=2",
        "# what we need\nsix # for old code\npip install -U tinyone",
        "%pip install six\n!python -m pip install tinytwo",
        "six @ https://example.org/six.whl",
        ", ,\n",
    ];
    insta::assert_snapshot!(read("python", &python).await, @r#"[["six"],["six","tinyone","tinytwo","tinythree"],["six==1.17.0","requests>=2,<3","numpy~=2.0"],["requests[socks, security]>=2"],["six","-U","tinyone"],["six","tinytwo"],["six@https://example.org/six.whl"],[]]"#);
    let typescript = [
        "nanoid@^5 @scope/name",
        "nanoid@>=4 <6, left-pad @ ^1",
        "npm install nanoid\nbun add left-pad@1",
    ];
    insta::assert_snapshot!(read("typescript", &typescript).await, @r#"[["nanoid@^5","@scope/name"],["nanoid@>=4 <6","left-pad@^1"],["nanoid","left-pad@1"]]"#);
    page.close().await;
}
