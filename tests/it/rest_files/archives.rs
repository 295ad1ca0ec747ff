//! All files in one archive.

use std::fs::File;
use std::io::{Cursor, Read as _};

use zip::ZipArchive;

use super::*;
use crate::support::wait::within;

const ARCHIVE: &str = "/api/v1/conversations/demo/archive";

/// The names in an archive with their contents.
fn unpacked(answer: &Answer) -> Vec<(String, String)> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let mut archive = ZipArchive::new(Cursor::new(&answer.body)).unwrap();
    let mut files: Vec<(String, String)> = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        files.push((file.name().unwrap().into_owned(), content));
    }
    files
}

#[tokio::test]
async fn all_files_come_in_one_archive() {
    let app = TestApp::on_fake().await;
    assert!(unpacked(&app.ask(Method::GET, ARCHIVE).await).is_empty());
    let large = "0123456789".repeat(30_000);
    app.put("table.csv", "a,b\n1,2\n").await;
    app.put("folder/%C3%A9.txt", large.clone()).await;
    let data = app.workspace("demo");
    std::fs::write(data.join("..\\evil"), "text").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", data.join("link")).unwrap();
    let answer = app.ask(Method::GET, ARCHIVE).await;
    insta::assert_debug_snapshot!(
        ["content-type", "content-disposition", "x-content-type-options", "cache-control"]
            .map(|name| answer.header(name)),
        @r#"
    [
        "application/zip",
        "attachment; filename=\"files.zip\"",
        "nosniff",
        "private, no-store",
    ]
    "#
    );
    let there = [
        (".._evil", "text"),
        ("folder/é.txt", large.as_str()),
        ("table.csv", "a,b\n1,2\n"),
    ];
    assert_eq!(
        unpacked(&answer),
        there.map(|(name, content)| (name.to_owned(), content.to_owned()))
    );
    assert!(answer.body.len() < 30_000, "{}", answer.body.len());
    let head = app.ask(Method::HEAD, ARCHIVE).await;
    assert_eq!(
        (head.status, head.header("content-type"), head.body.len()),
        (StatusCode::OK, "application/zip", 0)
    );
    let anybody = crate::support::get(ARCHIVE).body(Body::empty()).unwrap();
    assert_eq!(code(&app.send(anybody).await), "401 unauthorized");
}

#[tokio::test]
async fn an_archive_that_would_not_have_all_is_refused() {
    let app = TestApp::on_fake_with(&[("WORKSPACE_QUOTA", "2m")]).await;
    app.put("f", "x").await;
    // Holes take no room on the disk, and would keep the processor busy.
    let holes = File::create(app.workspace("demo").join("holes")).unwrap();
    holes.set_len(2 << 20).unwrap();
    let answer = app.ask(Method::GET, ARCHIVE).await;
    let mut seen = vec![code(&answer), message(&answer)];
    for number in 0..1_000 {
        File::create(app.workspace("demo").join(number.to_string())).unwrap();
    }
    let answer = app.ask(Method::GET, ARCHIVE).await;
    seen.extend([code(&answer), message(&answer)]);
    insta::assert_snapshot!(seen.join("\n"), @"
    413 file_too_large
    the files have 2097153 bytes, and an archive has at most 2097152 (WORKSPACE_QUOTA): download them one by one
    409 too_many_files
    Only 1000 files are listed, there are more. An archive would not have them all: have a program pack what you want into one file
    ");
}

fn message(answer: &Answer) -> String {
    let message = answer.json()["error"]["message"].clone();
    message.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn so_many_archives_are_made_at_once_and_no_more() {
    let app = TestApp::on_fake().await;
    // Random, so that it stays too large for what is sent ahead.
    let mut content = vec![0; 1 << 20];
    rand::fill(&mut content[..]);
    app.put("f", content).await;
    let ask = || {
        let request = request(Method::GET, ARCHIVE).body(Body::empty()).unwrap();
        app.router.clone().oneshot(request)
    };
    let begun = [ask().await.unwrap(), ask().await.unwrap()];
    let refused = app.ask(Method::GET, ARCHIVE).await;
    assert_eq!(code(&refused), "429 busy");
    assert_eq!(refused.header("retry-after"), "5");
    // Whoever goes away leaves the place to others.
    drop(begun);
    let again = async || {
        let answer = app.ask(Method::GET, ARCHIVE).await;
        (answer.status == StatusCode::OK).then_some(())
    };
    within(Duration::from_secs(30), "there is a place again", again).await;
}
