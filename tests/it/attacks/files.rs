//! Programs that leave something in their workspace to harm the server, or whoever downloads it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rstest::rstest;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tokio::time::timeout;

use super::{Target, assert_nothing_is_out_of_sight, assert_safe};
use crate::support::engines::Engine;
use crate::support::{Answer, TestApp};

in_cold_and_warm_sandboxes! {
    a_wrecked_workspace_is_as_usable_as_before,
    links_and_other_traps_lead_nowhere,
}

/// How long a download of next to nothing may take.
const PROMPT: Duration = Duration::from_secs(1);

async fn links_and_other_traps_lead_nowhere(target: &Target) {
    assert_safe(&target.attack("links.py", 10).await);
    let workspace = target.app.workspace("demo");
    // Programs cannot make these, but a copied file system may have them.
    for name in ["pipe.csv", "sub/pipe.html"] {
        mknodat(
            CWD,
            workspace.join(name),
            FileType::Fifo,
            Mode::RWXU | Mode::RWXG | Mode::RWXO,
            0,
        )
        .unwrap();
    }
    let deeper = [
        "sub/etc/passwd",
        "root/etc/passwd",
        "sub/pipe.html",
        "folder/deeper/real.txt",
        "neighbours/.root-id",
        "sub/../../.root-id",
        "sub/deeper/../../passwd.txt",
    ];
    let planted = names_in(&workspace)
        .into_iter()
        .filter(|name| name != b"real.txt");
    let planted: Vec<_> = planted
        .chain(deeper.map(|name| name.as_bytes().to_vec()))
        .collect();
    assert!(planted.len() > 20, "{planted:?}");
    for name in planted {
        let shown = String::from_utf8_lossy(&name).into_owned();
        let answer = timeout(PROMPT, get(&target.app, &name))
            .await
            .unwrap_or_else(|_| panic!("{shown} hangs"));
        assert_eq!(answer.status, 404, "{shown}");
        assert!(
            !answer.text().contains("root:"),
            "{shown}: {}",
            answer.text()
        );
    }
    let list = target
        .app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    let listed: Vec<_> = list["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["name"])
        .collect();
    assert_eq!(listed, ["real.txt", "sub/deeper/real.txt"]);
    for file in list["files"].as_array().unwrap() {
        assert_eq!(target.app.download(&file["url"]).await.text(), "real");
    }
    uploads_replace_links(&target.app).await;
}

/// An upload takes the place of a link and never writes through it.
async fn uploads_replace_links(app: &TestApp) {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let link = app.workspace("demo").join("to-outside");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    for name in [
        "to-outside",
        "self",
        "dangling.csv",
        "pipe.csv",
        "socket.csv",
    ] {
        let uploaded = timeout(PROMPT, app.upload(name, b"uploaded"))
            .await
            .unwrap();
        assert_eq!(uploaded["success"], true, "{name}: {uploaded}");
        assert_eq!(
            app.download(&uploaded["file"]["url"]).await.text(),
            "uploaded",
            "{name}"
        );
    }
    for name in [
        "sub/etc/planted",
        "folder/planted",
        "root/tmp/planted",
        "index.html",
    ] {
        let refused = app.upload(name, b"uploaded").await;
        assert!(refused["code"].is_string(), "{name}: {refused}");
    }
    assert_eq!(fs::read(outside.path()).unwrap(), b"");
    assert!(!app.workspace("demo").join("sub/planted").exists());
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn every_name_is_only_a_name(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    let result = target.attack("names.py", 10).await;
    assert_safe(&result);
    let list = target
        .app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    let names = names_in(&target.app.workspace("demo")).len() as u64;
    assert_eq!(
        list["files"].as_array().unwrap().len() as u64 + list["skipped"].as_u64().unwrap(),
        names
    );
    assert_eq!(list["skipped"], 1, "the one that is no UTF-8");
    for file in list["files"].as_array().unwrap() {
        let (name, url) = (
            file["name"].as_str().unwrap(),
            file["url"].as_str().unwrap(),
        );
        let last = url.rsplit_once('/').unwrap().1;
        assert_eq!(percent_decode_str(last).decode_utf8().unwrap(), name);
        let answer = target.app.download(&file["url"]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text()),
            (200, format!("CONTENT:{name}")),
            "{name:?}"
        );
        assert!(!answer.headers.contains_key("x-evil"), "{name:?}");
        for value in answer.headers.values() {
            let fine = value
                .as_bytes()
                .iter()
                .all(|byte| (0x20..0x7f).contains(byte));
            assert!(fine, "{name:?}: {value:?}");
        }
    }
    let hidden = get(&target.app, b"\xff\xfe-no-utf8.bin").await;
    assert!(
        [400, 404].contains(&hidden.status.as_u16()),
        "{}",
        hidden.status
    );
    target.finish().await;
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn nothing_acts_in_the_name_of_the_server(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    assert_safe(&target.attack("active_content.py", 10).await);
    let list = target
        .app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    let files = list["files"].as_array().unwrap();
    assert!(files.len() > 25, "{list}");
    for file in files {
        let answer = target.app.download(&file["url"]).await;
        let name = file["name"].as_str().unwrap();
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.header("x-content-type-options")
            ),
            (200, "nosniff"),
            "{name}"
        );
        let policy = answer
            .header("content-security-policy")
            .split(';')
            .map(str::trim)
            .collect::<Vec<_>>();
        let attached = answer
            .header("content-disposition")
            .starts_with("attachment");
        assert!(
            attached || policy.contains(&"sandbox"),
            "{name}: {:?}",
            answer.headers
        );
        // Some old browsers do not know such a policy.
        let runs = ["html", "xml", "svg", "script", "wasm", "flash"];
        let kind = answer.header("content-type");
        assert!(
            attached || !runs.iter().any(|word| kind.contains(word)),
            "{name}: {kind}"
        );
        assert!(
            !policy.contains(&"allow-scripts") && !policy.contains(&"allow-same-origin"),
            "{name}"
        );
        assert_eq!(answer.header("set-cookie"), "");
    }
    target.finish().await;
}

