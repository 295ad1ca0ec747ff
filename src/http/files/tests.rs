//! Requests for files and the whole answers to them.

mod transfers;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, mkfifoat, utimensat};
use secrecy::SecretString;
use tempfile::TempDir;

use super::*;
use crate::workspace::{Owner, WorkspaceLimits};

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A conversation with files.
struct Fixture {
    root: TempDir,
    workspaces: Workspaces,
    links: FileLinks,
}

impl Fixture {
    async fn new() -> Self {
        let root = TempDir::new().unwrap();
        let limits = WorkspaceLimits {
            quota_bytes: 1 << 30,
            free_space_floor: 0,
            max_entries: 1_000,
            storage_bytes: None,
        };
        let workspaces = Workspaces::open(root.path(), Owner::for_this_process(), limits).unwrap();
        workspaces.create(&KEY.parse().unwrap()).await.unwrap();
        Self {
            root,
            workspaces,
            links: FileLinks::new("http://localhost", None),
        }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join(KEY)
    }

    /// Writes a file with a fixed date.
    fn write(&self, name: &str, content: &[u8]) {
        let path = self.data().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        set_modified(&path, 784_111_777);
    }

    async fn ask(&self, method: Method, target: &str, headers: &[(HeaderName, &str)]) -> Response {
        let uri: Uri = target.parse().unwrap();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        serve(
            &self.workspaces,
            &self.links,
            FileRequest::new(&method, &uri, &headers),
        )
        .await
    }

    async fn get(&self, name: &str) -> Response {
        self.ask(Method::GET, &format!("/files/{KEY}/{name}"), &[])
            .await
    }

    async fn get_range(&self, name: &str, range: &str) -> Response {
        self.ask(
            Method::GET,
            &format!("/files/{KEY}/{name}"),
            &[(RANGE, range)],
        )
        .await
    }
}

fn set_modified(path: &std::path::Path, seconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

async fn content(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Status, headers and body as text.
async fn whole(response: Response) -> String {
    let mut text = format!("{}\n", response.status());
    for (name, value) in response.headers() {
        writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    let content = content(response).await;
    writeln!(text, "\n{}", String::from_utf8_lossy(&content)).unwrap();
    text
}

#[tokio::test]
async fn text_is_shown() {
    let fixture = Fixture::new().await;
    fixture.write("sub/notes.txt", b"hello");
    insta::assert_snapshot!(whole(fixture.get("sub/notes.txt").await).await, @r#"
    200 OK
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: text/plain; charset=utf-8
    content-disposition: inline; filename="notes.txt"; filename*=UTF-8''notes.txt
    content-length: 5
    accept-ranges: bytes
    last-modified: Sun, 06 Nov 1994 08:49:37 GMT

    hello
    "#);
}

#[tokio::test]
async fn pages_are_saved() {
    let fixture = Fixture::new().await;
    fixture.write("p\u{e4}ge.html", b"<script>");
    insta::assert_snapshot!(whole(fixture.get("p%C3%A4ge.html").await).await, @r#"
    200 OK
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: application/octet-stream
    content-disposition: attachment; filename="p_ge.html"; filename*=UTF-8''p%C3%A4ge.html
    content-length: 8
    accept-ranges: bytes
    last-modified: Sun, 06 Nov 1994 08:49:37 GMT

    <script>
    "#);
}

#[tokio::test]
async fn head_has_the_same_headers_and_no_body() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"hello");
    let target = format!("/files/{KEY}/a.txt");
    let head = fixture.ask(Method::HEAD, &target, &[]).await;
    let get = fixture.get("a.txt").await;
    assert_eq!(
        (head.status(), head.headers()),
        (get.status(), get.headers())
    );
    assert!(content(head).await.is_empty());
}

#[tokio::test]
async fn a_range_selects_a_part() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"0123456789");
    insta::assert_snapshot!(whole(fixture.get_range("a.txt", "bytes=2-4").await).await, @r#"
    206 Partial Content
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: text/plain; charset=utf-8
    content-disposition: inline; filename="a.txt"; filename*=UTF-8''a.txt
    content-length: 3
    accept-ranges: bytes
    content-range: bytes 2-4/10
    last-modified: Sun, 06 Nov 1994 08:49:37 GMT

    234
    "#);
    insta::assert_snapshot!(whole(fixture.get_range("a.txt", "bytes=10-").await).await, @"
    416 Range Not Satisfiable
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: text/plain; charset=utf-8
    content-length: 21
    content-range: bytes */10

    The file is shorter.
    ");
}

#[tokio::test]
async fn odd_ranges_give_the_whole_file() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"0123456789");
    fixture.write("empty.txt", b"");
    for (name, headers) in [
        ("a.txt", vec![(RANGE, "bytes=0-1,3-4")]),
        ("a.txt", vec![(RANGE, "bytes=0-1"), (RANGE, "bytes=3-4")]),
        (
            "a.txt",
            vec![
                (RANGE, "bytes=0-1"),
                (IF_RANGE, "Sun, 06 Nov 1994 08:49:37 GMT"),
            ],
        ),
        ("a.txt", vec![(RANGE, "lines=0-1")]),
        ("empty.txt", vec![(RANGE, "bytes=0-")]),
    ] {
        let mut given = HeaderMap::new();
        for (header, value) in headers {
            given.append(header, value.parse().unwrap());
        }
        let uri = format!("/files/{KEY}/{name}").parse().unwrap();
        let request = FileRequest::new(&Method::GET, &uri, &given);
        let response = serve(&fixture.workspaces, &fixture.links, request).await;
        assert_eq!(response.status(), StatusCode::OK, "{given:?}");
    }
}

#[tokio::test]
async fn ranges_are_for_get_alone() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"0123456789");
    let path = format!("/files/{KEY}/a.txt");
    let plain = fixture.ask(Method::HEAD, &path, &[]).await;
    for range in ["bytes=2-4", "bytes=10-"] {
        let head = fixture.ask(Method::HEAD, &path, &[(RANGE, range)]).await;
        assert_eq!(
            (head.status(), head.headers()),
            (StatusCode::OK, plain.headers()),
            "{range}"
        );
    }
}

