//! Files and folders of a sandbox.

use std::fmt::Write as _;

use super::*;

fn form(files: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, content) in files {
        write!(
            form,
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
        .unwrap();
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
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 [{"name":"a.txt","type":"file","path":"/home/user/a.txt"}]
    200 [{"name":"a.txt","type":"file","path":"/home/user/a.txt"}]
    200 [{"name":"b.txt","type":"file","path":"/home/user/d/b.txt"},{"name":"c.txt","type":"file","path":"/home/user/c.txt"}]
    400 {"code":400,"message":"the form has no file: send a part named file, with its path as file name"}
    400 {"code":400,"message":"the query has no path: name the file in it"}
    400 {"code":400,"message":"path is \"/etc/passwd\": only what is in /home/user is kept, so choose a path there"}
    400 {"code":400,"message":"path contains the part \"..\": name the folders on the way down instead"}
    409 {"code":409,"message":"path is the name of a folder: choose another name"}
    200 aa
    200 b
    200 c
    404 {"code":404,"message":"path \"none\" is not a file of this conversation: see list_files"}
    404 {"code":404,"message":"path \"d\" is not a file of this conversation: see list_files"}
    400 {"code":400,"message":"path is /home/user itself: name something in it"}
    "#);
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
    insta::assert_snapshot!(seen.join("\n"), @r#"
    filesystem.Filesystem/ListDir {"path":"/home/user"}
        200 {"entries":[]}
    filesystem.Filesystem/ListDir {"path":"/home/user","depth":1}
        200 {"entries":[{"name":"d","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"}]}
    filesystem.Filesystem/ListDir {"path":"d","depth":3}
        200 {"entries":[{"name":"e","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/e","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"},{"name":"a.txt","type":"FILE_TYPE_FILE","path":"/home/user/d/e/a.txt","size":"1","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"…"}]}
    filesystem.Filesystem/ListDir {"path":"d/e/a.txt"}
        409 {"code":"invalid_argument","message":"path has a folder part that is a file or a link: choose another folder"}
    filesystem.Filesystem/ListDir {"path":"none"}
        404 {"code":"not_found","message":"path \"none\" is not a file of this conversation: see list_files"}
    filesystem.Filesystem/Stat {"path":"~"}
        200 {"entry":{"name":"user","type":"FILE_TYPE_DIRECTORY","path":"/home/user","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"}}
    filesystem.Filesystem/Stat {"path":"d/e/a.txt"}
        200 {"entry":{"name":"a.txt","type":"FILE_TYPE_FILE","path":"/home/user/d/e/a.txt","size":"1","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"…"}}
    filesystem.Filesystem/Stat {"path":"none"}
        404 {"code":"not_found","message":"path \"none\" is not a file of this conversation: see list_files"}
    filesystem.Filesystem/MakeDir {"path":"f/g"}
        200 {"entry":{"name":"g","type":"FILE_TYPE_DIRECTORY","path":"/home/user/f/g","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"}}
    filesystem.Filesystem/MakeDir {"path":"f/g"}
        409 {"code":"already_exists","message":"there is a folder of that name already"}
    filesystem.Filesystem/MakeDir {"path":"d/e/a.txt"}
        409 {"code":"invalid_argument","message":"path has a folder part that is a file or a link: choose another folder"}
    filesystem.Filesystem/Move {"source":"d/e/a.txt","destination":"f/b.txt"}
        200 {"entry":{"name":"b.txt","type":"FILE_TYPE_FILE","path":"/home/user/f/b.txt","size":"1","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"…"}}
    filesystem.Filesystem/Move {"source":"f","destination":"d/h"}
        200 {"entry":{"name":"h","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/h","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"}}
    filesystem.Filesystem/Move {"source":"d","destination":"d/h/i"}
        400 {"code":"invalid_argument","message":"a folder cannot be moved into itself: choose another name"}
    filesystem.Filesystem/Move {"source":"d/e","destination":"d/h"}
        409 {"code":"already_exists","message":"there is something of that name already: choose another name, or delete that first"}
    filesystem.Filesystem/ListDir {"path":"","depth":9}
        200 {"entries":[{"name":"d","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"},{"name":"e","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/e","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"},{"name":"h","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/h","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"},{"name":"b.txt","type":"FILE_TYPE_FILE","path":"/home/user/d/h/b.txt","size":"1","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"…"},{"name":"g","type":"FILE_TYPE_DIRECTORY","path":"/home/user/d/h/g","size":"…","mode":448,"permissions":"drwx------","owner":"user","group":"user","modifiedTime":"…"}]}
    filesystem.Filesystem/Remove {"path":"d/h/b.txt"}
        200 {}
    filesystem.Filesystem/Remove {"path":"d"}
        200 {}
    filesystem.Filesystem/Remove {"path":"d"}
        404 {"code":"not_found","message":"path \"d\" is not a file of this conversation: see list_files"}
    filesystem.Filesystem/Remove {"path":"/home/user"}
        400 {"code":"invalid_argument","message":"path is /home/user itself: name something in it"}
    filesystem.Filesystem/ListDir {"path":"."}
        200 {"entries":[]}
    filesystem.Filesystem/CreateWatcher {"path":"."}
        501 {"code":"unimplemented","message":"this call is not implemented here: docs/moving.md says which are"}
    "#);
}
