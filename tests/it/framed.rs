//! Pages that programs left, as a frame of our own page gets them, and as nothing else does.

use axum::body::Body;
use axum::http::StatusCode;

use crate::support::{Answer, TestApp, get};

impl TestApp {
    /// Asks as a browser does for a document in this place (`Sec-Fetch-Dest`) that a page of this site wants.
    async fn framed(&self, path: &str, place: &str, site: &str) -> Answer {
        let request = get(path)
            .header("sec-fetch-dest", place)
            .header("sec-fetch-site", site);
        self.send(request.body(Body::empty()).unwrap()).await
    }
}

#[tokio::test]
async fn only_a_frame_of_our_page_gets_a_page_with_scripts() {
    let app = TestApp::on_fake_with(&[("FILE_URL_TTL", "1h")]).await;
    let url = app.upload("chart.html", b"<p>").await["file"]["url"].clone();
    let link = url.as_str().unwrap();
    let link = &link[link.find("/files/").unwrap()..];
    let page = link.replacen("/files/", "/framed/", 1);
    let found = app.framed(&page, "iframe", "same-origin").await;
    assert_eq!(
        (found.status, found.text().as_str()),
        (StatusCode::OK, "<p>")
    );
    insta::assert_debug_snapshot!(
        [
            "content-security-policy", "content-type", "content-disposition", "x-content-type-options",
            "cross-origin-resource-policy", "referrer-policy", "cache-control", "x-dns-prefetch-control"
        ]
        .map(|name| found.header(name)),
        @r#"
    [
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; webrtc 'block'",
        "text/html; charset=utf-8",
        "inline",
        "nosniff",
        "same-origin",
        "no-referrer",
        "private, no-store",
        "off",
    ]
    "#
    );
    for (place, site) in [
        ("document", "same-origin"),
        ("document", "none"),
        ("iframe", "cross-site"),
        ("iframe", "same-site"),
        ("object", "same-origin"),
    ] {
        let refused = app.framed(&page, place, site).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{place} {site}");
    }
    assert_eq!(app.get(&page).await.status, StatusCode::FORBIDDEN);
    // The link is needed, and is as it was.
    let unsigned = page.split('?').next().unwrap();
    let refused = app.framed(unsigned, "iframe", "same-origin").await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let saved = app.framed(link, "iframe", "same-origin").await;
    let policy = saved.header("content-security-policy");
    assert!(
        policy.starts_with("sandbox; default-src 'none'"),
        "{policy}"
    );
    assert!(
        saved
            .header("content-disposition")
            .starts_with("attachment")
    );
}

#[tokio::test]
async fn only_pages_are_framed() {
    let app = TestApp::on_fake().await;
    for name in ["drawing.svg", "text.txt", "html", "page.html.bin"] {
        let url = app.upload(name, b"<p>").await["file"]["url"].clone();
        let link = url.as_str().unwrap().replacen("/files/", "/framed/", 1);
        let link = &link[link.find("/framed/").unwrap()..];
        let refused = app.framed(link, "iframe", "same-origin").await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{name}");
    }
}
