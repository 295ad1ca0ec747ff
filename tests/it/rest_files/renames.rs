//! New names for files, and what cannot have one.

use std::os::unix::fs::symlink;

use super::*;

#[tokio::test]
async fn a_file_gets_another_name_and_takes_nothing_from_others() {
    let app = TestApp::on_fake().await;
    for name in ["f", "g", "folder/h"] {
        app.put(name, name).await;
    }
    symlink("/etc/passwd", app.workspace("demo").join("link")).unwrap();
    let mut seen = Vec::new();
    for (name, new) in [
        ("f", "g"),
        ("f", "folder"),
        ("f", "g/below"),
        ("f", "../f"),
        ("f", "a\\b"),
        ("f", ".packages/f"),
        ("folder", "other"),
        ("link", "other"),
        ("none", "other"),
        ("f", "new/folder/f.csv"),
        ("f", "again"),
        ("new/folder/f.csv", "/data/f"),
    ] {
        let address = format!("{FILES}/{name}");
        let body = json!({ "filename": new });
        let answer = app.rest(Method::PATCH, &address, &body).await;
        let outcome = if answer.status == StatusCode::OK {
            format!("200 {}", named(&answer.json()["file"]))
        } else {
            code(&answer)
        };
        seen.push(format!("{name} -> {new}: {outcome}"));
    }
    let address = format!("{FILES}/f");
    let wrong = json!({ "into": "x" });
    let answer = app.rest(Method::PATCH, &address, &wrong).await;
    seen.push(format!("no filename: {}", code(&answer)));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    f -> g: 409 file_exists
    f -> folder: 409 file_exists
    f -> g/below: 409 not_a_directory
    f -> ../f: 400 invalid_arguments
    f -> a\b: 400 invalid_arguments
    f -> .packages/f: 400 invalid_arguments
    folder -> other: 409 is_directory
    link -> other: 404 file_not_found
    none -> other: 404 file_not_found
    f -> new/folder/f.csv: 200 ["new/folder/f.csv",1,"text/csv"]
    f -> again: 404 file_not_found
    new/folder/f.csv -> /data/f: 200 ["f",1,"application/octet-stream"]
    no filename: 400 invalid_arguments
    "#);
    for name in ["f", "g", "folder/h"] {
        let there = app.ask(Method::GET, &format!("{FILES}/{name}")).await;
        assert_eq!(there.text(), name);
    }
}
