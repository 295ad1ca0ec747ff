//! Files of conversations over the REST interface: streamed, in forms, and whole or not at all.

mod archives;
mod demands;
mod renames;

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::rest::request;
use crate::support::{Answer, TestApp, eventually};

const FILES: &str = "/api/v1/conversations/demo/files";

impl TestApp {
    async fn put(&self, name: &str, content: impl Into<Body>) -> Answer {
        let request = request(Method::PUT, &format!("{FILES}/{name}"));
        self.send(request.body(content.into()).unwrap()).await
    }

    async fn form(&self, kind: &str, body: impl Into<Body>) -> Answer {
        let request = request(Method::POST, FILES).header("content-type", kind);
        self.send(request.body(body.into()).unwrap()).await
    }

    fn spooled(&self) -> usize {
        let private = self.root().join(".tmp");
        std::fs::read_dir(private).unwrap().count()
    }
}

fn code(answer: &Answer) -> String {
    let status = answer.status.as_u16();
    format!(
        "{status} {}",
        answer.json()["error"]["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{}", answer.text()))
    )
}

/// The fields of a file that stay the same.
fn named(file: &Value) -> Value {
    json!([file["name"], file["size"], file["mimeType"]])
}

/// The same for all files in an answer.
fn all_named(answer: &Value) -> Value {
    answer["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(named)
        .collect()
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out_as_it_is() {
    let app = TestApp::on_fake().await;
    let content: Vec<u8> = (0..300_000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
    let stored = app.put("in/b%20c.bin", content.clone()).await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text());
    assert_eq!(
        named(&stored.json()["file"]),
        json!(["in/b c.bin", 300_000, "application/octet-stream"])
    );
    // With the folder's slash as it is, or as a part of the name.
    for name in ["in/b%20c.bin", "in%2Fb%20c.bin"] {
        let got = app.ask(Method::GET, &format!("{FILES}/{name}")).await;
        assert_eq!((got.status, got.body == content), (StatusCode::OK, true));
    }
    let head = app
        .ask(Method::HEAD, &format!("{FILES}/in%2Fb%20c.bin"))
        .await;
    assert_eq!(
        (head.header("content-length"), head.body.len()),
        ("300000", 0)
    );
    let part =
        request(Method::GET, &format!("{FILES}/in/b%20c.bin")).header("range", "bytes=10-12");
    let part = app.send(part.body(Body::empty()).unwrap()).await;
    assert_eq!(
        (part.status, part.body),
        (StatusCode::PARTIAL_CONTENT, vec![10, 11, 12])
    );
    // The tools see the same files.
    assert_eq!(
        app.run("shell", "cat in/nothing").await["files"][0]["name"],
        "in/b c.bin"
    );
    let list = app.ask(Method::GET, FILES).await.json();
    assert_eq!(named(&list["files"][0])[0], "in/b c.bin");
    let gone = app
        .ask(Method::DELETE, &format!("{FILES}/in%2Fb%20c.bin"))
        .await;
    assert_eq!((gone.status, gone.body.len()), (StatusCode::NO_CONTENT, 0));
    for method in [Method::GET, Method::DELETE] {
        let missing = app.ask(method, &format!("{FILES}/in%2Fb%20c.bin")).await;
        assert_eq!(code(&missing), "404 file_not_found");
    }
    let nobody = app
        .ask(Method::GET, "/api/v1/conversations/nobody/files")
        .await;
    assert_eq!(nobody.json()["files"], json!([]));
}

#[tokio::test]
async fn an_upload_is_refused_for_its_reason_and_leaves_nothing() {
    let limits = [("MAX_UPLOAD_BYTES", "1m"), ("WORKSPACE_QUOTA", "1536k")];
    let app = TestApp::on_fake_with(&limits).await;
    let mut seen = Vec::new();
    app.put("folder/file", "x").await;
    for (name, size) in [
        ("large", (1 << 20) + 1),
        ("folder", 1),
        ("folder/file/below", 1),
        ("..%2Fup", 1),
        ("a%00b", 1),
        ("%ff", 1),
    ] {
        seen.push(format!(
            "{name} {}",
            code(&app.put(name, vec![b'x'; size]).await)
        ));
    }
    // The maximum is fine once; twice is more than the quota.
    assert_eq!(
        app.put("one", vec![b'x'; 1 << 20]).await.status,
        StatusCode::CREATED
    );
    seen.push(format!(
        "two {}",
        code(&app.put("two", vec![b'x'; 1 << 20]).await)
    ));
    assert_eq!(
        app.put("one", vec![b'y'; 1 << 20]).await.status,
        StatusCode::OK
    );
    // Declared too large, and not read at all.
    let declared =
        request(Method::PUT, &format!("{FILES}/x")).header("content-length", "999999999");
    let endless = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    seen.push(format!(
        "declared {}",
        code(&app.send(declared.body(endless).unwrap()).await)
    ));
    // More than was declared, and aborted.
    let piece = || Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1 << 19]));
    let many = Body::from_stream(stream::iter([piece(), piece(), piece()]));
    seen.push(format!("many {}", code(&app.put("many", many).await)));
    let broken = stream::iter([piece(), Err(std::io::Error::other("gone"))]);
    seen.push(format!(
        "broken {}",
        code(&app.put("one", Body::from_stream(broken)).await)
    ));
    insta::assert_snapshot!(seen.join("\n"), @"
    large 413 file_too_large
    folder 409 is_directory
    folder/file/below 409 not_a_directory
    ..%2Fup 400 invalid_arguments
    a%00b 400 invalid_arguments
    %ff 400 invalid_arguments
    two 413 quota_exceeded
    declared 413 file_too_large
    many 413 file_too_large
    broken 400 interrupted
    ");
    // What was there is unchanged.
    let one = app.ask(Method::GET, &format!("{FILES}/one")).await;
    assert!(one.body == vec![b'y'; 1 << 20]);
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn nothing_is_seen_of_a_file_before_it_is_whole() {
    let app = TestApp::on_fake().await;
    let (pieces, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let upload = app.put("f", Body::from_stream(ReceiverStream::new(receiver)));
    let watch = async {
        pieces.send(Ok(Bytes::from("half"))).await.unwrap();
        eventually("it is being received", || app.spooled() == 1).await;
        assert!(!app.workspace("demo").exists());
        pieces.send(Ok(Bytes::from(" and half"))).await.unwrap();
        drop(pieces);
    };
    let (stored, ()) = tokio::join!(upload, watch);
    assert_eq!(stored.json()["file"]["size"], 13);
    let read = app.ask(Method::GET, &format!("{FILES}/f")).await;
    assert_eq!(read.text(), "half and half");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stalls_is_given_up() {
    let app = TestApp::on_fake().await;
    let (pieces, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    pieces.send(Ok(Bytes::from("begun"))).await.unwrap();
    let upload = app.put("f", Body::from_stream(ReceiverStream::new(receiver)));
    let stalled = tokio::time::timeout(Duration::from_mins(1), upload).await;
    assert_eq!(code(&stalled.unwrap()), "408 too_slow");
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn so_many_files_are_received_at_once_and_no_more() {
    let app = TestApp::on_fake().await;
    let (tasks, mut waiting) = (TaskTracker::new(), Vec::new());
    for index in 0..16 {
        let (pieces, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let request = request(Method::PUT, &format!("{FILES}/{index}"));
        let body = Body::from_stream(ReceiverStream::new(receiver));
        let request = request.body(body).unwrap();
        let router = app.router.clone();
        let upload = tasks.spawn(tower::ServiceExt::oneshot(router, request));
        waiting.push((pieces, upload));
    }
    eventually("all are being received", || app.spooled() == 16).await;
    let refused = app.put("more", "x").await;
    assert_eq!(code(&refused), "429 busy");
    assert_eq!(refused.header("retry-after"), "5");
    let refused = app.upload("more", b"x").await;
    assert_eq!(
        (&refused["code"], &refused["retryAfterSeconds"]),
        (&json!("busy"), &json!(5))
    );
    for (pieces, upload) in waiting {
        drop(pieces);
        assert_eq!(upload.await.unwrap().unwrap().status(), StatusCode::CREATED);
    }
    assert_eq!(app.put("more", "x").await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn files_that_wait_for_their_turn_are_among_those_received() {
    let app = TestApp::on_fake().await;
    app.put("file", "x").await;
    // Enough that each upload takes a while when its turn comes.
    let data = app.workspace("demo");
    for number in 0..20_000 {
        let link = data.join(format!("link{number}"));
        std::fs::hard_link(data.join("file"), link).unwrap();
    }
    let tasks = TaskTracker::new();
    let put = |name: &str| {
        let request = request(Method::PUT, &format!("{FILES}/{name}"));
        let request = request.body(Body::from("x")).unwrap();
        tasks.spawn(tower::ServiceExt::oneshot(app.router.clone(), request))
    };
    let first: Vec<_> = (0..16).map(|number| put(&number.to_string())).collect();
    eventually("the first ones are stored", || {
        put("more");
        // One that ends and one that begins may both be seen.
        let kept = app.spooled();
        assert!(kept < 20, "{kept} are kept");
        first.iter().all(tokio::task::JoinHandle::is_finished)
    })
    .await;
    for upload in first {
        assert_eq!(upload.await.unwrap().unwrap().status(), StatusCode::CREATED);
    }
    tasks.close();
    tasks.wait().await;
    assert_eq!(app.spooled(), 0);
    assert_eq!(app.put("more", "x").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_form_stores_each_of_its_files() {
    let app = TestApp::on_fake().await;
    let kind = "multipart/form-data; boundary=XX";
    let part = |name: &str, content: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    let body = format!(
        "{}{}--XX--\r\n",
        part("a.txt", "one"),
        part("sub/b.txt", "two")
    );
    let stored = app.form(kind, body).await.json();
    assert_eq!(
        all_named(&stored),
        json!([["a.txt", 3, "text/plain"], ["sub/b.txt", 3, "text/plain"]])
    );
    let mut seen = Vec::new();
    for (kind, body) in [
        ("application/json", "{}".to_owned()),
        ("multipart/form-data", "--XX--\r\n".to_owned()),
        (kind, "--XX--\r\n".to_owned()),
        (kind, "no form".to_owned()),
        (kind, format!("{}--X", part("c", "3"))),
        (
            kind,
            "--XX\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhi\r\n--XX--\r\n"
                .to_owned(),
        ),
        (kind, format!("{}--XX--\r\n", part("../up", "3"))),
    ] {
        seen.push(code(&app.form(kind, body).await));
    }
    insta::assert_snapshot!(seen.join("\n"), @"
    415 unsupported_media_type
    415 unsupported_media_type
    400 invalid_arguments
    400 invalid_arguments
    400 interrupted
    400 invalid_arguments
    400 invalid_arguments
    ");
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_form_that_is_too_large_answers_413_however_it_is_sent() {
    let app = TestApp::on_fake_with(&[("MAX_UPLOAD_BYTES", "1m")]).await;
    let head = |number: usize| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{number}\"\r\n\r\n"
        )
    };
    // Each file is allowed, but the limit of the form is in the middle of the third.
    let mut body = Vec::new();
    for number in 0..4 {
        body.extend_from_slice(head(number).as_bytes());
        body.extend(vec![b'x'; 900 << 10]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    let pieces: Vec<_> = body.chunks(64 << 10).map(Bytes::copy_from_slice).collect();
    // As from a network, where not everything is there at once.
    let pieces = || {
        stream::iter(pieces.clone()).then(async |piece| {
            tokio::task::yield_now().await;
            Ok::<_, std::io::Error>(piece)
        })
    };
    let kind = "multipart/form-data; boundary=XX";
    let told = request(Method::POST, FILES)
        .header("content-type", kind)
        .header("content-length", body.len());
    let told = app.send(told.body(Body::from_stream(pieces())).unwrap());
    let told = told.await;
    let untold = app.form(kind, Body::from_stream(pieces())).await;
    for answer in [untold, told] {
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"body_too_large","message":"the body has more than 2097152 bytes, which is the limit: send fewer or smaller files"}}"#);
        }
    }
    // Those before it stay.
    let kind = "application/octet-stream";
    let list = app.ask(Method::GET, FILES).await.json();
    assert_eq!(
        all_named(&list),
        json!([["0", 921_600, kind], ["1", 921_600, kind]])
    );
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_session_is_deleted_whole_though_its_client_goes_away() {
    let app = TestApp::on_fake().await;
    app.put("in/f", "x").await;
    let ending = request(Method::DELETE, "/api/v1/sessions/demo");
    let mut ending = Box::pin(app.send(ending.body(Body::empty()).unwrap()));
    // It has begun, and its client closes the connection.
    assert!(futures::poll!(ending.as_mut()).is_pending());
    drop(ending);
    eventually("nothing is left of it", || {
        !app.workspace("demo").exists() && app.spooled() == 0
    })
    .await;
}

/// What a client sees of a refusal.
fn refused(answer: &Answer) -> String {
    let mut seen = vec![answer.status.as_u16().to_string()];
    for name in ["content-type", "content-range", "retry-after"] {
        if answer.headers.contains_key(name) {
            seen.push(format!("{name}: {}", answer.header(name)));
        }
    }
    seen.push(answer.text());
    seen.join("\n")
}

#[tokio::test]
async fn too_many_downloads_are_refused_as_all_else() {
    let app = TestApp::on_fake().await;
    let file = format!("{FILES}/large");
    app.put("large", vec![0; 1 << 20]).await;
    let get = || {
        let request = request(Method::GET, &file).body(Body::empty()).unwrap();
        app.router.clone().oneshot(request)
    };
    // Clients that do not read.
    let held = futures::future::join_all((0..32).map(|_| get())).await;
    let answer = app.ask(Method::GET, &file).await;
    insta::assert_snapshot!(refused(&answer), @r#"
    429
    content-type: application/json
    retry-after: 5
    {"error":{"code":"busy","message":"too many downloads: try again in 5 s","retryAfterSeconds":5}}
    "#);
    // Another conversation has its own.
    let other = "/api/v1/conversations/other/files/f";
    let stored = request(Method::PUT, other).body(Body::from("x")).unwrap();
    assert_eq!(app.send(stored).await.status, StatusCode::CREATED);
    assert_eq!(app.ask(Method::GET, other).await.text(), "x");
    // A request for the headers takes no place.
    assert_eq!(app.ask(Method::HEAD, &file).await.status, StatusCode::OK);
    drop(held);
}

#[tokio::test]
async fn a_range_behind_the_end_is_refused_as_all_else() {
    let app = TestApp::on_fake().await;
    app.put("f", "0123456789").await;
    let ask = async |method: Method| {
        let request = request(method, &format!("{FILES}/f")).header("range", "bytes=10-");
        app.send(request.body(Body::empty()).unwrap()).await
    };
    insta::assert_snapshot!(refused(&ask(Method::GET).await), @r#"
    416
    content-type: application/json
    content-range: bytes */10
    {"error":{"code":"range_not_satisfiable","message":"the range has none of the file's 10 bytes"}}
    "#);
    // A range applies to what is sent, and here nothing is.
    let head = ask(Method::HEAD).await;
    assert_eq!(
        (head.status, head.header("content-length")),
        (StatusCode::OK, "10")
    );
}
