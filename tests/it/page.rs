//! The page at `/` as a browser gets it.

use axum::body::Body;
use axum::http::{Method, StatusCode};

use crate::support::{TestApp, get};

#[tokio::test]
async fn the_page_comes_with_its_rules() {
    let app = TestApp::on_fake().await;
    let answer = app.get("/").await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert!(answer.text().starts_with("<!doctype html>"));
    insta::assert_snapshot!(answer.header("content-security-policy"), @"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn its_files_have_their_types() {
    let app = TestApp::on_fake().await;
    for (path, media_type) in [
        ("/app/main.js", "text/javascript; charset=utf-8"),
        ("/vendor/editor.js", "text/javascript; charset=utf-8"),
        ("/style/base.css", "text/css; charset=utf-8"),
        ("/favicon.svg", "image/svg+xml"),
        ("/vendor/editor.LICENSES.txt", "text/plain; charset=utf-8"),
    ] {
        let answer = app.get(path).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::OK, media_type),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
    }
    for path in [
        "/index.html",
        "/app/",
        "/app/../Cargo.toml",
        "/editor/package.json",
    ] {
        assert_eq!(app.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let app = TestApp::on_fake().await;
    let first = app.get("/app/main.js").await;
    let etag = first.header("etag");
    let again = |etag: &str| {
        let request = get("/app/main.js").header("if-none-match", etag);
        app.send(request.body(Body::empty()).unwrap())
    };
    for etag in [etag.to_owned(), format!("W/\"old\", {etag}")] {
        let answer = again(&etag).await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (StatusCode::NOT_MODIFIED, 0)
        );
        assert_eq!(answer.header("etag"), first.header("etag"));
    }
    assert_eq!(again("W/\"old\"").await.body, first.body);
    assert_ne!(app.get("/app/api.js").await.header("etag"), etag);
}

#[tokio::test]
async fn the_editor_is_sent_compressed() {
    let app = TestApp::on_fake().await;
    let request = get("/vendor/editor.js").header("accept-encoding", "gzip");
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert!(answer.header("vary").contains("accept-encoding"));
    assert!(answer.body.len() < 250_000, "{}", answer.body.len());
}

#[tokio::test]
async fn a_head_has_the_headers_alone() {
    let app = TestApp::on_fake().await;
    let request = get("/").method(Method::HEAD);
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
    assert_eq!(answer.header("etag"), app.get("/").await.header("etag"));
}