#[tokio::test]
async fn every_miss_is_the_same() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"hello");
    fixture.write("sub/a.txt", b"hello");
    let data = fixture.data();
    symlink("/etc/passwd", data.join("link")).unwrap();
    symlink("a.txt", data.join("inner")).unwrap();
    symlink("sub", data.join("folder")).unwrap();
    mkfifoat(CWD, data.join("fifo"), Mode::from_raw_mode(0o666)).unwrap();
    fs::write(data.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    let expected = whole(fixture.get("missing").await).await;
    insta::assert_snapshot!(expected, @"
    404 Not Found
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: text/plain; charset=utf-8
    content-length: 23

    There is no such file.
    ");
    let other = "f".repeat(64);
    let long = "a".repeat(256);
    for name in [
        "",
        "/",
        "/a.txt",
        "a.txt/",
        "sub",
        "sub/",
        "sub//a.txt",
        "link",
        "inner",
        "folder/a.txt",
        "fifo",
        "%FF",
        "%ff/x",
        "sub%2Fa.txt",
        "sub/..%2Fa.txt",
        "..",
        ".",
        "%2e%2e",
        "sub/../a.txt",
        "./a.txt",
        "a.txt%00",
        "%61%252etxt",
        &long,
        "1/2/3/4/5/6/7/8/9",
        "../.tmp",
    ] {
        assert_eq!(whole(fixture.get(name).await).await, expected, "{name}");
    }
    for target in [
        format!("/files/{other}/a.txt"),
        format!("/files/{}/a.txt", KEY.to_uppercase()),
        format!("/files/{}/a.txt", KEY.replacen('0', "%30", 1)),
        format!("/files/{}/a.txt", &KEY[1..]),
        format!("/files/{KEY}"),
        "/files/".to_owned(),
        "/files".to_owned(),
        "/files/.tmp/a".to_owned(),
        format!("/{KEY}/a.txt"),
    ] {
        assert_eq!(
            whole(fixture.ask(Method::GET, &target, &[]).await).await,
            expected,
            "{target}"
        );
    }
}

#[tokio::test]
async fn signed_links_are_needed_and_expire() {
    let mut fixture = Fixture::new().await;
    fixture.write("a b.txt", b"hello");
    let secret = SecretString::from("0123456789abcdef0123456789abcdef");
    fixture.links = FileLinks::new("http://localhost", Some((Duration::from_mins(1), secret)));
    let (key, path) = (
        KEY.parse().unwrap(),
        RelativePath::parse("a b.txt").unwrap(),
    );
    let good = fixture.links.url(&key, &path, SystemTime::now());
    let old = fixture
        .links
        .url(&key, &path, SystemTime::now() - Duration::from_secs(61));
    assert_eq!(
        fixture.ask(Method::GET, &good, &[]).await.status(),
        StatusCode::OK
    );
    let miss = whole(fixture.get("missing").await).await;
    for target in [
        &old,
        good.split_once('?').unwrap().0,
        &good.replace("sig=", "sig=0"),
    ] {
        assert_eq!(
            whole(fixture.ask(Method::GET, target, &[]).await).await,
            miss,
            "{target}"
        );
    }
}

#[tokio::test]
async fn every_listed_file_can_be_downloaded_by_its_link() {
    let fixture = Fixture::new().await;
    let names = [
        "a b.csv",
        "new\nline.txt",
        "cr\r\nX-Evil: 1.txt",
        "quo\"te.txt",
        "semi;colon.txt",
        "pct%2e%2e%2fetc.txt",
        "%00.txt",
        "\u{202e}txt.exe",
        "A\u{30a}.txt",
        "\u{c5}.txt",
        "\u{1f4a9}.png",
        ".hidden",
        "..hidden",
        "...",
        "trail. ",
        "back\\slash.txt",
        "<img src=x onerror=alert(1)>.html",
        "?q=1#frag.txt",
        " ",
        "\t",
        "\u{7f}",
        "~",
        "*",
        "sub dir/%41/a+b&c=d",
        "..%2f..%2fetc%2fpasswd",
    ];
    for name in names {
        fixture.write(name, name.as_bytes());
    }
    let workspace = fixture
        .workspaces
        .find(&KEY.parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let files = workspace.list().await.unwrap().files;
    assert_eq!(files.len(), names.len());
    for file in files {
        let url = fixture
            .links
            .url(workspace.key(), &file.path, SystemTime::now());
        let response = fixture.ask(Method::GET, &url, &[]).await;
        assert_eq!(response.status(), StatusCode::OK, "{url}");
        assert!(!response.headers().contains_key("x-evil"));
        assert_eq!(content(response).await, file.path.as_str());
    }
}

#[tokio::test]
async fn dates_that_cannot_be_written_are_left_out() {
    let fixture = Fixture::new().await;
    for (seconds, expected) in [(-1, None), (0, Some("Thu, 01 Jan 1970 00:00:00 GMT"))] {
        fixture.write("a.txt", b"");
        set_modified(&fixture.data().join("a.txt"), seconds);
        let response = fixture.get("a.txt").await;
        let date = response
            .headers()
            .get(LAST_MODIFIED)
            .map(|date| date.to_str().unwrap());
        assert_eq!(date, expected);
    }
}
