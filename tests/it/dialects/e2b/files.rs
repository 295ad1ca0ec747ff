//! Files and folders of a sandbox.

use super::*;

fn form(files: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, content) in files {
        form += &format!(
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        );
    }
    form + "--x--\r\n"
}

#[tokio::test]
async fn files_are_written_and_read_under_any_name_that_they_have() {
    let app = app(&[]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let (octets, multipart) = (
        "application/octet-stream",
        "multipart/form-data; boundary=x",
    );
    let write = async |query: &str, kind: &str, body: String| {
        let path = format!("/files{query}");
        let answer = sandbox.send(Method::POST, &path, kind, body).await;
        sandbox.stable(&answer)
    };
    let mut seen = vec![
        write("?path=/home/user/a.txt", octets, "a".to_owned()).await,
        write(
            "?path=~/a.txt&username=user",
            multipart,
            form(&[("ignored", "aa")]),
        )
        .await,
        write(
            "",
            multipart,
            form(&[("d/b.txt", "b"), ("/data/c.txt", "c")]),
        )
        .await,
        write("", multipart, form(&[])).await,
        write("", octets, "x".to_owned()).await,
        write("?path=/etc/passwd", octets, "x".to_owned()).await,
        write("?path=d/../../x", octets, "x".to_owned()).await,
        write("?path=d", octets, "x".to_owned()).await,
    ];
    for path in [
        "a.txt",
        "/mnt/data/d/b.txt",
        "/home/user/c.txt",
        "none",
        "d",
        "",
    ] {
        let path = format!("/files?path={path}");
        let read = sandbox.send(Method::GET, &path, "text/plain", "").await;
        seen.push(sandbox.stable(&read));
    }
    insta::assert_snapshot!(seen.join("\n"), @"");
}

#[tokio::test]
async fn folders_are_made_listed_moved_and_removed() {
    let app = app(&[]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let call = async |method: &str, message: Value| {
        let method = format!("filesystem.Filesystem/{method}");
        let answer = sandbox.call(&method, &message).await;
        format!("{method} {message}\n    {}", sandbox.stable(&answer))
    };
    let mut seen = vec![call("ListDir", json!({ "path": "/home/user" })).await];
    sandbox
        .send(
            Method::POST,
            "/files?path=d/e/a.txt",
            "application/octet-stream",
            "a",
        )
        .await;
    for (method, message) in [
        ("ListDir", json!({ "path": "/home/user", "depth": 1 })),
        ("ListDir", json!({ "path": "d", "depth": 3 })),
        ("ListDir", json!({ "path": "d/e/a.txt" })),
        ("ListDir", json!({ "path": "none" })),
        ("Stat", json!({ "path": "~" })),
        ("Stat", json!({ "path": "d/e/a.txt" })),
        ("Stat", json!({ "path": "none" })),
        ("MakeDir", json!({ "path": "f/g" })),
        ("MakeDir", json!({ "path": "f/g" })),
        ("MakeDir", json!({ "path": "d/e/a.txt" })),
        (
            "Move",
            json!({ "source": "d/e/a.txt", "destination": "f/b.txt" }),
        ),
        ("Move", json!({ "source": "f", "destination": "d/h" })),
        ("Move", json!({ "source": "d", "destination": "d/h/i" })),
        ("Move", json!({ "source": "d/e", "destination": "d/h" })),
        ("ListDir", json!({ "path": "", "depth": 9 })),
        ("Remove", json!({ "path": "d/h/b.txt" })),
        ("Remove", json!({ "path": "d" })),
        ("Remove", json!({ "path": "d" })),
        ("Remove", json!({ "path": "/home/user" })),
        ("ListDir", json!({ "path": "." })),
        ("CreateWatcher", json!({ "path": "." })),
    ] {
        seen.push(call(method, message).await);
    }
    insta::assert_snapshot!(seen.join("\n"), @"");
}