async fn a_wrecked_workspace_is_as_usable_as_before(target: &Target) {
    assert_safe(&target.attack("wrecked_workspace.py", 10).await);
    let uploaded = target.app.upload("after.txt", b"after").await;
    assert_eq!(uploaded["success"], true, "{uploaded}");
    assert_eq!(
        target.app.download(&uploaded["file"]["url"]).await.text(),
        "after"
    );
    let list = target
        .app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert!(
        list["files"]
            .as_array()
            .unwrap()
            .iter()
            .any(|file| file["name"] == "after.txt"),
        "{list}"
    );
    for file in list["files"].as_array().unwrap() {
        assert_eq!(
            target.app.download(&file["url"]).await.status,
            200,
            "{file}"
        );
    }
    assert_eq!(
        target
            .app
            .run("shell", "cat after.txt; chmod 700 closed; ls closed")
            .await["status"],
        "ok"
    );
    let deleted = target
        .app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(deleted["existed"], true, "{deleted}");
    target
        .app
        .app
        .parts
        .files
        .workspaces
        .wait_for_background_work()
        .await;
    assert!(!target.app.workspace("demo").exists());
    assert_nothing_is_out_of_sight(&target.app);
}

#[rstest]
#[case::on_docker(Engine::Docker)]
#[case::on_kubernetes(Engine::Kubernetes)]
#[tokio::test]
async fn installing_a_package_takes_over_nothing(#[case] engine: Engine) {
    let target = Target::on(engine, &[]).await;
    assert_safe(&target.attack("package.py", 30).await);
    let next = target
        .app
        .run(
            "python",
            "import json, sys\nprint(json.dumps([json.__file__.startswith('/usr'), 1]))",
        )
        .await;
    assert_eq!(next["stdout"], "[true, 1]\n", "{next}");
    target.finish().await;
}

fn names_in(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().as_bytes().to_vec())
        .collect()
}

/// Downloads a file of conversation `demo` by the bytes of its name.
async fn get(app: &TestApp, name: &[u8]) -> Answer {
    let workspace = app.workspace("demo");
    let key = workspace.file_name().unwrap().to_str().unwrap();
    let parts: Vec<_> = name
        .split(|&byte| byte == b'/')
        .map(|part| percent_encode(part, NON_ALPHANUMERIC).to_string())
        .collect();
    app.get(&format!("/files/{key}/{}", parts.join("/"))).await
}
